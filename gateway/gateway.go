// Package gateway serves durable channels over HTTP: publish, subscribe, fetch by long
// polls or as a stream of events, acknowledge. The paths, the JSON and the error codes are
// those of an older server whose clients work unchanged (docs/channels.md).
//
// The gateway sees the database through store.Store alone. rules.Set (the channels file) and
// Settings decide who may do what; the ACL of the database does not apply here.
//
// Connections are served by net/http, except while they wait: a long poll over HTTP/1.1
// takes its connection out of net/http, and a connection that waits, or is idle after that,
// has no goroutine and no buffer (held.go, park_linux.go). The connection goes back to
// net/http through the listener when its client sends the next request (listener.go). So the
// number of connections inside net/http is bounded while thousands wait. Over HTTP/2, and
// without epoll, a waiting request keeps its goroutine; the number of such requests is bounded.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/gateway/rules"
	"redoubt/gateway/store"
)

// Settings are the part of the configuration that may change while the gateway runs.
type Settings struct {
	PollLimit time.Duration // the longest time that a poll waits
	MaxBody   int64         // the largest body of a request in bytes
	// Rate is how many requests a client's address may make in a second; 0 is no limit.
	Rate int64
	// MaxConns is how many connections may be open.
	MaxConns int64
	// Origins are the web origins that may use the gateway from a browser; "*" is all.
	Origins []string
	// AdminToken opens the administrative paths; "": nobody may use them.
	AdminToken string
	// Anonymous says from where channels without an access rule may be used.
	Anonymous Anonymous
	// Detail adds the reason to the response of a refused request.
	Detail bool
	// AccessLog writes a line to Options.Access for each request.
	AccessLog bool
}

// Anonymous says from where channels that demand no token may be used.
type Anonymous byte

const (
	FromLoopback Anonymous = iota
	FromEverywhere
	FromNowhere
)

// Options configure a Gateway.
type Options struct {
	Store store.Store
	TLS   *tls.Config // nil: plain TCP
	// Prefix is the prefix of all paths: "", or one like "/channels".
	Prefix   string
	Settings Settings
	Rules    *rules.Set
	// Ready returns why the database cannot serve now, or nil.
	Ready func() error
	// SetLogLevel sets the level of the log: debug, notice or warning.
	SetLogLevel func(level string) error
	// Pages are served besides channels; nil: none.
	Pages Pages
	// Published, if set, is called with each channel that got a message.
	Published func(channel string)
	// Charge accounts for memory that requests hold, in bytes; a negative number releases it.
	Charge func(int64)
	// Full reports whether the memory for requests is used up.
	Full func() bool
	// Log gets lines that clients can cause at will: its handler must limit their rate.
	Log *slog.Logger
	// Access gets the lines of the access log.
	Access *slog.Logger
	// IdleTime is how long a connection may be idle; 0 is 90 seconds.
	IdleTime time.Duration
	// WriteTime is how long a client may take to read a response; 0 is 15 seconds.
	WriteTime time.Duration
	// ReadTime is how long a client may take to send a request; 0 is 10 seconds.
	ReadTime time.Duration
}

// Pages serve paths that are not about channels. None of the gateway's settings but
// AccessLog apply to them.
type Pages interface {
	http.Handler
	Serves(path string) bool
}

// Gateway is an HTTP server.
type Gateway struct {
	o        Options
	settings atomic.Pointer[Settings]
	rules    atomic.Pointer[rules.Set]
	http     *http.Server
	ln       *listener
	parking  *parking
	rates    rates
	bodies   allowance
	Figures  Figures

	closing atomic.Bool
	done    chan struct{} // closed with closing
	served  chan struct{} // closed when net/http has ended

	mu      sync.Mutex
	held    map[*held]struct{} // requests that wait
	writing sync.WaitGroup     // responses to parked connections that are being written
	slow    atomic.Int64       // responses that wait for a client to read
	waiting atomic.Int64       // requests that wait with a goroutine
}

const (
	defaultIdle  = 90 * time.Second
	defaultWrite = 15 * time.Second
	defaultRead  = 10 * time.Second
	// maxHeader bounds the header of a request in bytes.
	maxHeader = 32 << 10
	// maxSlow bounds how many goroutines write to clients that do not read.
	maxSlow = 1024
	// maxWaiting bounds how many requests wait with a goroutine.
	maxWaiting = 4096
	// minBodies is the least limit on the bytes of all request bodies in memory.
	minBodies = 32 << 20
	// The memory in bytes that is charged for an open connection, for a request that waits in
	// the database, and for one that waits with a goroutine and the buffers of net/http. The
	// whole process takes about 125 MB with ten thousand waiting polls (test/hostile).
	connMemory = 2 << 10
	heldMemory = 6 << 10
	waitMemory = 24 << 10
)

// New makes a gateway on a listener, which it closes at its end. Serve starts it.
func New(ln net.Listener, o Options) (*Gateway, error) {
	for value, byDefault := range map[*time.Duration]time.Duration{&o.IdleTime: defaultIdle, &o.WriteTime: defaultWrite, &o.ReadTime: defaultRead} {
		if *value == 0 {
			*value = byDefault
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Access == nil {
		o.Access = o.Log
	}
	if o.Full == nil {
		o.Full = func() bool { return false }
	}
	if o.Rules == nil {
		o.Rules = new(rules.Set)
	}
	if o.Charge == nil {
		o.Charge = func(int64) {}
	}
	g := &Gateway{o: o, done: make(chan struct{}), served: make(chan struct{}), held: make(map[*held]struct{})}
	g.settings.Store(&o.Settings)
	g.rules.Store(o.Rules)
	g.bodies.limit = func() int64 { return max(minBodies, 4*g.settings.Load().MaxBody) }
	parking, err := newParking(g.o.IdleTime)
	if err != nil {
		return nil, fmt.Errorf("watch idle connections: %w", err)
	}
	g.parking = parking
	g.ln = newListener(ln, o.TLS, func() int64 { return g.settings.Load().MaxConns }, func(c net.Conn, wake func(bool)) error {
		_, err := parking.watch(c, true, wake)
		return err
	}, o.Charge, o.Full)
	g.http = &http.Server{
		Handler: g, ReadHeaderTimeout: o.ReadTime, ReadTimeout: o.ReadTime, WriteTimeout: o.WriteTime + o.ReadTime, IdleTimeout: o.IdleTime,
		MaxHeaderBytes: maxHeader, ConnState: g.ln.state,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(logWriter{o.Log}, "", 0),
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 256, MaxReadFrameSize: 64 << 10},
	}
	return g, nil
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// arrived notes that a request has been read to its end.
func (g *Gateway) arrived(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		g.ln.arrived(c)
	}
}

// logWriter logs net/http's messages about broken connections.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(b []byte) (int, error) {
	w.log.Debug("an HTTP connection failed", "err", string(b))
	return len(b), nil
}

// Serve serves in the background.
func (g *Gateway) Serve() {
	go g.parking.run()
	go g.ln.run()
	go func() {
		defer close(g.served)
		if err := g.http.Serve(g.ln); !errors.Is(err, http.ErrServerClosed) {
			g.o.Log.Error("serving HTTP failed", "err", err)
		}
	}()
}

// Addr returns the address on which the gateway listens.
func (g *Gateway) Addr() net.Addr { return g.ln.Addr() }

// SetSettings changes the settings for requests that arrive later.
func (g *Gateway) SetSettings(s Settings) { g.settings.Store(&s) }

// SetRules changes the rules for requests that arrive later.
func (g *Gateway) SetRules(s *rules.Set) { g.rules.Store(s) }

// Shutdown accepts no more connections, answers every waiting request with an empty
// result, finishes the requests under way, and closes all connections. ctx bounds the time.
func (g *Gateway) Shutdown(ctx context.Context) error {
	if g.closing.Swap(true) {
		return nil
	}
	close(g.done)
	g.mu.Lock()
	list := make([]*held, 0, len(g.held))
	for h := range g.held {
		list = append(list, h)
	}
	g.mu.Unlock()
	for _, h := range list {
		h.end()
	}
	err := g.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("stop serving HTTP: %w", errors.Join(err, g.http.Close()))
	}
	written := make(chan struct{})
	go func() { g.writing.Wait(); close(written) }()
	select {
	case <-written:
	case <-ctx.Done():
	}
	g.parking.close()
	g.ln.closeAll()
	<-g.served
	return err
}

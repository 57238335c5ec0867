// Package console serves the web page by which people look at a server and its data.
//
// The page is embedded in the program. Behind it is a small API of JSON over HTTP whose core
// is "run these commands": a person logs in as a user of the ACL, and each request opens a
// connection to the server inside the process, as this user and with the address of the
// browser, and speaks RESP on it. So a request has the rights of a client on the port, no
// more, and what it does is in the slow log, in CLIENT LIST and in MONITOR like the commands
// of any client. The package knows the server through Host alone.
//
// A browser is known by a cookie that no script can read; requests that may change something
// must bring a token besides, and none of another origin is answered. A login ends an hour
// after its last request, after twelve hours, and with its user.
package console

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// User is a user of the ACL.
type User interface {
	Name() string
	// Active is false once the user was deleted or disabled.
	Active() bool
	// Admin reports whether the user may do everything.
	Admin() bool
	// May reports whether the user may run a command.
	May(args ...string) bool
}

// Conn is a connection to the server inside the process. Its client speaks RESP3.
type Conn interface {
	net.Conn
	// User returns the user that the client has authenticated as, or nil.
	User() User
}

// Host is the server.
type Host interface {
	// Dial opens a connection for a client at an address. The client is logged in as user;
	// with a nil user it is like any new client.
	Dial(addr string, user User) (Conn, error)
	// Refuses returns why a client at an address is not served: protected mode.
	Refuses(addr string) string
	// Open reports whether anybody is served without a password, as the default user.
	Open() bool
	// Protected reports whether protected mode is in force.
	Protected() bool
	// ReadOnly is the directive console-read-only.
	ReadOnly() bool
	// Charge accounts for memory that requests hold, in bytes.
	Charge(int64)
	// About describes the server to a logged-in client.
	About() About
	// Directives describes the configuration.
	Directives() []Directive
}

// About is what the head of the page shows.
type About struct {
	Version    string `json:"version"`
	Redis      string `json:"redis"`
	Engine     string `json:"engine"`
	Durability string `json:"durability"`
	Databases  int    `json:"databases"`
	Addr       string `json:"addr"`
}

// Directive describes a directive of the configuration.
type Directive struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Default   string   `json:"default"`
	Doc       string   `json:"doc"`
	Own       bool     `json:"own,omitempty"`
	Immutable bool     `json:"immutable,omitempty"`
	Values    []string `json:"values,omitempty"`
}

// History has the figures of the last hour.
type History interface {
	// Header describes all columns as JSON: the names, the first second and their number.
	// Columns are the values, one float32 each, little-endian, column by column.
	Snapshot() (header, columns []byte)
	// Latest returns the last second as JSON, and a channel that is closed when there is a
	// newer one.
	Latest() (sample []byte, newer <-chan struct{})
}

// Options make a Console.
type Options struct {
	Host    Host
	History History
	// Metrics and Profiles are served behind the same log-in; profiles to administrators.
	Metrics, Profiles http.Handler
	Log               *slog.Logger
	// Prefix is what all paths begin with.
	Prefix string
	Now    func() time.Time // nil: time.Now
}

// Console serves the page and its API.
type Console struct {
	o      Options
	mux    *http.ServeMux
	origin *http.CrossOriginProtection
	places chan struct{} // a value for each API request under way
	stream chan struct{} // a value for each stream of events
	done   chan struct{} // closed by Stop
	stop   sync.Once

	mu     sync.Mutex
	logins map[[32]byte]*login // by the hash of the cookie
}

const (
	maxBody     = 32 << 20 // of a request, in bytes
	maxRequests = 32       // API requests under way at once
	maxStreams  = 128      // streams of events
)

// New makes a Console.
func New(o Options) *Console {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{
		o: o, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection(),
		places: make(chan struct{}, maxRequests), stream: make(chan struct{}, maxStreams),
		done: make(chan struct{}), logins: make(map[[32]byte]*login),
	}
	c.routes()
	return c
}

func (c *Console) routes() {
	api := func(pattern string, h func(http.ResponseWriter, *http.Request, *login) error) {
		method, path, _ := strings.Cut(pattern, " ")
		c.mux.Handle(method+" "+c.o.Prefix+"/console/api/"+path, c.guarded(h))
	}
	c.mux.HandleFunc("GET "+c.o.Prefix+"/console/api/login", c.state)
	c.mux.HandleFunc("POST "+c.o.Prefix+"/console/api/login", c.logIn)
	api("DELETE login", c.logOut)
	api("POST run", c.run)
	api("POST tree", c.tree)
	api("DELETE terminal/{id}", c.endTerminal)
	api("GET listen", c.listen)
	api("GET history", c.history)
	api("GET live", c.live)
	api("GET directives", c.directives)
	c.mux.HandleFunc(c.o.Prefix+"/console/api/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "There is nothing at this path.")
	})
	c.mux.Handle(c.o.Prefix+"/console/", http.StripPrefix(c.o.Prefix+"/console/", http.HandlerFunc(c.page)))
	c.mux.Handle("GET "+c.o.Prefix+"/console", http.RedirectHandler(c.o.Prefix+"/console/", http.StatusSeeOther))
	c.mux.Handle("GET "+c.o.Prefix+"/{$}", http.RedirectHandler(c.o.Prefix+"/console/", http.StatusSeeOther))
	c.mux.Handle("GET "+c.o.Prefix+"/metrics", c.door(c.o.Metrics, func(u User) bool { return u.May("info") }))
	c.mux.Handle("GET "+c.o.Prefix+"/debug/pprof/", c.door(http.StripPrefix(c.o.Prefix, c.o.Profiles), User.Admin))
}

// Serves reports whether a path belongs to the console.
func (c *Console) Serves(path string) bool {
	path, ok := strings.CutPrefix(path, c.o.Prefix)
	if !ok {
		return false
	}
	return path == "/" || path == "/console" || strings.HasPrefix(path, "/console/") || path == "/metrics" || strings.HasPrefix(path, "/debug/pprof/")
}

// policy is what the page may do: load and talk to its own server, nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "deny", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		h.Set(name, value)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if reason := c.stranger(r); reason != "" {
		fail(w, http.StatusForbidden, reason)
		return
	}
	if c.origin.Check(r) != nil {
		fail(w, http.StatusForbidden, "The request comes from a page of another origin.")
		return
	}
	c.mux.ServeHTTP(w, r)
}

// stranger returns why a request is not served at all. Without a password everybody is the
// default user, so such a server serves this machine only: not what a proxy passes on, and
// not a page whose host name was pointed at this machine (DNS rebinding), whose browser sends
// that name.
func (c *Console) stranger(r *http.Request) string {
	if reason := c.o.Host.Refuses(r.RemoteAddr); reason != "" {
		return "This server has no password, and serves the console to its own machine only (protected mode). Set a password to use it from elsewhere."
	}
	if !c.o.Host.Open() || !c.o.Host.Protected() {
		return ""
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return "This server has no password (protected mode), and a proxy has passed on the request. Set a password to use the console through a proxy."
		}
	}
	if !local(r.Host) {
		return "This server has no password (protected mode): open the console by an address such as 127.0.0.1, or set a password."
	}
	return ""
}

// local reports whether a Host is localhost or an address.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return host == "localhost" || net.ParseIP(host) != nil
}

// Stop ends the streams and the connections of all logins. No request is served afterwards.
func (c *Console) Stop() {
	c.stop.Do(func() { close(c.done) })
	c.mu.Lock()
	all := c.logins
	c.logins = make(map[[32]byte]*login)
	c.mu.Unlock()
	for _, l := range all {
		l.end()
	}
}

// Logins returns how many browsers are logged in.
func (c *Console) Logins() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.logins)
}

// withStop returns a context that also ends with the console.
func (c *Console) withStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// token returns a random name that nobody can guess.
func token() string { return rand.Text() + rand.Text() }

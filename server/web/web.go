// Package web is the HTTP side of the server: the gateway of durable channels, their
// webhooks, and the rules of the channels file, as the directives say.
//
// The gateway and the webhooks know commands and replies only (gateway/store). Commands runs
// those on the executor, in the server's own name: what a request may do is decided by the
// rules and by the directives http-*, before a command is made of it. The server itself is
// seen through Host alone.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/budget"
	"redoubt/command"
	"redoubt/config"
	"redoubt/executor"
	"redoubt/gateway"
	"redoubt/gateway/rules"
	"redoubt/gateway/webhook"
	"redoubt/types/channel"
)

// Host is the server.
type Host interface {
	// Executor runs commands; nil while the store is being opened.
	Executor() *executor.Executor
	// Command finds a command by the name that it was declared with.
	Command(name []byte) *command.Command
	// Refused returns the error of a command that must not be run now, or nil.
	Refused(cmd *command.Command, args [][]byte) error
	// Ran counts a command that was run.
	Ran(cmd *command.Command, took time.Duration, failed bool)
	// Leads reports whether this process does the work that one of all front ends does.
	Leads() bool
	// Interested has the server ask Hooked again.
	Interested()
	// SetChannelRules sets the rules that commands on channels see.
	SetChannelRules(channel.Rules)
	// TLS returns the present TLS configuration of http-addr.
	TLS() *tls.Config
	// MaxConns returns the limit on HTTP connections.
	MaxConns() int64
}

// Options make a Web.
type Options struct {
	Host   Host
	Config *config.Config
	Log    *slog.Logger
	// ClientLog is the rate-limited log for lines that clients can cause at will.
	ClientLog *slog.Logger
	// Clients accounts for the memory of clients.
	Clients *budget.Account
	// Pages are served besides channels; nil: none.
	Pages gateway.Pages
}

// Web is the HTTP side of a server.
type Web struct {
	o        Options
	commands *Commands
	gateway  *gateway.Gateway // nil: http-addr is not set

	mu    sync.Mutex // held while the channels file is applied
	rules atomic.Pointer[rules.Set]
	// hooked are the rules as handlers see them, if any has webhooks.
	hooked  atomic.Pointer[matcher]
	hooks   *webhook.Dispatcher
	backlog backlog

	stopMu  sync.Mutex         // guards stopped, and end until then
	stopped bool               // Stop was called
	end     context.CancelFunc // stops the background goroutines; nil before Attach
	ended   sync.WaitGroup
}

// settings are the directives that can be changed at run time.
var settings = []string{
	"http-poll-limit", "http-max-body", "http-rate-limit", "http-max-connections", "http-cors-origins", "http-admin-token",
	"http-anonymous", "http-error-detail", "http-access-log", "maxclients",
}

// New reads the channels file and binds the address. Start begins to serve.
func New(o Options) (*Web, error) {
	w := &Web{o: o, commands: NewCommands(o.Host)}
	w.rules.Store(new(rules.Set))
	w.hooks = w.dispatcher()
	if err := w.Reload(); err != nil {
		return nil, err
	}
	o.Config.OnChange("channels-file", func() error {
		if err := w.Reload(); err != nil {
			return config.Unchanged(err)
		}
		return nil
	})
	if addr := o.Config.Str("http-addr"); addr != "" {
		if err := w.listen(addr); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *Web) listen(addr string) error {
	cfg := w.o.Config
	prefix := cfg.Str("http-prefix")
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for HTTP at http-addr: %w", err)
	}
	var secure *tls.Config
	if cfg.Bool("http-tls") {
		secure = w.tls()
	}
	w.gateway, err = gateway.New(ln, gateway.Options{
		Store: w.commands, TLS: secure, Prefix: prefix, Settings: w.settings(), Rules: w.rules.Load(),
		Ready:       w.ready,
		SetLogLevel: func(level string) error { return cfg.Set("loglevel", level) },
		Charge:      w.o.Clients.Add,
		Full:        w.full,
		Pages:       w.o.Pages,
		Log:         w.o.ClientLog, Access: w.o.Log,
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	cfg.OnChangeOfAny(func() error { w.gateway.SetSettings(w.settings()); return nil }, settings...)
	w.warn(ln.Addr())
	return nil
}

// full reports whether HTTP may take no more memory: an eighth of the limit is left to RESP
// clients, the largest of which are closed when the limit is exceeded.
func (w *Web) full() bool {
	limit := w.o.Clients.Limit()
	return limit > 0 && w.o.Clients.Used() > limit-limit/8
}

// warn logs settings that expose the server.
func (w *Web) warn(addr net.Addr) {
	host, _, err := net.SplitHostPort(addr.String())
	ip := net.ParseIP(host)
	if err != nil || ip == nil || ip.IsLoopback() {
		return
	}
	if w.o.Config.Enum("http-anonymous") == "yes" {
		w.o.Log.Warn("everybody who reaches http-addr can use channels that no rule of channels-file guards: set http-anonymous to loopback or no", "addr", addr)
	}
	if !w.o.Config.Bool("http-tls") {
		w.o.Log.Warn("http-addr can be reached from other machines and has no TLS: tokens and messages can be read on the way; set http-tls, or put a proxy with TLS before it", "addr", addr)
	}
}

// settings returns the gateway's settings from the present directives.
func (w *Web) settings() gateway.Settings {
	cfg := w.o.Config
	anonymous := map[string]gateway.Anonymous{"loopback": gateway.FromLoopback, "yes": gateway.FromEverywhere, "no": gateway.FromNowhere}
	return gateway.Settings{
		PollLimit: time.Duration(cfg.Int("http-poll-limit")) * time.Second,
		MaxBody:   cfg.Int("http-max-body"), Rate: cfg.Int("http-rate-limit"), MaxConns: w.o.Host.MaxConns(),
		Origins:    strings.Fields(cfg.Str("http-cors-origins")),
		AdminToken: cfg.Str("http-admin-token"),
		Anonymous:  anonymous[cfg.Enum("http-anonymous")],
		Detail:     cfg.Bool("http-error-detail"), AccessLog: cfg.Bool("http-access-log"),
	}
}

// tls returns a configuration that follows changes of the server's, and offers HTTP/2.
func (w *Web) tls() *tls.Config {
	type pair struct{ from, made *tls.Config }
	var last atomic.Pointer[pair]
	current := func() *tls.Config {
		from := w.o.Host.TLS()
		if p := last.Load(); p != nil && p.from == from {
			return p.made
		}
		made := from.Clone()
		made.NextProtos = []string{"h2", "http/1.1"}
		last.Store(&pair{from, made})
		return made
	}
	return &tls.Config{
		NextProtos:         []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current(), nil },
	}
}

// ready returns the reason why channels cannot be used now, or nil.
func (w *Web) ready() error {
	x := w.o.Host.Executor()
	if x == nil {
		return errors.New("the store is being opened")
	}
	if err := x.Engine().Err(); err != nil {
		return err
	}
	return x.Engine().Full()
}

// Start begins to serve HTTP. Commands are refused until Attach.
func (w *Web) Start() {
	if w.gateway != nil {
		w.gateway.Serve()
	}
}

// Attach is called when the store is open. It may come while Stop runs, or later.
func (w *Web) Attach() {
	w.commands.attach(w.o.Host.Executor().Engine())
	w.stopMu.Lock()
	defer w.stopMu.Unlock()
	if w.stopped {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	w.ended.Go(func() { w.hooks.Run(ctx) })
	w.ended.Go(func() { w.watch(ctx) })
}

// Durable is called whenever more commits are durable, or the store has failed. It does not
// wait.
func (w *Web) Durable() { w.commands.wakeSettler() }

// Stop answers the requests that wait with an empty result, and ends. ctx bounds the time.
func (w *Web) Stop(ctx context.Context) {
	if w.gateway != nil {
		if err := w.gateway.Shutdown(ctx); err != nil {
			w.o.Log.Warn("not all HTTP requests could be finished", "err", err)
		}
	}
	w.stopMu.Lock()
	w.stopped = true
	w.stopMu.Unlock()
	if w.end != nil {
		w.end() // running deliveries are aborted: they are repeated after the next start
		w.ended.Wait()
	}
	w.commands.close()
}

// Addr returns the address at which HTTP is served, or nil.
func (w *Web) Addr() net.Addr {
	if w.gateway == nil {
		return nil
	}
	return w.gateway.Addr()
}

// Reload reads the channels file and applies its rules. If something is wrong with it the
// rules stay as they are.
func (w *Web) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	set := new(rules.Set)
	if file := w.o.Config.Str("channels-file"); file != "" {
		var err error
		if set, err = rules.Load(file, nil); err != nil {
			return err
		}
		for _, warning := range set.Warnings {
			w.o.Log.Warn("channels-file: " + warning)
		}
		w.o.Log.Info("the rules of channels-file are in effect", "file", file, "rules", len(set.Patterns()))
	}
	w.rules.Store(set)
	m := newMatcher(set)
	if m == nil {
		w.o.Host.SetChannelRules(nil)
	} else {
		w.o.Host.SetChannelRules(m)
	}
	if set.Hooked() {
		w.hooked.Store(m)
	} else {
		w.hooked.Store(nil)
	}
	w.o.Host.Interested()
	w.hooks.Reload()
	if w.gateway != nil {
		w.gateway.SetRules(set)
	}
	return nil
}

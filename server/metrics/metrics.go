// Package metrics serves the server's figures to Prometheus over HTTP, where metrics-addr
// says, at /metrics; with metrics-pprof profiles, too. metrics-password is for both.
//
// Nothing is counted for the metrics: a collector reads the figures of package info on each
// scrape. CONFIG RESETSTAT resets counters, which to Prometheus looks like a restart.
package metrics

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"redoubt/server/info"
)

// Server is the HTTP server of the metrics. A nil Server serves nothing.
type Server struct {
	log  *slog.Logger
	http *http.Server
	addr net.Addr
	done chan struct{}
}

// Start begins to serve metrics at metrics-addr. It returns nil if metrics-addr is not set.
func Start(from *info.Reporter, log *slog.Logger) (*Server, error) {
	cfg := from.Config()
	addr := cfg.Str("metrics-addr")
	if addr == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	password, profiles := cfg.Str("metrics-password"), cfg.Bool("metrics-pprof")
	if password == "" && !loopback(ln.Addr().String()) {
		if profiles {
			return nil, errors.Join(errors.New("metrics-pprof: profiles show what is in memory and cost time, and metrics-addr is open to other machines: "+
				"set metrics-password, or bind metrics-addr to 127.0.0.1"), ln.Close())
		}
		log.Warn("everybody who reaches metrics-addr can read the metrics: set metrics-password, or bind it to 127.0.0.1", "addr", ln.Addr())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", Handler(from))
	if profiles {
		mux.Handle("GET /debug/pprof/", Profiles())
	}
	m := &Server{
		log:  log,
		http: &http.Server{Handler: withPassword(mux, password), ReadHeaderTimeout: 10 * time.Second},
		addr: ln.Addr(), done: make(chan struct{}),
	}
	go func() {
		defer close(m.done)
		if err := m.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving metrics failed", "err", err)
		}
	}()
	return m, nil
}

// Profiles serves Go profiles below /debug/pprof/. It asks for no password.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// withPassword refuses requests without the password, which comes by basic authentication
// with any user or as a bearer token. If no password is set all are served.
func withPassword(h http.Handler, password string) http.Handler {
	if password == "" {
		return h
	}
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, ok := r.BasicAuth()
		if !ok {
			given, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		// The hashes have one length, and are compared in constant time.
		if got := sha256.Sum256([]byte(given)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="redoubt metrics"`)
			http.Error(w, "wrong or no password: see metrics-password", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Stop ends the requests that are under way, within a second.
func (m *Server) Stop() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := m.http.Shutdown(ctx); err != nil {
		m.log.Warn("stopping the metrics server failed", "err", err)
	}
	<-m.done
}

// Addr returns the address at which metrics are served, or nil.
func (m *Server) Addr() net.Addr {
	if m == nil {
		return nil
	}
	return m.addr
}

// loopback reports whether an address can be reached from this machine only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

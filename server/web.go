package server

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"redoubt/command"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/server/info"
	"redoubt/server/web"
)

// webHost is the server as its HTTP side sees it: web.Host.
type webHost struct {
	*Server
	byName map[string]*command.Command // top-level commands by their declared names
}

// openWeb creates the HTTP side.
func (srv *Server) openWeb() (err error) {
	h := webHost{srv, make(map[string]*command.Command)}
	for _, cmd := range srv.table.All() {
		if cmd.Parent == nil {
			h.byName[strings.ToUpper(cmd.Declared.Name)] = cmd
		}
	}
	srv.web, err = web.New(web.Options{
		Host: h, Config: srv.cfg, Log: srv.log, ClientLog: srv.clientLog, Clients: &srv.budget.Clients,
		Pages: srv.pages(),
	})
	srv.applyNotify()
	return err
}

// stopWeb stops the HTTP side; running requests get half of the time that ctx leaves.
func (srv *Server) stopWeb(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		short, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = short
	}
	srv.web.Stop(ctx)
}

// webTLS reports whether HTTP speaks TLS.
func (srv *Server) webTLS() bool { return srv.cfg.Str("http-addr") != "" && srv.cfg.Bool("http-tls") }

// HTTPAddr returns the address at which HTTP is served, or nil.
func (srv *Server) HTTPAddr() net.Addr { return srv.web.Addr() }

// Reload reads the channels file again.
func (srv *Server) Reload() error { return srv.web.Reload() }

// Channels implements info.Source.
func (v infoView) Channels() info.Channels { return v.srv.web.Figures() }

// Executor implements web.Host.
func (h webHost) Executor() *executor.Executor {
	if !h.ready.Load() {
		return nil
	}
	return h.exec
}

// Command implements web.Host; names are in capitals. rename-command has no effect here.
func (h webHost) Command(name []byte) *command.Command { return h.byName[string(name)] }

// errPaused is the error for HTTP requests, which do not wait for the end of CLIENT PAUSE.
const errPaused = command.Error("TRYAGAIN clients are paused (CLIENT PAUSE); try again later")

// Refused implements web.Host.
func (h webHost) Refused(cmd *command.Command, args [][]byte) error {
	switch {
	case !h.ready.Load():
		return command.ErrLoading
	case h.pause.active.Load() && h.pause.holds(cmd, args, nil):
		return errPaused
	case cmd.Flags&command.DenyOOM != 0 && h.outOfMemory():
		return command.ErrOutOfMemory
	}
	return h.writable(cmd.Flags)
}

// Ran implements web.Host.
func (h webHost) Ran(cmd *command.Command, took time.Duration, failed bool) {
	h.webStats.Record(cmd, took, failed)
}

// Leads implements web.Host.
func (h webHost) Leads() bool { return h.member.Leads() }

// Interested implements web.Host.
func (h webHost) Interested() { h.applyNotify() }

// webClasses returns the classes of events that the HTTP side needs.
func (srv *Server) webClasses() keyspace.Class {
	if srv.web.Listens() {
		return keyspace.ChannelEv
	}
	return 0
}

// TLS implements web.Host.
func (h webHost) TLS() *tls.Config { return h.tls.web.Load() }

// MaxConns implements web.Host.
func (h webHost) MaxConns() int64 { return h.set.maxHTTP.Load() }

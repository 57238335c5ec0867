package server

import (
	"context"
	"net"
	"strings"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/config"
	"redoubt/console"
	"redoubt/gateway"
	"redoubt/server/access"
	"redoubt/server/history"
	"redoubt/server/metrics"
	"redoubt/version"
)

// The console's connections are pipes like those of other clients, but for two things: they
// are born logged in, and they obey console-read-only.

// consoleHost is the server as the console sees it: console.Host.
type consoleHost struct{ *Server }

// openConsole creates the console, if http-addr is set and console is yes.
func (srv *Server) openConsole() {
	if srv.cfg.Str("http-addr") == "" || !srv.cfg.Bool("console") {
		return
	}
	srv.history = history.New(&srv.info)
	srv.console = console.New(console.Options{
		Host: consoleHost{srv}, History: srv.history, Metrics: metrics.Handler(&srv.info), Profiles: metrics.Profiles(),
		Log: srv.clientLog, Prefix: srv.cfg.Str("http-prefix"),
	})
}

// startConsole begins to record the history.
func (srv *Server) startConsole(ctx context.Context) {
	if srv.history != nil {
		srv.life.background.Go(func() { srv.history.Run(ctx) })
	}
}

func (srv *Server) stopConsole() {
	if srv.console != nil {
		srv.console.Stop()
	}
}

// pages returns what http-addr serves besides channels, or nil.
func (srv *Server) pages() gateway.Pages {
	if srv.console == nil {
		return nil
	}
	return srv.console
}

// ConsoleURL returns where the console is, or "".
func (srv *Server) ConsoleURL() string {
	addr := srv.HTTPAddr()
	if srv.console == nil || addr == nil {
		return ""
	}
	scheme := "http://"
	if srv.webTLS() {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port) + srv.cfg.Str("http-prefix") + "/console/"
}

// consoleUser is a user: console.User.
type consoleUser struct {
	srv    *Server
	handle *acl.Handle
}

// Name implements console.User.
func (u consoleUser) Name() string { return u.handle.Load().Name() }

// Active implements console.User.
func (u consoleUser) Active() bool { return !u.handle.Gone() && u.handle.Load().Enabled() }

// Admin implements console.User.
func (u consoleUser) Admin() bool { return u.handle.Load().All() }

// May implements console.User.
func (u consoleUser) May(words ...string) bool {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	cmd := u.srv.table.Find(args)
	return cmd != nil && access.Check(u.handle.Load(), cmd, args) == nil
}

// near is the console's end of a connection.
type near struct {
	net.Conn
	p *pipe
}

// User implements console.Conn.
func (n near) User() console.User {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	if !n.p.authenticated || n.p.closed {
		return nil
	}
	return consoleUser{n.p.srv, n.p.user}
}

// far is the server's end.
type far struct {
	net.Conn
	addr, laddr textAddr
}

// textAddr is an address that is known as a text.
type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }

// RemoteAddr implements net.Conn.
func (f far) RemoteAddr() net.Addr { return f.addr }

// LocalAddr implements net.Conn.
func (f far) LocalAddr() net.Addr { return f.laddr }

// errConsoleFull is the error for the console when there is no place for another client.
const errConsoleFull = command.Error("ERR max number of clients reached")

// Dial implements console.Host.
func (h consoleHost) Dial(addr string, user console.User) (console.Conn, error) {
	srv := h.Server
	if srv.life.draining.Load() {
		return nil, command.Error("UNAVAILABLE the server is shutting down")
	}
	if !srv.makeRoom(false) && srv.atMaxClients() {
		srv.obs.Stats.Rejected.Add(1)
		return nil, errConsoleFull
	}
	mine, its := net.Pipe()
	p := srv.newPipe(far{its, textAddr(addr), textAddr(srv.HTTPAddr().String())}, &listener{kind: overTCP})
	p.mu.Lock()
	p.inside, p.libName = true, "redoubt-console"
	p.setProto(3)
	if u, ok := user.(consoleUser); ok {
		p.user = u.handle
		p.setAuthenticated(true)
		if !u.Active() { // a deletion may have come too early to see this connection
			p.close()
		}
	}
	p.mu.Unlock()
	go p.serve()
	return near{mine, p}, nil
}

// Refuses implements console.Host.
func (h consoleHost) Refuses(addr string) string { return h.protectedModeError(addr, false) }

// Open implements console.Host.
func (h consoleHost) Open() bool { return h.access.Users.Default().Load().Open() }

// Protected implements console.Host.
func (h consoleHost) Protected() bool { return h.cfg.Bool("protected-mode") }

// ReadOnly implements console.Host.
func (h consoleHost) ReadOnly() bool { return h.set.consoleReadOnly.Load() }

// Charge implements console.Host.
func (h consoleHost) Charge(n int64) { h.budget.Clients.Add(n) }

// About implements console.Host.
func (h consoleHost) About() console.About {
	a := console.About{
		Version: version.Redoubt, Redis: version.Redis, Engine: h.engineName(), Durability: h.durability(), Databases: h.databases,
	}
	if addr := h.Addr(); addr != nil {
		a.Addr = addr.String()
	}
	return a
}

// Directives implements console.Host.
func (h consoleHost) Directives() []console.Directive {
	var list []console.Directive
	for _, d := range h.cfg.Directives() {
		if d.Flags&config.Hidden != 0 {
			continue
		}
		list = append(list, console.Directive{
			Name: d.Name, Kind: d.Kind.String(), Default: d.Default, Doc: d.Meaning(), Own: d.Flags&config.Own != 0,
			Immutable: d.Flags&config.Immutable != 0, Values: d.Values(),
		})
	}
	return list
}

const errConsoleReadOnly = command.Error("NOPERM the console is read-only (console-read-only), and this command may change something")

// readOnly returns the error of a command that a connection of the console must not run.
func (s *session) readOnly(cmd *command.Command, args [][]byte) error {
	if !s.inside || !s.srv.set.consoleReadOnly.Load() || observes(cmd, args) {
		return nil
	}
	return errConsoleReadOnly
}

// observing are the commands for administrators and about scripts that change nothing.
var observing = map[string]bool{
	"acl|getuser": true, "acl|list": true, "acl|log": true, "acl|users": true, "acl|whoami": true, "acl|cat": true, "acl|dryrun": true,
	"client|list": true, "client|info": true, "client|id": true, "cluster|info": true, "cluster|nodes": true, "cluster|shards": true,
	"cluster|slots": true, "cluster|myid": true, "cluster|links": true, "cluster|keyslot": true, "config|get": true,
	"function|list": true, "function|stats": true, "latency|doctor": true, "latency|graph": true, "latency|histogram": true,
	"latency|history": true, "latency|latest": true, "monitor": true, "script|exists": true, "slowlog|get": true, "slowlog|len": true,
	"command": true, "info": true, "lastsave": true, "lolwut": true, "memory|doctor": true, "memory|stats": true, "role": true, "time": true,
	"auth": true, "hello": true, "reset": true, "select": true, "quit": true, "multi": true, "exec": true, "discard": true,
}

// observes reports whether a command changes nothing but the state of its own connection.
// Those that scripts run are checked one by one.
func observes(cmd *command.Command, args [][]byte) bool {
	d := cmd.Declared // rename-command changes no meaning
	name := d.Name
	if cmd.Parent != nil {
		name = cmd.Parent.Declared.Name + "|" + name
	}
	switch {
	case d.Flags&command.ReadOnly != 0:
		return true
	case name == "acl|log":
		return len(args) < 3 || !strings.EqualFold(string(args[2]), "reset")
	case observing[name]:
		return true
	}
	return d.Flags&(command.Write|command.MayReplicate|command.Admin) == 0 && d.Group != command.Scripting && d.Group != command.Server ||
		strings.HasPrefix(name, "command|")
}

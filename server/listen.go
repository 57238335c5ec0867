package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// listeners are the listening sockets. Each has a goroutine that accepts and
// hands the connections to their carriers.
type listeners struct {
	mu     sync.Mutex
	list   []*listener
	accept func(*listener) // nil until the server is started
}

// listener is a listening socket.
type listener struct {
	net.Listener
	kind kind
	bind string // the word of the directive bind, or the path of a unix socket
}

// kind is the transport of a listener.
type kind byte

const (
	overTCP kind = iota
	overTLS
	overUnix
)

func (k kind) String() string { return [...]string{"tcp", "tls", "unix"}[k] }

// all returns the present listeners.
func (s *listeners) all() []*listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*listener(nil), s.list...)
}

// add adds listeners; if the server is started it accepts on them at once.
func (s *listeners) add(list ...*listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, list...)
	slices.SortStableFunc(s.list, func(a, b *listener) int { return int(a.kind) - int(b.kind) })
	if s.accept != nil {
		for _, l := range list {
			go s.accept(l)
		}
	}
}

// start begins to accept on all listeners, and on those added later.
func (s *listeners) start(accept func(*listener)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accept = accept
	for _, l := range s.list {
		go accept(l)
	}
}

// close closes the sockets of these kinds.
func (s *listeners) close(kinds ...kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.list[:0]
	for _, l := range s.list {
		if !slices.Contains(kinds, l.kind) {
			kept = append(kept, l)
			continue
		}
		l.Close()
		if l.kind == overUnix {
			os.Remove(l.bind)
		}
	}
	s.list = kept
}

// closeAll closes all sockets.
func (s *listeners) closeAll() { s.close(overTCP, overTLS, overUnix) }

// listen binds the addresses and the unix socket of the configuration.
func (srv *Server) listen() error {
	if err := srv.listenTCP(overTCP, overTLS); err != nil {
		return err
	}
	if err := srv.listenUnix(); err != nil {
		return err
	}
	if len(srv.lns.all()) == 0 {
		return errors.New("configured to not listen anywhere")
	}
	return nil
}

// listenTCP binds every address of bind for the given kinds. Port 0 disables a kind, as in
// Redis. But where neither TLS nor a unix socket is configured, so that Redis would refuse
// to start, port 0 means any free port.
func (srv *Server) listenTCP(kinds ...kind) error {
	for _, k := range kinds {
		port := srv.cfg.Int("port")
		off := port == 0 && (srv.cfg.Str("unixsocket") != "" || srv.cfg.Int("tls-port") != 0)
		if k == overTLS {
			port = srv.cfg.Int("tls-port")
			off = port == 0
		}
		if off {
			continue
		}
		for _, word := range strings.Fields(srv.cfg.Str("bind")) {
			ln, err := listenOn(word, port)
			if err != nil {
				srv.log.Warn("could not listen", "addr", word, "port", port, "err", err)
				if mayMiss(word, err) {
					continue
				}
				return fmt.Errorf("bind, %s: cannot listen: %w; stop what has it, or give another address", map[kind]string{overTCP: "port", overTLS: "tls-port"}[k], err)
			}
			srv.lns.add(&listener{ln, k, word})
		}
	}
	return nil
}

// listenOn listens on a word of bind. Each socket is for one address family: a socket
// for all of IPv6 would otherwise take the port of all of IPv4, too.
func listenOn(word string, port int64) (net.Listener, error) {
	host, network := strings.TrimPrefix(word, "-"), "tcp4"
	switch {
	case host == "*":
		host = "0.0.0.0"
	case host == "::*":
		host, network = "::", "tcp6"
	case strings.Contains(host, ":"):
		network = "tcp6"
	}
	return net.Listen(network, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
}

// mayMiss reports whether the server can go on without an address: it begins with a
// "-" and this machine does not have it, or the machine does not support its address
// family. An address in use is never skipped.
func mayMiss(word string, err error) bool {
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return strings.HasPrefix(word, "-")
	}
	for _, no := range []error{syscall.ENOPROTOOPT, syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT, syscall.EPFNOSUPPORT} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func (srv *Server) listenUnix() error {
	path := srv.cfg.Str("unixsocket")
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old unix socket: %w", err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if perm := srv.cfg.Int("unixsocketperm"); perm != 0 {
		if err := os.Chmod(path, os.FileMode(perm)); err != nil {
			return fmt.Errorf("unix socket: %w", errors.Join(err, ln.Close()))
		}
	}
	srv.lns.add(&listener{ln, overUnix, path})
	return nil
}

// rebind moves TCP listeners to the addresses of the changed configuration. When it fails
// the configuration is restored and rebind is called again.
func (srv *Server) rebind(complaint string, kinds ...kind) error {
	srv.lns.close(kinds...)
	if err := srv.listenTCP(kinds...); err != nil {
		srv.log.Error("changing the listening address failed", "err", err)
		srv.lns.close(kinds...)
		return errors.New(complaint)
	}
	return nil
}

// accept takes connections from one listener until it is closed.
func (srv *Server) accept(l *listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			srv.clientLog.Error("accepting a connection failed", "err", err)
			time.Sleep(tickEvery) // most likely there are no descriptors left
			continue
		}
		srv.welcome(conn, l)
	}
}

// welcome gives a new connection to its carrier, or refuses it with an error. A TLS
// connection must shake hands before it can be sent anything.
func (srv *Server) welcome(conn net.Conn, l *listener) {
	text := ""
	if !srv.makeRoom(l.kind == overTLS) && srv.atMaxClients() {
		text = "ERR max number of clients reached"
	}
	if text == "" && l.kind != overTLS {
		addr, _ := l.ends(conn)
		text = srv.protectedModeError(addr, l.kind == overUnix)
	}
	if text != "" {
		srv.obs.Stats.Rejected.Add(1)
		if l.kind != overTLS {
			fmt.Fprintf(conn, "-%s\r\n", text)
		}
		conn.Close()
		return
	}
	srv.keepAlive(conn)
	switch {
	case l.kind == overTLS:
		srv.tls.count.Add(1)
		go srv.greet(conn, l)
	case srv.car.usePipes:
		go srv.newPipe(conn, l).serve()
	default:
		if err := srv.adopt(conn, l); err != nil {
			srv.clientLog.Error("taking a connection failed", "err", err)
		}
	}
}

// ends returns the addresses of a connection in the form that clients see.
func (l *listener) ends(conn net.Conn) (addr, laddr string) {
	if l.kind == overUnix {
		return l.bind + ":0", l.bind + ":0"
	}
	return conn.RemoteAddr().String(), conn.LocalAddr().String()
}

// keepAlive applies tcp-keepalive.
func (srv *Server) keepAlive(conn net.Conn) {
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	every := time.Duration(srv.set.keepalive.Load()) * time.Second
	err := t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: max(time.Second, every/3), Count: 3})
	if err != nil {
		srv.log.Debug("setting keepalive failed", "err", err)
	}
}

// Addr returns the address of the first listener: of plain TCP if there is one, else
// of TLS, else a unix socket.
func (srv *Server) Addr() net.Addr {
	if all := srv.lns.all(); len(all) > 0 {
		return all[0].Addr()
	}
	return nil
}

// TLSAddr returns the address of the first listener for TLS, or nil.
func (srv *Server) TLSAddr() net.Addr {
	for _, l := range srv.lns.all() {
		if l.kind == overTLS {
			return l.Addr()
		}
	}
	return nil
}

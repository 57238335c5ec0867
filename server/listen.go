package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
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
	unix bool
}

// all returns the present listeners.
func (s *listeners) all() []*listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*listener(nil), s.list...)
}

// add takes a socket; if the server is started it is served at once.
func (s *listeners) add(ln net.Listener, unix bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listener{ln, unix}
	s.list = append(s.list, l)
	if s.accept != nil {
		go s.accept(l)
	}
}

// start begins to accept.
func (s *listeners) start(accept func(*listener)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accept = accept
	for _, l := range s.list {
		go accept(l)
	}
}

// close closes the sockets, TCP only or all.
func (s *listeners) close(tcpOnly bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.list[:0]
	for _, l := range s.list {
		if l.unix && tcpOnly {
			kept = append(kept, l)
			continue
		}
		l.Close()
		if l.unix {
			os.Remove(l.Addr().String())
		}
	}
	s.list = kept
}

// listen binds what the configuration says.
func (srv *Server) listen() error {
	if err := srv.listenTCP(); err != nil {
		return err
	}
	return srv.listenUnix()
}

// listenTCP binds every address of bind. Port 0 means no TCP, as in Redis;
// without a unix socket there would be nothing to listen on, where Redis gives
// up: then it means any free port.
func (srv *Server) listenTCP() error {
	port := srv.cfg.Int("port")
	if port == 0 && srv.cfg.Str("unixsocket") != "" {
		return nil
	}
	for _, host := range strings.Fields(srv.cfg.Str("bind")) {
		optional := strings.HasPrefix(host, "-")
		host = strings.TrimPrefix(host, "-")
		// Each address gets a socket for its own family, or the one for all of
		// IPv6 would take the port of all of IPv4.
		network := "tcp"
		switch ip := net.ParseIP(host); {
		case host == "*":
			host, network = "0.0.0.0", "tcp4"
		case host == "::*":
			host, network = "::", "tcp6"
		case ip != nil && ip.To4() == nil:
			network = "tcp6"
		}
		ln, err := net.Listen(network, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
		if err != nil && optional {
			srv.log.Debug("skipping an optional address", "addr", host, "err", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		srv.lns.add(ln, false)
	}
	return nil
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
	srv.lns.add(ln, true)
	return nil
}

// rebind moves the TCP listeners to what the configuration says now. When that
// fails the configuration is restored and this is called again for it.
func (srv *Server) rebind(complaint string) error {
	srv.lns.close(true)
	if err := srv.listenTCP(); err != nil {
		srv.log.Error("changing the listening address failed", "err", err)
		srv.lns.close(true)
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
			srv.log.Error("accepting a connection failed", "err", err)
			time.Sleep(tickEvery) // most likely there are no descriptors left
			continue
		}
		addr, _ := l.ends(conn)
		if text := srv.admit(addr, l.unix); text != "" {
			fmt.Fprintf(conn, "-%s\r\n", text)
			conn.Close()
			continue
		}
		srv.keepAlive(conn)
		if srv.usePipes {
			go srv.newPipe(conn, l).serve()
		} else if err := srv.adopt(conn, l); err != nil {
			srv.log.Error("taking a connection failed", "err", err)
		}
	}
}

// ends are the addresses of a connection in the form that clients see.
func (l *listener) ends(conn net.Conn) (addr, laddr string) {
	if l.unix {
		return l.Addr().String() + ":0", l.Addr().String() + ":0"
	}
	return conn.RemoteAddr().String(), conn.LocalAddr().String()
}

// keepAlive applies tcp-keepalive.
func (srv *Server) keepAlive(conn net.Conn) {
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	every := time.Duration(srv.keepalive.Load()) * time.Second
	err := t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: max(time.Second, every/3), Count: 3})
	if err != nil {
		srv.log.Debug("setting keepalive failed", "err", err)
	}
}

// Addr is the address of the first listener.
func (srv *Server) Addr() net.Addr {
	if all := srv.lns.all(); len(all) > 0 {
		return all[0].Addr()
	}
	return nil
}

package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/config"
	"redoubt/server/secure"
)

// TLS: connections of tls-port. After the handshake they are sessions like all
// others, carried by goroutines (pipe): what the library does to a stream needs
// one that may wait.
//
// A handshake is the time in which a client costs something before anybody
// knows who it is. So it must end soon, and those under way count as clients:
// there are never more of both than maxclients.

// handshakeTime is how long a client may take for the handshake.
const handshakeTime = 10 * time.Second

// tlsFront is what the server has for TLS.
type tlsFront struct {
	config     atomic.Pointer[tls.Config] // nil until TLS is wanted
	handshakes sync.Map                   // net.Conn: handshakes under way, since when
	count      atomic.Int64               // how many
	handshake  time.Duration
}

// tlsDirectives are those from which the configuration is made.
var tlsDirectives = []string{
	"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-client-cert-file", "tls-client-key-file",
	"tls-client-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir", "tls-auth-clients", "tls-protocols", "tls-ciphers",
	"tls-ciphersuites", "tls-prefer-server-ciphers", "tls-dh-params-file", "tls-session-caching", "tls-session-cache-size",
	"tls-session-cache-timeout", "tls-replication", "tls-cluster",
}

// watchTLS makes the configuration, if TLS is wanted, and makes it again when a
// directive of it is set, also to the value it had: the files may be new ones.
func (srv *Server) watchTLS() error {
	if srv.wantsTLS() {
		if err := srv.configureTLS(); err != nil {
			return fmt.Errorf("configure TLS: %w", err)
		}
	}
	srv.cfg.OnChangeOfAny(func() error {
		if !srv.wantsTLS() {
			return nil
		}
		return srv.updateTLS()
	}, tlsDirectives...)
	srv.cfg.OnChange("tls-port", func() error {
		if srv.tls.config.Load() == nil && srv.cfg.Int("tls-port") != 0 {
			if err := srv.updateTLS(); err != nil {
				return err
			}
		}
		return srv.rebind("Unable to listen on this port. Check server logs.", overTLS)
	})
	return nil
}

func (srv *Server) wantsTLS() bool {
	return srv.cfg.Int("tls-port") != 0 || srv.cfg.Bool("tls-replication") || srv.cfg.Bool("tls-cluster")
}

// updateTLS makes the configuration anew for those who connect from now on. If
// that fails the old one stays.
func (srv *Server) updateTLS() error {
	if err := srv.configureTLS(); err != nil {
		srv.log.Error("the TLS configuration was not changed", "err", err)
		return config.Unchanged(errors.New("Unable to update TLS configuration. Check server logs."))
	}
	return nil
}

func (srv *Server) configureTLS() error {
	c := srv.cfg
	made, err := secure.Server(secure.Settings{
		CertFile: c.Str("tls-cert-file"), KeyFile: c.Str("tls-key-file"), KeyFilePass: c.Str("tls-key-file-pass"),
		ClientCertFile: c.Str("tls-client-cert-file"), ClientKeyFile: c.Str("tls-client-key-file"),
		ClientKeyFilePass: c.Str("tls-client-key-file-pass"),
		CACertFile:        c.Str("tls-ca-cert-file"), CACertDir: c.Str("tls-ca-cert-dir"),
		AuthClients: c.Enum("tls-auth-clients"), Protocols: c.Str("tls-protocols"), Ciphers: c.Str("tls-ciphers"),
		CipherSuites: c.Str("tls-ciphersuites"), DHParamsFile: c.Str("tls-dh-params-file"),
		SessionCaching: c.Bool("tls-session-caching"), NeedCA: c.Bool("tls-replication") || c.Bool("tls-cluster"),
	})
	if err != nil {
		return err
	}
	srv.tls.config.Store(made)
	return nil
}

// greet lets a connection of tls-port shake hands and makes a session of it.
func (srv *Server) greet(raw net.Conn, l *listener) {
	t := &srv.tls
	t.handshakes.Store(raw, time.Now())
	srv.budget.Clients.Add(handshakeMemory)
	done := func() {
		t.handshakes.Delete(raw)
		t.count.Add(-1)
		srv.budget.Clients.Add(-handshakeMemory)
	}
	conn, err := srv.shakeHands(raw)
	if err != nil {
		raw.Close()
		done()
		srv.clientLog.Warn("a TLS handshake failed", "addr", raw.RemoteAddr().String(), "err", err)
		return
	}
	// It is told in its own language why it may not come in.
	if text := srv.outsider(raw.RemoteAddr().String(), false); text != "" {
		srv.stats.rejected.Add(1)
		fmt.Fprintf(conn, "-%s\r\n", text)
		conn.Close()
		done()
		return
	}
	raw.SetDeadline(time.Time{})
	p := srv.newPipe(conn, l)
	done()
	if srv.draining.Load() { // the end may have looked at the pipes before it was there
		p.shut()
	}
	p.serve()
}

func (srv *Server) shakeHands(raw net.Conn) (*tls.Conn, error) {
	if srv.draining.Load() { // else whoever ends the server closes it
		return nil, net.ErrClosed
	}
	if err := raw.SetDeadline(time.Now().Add(srv.tls.handshake)); err != nil {
		return nil, err
	}
	conn := tls.Server(raw, srv.tls.config.Load())
	return conn, conn.Handshake()
}

// stop ends the handshakes under way.
func (t *tlsFront) stop() {
	t.handshakes.Range(func(conn, _ any) bool {
		conn.(net.Conn).Close()
		return true
	})
}

// netConn is the socket below a connection.
func netConn(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

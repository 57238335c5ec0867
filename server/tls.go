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
// others, carried by pipes, since the TLS library may block.
//
// A handshake costs something before the client has authenticated. So it must end soon,
// and handshakes count as clients: there are never more of both than maxclients.

// handshakeTime is how long a client may take for the handshake.
const handshakeTime = 10 * time.Second

// tlsFront is the TLS configuration and the handshakes under way.
type tlsFront struct {
	config     atomic.Pointer[tls.Config] // nil until TLS is wanted
	web        atomic.Pointer[tls.Config] // that of http-addr; nil unless http-tls is set
	handshakes sync.Map                   // net.Conn to time.Time: when each handshake began
	count      atomic.Int64               // of handshakes under way
	handshake  time.Duration
}

// tlsDirectives are the directives from which the TLS configuration is made.
var tlsDirectives = []string{
	"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-client-cert-file", "tls-client-key-file",
	"tls-client-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir", "tls-auth-clients", "tls-protocols", "tls-ciphers",
	"tls-ciphersuites", "tls-prefer-server-ciphers", "tls-dh-params-file", "tls-session-caching", "tls-session-cache-size",
	"tls-session-cache-timeout", "tls-replication", "tls-cluster", "http-tls-auth-clients",
}

// watchTLS makes the TLS configuration, if TLS is used, and again whenever one of its
// directives is set, even to the same value: the files may have changed.
func (srv *Server) watchTLS() error {
	if err := srv.configureTLS(); err != nil {
		return fmt.Errorf("configure TLS: %w", err)
	}
	srv.cfg.OnChangeOfAny(srv.updateTLS, tlsDirectives...)
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

// updateTLS makes the configurations again, for later connections. If that fails the old
// ones stay.
func (srv *Server) updateTLS() error {
	if err := srv.configureTLS(); err != nil {
		srv.log.Error("the TLS configuration was not changed", "err", err)
		return config.Unchanged(errors.New("Unable to update TLS configuration. Check server logs."))
	}
	return nil
}

// configureTLS makes the configurations that are wanted.
func (srv *Server) configureTLS() error {
	var made, web *tls.Config
	var err error
	s := srv.tlsSettings()
	if srv.wantsTLS() {
		if made, err = secure.Server(s); err != nil {
			return err
		}
	}
	if srv.webTLS() {
		s.AuthClients, s.NeedCA = srv.cfg.Enum("http-tls-auth-clients"), false
		if s.AuthClients != "no" && s.CACertFile == "" && s.CACertDir == "" {
			return errors.New("http-tls-auth-clients needs the authority of the clients' certificates: set tls-ca-cert-file or tls-ca-cert-dir")
		}
		if web, err = secure.Server(s); err != nil {
			return fmt.Errorf("http-tls: %w", err)
		}
	}
	if made != nil {
		srv.tls.config.Store(made)
	}
	if web != nil {
		srv.tls.web.Store(web)
	}
	return nil
}

// clientTLS makes the configuration of connections with a master.
func (srv *Server) clientTLS() (*tls.Config, error) { return secure.Client(srv.tlsSettings()) }

func (srv *Server) tlsSettings() secure.Settings {
	c := srv.cfg
	return secure.Settings{
		CertFile: c.Str("tls-cert-file"), KeyFile: c.Str("tls-key-file"), KeyFilePass: c.Str("tls-key-file-pass"),
		ClientCertFile: c.Str("tls-client-cert-file"), ClientKeyFile: c.Str("tls-client-key-file"),
		ClientKeyFilePass: c.Str("tls-client-key-file-pass"),
		CACertFile:        c.Str("tls-ca-cert-file"), CACertDir: c.Str("tls-ca-cert-dir"),
		AuthClients: c.Enum("tls-auth-clients"), Protocols: c.Str("tls-protocols"), Ciphers: c.Str("tls-ciphers"),
		CipherSuites: c.Str("tls-ciphersuites"), DHParamsFile: c.Str("tls-dh-params-file"),
		SessionCaching: c.Bool("tls-session-caching"), NeedCA: c.Bool("tls-replication") || c.Bool("tls-cluster"),
	}
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
	// The refusal is sent over TLS.
	if text := srv.protectedModeError(raw.RemoteAddr().String(), false); text != "" {
		srv.obs.Stats.Rejected.Add(1)
		fmt.Fprintf(conn, "-%s\r\n", text)
		conn.Close()
		done()
		return
	}
	raw.SetDeadline(time.Time{})
	p := srv.newPipe(conn, l)
	done()
	if srv.life.draining.Load() { // stopPipes may have run before the pipe was registered
		p.shut()
	}
	p.serve()
}

func (srv *Server) shakeHands(raw net.Conn) (*tls.Conn, error) {
	if srv.life.draining.Load() { // else tlsFront.stop closes the connection
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

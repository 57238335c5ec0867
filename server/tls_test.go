package server_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/internal/respclient"
	"redoubt/internal/testcert"
	"redoubt/server"
)

// tlsFront is a server with TLS, its authority, and certificates by it.
type tlsFront struct {
	*front
	t      *testing.T
	ca     *testcert.Authority
	server testcert.Pair
	client testcert.Pair
}

// startTLS starts a server with TLS beside plain TCP.
func startTLS(t *testing.T, pipes bool, args ...string) *tlsFront {
	t.Helper()
	return startTLSWith(t, server.Options{Engine: mem.New(), Pipes: pipes}, args...)
}

func startTLSWith(t *testing.T, o server.Options, args ...string) *tlsFront {
	t.Helper()
	ca := testcert.New(t)
	f := &tlsFront{t: t, ca: ca, server: ca.Sign("server"), client: ca.Sign("client")}
	f.front = startWith(t, o, append([]string{
		"--tls-cert-file", f.server.Cert, "--tls-key-file", f.server.Key, "--tls-ca-cert-file", ca.File,
	}, args...)...)
	f.move("tls-port")
	return f
}

// move gives a directive some free port. Somebody may be quicker and take it.
func (f *tlsFront) move(directive string) {
	f.t.Helper()
	c := f.dial()
	for range 5 {
		taken, port := takePort(f.t)
		taken.Close()
		if got := c.do("CONFIG", "SET", directive, port); got == "OK" {
			f.front.addr = f.Addr().String()
			return
		}
	}
	f.t.Fatalf("no port:\n%s", f.log)
}

// connect shakes hands.
func (f *tlsFront) connect(c *tls.Config) (*tls.Conn, error) {
	raw, err := net.Dial("tcp", f.TLSAddr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { raw.Close() })
	c = c.Clone()
	c.ServerName = "127.0.0.1"
	conn := tls.Client(raw, c)
	conn.SetDeadline(time.Now().Add(respclient.Timeout))
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	return conn, nil
}

// secure is a client with a good certificate.
func (f *tlsFront) secure() *client {
	f.t.Helper()
	conn, err := f.connect(f.ca.Client(f.client))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.over(conn)
}

// refused fails the test unless the server ends the connection. With TLS 1.3 the
// client learns that only after its own part of the handshake.
func (f *tlsFront) refused(what string, c *tls.Config) {
	f.t.Helper()
	conn, err := f.connect(c)
	if err == nil {
		if _, err = conn.Write([]byte("PING\r\n")); err == nil {
			_, err = io.ReadFull(conn, make([]byte, 7))
		}
	}
	if err == nil {
		f.t.Errorf("%s is served", what)
	}
}

// served fails the test unless the client is, and returns how.
func (f *tlsFront) served(what string, c *tls.Config) tls.ConnectionState {
	f.t.Helper()
	conn, err := f.connect(c)
	if err != nil {
		f.t.Errorf("%s: %v", what, err)
		return tls.ConnectionState{}
	}
	if got := f.over(conn).do("PING"); got != "PONG" {
		f.t.Errorf("%s: %s", what, got)
	}
	return conn.ConnectionState()
}

// A session over TLS is like any other.
func TestTLSSessions(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := startTLS(t, pipes)
		c, plain := f.secure(), f.dial()
		if got := c.do("SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
		if got := plain.do("GET", "k"); got != `"v"` {
			t.Error(got)
		}
		if got := c.do("CLIENT", "SETNAME", "tls"); got != "OK" {
			t.Error(got)
		}
		text := func(args ...string) string {
			t.Helper()
			v, err := plain.Do(args...)
			if err != nil {
				t.Fatal(err)
			}
			return v.Str
		}
		list := text("CLIENT", "LIST")
		if !strings.Contains(list, "name=tls") || !strings.Contains(list, "laddr="+f.TLSAddr().String()) || strings.Contains(list, "fd=0 ") {
			t.Error(list)
		}
		if got := text("INFO", "server"); !strings.Contains(got, "listener2:name=tls,bind=127.0.0.1,port=") {
			t.Error(got)
		}

		// More than fits a record, both ways, and a pipeline.
		large := strings.Repeat("0123456789", 100_000)
		if got := c.do("SET", "large", large); got != "OK" {
			t.Errorf("%.100s", got)
		}
		if v, err := c.Do("GET", "large"); err != nil || v.Str != large {
			t.Errorf("%d bytes, %v", len(v.Str), err)
		}
		for i := range 1000 {
			c.send("RPUSH", "list", fmt.Sprint(i))
		}
		for i := range 1000 {
			if got := c.read(); got != fmt.Sprintf("(integer) %d", i+1) {
				t.Fatalf("%d: %s", i, got)
			}
		}

		// A command that waits, served by a plain client.
		c.send("BLPOP", "queue", "0")
		plain.blocked(1)
		plain.do("RPUSH", "queue", "x")
		if got := c.read(); !strings.Contains(got, `"x"`) {
			t.Error(got)
		}

		if got := plain.do("CLIENT", "KILL", "TYPE", "normal", "LADDR", f.TLSAddr().String()); got != "(integer) 1" {
			t.Error(got)
		}
		if _, err := c.Do("PING"); err == nil {
			t.Error("it was killed and answers")
		}
	})
}

func TestTLSClientCertificates(t *testing.T) {
	t.Parallel()
	f := startTLS(t, false)
	c, stranger := f.dial(), testcert.New(t)
	wrong := stranger.Sign("client")
	nobody, foreign := f.ca.Client(), f.ca.Client(wrong)

	f.served("a good certificate", f.ca.Client(f.client))
	f.refused("no certificate", nobody)
	f.refused("a stranger's certificate", foreign)
	if _, err := f.connect(stranger.Client(wrong)); err == nil {
		t.Error("a client that does not trust the server goes on")
	}
	if conn, err := net.Dial("tcp", f.TLSAddr().String()); err == nil { // not TLS at all
		conn.SetDeadline(time.Now().Add(respclient.Timeout))
		fmt.Fprintf(conn, "PING\r\n")
		if got, _ := io.ReadAll(conn); strings.Contains(string(got), "PONG") {
			t.Error("plain text is served")
		}
		conn.Close()
	}

	c.do("CONFIG", "SET", "tls-auth-clients", "optional")
	f.served("no certificate, which is fine", nobody)
	f.served("a good certificate", f.ca.Client(f.client))
	f.refused("a stranger's certificate", foreign)

	c.do("CONFIG", "SET", "tls-auth-clients", "no")
	f.served("no certificate", nobody)
	f.served("a certificate that nobody looks at", foreign)

	c.do("CONFIG", "SET", "tls-auth-clients", "yes", "tls-ca-cert-file", stranger.File)
	f.refused("what was good", f.ca.Client(f.client))
	f.served("whom the new authority knows", foreign)
	if got := c.do("CONFIG", "SET", "tls-ca-cert-file", "", "tls-ca-cert-dir", filepath.Dir(f.ca.File)); got != "OK" {
		t.Error(got)
	}
	f.served("an authority of the directory", f.ca.Client(f.client))
}

func TestTLSProtocolsAndCiphers(t *testing.T) {
	t.Parallel()
	f := startTLS(t, false)
	c := f.dial()
	set := func(pairs ...string) {
		t.Helper()
		if got := c.do(append([]string{"CONFIG", "SET"}, pairs...)...); got != "OK" {
			t.Fatalf("%s: %s", pairs, got)
		}
	}
	with := func(low, high uint16, ciphers ...uint16) *tls.Config {
		o := f.ca.Client(f.client)
		o.MinVersion, o.MaxVersion, o.CipherSuites = low, high, ciphers
		return o
	}
	if got := f.served("newest", with(0, 0)).Version; got != tls.VersionTLS13 {
		t.Errorf("%x", got)
	}
	if got := f.served("TLS 1.2", with(0, tls.VersionTLS12)).Version; got != tls.VersionTLS12 {
		t.Errorf("%x", got)
	}
	f.refused("TLS 1.1", with(tls.VersionTLS10, tls.VersionTLS11))
	set("tls-protocols", "TLSv1.3")
	f.refused("TLS 1.2", with(0, tls.VersionTLS12))
	f.served("TLS 1.3", with(0, 0))
	set("tls-protocols", "tlsv1.1 TLSv1.2")
	f.refused("TLS 1.3", with(tls.VersionTLS13, 0))
	if got := f.served("TLS 1.1", with(tls.VersionTLS10, tls.VersionTLS11)).Version; got != tls.VersionTLS11 {
		t.Errorf("%x", got)
	}

	const aes128, aes256 = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
	set("tls-protocols", "TLSv1.2", "tls-ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384")
	if got := f.served("a client with both", with(0, 0, aes128, aes256)).CipherSuite; got != aes256 {
		t.Error(tls.CipherSuiteName(got))
	}
	f.refused("a client with the other one", with(0, 0, aes128))
	set("tls-ciphers", "HIGH:!AES256")
	if got := f.served("a client with both", with(0, 0, aes128, aes256)).CipherSuite; got != aes128 {
		t.Error(tls.CipherSuiteName(got))
	}

	// A suite of TLS 1.3 that is not allowed is not used.
	set("tls-protocols", "", "tls-ciphersuites", "TLS_AES_256_GCM_SHA384")
	got := f.served("a client that has them all", with(0, 0))
	if got.Version != tls.VersionTLS12 || got.CipherSuite == tls.TLS_AES_128_GCM_SHA256 {
		t.Errorf("%x %s", got.Version, tls.CipherSuiteName(got.CipherSuite))
	}
	f.refused("no certificate", f.ca.Client())
	if got := c.do("CONFIG", "SET", "tls-ciphers", "nosuch"); !strings.Contains(got, "Unable to update TLS configuration. Check server logs.") {
		t.Error(got)
	}
	if got := c.do("CONFIG", "GET", "tls-ciphers"); !strings.Contains(got, "HIGH:!AES256") {
		t.Error(got)
	}
}

// New certificates count from CONFIG SET on, for new connections; bad ones are
// refused, and the old ones stay.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	f := startTLS(t, false)
	c, before := f.dial(), f.secure()
	serial := func() string {
		t.Helper()
		return f.served("a client", f.ca.Client(f.client)).PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	fresh := f.ca.Sign("fresh")
	if got := c.do("CONFIG", "SET", "tls-cert-file", fresh.Cert); !strings.Contains(got, "Unable to update TLS configuration") {
		t.Errorf("another's key: %s", got)
	}
	if got := c.do("CONFIG", "GET", "tls-cert-file"); !strings.Contains(got, f.server.Cert) || serial() != first {
		t.Errorf("after a refusal: %s", got)
	}
	if got := c.do("CONFIG", "SET", "tls-cert-file", fresh.Cert, "tls-key-file", fresh.Key); got != "OK" {
		t.Error(got)
	}
	second := serial()
	if second == first {
		t.Error("the old certificate is shown")
	}

	// The same files with another content.
	again := f.ca.Sign("fresh")
	if serial() != second {
		t.Error("files are read without being told")
	}
	if got := c.do("CONFIG", "SET", "tls-cert-file", again.Cert); got != "OK" || serial() == second {
		t.Errorf("the same name again: %s", got)
	}
	third := serial()
	if err := os.WriteFile(again.Cert, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := c.do("CONFIG", "SET", "tls-cert-file", again.Cert)
	if !strings.HasSuffix(got, "- Unable to update TLS configuration. Check server logs.") || serial() != third {
		t.Errorf("rubbish: %s", got)
	}
	if got := before.do("PING"); got != "PONG" {
		t.Errorf("a connection from before: %s", got)
	}
}

// The port of TLS moves and goes; plain TCP may be off.
func TestTLSPort(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := startTLS(t, pipes)
		c, old := f.dial(), f.TLSAddr().String()
		f.move("tls-port")
		f.move("port")
		if f.TLSAddr().String() == old {
			t.Error("it has not moved")
		}
		f.secure()
		s := f.secure()
		if got := c.do("CONFIG", "SET", "port", "0"); got != "OK" {
			t.Error(got)
		}
		if conn, err := net.Dial("tcp", f.addr); err == nil {
			conn.Close()
			t.Error("plain TCP is served")
		}
		if f.Addr().String() != f.TLSAddr().String() {
			t.Errorf("the address is %s", f.Addr())
		}
		if got := s.do("CONFIG", "SET", "bind", "127.0.0.1"); got != "OK" {
			t.Error(got)
		}
		f.secure()
		taken, port := takePort(t)
		if got := s.do("CONFIG", "SET", "tls-port", port); !strings.Contains(got, "Unable to listen on this port") {
			t.Error(got)
		}
		taken.Close()
		f.secure()
		if got := s.do("CONFIG", "SET", "tls-port", "0"); got != "OK" || f.TLSAddr() != nil {
			t.Errorf("%s, %v", got, f.TLSAddr())
		}
	})
	t.Run("without certificate", func(t *testing.T) {
		t.Parallel()
		c := start(t, false).dial()
		if got := c.do("CONFIG", "SET", "tls-port", "1"); !strings.Contains(got, "Unable to update TLS configuration") {
			t.Error(got)
		}
		if got := c.do("CONFIG", "SET", "tls-ciphers", "whatever"); got != "OK" { // nobody uses it yet
			t.Error(got)
		}
	})
}

// A server whose TLS cannot be configured does not start.
func TestTLSBadStart(t *testing.T) {
	t.Parallel()
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--bind", "127.0.0.1", "--tls-port", "1", "--tls-cert-file", "/nonexistent"}); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Config: cfg, Engine: mem.New()})
	if err == nil {
		srv.Shutdown(t.Context())
		t.Fatal("it starts")
	}
	if !strings.Contains(err.Error(), "TLS") {
		t.Error(err)
	}
}

// Clients that connect and say nothing are closed after a while, and before that when
// they take the place of another.
func TestTLSSilence(t *testing.T) {
	t.Parallel()
	f := startTLSWith(t, server.Options{Engine: mem.New(), HandshakeTime: time.Second}, "--maxclients", "5")
	silent := make([]net.Conn, 4) // and one client is there already
	for i := range silent {
		conn, err := net.Dial("tcp", f.TLSAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent[i] = conn
	}
	if conn, err := f.connect(f.ca.Client(f.client)); err != nil {
		t.Errorf("there is no room for one more: %v", err)
	} else {
		conn.Close()
	}
	for _, conn := range silent {
		conn.SetDeadline(time.Now().Add(respclient.Timeout))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a silent client: %v", err)
		}
	}
	f.secure()
}

// redis-cli as Debian has it speaks TLS.
func TestTLSWithRedisCLI(t *testing.T) {
	t.Parallel()
	help, err := exec.Command("redis-cli", "--help").CombinedOutput()
	if err != nil && len(help) == 0 || !strings.Contains(string(help), "--tls") {
		t.Skip("needs a redis-cli with TLS")
	}
	f := startTLS(t, false)
	_, port, _ := net.SplitHostPort(f.TLSAddr().String())
	base := []string{"-h", "127.0.0.1", "-p", port, "--tls", "--cacert", f.ca.File}
	good := append(slices.Clone(base), "--cert", f.client.Cert, "--key", f.client.Key)
	out, err := exec.Command("redis-cli", append(good, "SET", "k", "v")...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "OK" {
		t.Errorf("%s, %v", out, err)
	}
	out, _ = exec.Command("redis-cli", append(base, "PING")...).CombinedOutput()
	if strings.Contains(string(out), "PONG") {
		t.Error("served without a certificate")
	}
	out, err = exec.Command("redis-cli", append(good, "--tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "GET", "k")...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "v" {
		t.Errorf("%s, %v", out, err)
	}
}

package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/engine/mem"
	"redoubt/internal/testcert"
)

// http-tls serves HTTP/2 and HTTP/1.1 with the certificate of tls-cert-file, also after that
// was replaced; and both kinds of polls end with the server.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	authority := testcert.New(t)
	pair, second := authority.Sign("first"), authority.Sign("second")
	f := start(t, false, "--http-addr", "127.0.0.1:0", "--http-tls", "yes", "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key,
		"--tls-auth-clients", "yes") // which is not meant for HTTP, and needs no authority without tls-port
	text, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	url := "https://" + f.HTTPAddr().String()
	newClient := func(h2 bool) *http.Client {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}, ForceAttemptHTTP2: h2}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	ask := func(c *http.Client, method, path, body string) (got string, major int, name string) {
		t.Helper()
		req, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		res, err := c.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(res.StatusCode, " ", strings.TrimSpace(string(b))), res.ProtoMajor, res.TLS.PeerCertificates[0].Subject.CommonName
	}
	c := f.dial()
	var polls sync.WaitGroup
	for i, h2 := range []bool{true, false} {
		client := newClient(h2)
		want := 1
		if h2 {
			want = 2
		}
		if got, major, _ := ask(client, "PUT", subA, ""); !strings.HasPrefix(got, "200") || major != want {
			t.Errorf("HTTP/%d, want %d: %s", major, want, got)
		}
		polls.Go(func() {
			if got, _, _ := ask(client, "GET", subA+"?timeout=20s", ""); !strings.Contains(got, `"messageID":"m`+fmt.Sprint(i)) {
				t.Errorf("woken with %s", got)
			}
		})
		until(t, "the poll waits", func() bool { return c.info("clients", "blocked_clients") == "1" })
		c.do("CHPUBLISH", "c", fmt.Sprint("m", i), "1")
		polls.Wait()
		c.do("CHUNSUBSCRIBE", "c", "a")
	}
	_, _, before := ask(newClient(true), "GET", probe, "")
	if got := c.do("CONFIG", "SET", "tls-cert-file", second.Cert, "tls-key-file", second.Key); got != "OK" {
		t.Fatal(got)
	}
	if _, _, after := ask(newClient(true), "GET", probe, ""); after == before {
		t.Errorf("the certificate is still that of %s", before)
	}
	// The end.
	for _, h2 := range []bool{true, false} {
		client := newClient(h2)
		ask(client, "PUT", subA, "")
		polls.Go(func() {
			if got, _, _ := ask(client, "GET", subA+"?timeout=20s", ""); got != `200 {"channelID":"c","messages":[],"moreMessages":false}` {
				t.Errorf("at the end: %s", got)
			}
		})
	}
	until(t, "the polls wait", func() bool { return c.info("clients", "blocked_clients") == "2" })
	began := time.Now()
	f.stop()
	polls.Wait()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// http-tls-auth-clients says whether HTTP clients need a certificate, and tls-auth-clients
// does not.
func TestHTTPSClientCertificates(t *testing.T) {
	t.Parallel()
	f := startTLS(t, false, "--http-addr", "127.0.0.1:0", "--http-tls", "yes")
	c := f.dial()
	ask := func(config *tls.Config) error {
		tr := &http.Transport{TLSClientConfig: config}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Get("https://" + f.HTTPAddr().String() + probe)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("the status is %s", res.Status)
		}
		return nil
	}
	nobody, known, foreign := f.ca.Client(), f.ca.Client(f.client), f.ca.Client(testcert.New(t).Sign("client"))
	for _, step := range []struct {
		set                    string
		nobody, known, foreign bool
	}{
		{"no", true, true, true}, {"yes", false, true, false}, {"optional", true, true, false}, {"no", true, true, true},
	} {
		if got := c.do("CONFIG", "SET", "http-tls-auth-clients", step.set); got != "OK" {
			t.Fatal(got)
		}
		for name, client := range map[string]struct {
			config *tls.Config
			served bool
		}{"without a certificate": {nobody, step.nobody}, "with a known one": {known, step.known}, "with a foreign one": {foreign, step.foreign}} {
			if err := ask(client.config); (err == nil) != client.served {
				t.Errorf("http-tls-auth-clients %s: a client %s: %v", step.set, name, err)
			}
		}
		f.refused("a client of tls-port without a certificate", nobody)
	}
}

// http-tls-auth-clients needs an authority, and the error says so.
func TestHTTPSClientCertificatesNeedAnAuthority(t *testing.T) {
	t.Parallel()
	pair := testcert.New(t).Sign("server")
	f := start(t, false, "--http-addr", "127.0.0.1:0", "--http-tls", "yes", "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key)
	if got := f.dial().do("CONFIG", "SET", "http-tls-auth-clients", "yes"); !strings.HasPrefix(got, "(error)") {
		t.Errorf("CONFIG SET: %s", got)
	}
	f.dial().do("PING")
}

// What http-* directives say holds at once when they are changed.
func TestHTTPDirectives(t *testing.T) {
	t.Parallel()
	w := startWeb(t, mem.New(), "--http-prefix", "/x")
	c := w.dial()
	set := func(name, value string) {
		t.Helper()
		if got := c.do("CONFIG", "SET", name, value); got != "OK" {
			t.Errorf("CONFIG SET %s %s: %s", name, value, got)
		}
	}
	w.want("404", "PUT", forget+"m", "1")
	w.want("200", "PUT", "/x"+forget+"m", "1")
	w.want("200", "PUT", "/x"+subA, "")
	set("http-max-body", "1024")
	w.want("413", "PUT", "/x"+forget+"m", `"`+strings.Repeat("x", 1024)+`"`)
	set("http-cors-origins", "https://a.example https://b.example")
	if _, h := w.ask("GET", "/x"+probe, "", "Origin: https://b.example"); h.Get("Access-Control-Allow-Origin") != "https://b.example" {
		t.Errorf("%v", h)
	}
	if _, h := w.ask("GET", "/x"+probe, "", "Origin: https://c.example"); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", h)
	}
	set("http-anonymous", "no")
	w.want(`403 {"code":"dsps.auth.rejected","error":"Unauthorized"}`, "PUT", "/x"+forget+"m", "1")
	set("http-error-detail", "yes")
	w.want(`403 {"code":"dsps.auth.rejected","error":"Unauthorized","reason":`, "PUT", "/x"+forget+"m", "1")
	set("http-anonymous", "loopback")
	w.want("403", "PUT", "/x"+forget+"m", "1", "X-Forwarded-For: 10.0.0.1")
	w.want("403", "PUT", "/x/admin/log/level?category=*&level=INFO", "", "Authorization: Bearer t")
	set("http-admin-token", "t")
	w.want("204", "PUT", "/x/admin/log/level?category=*&level=INFO", "", "Authorization: Bearer t")
	set("http-poll-limit", "1")
	began := time.Now()
	c.do("CHSUBSCRIBE", "empty", "a")
	w.want(`200 {"channelID":"empty","messages":[]`, "GET", "/x/channel/empty/subscription/polling/a?timeout=20s", "")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a poll took %v", took)
	}
	c.do("CLIENT", "PAUSE", "100000", "WRITE")
	w.want(`503 {"code":"redoubt.unavailable","error":"The database cannot serve this now: TRYAGAIN clients are paused`, "PUT", "/x"+forget+"m2", "1")
	c.do("CLIENT", "UNPAUSE")
	w.want("200", "PUT", "/x"+forget+"m2", "1")
	set("http-rate-limit", "1")
	limited := false
	for range 5 {
		got, _ := w.ask("GET", "/x"+probe, "")
		limited = limited || strings.HasPrefix(got, "429")
	}
	if !limited {
		t.Error("five requests at once are not too many for one a second")
	}
	// The token is no secret that shows.
	if got := c.do("CONFIG", "SET", "http-addr", "127.0.0.1:1"); !strings.Contains(got, "immutable") {
		t.Error(got)
	}
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"redoubt/gateway/store"
	"redoubt/gateway/storetest"
	"redoubt/internal/testcert"
)

func (f *fixture) dial() net.Conn {
	f.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// closes says whether the server closes a connection within some time.
func closes(c net.Conn, within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := io.Copy(io.Discard, c)
	return err == nil || !strings.Contains(err.Error(), "timeout")
}

func TestHalfRequests(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.ReadTime, o.IdleTime = 100*time.Millisecond, 150*time.Millisecond })
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	for _, text := range []string{
		"", "G", "GET /probe", "GET /probe/liveness HTTP/1.1\r\nHost: x\r\n", "PUT /channel/c/message/m HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n\"abc",
		"PUT /channel/c/message/m HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\"ab", "\x16\x03\x01\x02\x00", "\x00\x00\x00\x00",
	} {
		c := f.dial()
		fmt.Fprint(c, text)
		if !closes(c, 5*time.Second) {
			t.Errorf("%q keeps its connection", text)
		}
	}
	// One byte after the other does not keep it either.
	slow := f.dial()
	go func() {
		for _, b := range []byte("GET /probe/liveness HTTP/1.1\r\nHost: " + strings.Repeat("x", 1000)) {
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if !closes(slow, 5*time.Second) {
		t.Error("a slow client keeps its connection")
	}
	// Nor does one that had its poll answered and then says nothing.
	c := f.dial()
	fmt.Fprint(c, "GET /channel/c/subscription/polling/s?timeout=10ms HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if !closes(c, 5*time.Second) {
		t.Error("an idle client keeps its connection")
	}
	if f.store.Messages("c") != nil {
		t.Errorf("half a request was published: %v", f.store.Messages("c"))
	}
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Settings.MaxConns = 10 })
	var conns []net.Conn
	for range 10 {
		conns = append(conns, f.dial())
	}
	eventually(t, func() bool { open, _, _ := f.g.Connections(); return open == 10 })
	text, err := io.ReadAll(f.dial())
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 503 ") {
		t.Errorf("%v %q", err, text)
	}
	for _, c := range conns {
		c.Close()
	}
	eventually(t, func() bool { open, _, _ := f.g.Connections(); return open == 0 })
	if status, _, _ := f.do("GET", "/probe/liveness", ""); status != 200 {
		t.Errorf("%d", status)
	}
}

// Connections that say nothing keep no others from being served, and all that connections and
// requests are charged with is given back.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	var charged atomic.Int64
	var full atomic.Bool
	f := start(t, func(o *Options) {
		o.Settings.MaxConns = 3000
		o.Charge = func(n int64) { charged.Add(n) }
		o.Full = full.Load
	})
	var conns []net.Conn
	for range maxActive + 300 {
		conns = append(conns, f.dial())
	}
	eventually(t, func() bool { open, _, _ := f.g.Connections(); return open == len(conns) })
	if status, _, _ := f.do("PUT", "/channel/c/subscription/polling/s", ""); status != 200 {
		t.Errorf("%d", status)
	}
	for _, c := range conns[:100] {
		fmt.Fprint(c, "GET /channel/c/subscription/polling/s?timeout=20s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	}
	eventually(t, func() bool { return f.g.Waiting() == 100 })
	if n := charged.Load(); n < int64(len(conns))*connMemory+100*heldMemory {
		t.Errorf("%d bytes are charged", n)
	}
	full.Store(true)
	for _, req := range [][2]string{{"GET", "/channel/c/subscription/polling/s?timeout=20s"}, {"PUT", "/channel/c/message/m"}} {
		if status, _, _ := f.do(req[0], req[1], "1"); status != 503 {
			t.Errorf("%s %s: %d", req[0], req[1], status)
		}
	}
	full.Store(false)
	for _, c := range conns {
		c.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	eventually(t, func() bool { return charged.Load() == 0 })
}

// Requests that are sent by half and take all places keep others waiting for seconds only,
// although they may take longer to arrive.
func TestHalfRequestsTakeNoPlaces(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Settings.MaxConns, o.ReadTime = 3000, time.Minute })
	for i := range maxActive {
		if i%2 == 0 {
			fmt.Fprint(f.dial(), "GET /probe/liveness HTTP/1.1\r\nHost:")
		} else {
			fmt.Fprint(f.dial(), "PUT /channel/c/message/m HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n\"abc")
		}
	}
	eventually(t, func() bool {
		f.g.ln.mu.Lock()
		defer f.g.ln.mu.Unlock()
		return len(f.g.ln.active) == maxActive
	})
	began := time.Now()
	if status, _, _ := f.do("GET", "/probe/readiness", ""); status != 200 || time.Since(began) > 20*time.Second {
		t.Errorf("%d after %v", status, time.Since(began))
	}
}

// Bodies that are under way together are bounded, whatever their sizes are said to be.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Settings.MaxBody = 8 << 20 })
	var held []net.Conn
	for range 4 { // each says that it has 8 MiB, which is the allowance of 32 MiB together
		c := f.dial()
		fmt.Fprintf(c, "PUT /channel/c/message/m HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n\"", 8<<20)
		held = append(held, c)
	}
	eventually(t, func() bool { return f.g.bodies.used.Load() == 32<<20 })
	if status, _, _ := f.do("PUT", "/channel/c/message/m", "1"); status != 503 {
		t.Errorf("%d", status)
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, func() bool { return f.g.bodies.used.Load() == 0 })
	if status, _, _ := f.do("PUT", "/channel/c/message/m", "1"); status != 200 {
		t.Errorf("%d", status)
	}
}

// A client that does not read its response is given up.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.WriteTime, o.Settings.MaxBody = 100*time.Millisecond, 8<<20 })
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	for _, accept := range []string{"*/*", "text/event-stream"} {
		c := f.dial()
		fmt.Fprintf(c, "GET /channel/c/subscription/polling/s?timeout=20s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: %s\r\n\r\n", accept)
		eventually(t, func() bool { return f.g.Waiting() == 1 })
		f.do("PUT", "/channel/c/message/m"+fmt.Sprint(len(accept)), `"`+strings.Repeat("x", 7<<20)+`"`)
		eventually(t, func() bool { return f.g.Waiting() == 0 })
		eventually(t, func() bool { open, _, _ := f.g.Connections(); return open <= 1 }) // that of do
		c.Close()
		f.do("DELETE", "/channel/c/subscription/polling/s", "")
		f.do("PUT", "/channel/c/subscription/polling/s", "")
	}
	if n := f.g.slow.Load(); n != 0 {
		t.Errorf("%d goroutines still write", n)
	}
}

// What comes behind a request that waits is not lost in silence: the connection is closed.
func TestPipelinedBehindAPoll(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	c := f.dial()
	fmt.Fprint(c, "GET /channel/c/subscription/polling/s?timeout=50ms HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /probe/liveness HTTP/1.1\r\nHost: x\r\n\r\n")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 200 || !res.Close {
		t.Fatalf("%v %+v", err, res)
	}
	io.Copy(io.Discard, res.Body)
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is not closed")
	}
}

// Over TLS there is HTTP/2, whose polls wait on goroutines, and HTTP/1.1, whose polls do not.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority := testcert.New(t)
	pair := authority.Sign("server")
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	})
	f.url = "https" + strings.TrimPrefix(f.url, "http")
	text, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	for _, h2 := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}}
		do := func(method, path, body string) (int, string, int) {
			req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return 0, "", 0
			}
			res, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return 0, "", 0
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(b), res.ProtoMajor
		}
		do("PUT", "/channel/c/subscription/polling/s", "")
		var polls sync.WaitGroup
		for range 3 {
			for range 5 {
				polls.Go(func() {
					status, body, major := do("GET", "/channel/c/subscription/polling/s?timeout=20s", "")
					if status != 200 || !strings.Contains(body, `"messageID"`) || (major == 2) != h2 {
						t.Errorf("HTTP/%d: %d %s", major, status, body)
					}
				})
			}
			eventually(t, func() bool { return f.g.Waiting() == 5 })
			if _, parked, _ := f.g.Connections(); canPark && !h2 && parked < 5 {
				t.Errorf("%d connections are parked", parked)
			}
			do("PUT", fmt.Sprintf("/channel/c/message/m%d", time.Now().UnixNano()), "1")
			polls.Wait()
			do("DELETE", "/channel/c/subscription/polling/s", "")
			do("PUT", "/channel/c/subscription/polling/s", "")
		}
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "GET", f.url+"/channel/c/subscription/polling/s?timeout=20s", nil)
		if err != nil {
			t.Fatal(err)
		}
		polls.Go(func() { _, _ = client.Do(req) })
		eventually(t, func() bool { return f.g.Waiting() == 1 })
		cancel()
		polls.Wait()
		eventually(t, func() bool { return f.g.Waiting() == 0 && f.store.Waiting() == 0 })
		client.CloseIdleConnections()
	}
}

// Whatever is asked for, the answer is JSON and no failure of the server.
func FuzzRequest(f *testing.F) {
	f.Add("PUT", "/channel/c/message/m", `{"a":[1,2]}`)
	f.Add("GET", "/channel/c/subscription/polling/s?timeout=1ms&max=5", "")
	f.Add("DELETE", "/channel/c/subscription/polling/s/message?ackHandle=%00", "")
	f.Add("PUT", "/admin/jwt/revoke?jti=%ff&exp=1", "")
	f.Add("OPTIONS", "/channel//../%2e%2e/x", "[")
	g := start(f, func(o *Options) { o.Settings.PollLimit = time.Millisecond })
	g.do("PUT", "/channel/c/subscription/polling/s", "")
	f.Fuzz(func(t *testing.T, method, path, body string) {
		req, err := http.NewRequest(method, g.url, strings.NewReader(body))
		if err != nil {
			return
		}
		req.URL.Path, req.URL.RawQuery, _ = strings.Cut("/"+path, "?")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the client refuses to send it
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 500 {
			t.Errorf("%s %q: %v %d %s", method, path, err, res.StatusCode, text)
		}
		if ours := res.Header.Get("X-Frame-Options") != ""; ours && len(text) > 0 && method != http.MethodHead && !json.Valid(text) {
			t.Errorf("%s %q: %d %s", method, path, res.StatusCode, text)
		}
	})
}

// A body is published only if it is JSON, and then comes back as the same JSON from a poll
// and in one line of a stream.
func FuzzBody(f *testing.F) {
	for _, body := range []string{`{"a": [1, 2]}`, `"\u2028\ud800"`, "1e999", "\"\xff\"", "[\n1\r\n]", "null x", strings.Repeat("[", 20000), " ", "\"<script>\u0000\""} {
		f.Add([]byte(body))
	}
	g := start(f, nil).g
	f.Fuzz(func(t *testing.T, body []byte) {
		st := storetest.New()
		g.o.Store = st
		ask := func(method, path string, body []byte) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, bytes.NewReader(body))
			r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1"
			g.ServeHTTP(w, r)
			return w
		}
		const s = "/channel/c/subscription/polling/s"
		ask("PUT", s, nil)
		w := ask("PUT", "/channel/c/message/m", body)
		switch valid := json.Valid(body) && utf8.Valid(body); {
		case w.Code == 400 && !valid, w.Code == 413:
			return
		case w.Code != 200 || !valid:
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		w = ask("GET", s, nil)
		var got struct {
			Messages []struct{ Content json.RawMessage }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Messages) != 1 {
			t.Fatalf("%q: %v %s", body, err, w.Body)
		}
		if !bytes.Equal(got.Messages[0].Content, bytes.Trim(body, " \t\r\n")) {
			t.Errorf("%q came back as %q", body, got.Messages[0].Content)
		}
		line := oneLine(nil, &store.Message{ID: "m", Content: body})
		var one struct{ Content json.RawMessage }
		if err := json.Unmarshal(line, &one); err != nil || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%q in a stream is %q: %v", body, line, err)
		}
	})
}

package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/gateway/rules"
	"redoubt/gateway/store"
	"redoubt/gateway/storetest"
)

// fixture is a gateway on a store for tests.
type fixture struct {
	t     testing.TB
	g     *Gateway
	store *storetest.Store
	url   string
	level atomic.Value
	ready atomic.Value
}

func defaultsForTests() Settings {
	return Settings{PollLimit: 30 * time.Second, MaxBody: 1 << 16, MaxConns: 1000, AdminToken: "the-admin-token"}
}

func start(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, store: storetest.New()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Store: f.store, Settings: defaultsForTests(), SetLogLevel: func(s string) error { f.level.Store(s); return nil },
		Ready: func() error { err, _ := f.ready.Load().(error); return err }}
	if change != nil {
		change(&o)
	}
	if f.g, err = New(ln, o); err != nil {
		t.Fatal(err)
	}
	f.g.Serve()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := f.g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	f.url = "http://" + ln.Addr().String()
	return f
}

// withRules returns rules from the text of a channels file.
func withRules(t *testing.T, text string) *rules.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "channels.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// do makes a request. Lines behind the body are headers, "Name: value".
func (f *fixture) do(method, path, body string, headers ...string) (status int, text string, res *http.Response) {
	f.t.Helper()
	req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	if res, err = http.DefaultClient.Do(req); err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b)), res
}

func TestEveryPathAndCode(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) {
		o.Rules = withRules(t, "channels:\n  - regex: 'room-(?P<id>[0-9]+)'\n  - regex: '[a-z]+'\n")
	})
	const admin = "Authorization: Bearer the-admin-token"
	const poll = "/channel/room-1/subscription/polling/s"
	long := strings.Repeat("a", 64)
	doc := readDocument(t)
	for i, c := range []struct {
		method, path, body string
		status             int
		want               string
		headers            []string
	}{
		{"PUT", poll, "", 200, `{"channelID":"room-1","subscriberID":"s"}`, nil},
		{"PUT", poll, "", 200, `{"channelID":"room-1","subscriberID":"s"}`, nil},
		{"GET", poll, "", 200, `{"channelID":"room-1","messages":[],"moreMessages":false}`, nil},
		{"PUT", "/channel/room-1/message/m1", `{"hi": [1, null, "ä"]}`, 200, `{"channelID":"room-1","messageID":"m1"}`, nil},
		{"PUT", "/channel/room-1/message/m1", `"other"`, 200, `{"channelID":"room-1","messageID":"m1"}`, nil},
		{"PUT", "/channel/room-1/message/m2", ` 2 `, 200, `{"channelID":"room-1","messageID":"m2"}`, nil},
		{"PUT", "/channel/room-1/message/m3", `not JSON`, 400, `{"error":"Request body is not JSON"}`, nil},
		{"PUT", "/channel/room-1/message/m3", "", 400, `{"error":"Request body is not JSON"}`, nil},
		{"PUT", "/channel/room-1/message/m3", "\"\xff\"", 400, `{"error":"Request body is not JSON"}`, nil},
		{"PUT", "/channel/room-1/message/m3", `{} {}`, 400, `{"error":"Request body is not JSON"}`, nil},
		{"PUT", "/channel/room-1/message/m3", `"` + strings.Repeat("x", 1<<16) + `"`, 413, `{"error":"The request body is larger than 65536 bytes"}`, nil},
		{"PUT", "/channel/room-1/message/M3", `1`, 400, `{"error":"Invalid \"messageID\" parameter"}`, nil},
		{"PUT", "/channel/room-1/message/" + long, `1`, 400, `{"error":"Invalid \"messageID\" parameter"}`, nil},
		{"PUT", "/channel/room-1/message/-a", `1`, 400, `{"error":"Invalid \"messageID\" parameter"}`, nil},
		{"PUT", "/channel/***/message/m", `1`, 400, `{"error":"Invalid \"channelID\" parameter"}`, nil},
		{"PUT", "/channel/room-x/message/m", `1`, 400, `{"code":"dsps.storage.invalid-channel","error":"Invalid \"channelID\" parameter"}`, nil},
		{"PUT", "/channel/room-1/subscription/polling/S", "", 400, `{"error":"Invalid \"subscriberID\" parameter"}`, nil},
		{"DELETE", "/channel/room-1/subscription/polling/S", "", 400, `{"error":"Invalid \"subscriberID\" parameter"}`, nil},
		{"GET", "/channel/room-1/subscription/polling/S", "", 400, `{"error":"Invalid \"subscriberID\" parameter"}`, nil},
		{"DELETE", "/channel/room-1/subscription/polling/S/message?ackHandle=a", "", 400, `{"error":"Invalid \"subscriberID\" parameter"}`, nil},
		{"GET", poll + "?max=1&_=123", "", 200, `{"ackHandle":"room-1.s.1","channelID":"room-1","messages":[{"messageID":"m1","content":{"hi": [1, null, "ä"]}}],"moreMessages":true}`, nil},
		{"GET", poll + "?timeout=5s", "", 200,
			`{"ackHandle":"room-1.s.2","channelID":"room-1","messages":[{"messageID":"m1","content":{"hi": [1, null, "ä"]}},{"messageID":"m2","content": 2 }],"moreMessages":false}`, nil},
		{"GET", poll + "?timeout=1", "", 400, `{"error":"Invalid \"timeout\" parameter"}`, nil},
		{"GET", poll + "?timeout=-1s", "", 400, `{"error":"Invalid \"timeout\" parameter"}`, nil},
		{"GET", poll + "?timeout=9999999999h", "", 400, `{"error":"Invalid \"timeout\" parameter"}`, nil},
		{"GET", poll + "?max=-1", "", 400, `{"error":"Invalid \"max\" parameter"}`, nil},
		{"GET", poll + "?max=0", "", 400, `{"error":"Invalid \"max\" parameter"}`, nil},
		{"GET", poll + "?max=10001", "", 400, `{"error":"Invalid \"max\" parameter"}`, nil},
		{"GET", poll + "?max=99999999999999999999", "", 400, `{"error":"Invalid \"max\" parameter"}`, nil},
		{"GET", poll + "?max=x", "", 400, `{"error":"Invalid \"max\" parameter"}`, nil},
		{"DELETE", poll + "/message?ackHandle=room-1.s.1", "", 204, "", nil},
		{"DELETE", poll + "/message?ackHandle=room-1.s.1", "", 204, "", nil},
		{"DELETE", poll + "/message?ackHandle=room-1.other.1", "", 400, `{"code":"dsps.storage.ack-handle-malformed","error":"dsps.storage.ack-handle-malformed"}`, nil},
		{"DELETE", poll + "/message", "", 400, `{"code":"dsps.storage.ack-handle-malformed","error":"Missing \"ackHandle\" parameter"}`, nil},
		{"GET", poll, "", 200, `{"ackHandle":"room-1.s.2","channelID":"room-1","messages":[{"messageID":"m2","content": 2 }],"moreMessages":false}`, nil},
		{"DELETE", poll, "", 200, `{"channelID":"room-1","subscriberID":"s"}`, nil},
		{"DELETE", poll, "", 200, `{"channelID":"room-1","subscriberID":"s"}`, nil},
		{"GET", poll, "", 404, `{"code":"dsps.storage.subscription-not-found","error":"dsps.storage.subscription-not-found"}`, nil},
		{"GET", poll + "?timeout=10s", "", 404, `{"code":"dsps.storage.subscription-not-found","error":"dsps.storage.subscription-not-found"}`, nil},
		{"DELETE", poll + "/message?ackHandle=room-1.s.1", "", 404, `{"code":"dsps.storage.subscription-not-found","error":"dsps.storage.subscription-not-found"}`, nil},
		{"GET", "/probe/liveness", "", 200, `{"storage":"alive"}`, nil},
		{"GET", "/probe/readiness", "", 200, `{"storage":"ready"}`, nil},
		{"GET", "/", "", 404, `{"error":"There is nothing at this path"}`, nil},
		{"GET", "/channel", "", 404, `{"error":"There is nothing at this path"}`, nil},
		{"GET", poll + "/", "", 404, `{"error":"There is nothing at this path"}`, nil},
		{"PUT", "//channel/room-1/message/m", `1`, 404, `{"error":"There is nothing at this path"}`, nil},
		{"POST", poll, "", 405, `{"error":"This path does not take this method"}`, nil},
		{"GET", "/channel/room-1/message/m1", "", 405, `{"error":"This path does not take this method"}`, nil},
		{"OPTIONS", poll, "", 405, `{"error":"This path does not take this method"}`, nil},
		{"PUT", "/admin/jwt/revoke?jti=j&exp=4070912400", "", 200, `{"exp":4070912400,"jti":"j"}`, []string{admin}},
		{"PUT", "/admin/jwt/revoke?jti=j&exp=4070912400", "", 200, `{"exp":4070912400,"jti":"j"}`, []string{admin}},
		{"PUT", "/admin/jwt/revoke?exp=4070912400", "", 400, `{"error":"Missing \"jti\" parameter"}`, []string{admin}},
		{"PUT", "/admin/jwt/revoke?jti=j", "", 400, `{"error":"Invalid \"exp\" parameter"}`, []string{admin}},
		{"PUT", "/admin/jwt/revoke?jti=j&exp=9223372036854775807", "", 400, `{"error":"Invalid \"exp\" parameter"}`, []string{admin}},
		{"PUT", "/admin/jwt/revoke?jti=j&exp=4070912400", "", 403, `{"code":"dsps.auth.rejected","error":"Unauthorized"}`, nil},
		{"PUT", "/admin/jwt/revoke?jti=j&exp=4070912400", "", 403, `{"code":"dsps.auth.rejected","error":"Unauthorized"}`, []string{"Authorization: Bearer wrong"}},
		{"PUT", "/admin/log/level?category=*&level=DEBUG", "", 204, "", []string{admin}},
		{"PUT", "/admin/log/level?category=*&level=LOUD", "", 400, `{"error":"Invalid \"level\" parameter"}`, []string{admin}},
		{"PUT", "/admin/log/level?level=INFO", "", 400, `{"error":"Missing \"category\" parameter"}`, []string{admin}},
		{"PUT", "/admin/log/level?category=*&level=DEBUG", "", 403, `{"code":"dsps.auth.rejected","error":"Unauthorized"}`, nil},
	} {
		status, text, res := f.do(c.method, c.path, c.body, c.headers...)
		if status != c.status || text != c.want {
			t.Errorf("%d: %s %s: %d %s, want %d %s", i, c.method, c.path, status, text, c.status, c.want)
		}
		if kind := res.Header.Get("Content-Type"); status != 204 && kind != "application/json" {
			t.Errorf("%s %s: type %q", c.method, c.path, kind)
		}
		if err := doc.hold(c.method, c.path, status, res.Header.Get("Content-Type"), text); err != nil && c.status != 405 {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
		for _, line := range defaults {
			if res.Header.Get(line[0]) != line[1] {
				t.Errorf("%s %s: %s is %q", c.method, c.path, line[0], res.Header.Get(line[0]))
			}
		}
	}
	if f.level.Load() != "debug" {
		t.Errorf("the level is %v", f.level.Load())
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	doc := readDocument(t)
	f := start(t, nil)
	for text, want := range map[string]int{"LOADING wait": 503, "OOM full": 503, "WRONGTYPE other": 409, "ERR strange": 500, "TRYAGAIN later": 503, "MISCONF disk": 503} {
		f.store.Fail = func([]string) error { return store.Error(text) }
		for _, c := range [][2]string{{"PUT", "/channel/c/message/m"}, {"PUT", "/channel/c/subscription/polling/s"}, {"DELETE", "/channel/c/subscription/polling/s"},
			{"GET", "/channel/c/subscription/polling/s"}, {"GET", "/channel/c/subscription/polling/s?timeout=1s"}, {"DELETE", "/channel/c/subscription/polling/s/message?ackHandle=x"}} {
			status, body, res := f.do(c[0], c[1], "1")
			if err := doc.hold(c[0], c[1], status, res.Header.Get("Content-Type"), body); err != nil {
				t.Errorf("%s %s: %v", c[0], c[1], err)
			}
			if status != want || want == 503 && res.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %s %s: %d %s", text, c[0], c[1], status, body)
			}
		}
	}
	f.ready.Store(fmt.Errorf("the store is being opened"))
	if status, body, _ := f.do("GET", "/probe/readiness", ""); status != 500 || body != `{"storage":"the store is being opened"}` {
		t.Errorf("readiness: %d %s", status, body)
	}
	if status, _, _ := f.do("GET", "/probe/liveness", ""); status != 200 {
		t.Errorf("liveness: %d", status)
	}
}

// A poll waits, its connection is parked, and serves the next requests behind it.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i := range 3 {
		fmt.Fprintf(conn, "GET /channel/c/subscription/polling/s?timeout=20s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		eventually(t, func() bool { return f.g.Waiting() == 1 })
		f.do("PUT", fmt.Sprintf("/channel/c/message/m%d", i), `{"n":1}`)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			AckHandle string
			Messages  []struct{ MessageID string }
		}
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || len(got.Messages) != 1 || got.Messages[0].MessageID != fmt.Sprintf("m%d", i) {
			t.Fatalf("%d: %v %+v", i, err, got)
		}
		io.Copy(io.Discard, res.Body)
		fmt.Fprintf(conn, "DELETE /channel/c/subscription/polling/s/message?ackHandle=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", got.AckHandle)
		if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != 204 {
			t.Fatalf("%v %+v", err, res)
		}
	}
	if f.g.Waiting() != 0 || f.store.Waiting() != 0 {
		t.Errorf("%d requests and %d fetches wait", f.g.Waiting(), f.store.Waiting())
	}
}

func TestLongPollTimeIsOver(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Settings.PollLimit = 30 * time.Millisecond })
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	for range 2 { // on one connection
		if status, body, _ := f.do("GET", "/channel/c/subscription/polling/s?timeout=1h", ""); status != 200 || body != `{"channelID":"c","messages":[],"moreMessages":false}` {
			t.Errorf("%d %s", status, body)
		}
	}
}

// A client that leaves takes its fetch with it.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /channel/c/subscription/polling/s?timeout=20s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	eventually(t, func() bool { return f.g.Waiting() == 1 && f.store.Waiting() == 1 })
	conn.Close()
	eventually(t, func() bool { return f.g.Waiting() == 0 && f.store.Waiting() == 0 })
}

func TestShutdownAnswersPolls(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	answers := make(chan string, 20)
	for range cap(answers) {
		go func() {
			client := &http.Client{Transport: new(http.Transport)}
			res, err := client.Get(f.url + "/channel/c/subscription/polling/s?timeout=20s")
			if err != nil {
				answers <- err.Error()
				return
			}
			b, _ := io.ReadAll(res.Body)
			answers <- fmt.Sprint(res.StatusCode, string(b))
		}()
	}
	eventually(t, func() bool { return f.g.Waiting() == cap(answers) })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := f.g.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if got := <-answers; got != `200{"channelID":"c","messages":[],"moreMessages":false}`+"\n" {
			t.Error(got)
		}
	}
	if f.store.Waiting() != 0 {
		t.Errorf("%d fetches still wait", f.store.Waiting())
	}
}

// eventually waits for something that is about to happen.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within ten seconds")
		}
	}
}

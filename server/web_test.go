package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/sharedmem"
	"redoubt/server"
)

// web is a server that serves channels over HTTP.
type web struct {
	*front
	url    string
	client *http.Client
}

func startWeb(t testing.TB, eng engine.Engine, args ...string) *web {
	t.Helper()
	return startWebWith(t, server.Options{Engine: eng}, args...)
}

func startWebWith(t testing.TB, o server.Options, args ...string) *web {
	t.Helper()
	f := startWith(t, o, append([]string{"--http-addr", "127.0.0.1:0"}, args...)...)
	return webOf(t, f)
}

func webOf(t testing.TB, f *front) *web {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &web{front: f, url: "http://" + f.HTTPAddr().String(), client: &http.Client{Transport: transport}}
}

// ask makes a request, and returns the status and the body.
func (w *web) ask(method, path, body string, headers ...string) (string, http.Header) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return "", nil
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, path, err)
		return "", nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, path, err)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, text)), res.Header
}

// want makes a request whose answer begins with want.
func (w *web) want(want, method, path, body string, headers ...string) {
	w.t.Helper()
	if got, _ := w.ask(method, path, body, headers...); !strings.HasPrefix(got, want) {
		w.t.Errorf("%s %s: %s, want %s", method, path, got, want)
	}
}

// handle is the handle of the acknowledgement in the answer to a fetch.
func handle(t testing.TB, answer string) string {
	t.Helper()
	_, rest, ok := strings.Cut(answer, `"ackHandle":"`)
	h, _, _ := strings.Cut(rest, `"`)
	if !ok || h == "" {
		t.Fatalf("no handle: %s", answer)
	}
	return h
}

const (
	subA   = "/channel/c/subscription/polling/a"
	probe  = "/probe/readiness"
	forget = "/channel/c/message/"
)

// What goes in over HTTP comes out over RESP, and the other way round.
func TestHTTPAndCommandsAreOne(t *testing.T) {
	t.Parallel()
	w := startWeb(t, mem.New())
	c := w.dial()
	w.want(`200 {"channelID":"c","subscriberID":"a"}`, "PUT", subA, "")
	w.want(`200 {"channelID":"c","messageID":"m1"}`, "PUT", forget+"m1", `{"n":1}`)
	if got := c.do("CHPUBLISH", "c", "m2", "no JSON"); got != "1) (integer) 2\n2) (integer) 1" {
		t.Error(got)
	}
	got, _ := w.ask("GET", subA, "")
	if want := `"messages":[{"messageID":"m1","content":{"n":1}},{"messageID":"m2","content":"no JSON"}],"moreMessages":false}`; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	w.want("204", "DELETE", subA+"/message?ackHandle="+handle(t, got), "")
	w.want(`200 {"channelID":"c","messages":[],"moreMessages":false}`, "GET", subA, "")
	w.want(`404 {"code":"dsps.storage.subscription-not-found"`, "GET", "/channel/c/subscription/polling/b", "")
	w.want(`400 {"code":"dsps.storage.ack-handle-malformed"`, "DELETE", subA+"/message?ackHandle=x", "")
	w.want(`409 `, "GET", "/channel/s/subscription/polling/a?c="+c.do("SET", "s", "1"), "")
	if got := c.do("CHLIST", "c"); got != `1) "a"` {
		t.Errorf("CHLIST: %s", got)
	}
	if got := c.info("commandstats", "cmdstat_chpublish"); !strings.HasPrefix(got, "calls=2,") {
		t.Errorf("commands that came over HTTP are not counted: %s", got)
	}
}

// A poll that waits is woken by a publish, whoever publishes, and costs no goroutine.
func TestHTTPPollIsWoken(t *testing.T) {
	t.Parallel()
	w := startWeb(t, mem.New())
	c := w.dial()
	w.want("200", "PUT", subA, "")
	for i, publish := range []func(id string){
		func(id string) { c.do("CHPUBLISH", "c", id, "1") },
		func(id string) { w.want("200", "PUT", forget+id, "1") },
		func(id string) { c.do("EVAL", "return redis.call('CHPUBLISH', KEYS[1], ARGV[1], '1')", "1", "c", id) },
	} {
		id := fmt.Sprintf("m%d", i)
		var poll sync.WaitGroup
		poll.Go(func() {
			got, _ := w.ask("GET", subA+"?timeout=20s", "")
			if !strings.Contains(got, `"messageID":"`+id+`"`) {
				t.Errorf("woken with %s, want %s", got, id)
				return
			}
			w.want("204", "DELETE", subA+"/message?ackHandle="+handle(t, got), "")
		})
		until(t, "the poll waits", func() bool { return c.info("clients", "blocked_clients") == "1" })
		publish(id)
		poll.Wait()
	}
	// One whose client leaves is forgotten.
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+subA+"?timeout=20s", nil)
	if err != nil {
		t.Fatal(err)
	}
	var gone sync.WaitGroup
	gone.Go(func() {
		if res, err := w.client.Do(req); err == nil {
			res.Body.Close()
		}
	})
	until(t, "the poll waits", func() bool { return c.info("clients", "blocked_clients") == "1" })
	cancel()
	gone.Wait()
	until(t, "the poll is forgotten", func() bool { return c.info("clients", "blocked_clients") == "0" })
	// One whose time is over has an empty answer, and so has one whose subscriber goes.
	w.want(`200 {"channelID":"c","messages":[],"moreMessages":false}`, "GET", subA+"?timeout=20ms", "")
	gone.Go(func() { w.want("404", "GET", subA+"?timeout=20s", "") })
	until(t, "the poll waits", func() bool { return c.info("clients", "blocked_clients") == "1" })
	c.do("CHUNSUBSCRIBE", "c", "a")
	c.do("DEL", "c")
	gone.Wait()
}

// No answer is given before what it depends on is durable; when the store fails instead,
// the publisher is told so.
func TestHTTPWaitsForDurability(t *testing.T) {
	t.Parallel()
	d := newDisk()
	w := startWeb(t, d)
	var answers []string
	var mu sync.Mutex
	var asked sync.WaitGroup
	w.want("200", "PUT", "/channel/c1/subscription/polling/a", "")
	w.want("200", "PUT", "/channel/c2/subscription/polling/a", "")
	both := func(channel string) {
		before := d.Committed()
		for _, req := range [][2]string{{"PUT", "/channel/" + channel + "/message/m"}, {"GET", "/channel/" + channel + "/subscription/polling/a?timeout=20s"}} {
			asked.Go(func() {
				got, _ := w.ask(req[0], req[1], "1")
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, got)
			})
		}
		until(t, "the message is committed", func() bool { return d.Committed() > before })
		time.Sleep(20 * time.Millisecond) // long enough for an answer that comes too early
		mu.Lock()
		defer mu.Unlock()
		if len(answers) > 0 {
			t.Errorf("answered before it was durable: %s", answers)
		}
	}
	d.hold()
	both("c1")
	d.sync()
	asked.Wait()
	for _, got := range answers {
		if !strings.HasPrefix(got, "200") {
			t.Error(got)
		}
	}
	answers = nil
	both("c2")
	d.fail()
	asked.Wait()
	for _, got := range answers {
		if !strings.HasPrefix(got, "503") || !strings.Contains(got, "MISCONF") {
			t.Error(got)
		}
	}
}

// While the store is opened HTTP says so, and serves when it is open.
func TestHTTPWhileLoading(t *testing.T) {
	t.Parallel()
	f, slow := startSlow(t, false, "--http-addr", "127.0.0.1:0")
	w := webOf(t, f)
	w.want(`500 {"storage":"the store is being opened"}`, "GET", probe, "")
	w.want(`200 `, "GET", "/probe/liveness", "")
	for _, req := range [][2]string{{"PUT", forget + "m"}, {"PUT", subA}, {"GET", subA + "?timeout=5s"}} {
		got, header := w.ask(req[0], req[1], "1")
		if !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "LOADING") || header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: %s", req[0], req[1], got)
		}
	}
	slow.gate <- nil
	until(t, "it is ready", func() bool { got, _ := w.ask("GET", probe, ""); return strings.HasPrefix(got, "200") })
	w.want("200", "PUT", forget+"m", "1")
}

// A full disk is told with a status that clients understand; what is there can be read.
func TestHTTPFullDisk(t *testing.T) {
	t.Parallel()
	eng := &fullEngine{Engine: mem.New()}
	w := startWeb(t, eng)
	w.want("200", "PUT", subA, "")
	w.want("200", "PUT", forget+"m", "1")
	eng.full.Store(true)
	w.want(`503 {"code":"redoubt.unavailable","error":"The database cannot serve this now: MISCONF the log of the server says why"`, "PUT", forget+"m2", "1")
	w.dial().do("CONFIG", "SET", "http-error-detail", "yes")
	w.want(`503 {"code":"redoubt.unavailable","error":"The database cannot serve this now: MISCONF store refuses writes: the disk is full"`, "PUT", forget+"m2", "1")
	w.want(`500 {"storage":"store refuses writes: the disk is full"}`, "GET", probe, "")
	got, _ := w.ask("GET", subA, "")
	w.want("204", "DELETE", subA+"/message?ackHandle="+handle(t, got), "")
	eng.full.Store(false)
	w.want("200", "PUT", forget+"m2", "1")
}

// When the server ends, polls that wait are answered, and messages that were published are
// there afterwards.
func TestHTTPShutdown(t *testing.T) {
	t.Parallel()
	w := startWeb(t, mem.New())
	w.want("200", "PUT", subA, "")
	var polls sync.WaitGroup
	for range 20 {
		polls.Go(func() {
			w.want(`200 {"channelID":"c","messages":[],"moreMessages":false}`, "GET", subA+"?timeout=20s", "")
		})
	}
	c := w.dial()
	until(t, "the polls wait", func() bool { return c.info("clients", "blocked_clients") == "20" })
	began := time.Now()
	w.stop()
	polls.Wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// A publish on one front end wakes a poll on another.
func TestHTTPFrontEnds(t *testing.T) {
	t.Parallel()
	store := sharedmem.New()
	a := startWebWith(t, server.Options{Engine: store.Open(), Beat: 50 * time.Millisecond})
	b := startWebWith(t, server.Options{Engine: store.Open(), Beat: 50 * time.Millisecond})
	until(t, "both are ready", func() bool {
		x, _ := a.ask("GET", probe, "")
		y, _ := b.ask("GET", probe, "")
		return strings.HasPrefix(x, "200") && strings.HasPrefix(y, "200")
	})
	b.want("200", "PUT", subA, "")
	cb, ca := b.dial(), a.dial()
	for i, publish := range []func(id string){
		func(id string) { a.want("200", "PUT", forget+id, "1") },
		func(id string) { ca.do("CHPUBLISH", "c", id, "1") },
	} {
		var poll sync.WaitGroup
		poll.Go(func() {
			got, _ := b.ask("GET", subA+"?timeout=20s", "")
			if !strings.Contains(got, fmt.Sprintf(`"messageID":"m%d"`, i)) {
				t.Errorf("woken with %s", got)
				return
			}
			b.want("204", "DELETE", subA+"/message?ackHandle="+handle(t, got), "")
		})
		until(t, "the poll waits", func() bool { return cb.info("clients", "blocked_clients") == "1" })
		publish(fmt.Sprintf("m%d", i))
		poll.Wait()
	}
}

// The rules of the channels file are in effect for HTTP and for commands, can be changed
// while the server runs, and stay when the new file is wrong.
func TestChannelsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "channels.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("channels:\n  - regex: 'c.*'\n    expire: 90s\n")
	w := startWeb(t, mem.New(), "--channels-file", file)
	c := w.dial()
	expire := func(channel, want string) {
		t.Helper()
		c.do("CHPUBLISH", channel, "m", "1")
		got := c.do("CHINFO", channel)
		if !strings.Contains(got, "15) \"expire\"\n16) (integer) "+want+"\n") {
			t.Errorf("%s: %s, want expire %s", channel, got, want)
		}
	}
	expire("c1", "90000")
	expire("other", "1800000")
	w.want("200", "PUT", subA, "")
	w.want(`400 {"code":"dsps.storage.invalid-channel"`, "PUT", "/channel/other/message/m", "1")
	write("channels:\n  - regex: '.+'\n    expire: 60s\n")
	if got := c.do("CONFIG", "SET", "channels-file", file); got != "OK" {
		t.Fatal(got)
	}
	w.want("200", "PUT", "/channel/other/message/m", "1")
	expire("c2", "60000")
	write("channels:\n  - regex: '['\n    expire: never\n")
	got := c.do("CONFIG", "SET", "channels-file", file)
	if !strings.Contains(got, file+":2:") || !strings.Contains(got, file+":3:") {
		t.Errorf("a wrong file: %s", got)
	}
	expire("c3", "60000")
	if err := w.Reload(); err == nil || !strings.Contains(err.Error(), file+":2:") {
		t.Errorf("a wrong file: %v", err)
	}
	write("channels: []\n")
	if err := w.Reload(); err != nil {
		t.Error(err)
	}
	expire("c4", "1800000")
}

// A server does not start with a channels file that is wrong.
func TestChannelsFileAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "channels.yaml")
	if err := os.WriteFile(file, []byte("channels:\n  - expire: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--dir", t.TempDir(), "--channels-file", file}); err != nil {
		t.Fatal(err)
	}
	_, err := server.New(server.Options{Config: cfg, Engine: mem.New()})
	if err == nil || !strings.Contains(err.Error(), file+":2: regex is missing") {
		t.Errorf("%v", err)
	}
}

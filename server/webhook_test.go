package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/engine/local"
	"redoubt/engine/mem"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
	"redoubt/server"
)

// hookServer is a receiver of webhooks.
type hookServer struct {
	*httptest.Server
	mu     sync.Mutex
	ids    []string
	answer func(id string) int // nil: 200
	gate   chan struct{}       // if set, each request waits for it
}

func receiveHooks(t testing.TB) *hookServer {
	t.Helper()
	h := new(hookServer)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var m struct{ MessageID string }
		if err := json.Unmarshal(text, &m); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		h.mu.Lock()
		h.ids = append(h.ids, m.MessageID)
		answer, gate := h.answer, h.gate
		h.mu.Unlock()
		if gate != nil {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		}
		if answer != nil {
			w.WriteHeader(answer(m.MessageID))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

// hooked writes a channels file with a webhook for the channels c.*.
func hooked(t testing.TB, url, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "channels.yaml")
	text := "channels:\n  - regex: 'c.*'\n    webhooks:\n      - name: test\n        url: " + url + "\n        retry: {count: 2, interval: 10ms, intervalJitter: 1ms}\n" + more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const private = "--webhook-private-addresses"

// A message of a channel with a webhook goes to the receiver, whoever publishes; messages
// that were published before the webhook was configured do not, and those of other databases
// do not either.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	h := receiveHooks(t)
	f := start(t, false, private, "yes", "--metrics-addr", "127.0.0.1:0")
	c := f.dial()
	c.do("CHPUBLISH", "c", "early", "1")
	if got := c.do("CONFIG", "SET", "channels-file", hooked(t, h.URL, "")); got != "OK" {
		t.Fatal(got)
	}
	c.do("SELECT", "1")
	c.do("CHPUBLISH", "c", "elsewhere", "1")
	if got := c.do("CHLIST", "c"); got != "(empty array)" {
		t.Errorf("subscribers in another database: %s", got)
	}
	c.do("SELECT", "0")
	for i := range 10 {
		c.do("CHPUBLISH", "c", fmt.Sprint("m", i), "1")
	}
	until(t, "all are delivered", func() bool { return c.info("channels", "webhooks_delivered") == "10" })
	if got := h.got(); !slices.Equal(got, []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"}) {
		t.Errorf("%v", got)
	}
	text := scrapeURL(t, f.MetricsAddr().String())
	for _, want := range []string{"\nredoubt_webhooks_leader 1\n", "\nredoubt_webhooks_tasks 1\n", `redoubt_webhooks_deliveries_total{outcome="delivered"} 10` + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %q", want)
		}
	}
}

// A receiver on this machine is not reached unless that is allowed: such a message is given up
// at once, and goes to the dead-letter channel.
func TestWebhooksReachNoPrivateAddress(t *testing.T) {
	t.Parallel()
	h := receiveHooks(t)
	f := start(t, false, "--channels-file", hooked(t, h.URL, "        deadLetter: dead\n"))
	c := f.dial()
	c.do("CHPUBLISH", "dead", "first", "1")
	c.do("CHSUBSCRIBE", "dead", "s")
	c.do("CHPUBLISH", "c", "m", `{"n":1}`)
	until(t, "it is given up", func() bool { return c.info("channels", "webhooks_given_up") == "1" })
	if got := c.do("CHFETCH", "dead", "s"); !strings.Contains(got, "webhook-private-addresses") || !strings.Contains(got, `\"messageID\":\"m\"`) {
		t.Errorf("the dead letter: %s", got)
	}
	if got := c.info("channels", "webhooks_dead_lettered"); got != "1" {
		t.Errorf("%s dead letters", got)
	}
	if got := h.got(); len(got) > 0 {
		t.Errorf("the receiver got %v", got)
	}
}

// A receiver that does not answer slows no publisher.
func TestSlowWebhook(t *testing.T) {
	t.Parallel()
	h := receiveHooks(t)
	h.gate = make(chan struct{})
	defer close(h.gate)
	f := start(t, false, private, "yes", "--channels-file", hooked(t, h.URL, ""))
	c := f.dial()
	c.do("CHPUBLISH", "c", "m", "1")
	until(t, "the receiver has it", func() bool { return len(h.got()) == 1 })
	for i := range 200 {
		if got := c.do("CHPUBLISH", "c", fmt.Sprint("m", i), "1"); !strings.HasSuffix(got, "(integer) 1") {
			t.Fatal(got)
		}
	}
	if got := h.got(); len(got) != 1 {
		t.Errorf("the receiver got %v although it has not answered", got)
	}
}

// What a webhook has not taken yet is delivered after a restart.
func TestWebhooksAfterARestart(t *testing.T) {
	t.Parallel()
	h := receiveHooks(t)
	h.gate = make(chan struct{})
	file, dir := hooked(t, h.URL, ""), t.TempDir()
	open := func() *front {
		eng, err := local.Open(local.Options{Dir: dir, Unit: keyspace.Unit, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return startWith(t, server.Options{Engine: eng}, private, "yes", "--channels-file", file)
	}
	f := open()
	c := f.dial()
	for i := range 5 {
		c.do("CHPUBLISH", fmt.Sprint("c", i), "m", "1")
		c.do("CHPUBLISH", fmt.Sprint("other", i), "m", "1")
	}
	until(t, "the receiver has five", func() bool { return len(h.got()) == 5 })
	f.stop()
	close(h.gate)
	h.mu.Lock()
	h.ids, h.gate = nil, nil
	h.mu.Unlock()
	c = open().dial()
	until(t, "all are delivered", func() bool { return c.info("channels", "webhooks_delivered") == "5" })
	if got := h.got(); len(got) != 5 {
		t.Errorf("delivered: %v", got)
	}
}

// Of several front ends one delivers what any of them publishes; when it ends, another one
// goes on.
func TestWebhooksOfFrontEnds(t *testing.T) {
	t.Parallel()
	h := receiveHooks(t)
	file, store := hooked(t, h.URL, ""), sharedmem.New()
	var fronts []*front
	for range 2 {
		f := startWith(t, server.Options{Engine: store.Open(), Beat: 50 * time.Millisecond}, private, "yes", "--channels-file", file)
		<-f.Loaded()
		fronts = append(fronts, f)
	}
	sum := func(list ...*client) string {
		leaders, delivered := "", 0
		for _, c := range list {
			leaders += c.info("channels", "webhooks_leader")
			n := 0
			fmt.Sscan(c.info("channels", "webhooks_delivered"), &n)
			delivered += n
		}
		return fmt.Sprint(leaders, " ", delivered)
	}
	a, b := fronts[0].dial(), fronts[1].dial()
	until(t, "one of them leads", func() bool { s := sum(a, b); return s == "10 0" || s == "01 0" })
	a.do("CHPUBLISH", "c", "m1", "1")
	b.do("CHPUBLISH", "c", "m2", "1")
	a.do("CHPUBLISH", "c2", "m3", "1")
	b.do("CHPUBLISH", "c3", "m4", "1")
	until(t, "all are delivered", func() bool { return strings.HasSuffix(sum(a, b), " 4") })
	leader, other := 0, b
	if a.info("channels", "webhooks_leader") == "0" {
		leader, other = 1, a
	}
	h.mu.Lock()
	h.answer = func(string) int { return 503 }
	h.mu.Unlock()
	other.do("CHPUBLISH", "c", "m5", "1")
	other.do("CHPUBLISH", "c", "m6", "1")
	fronts[leader].stop()
	h.mu.Lock()
	h.answer = nil
	h.mu.Unlock()
	until(t, "the other one delivers the rest", func() bool {
		return slices.Contains(h.got(), "m6") && other.info("channels", "webhooks_leader") == "1"
	})
}

// The figures of INFO and the metrics are those of what was done.
func TestChannelFigures(t *testing.T) {
	t.Parallel()
	w := startWeb(t, mem.New(), "--metrics-addr", "127.0.0.1:0", "--http-access-log", "yes")
	c := w.dial()
	w.want("200", "PUT", subA, "")
	w.want("200", "PUT", forget+"m1", "1")
	w.want("200", "PUT", forget+"m2", "1")
	got, _ := w.ask("GET", subA+"?max=1&timeout=5s", "")
	w.want("204", "DELETE", subA+"/message?ackHandle="+handle(t, got), "")
	w.want("404", "GET", "/channel/c/subscription/polling/none", "")
	until(t, "the backlog is known", func() bool { return c.info("channels", "channels_backlog") == "1" })
	for name, want := range map[string]string{
		"channels_watched": "1", "http_published": "2", "http_delivered": "1", "http_acknowledged": "1", "http_requests": "6", "http_connections": "1",
		"webhooks_leader": "0",
	} {
		if got := c.info("channels", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	text := scrapeURL(t, w.MetricsAddr().String())
	for _, want := range []string{
		"\nredoubt_channels_backlog_messages 1\n", `redoubt_http_requests_total{endpoint="publish",status="200"} 2` + "\n",
		`redoubt_http_requests_total{endpoint="fetch",status="404"} 1` + "\n", "\nredoubt_http_poll_duration_seconds_count 1\n",
		`redoubt_commands_total{command="chpublish"} 2` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %q", want)
		}
	}
	if log := w.log.String(); strings.Count(log, `msg="HTTP request"`) != 6 || !strings.Contains(log, "endpoint=publish channel=c id=m1 addr=127.0.0.1 status=200") {
		t.Errorf("the access log:\n%s", log)
	}
	// A backlog that is read to the end is none.
	got, _ = w.ask("GET", subA, "")
	w.want("204", "DELETE", subA+"/message?ackHandle="+handle(t, got), "")
	until(t, "nothing is watched", func() bool { return c.info("channels", "channels_watched") == "0" })
	if got := c.info("channels", "channels_backlog"); got != "0" {
		t.Errorf("a backlog of %s", got)
	}
}

// A revoked token is refused by every front end, also after a restart: the list is in the
// store.
func TestRevokedTokensAreInTheStore(t *testing.T) {
	t.Parallel()
	store := sharedmem.New()
	var fronts []*web
	for range 2 {
		w := startWebWith(t, server.Options{Engine: store.Open(), Beat: 50 * time.Millisecond}, "--channels-file", guarded(t), "--http-admin-token", "root")
		<-w.Loaded()
		fronts = append(fronts, w)
	}
	a, b := fronts[0], fronts[1]
	exp := time.Now().Add(time.Hour).Unix()
	token := "Authorization: Bearer " + sign(t, "HS256", map[string]any{"iss": "me", "jti": "t1", "exp": exp})
	other := "Authorization: Bearer " + sign(t, "HS256", map[string]any{"iss": "me", "jti": "t2", "exp": exp})
	for _, w := range fronts {
		w.want("200", "PUT", forget+"m", "1", token)
		w.want("403", "PUT", forget+"m", "1")
		w.want("403", "PUT", forget+"m", "1", "Authorization: Bearer "+sign(t, "none", map[string]any{"iss": "me", "exp": exp}))
		w.want("403", "PUT", forget+"m", "1", "Authorization: Bearer "+sign(t, "HS256", map[string]any{"iss": "you", "exp": exp}))
	}
	a.want("403", "PUT", fmt.Sprintf("/admin/jwt/revoke?jti=t1&exp=%d", exp), "")
	a.want("200", "PUT", fmt.Sprintf("/admin/jwt/revoke?jti=t1&exp=%d", exp), "", "Authorization: Bearer root")
	c := startWebWith(t, server.Options{Engine: store.Open(), Beat: 50 * time.Millisecond}, "--channels-file", guarded(t))
	<-c.Loaded()
	for _, w := range []*web{a, b, c} {
		w.want("403", "PUT", forget+"m", "1", token)
		w.want("200", "PUT", forget+"m", "1", other)
	}
	// The level of the log is a directive.
	b.want("204", "PUT", "/admin/log/level?category=*&level=DEBUG", "", "Authorization: Bearer root")
	if got := b.dial().do("CONFIG", "GET", "loglevel"); !strings.Contains(got, "debug") {
		t.Errorf("the level: %s", got)
	}
}

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/gateway/store"
	"redoubt/gateway/storetest"
)

// receiver is an HTTP server that notes what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []body
	heads  []http.Header
	raw    [][]byte
	// answer says what to answer; nil: 200.
	answer func(n int, b body, w http.ResponseWriter, r *http.Request)
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, _ := io.ReadAll(req.Body)
	var b body
	_ = json.Unmarshal(text, &b)
	r.mu.Lock()
	r.bodies, r.heads, r.raw = append(r.bodies, b), append(r.heads, req.Header), append(r.raw, text)
	n := len(r.bodies)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(n, b, w, req)
	}
}

func (r *receiver) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.bodies {
		ids = append(ids, b.MessageID)
	}
	return ids
}

// fixture is a Dispatcher on a store for tests.
type fixture struct {
	t     *testing.T
	store *storetest.Store
	*Dispatcher
	leads   atomic.Bool
	private atomic.Bool
	hook    atomic.Pointer[Hook]
}

func dispatch(t *testing.T, h *Hook, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, store: storetest.New()}
	f.store.Hooks = func(string) []string { return []string{"webhook-x"} }
	f.leads.Store(true)
	f.private.Store(true)
	f.hook.Store(h)
	o := Options{Store: f.store, Log: slog.New(slog.DiscardHandler), Leads: f.leads.Load, AllowPrivate: f.private.Load,
		Hooks:    func(string) ([]*Hook, error) { return []*Hook{f.hook.Load()}, nil },
		Channels: func(context.Context, func(string)) error { return nil },
	}
	if change != nil {
		change(&o)
	}
	f.Dispatcher = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

func (f *fixture) publish(channel, id, content string) {
	f.t.Helper()
	if err := store.Publish(context.Background(), f.store, channel, id, []byte(content)); err != nil {
		f.t.Fatal(err)
	}
	f.Hint(channel)
}

func hookTo(url string) *Hook {
	t := NewTarget()
	t.ID, t.Retry = "webhook-x", Retry{Count: 3, Interval: time.Millisecond, Multiplier: 1.5, Jitter: time.Millisecond}
	return &Hook{Target: t, URL: url}
}

func TestDeliversInOrder(t *testing.T) {
	t.Parallel()
	r := receive(t)
	h := hookTo(r.URL + "/hook")
	h.Headers, h.Secret = map[string]string{"X-Mine": "yes"}, []byte("a secret of some bytes")
	f := dispatch(t, h, nil)
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprintf("m%d", i))
		f.publish("c", want[i], fmt.Sprintf(`{"n":%d}`, i))
	}
	eventually(t, func() bool { return len(r.ids()) == len(want) })
	if got := r.ids(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	b, head := r.bodies[7], r.heads[7]
	if b.Type != "dsps.channel.outgoing-webhook" || b.ChannelID != "c" || string(b.Content) != `{"n":7}` || head.Get("X-Mine") != "yes" || head.Get("Content-Type") != "application/json" {
		t.Errorf("%+v %v", b, head)
	}
	if head.Get(SignatureHeader) != Sign(h.Secret, head.Get(TimestampHeader), r.raw[7]) || head.Get(SignatureHeader) == Sign([]byte("other"), head.Get(TimestampHeader), r.raw[7]) {
		t.Errorf("the signature %q is wrong", head.Get(SignatureHeader))
	}
	f.publish("c", "later", "1") // the task waits in the store by now
	eventually(t, func() bool { return len(r.ids()) == len(want)+1 })
}

func TestRetries(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.answer = func(n int, b body, w http.ResponseWriter, _ *http.Request) {
		if b.MessageID == "a" && n <= 3 {
			w.WriteHeader(404 + 99*n) // 503, 602, 701: none is final
		}
	}
	f := dispatch(t, hookTo(r.URL), nil)
	f.publish("c", "a", "1")
	f.publish("c", "b", "2")
	eventually(t, func() bool { return len(r.ids()) == 5 })
	if got := r.ids(); !slices.Equal(got, []string{"a", "a", "a", "a", "b"}) {
		t.Errorf("%v", got)
	}
	if n := f.Figures.Retried.Load(); n != 3 {
		t.Errorf("%d retries", n)
	}
}

func TestFinalAnswersAndDeadLetters(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.answer = func(_ int, b body, w http.ResponseWriter, _ *http.Request) {
		switch b.MessageID {
		case "final":
			w.WriteHeader(403)
		case "stubborn":
			w.WriteHeader(500)
		}
	}
	h := hookTo(r.URL)
	h.DeadLetter = "dead"
	f := dispatch(t, h, func(o *Options) {
		hooks := o.Hooks
		o.Hooks = func(c string) ([]*Hook, error) {
			if c == "dead" {
				return nil, nil
			}
			return hooks(c)
		}
	})
	f.publish("c", "final", `{"a":1}`)
	f.publish("c", "stubborn", "2")
	f.publish("c", "good", "3")
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 1 })
	if got := r.ids(); !slices.Equal(got, []string{"final", "stubborn", "stubborn", "stubborn", "stubborn", "good"}) {
		t.Errorf("%v", got)
	}
	dead := f.store.Messages("dead")
	if len(dead) != 2 {
		t.Fatalf("dead letters %v", dead)
	}
	var letter deadLetter
	if err := json.Unmarshal([]byte(f.store.Content("dead", dead[0])), &letter); err != nil || letter.Type != deadLetterType || letter.ChannelID != "c" ||
		letter.MessageID != "final" || string(letter.Content) != `{"a":1}` || letter.Webhook != "webhook-x" || letter.Attempts != 1 || letter.Error == "" {
		t.Errorf("%v %+v", err, letter)
	}
}

// A hook that does not answer in time is tried again, and no other channel waits for it.
func TestSlowHookHoldsUpItsChannelOnly(t *testing.T) {
	t.Parallel()
	r := receive(t)
	free := make(chan struct{})
	r.answer = func(_ int, b body, _ http.ResponseWriter, req *http.Request) {
		if b.ChannelID == "slow" {
			select {
			case <-free:
			case <-req.Context().Done():
			}
		}
	}
	h := hookTo(r.URL)
	h.Timeout = 20 * time.Millisecond
	h.Retry.Count = 1000
	f := dispatch(t, h, func(o *Options) { o.Workers = 2 })
	f.publish("slow", "a", "1")
	for i := range 20 {
		f.publish("fast", fmt.Sprint("m", i), "1")
	}
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 20 && f.Figures.Retried.Load() >= 2 })
	close(free)
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 21 })
}

// Who loses the lead delivers nothing more, and who takes it goes on from the place in the
// store.
func TestLead(t *testing.T) {
	t.Parallel()
	r := receive(t)
	f := dispatch(t, hookTo(r.URL), func(o *Options) {
		o.Channels = func(_ context.Context, visit func(string)) error { visit("c"); return nil }
	})
	f.publish("c", "a", "1")
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 1 })
	f.leads.Store(false)
	eventually(t, func() bool { return f.Tasks() == 0 && f.store.Waiting() == 0 })
	f.publish("c", "b", "2")
	eventually(t, func() bool { return f.hints.len() == 0 })
	if got := r.ids(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
	f.leads.Store(true) // by which it looks at all channels
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 2 })
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	r := receive(t)
	f := dispatch(t, hookTo(r.URL), nil)
	var failing atomic.Bool
	failing.Store(true)
	f.store.Fail = func(args []string) error {
		if args[0] == "CHACK" && failing.Swap(false) {
			return store.Error("TRYAGAIN the acknowledgement is lost")
		}
		return nil
	}
	f.publish("c", "a", "1")
	f.publish("c", "b", "2")
	eventually(t, func() bool { ids := r.ids(); return len(ids) > 1 && ids[len(ids)-1] == "b" })
	if got := r.ids(); got[0] != "a" || !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
}

func TestReloadUsesNewHooks(t *testing.T) {
	t.Parallel()
	one, two := receive(t), receive(t)
	f := dispatch(t, hookTo(one.URL), nil)
	f.publish("c", "a", "1")
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 1 })
	f.hook.Store(hookTo(two.URL))
	f.Reload()
	f.publish("c", "b", "1")
	eventually(t, func() bool { return len(two.ids()) == 1 })
	if got := one.ids(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
}

func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "10.1.2.3": true, "172.16.0.1": true, "172.32.0.1": false, "192.168.1.1": true, "169.254.169.254": true,
		"0.0.0.0": true, "0.1.2.3": true, "100.64.0.1": true, "224.0.0.1": true, "255.255.255.255": true, "240.0.0.1": true, "198.18.0.1": true, "8.8.8.8": false,
		"::1": true, "::": true, "fe80::1": true, "fd00::1": true, "ff02::1": true, "fec0::1": true, "2001:4860:4860::8888": false,
		"::ffff:127.0.0.1": true, "::ffff:8.8.8.8": false, "64:ff9b::7f00:1": true, "64:ff9b::808:808": false, "2002:7f00:1::": true, "2002:808:808::": false,
	} {
		if got := Forbidden(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	r := receive(t)
	h := hookTo(r.URL)
	h.DeadLetter = "dead"
	f := dispatch(t, h, func(o *Options) {
		hooks := o.Hooks
		o.Hooks = func(c string) ([]*Hook, error) {
			if c == "dead" {
				return nil, nil
			}
			return hooks(c)
		}
	})
	f.private.Store(false)
	f.publish("c", "a", "1")
	eventually(t, func() bool { return f.Figures.DeadLettered.Load() == 1 })
	if len(r.ids()) != 0 || f.Figures.Retried.Load() != 0 {
		t.Errorf("it was sent: %v, %d retries", r.ids(), f.Figures.Retried.Load())
	}
}

// A redirect may not lead to another host, nor change what is sent.
func TestRedirects(t *testing.T) {
	t.Parallel()
	other := receive(t)
	r := receive(t)
	r.answer = func(_ int, b body, w http.ResponseWriter, req *http.Request) {
		to := map[string]string{"same": "/there", "elsewhere": other.URL, "loop": "/", "changed": "/there"}[b.MessageID]
		status := http.StatusTemporaryRedirect
		if b.MessageID == "changed" {
			status = http.StatusFound
		}
		if req.URL.Path != "/there" {
			http.Redirect(w, req, to, status)
		}
	}
	h := hookTo(r.URL + "/")
	h.Retry.Count, h.MaxRedirects = 0, 2
	f := dispatch(t, h, nil)
	for _, id := range []string{"same", "elsewhere", "loop", "changed"} {
		f.publish("c", id, "1")
	}
	eventually(t, func() bool { return f.Figures.GivenUp.Load() == 3 })
	if len(other.ids()) != 0 || f.Figures.Delivered.Load() != 1 {
		t.Errorf("%v elsewhere, %v here", other.ids(), r.ids())
	}
}

func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var n atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			switch n.Add(1) {
			case 1: // it is closed at once
				c.Close()
			case 2: // an endless header
				go func() {
					defer c.Close()
					for _, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n"); err == nil; _, err = fmt.Fprint(c, "X-More: more\r\n") {
					}
				}()
			case 3: // an endless error
				go func() {
					defer c.Close()
					for _, err := fmt.Fprint(c, "HTTP/1.1 500 No\r\n\r\n"); err == nil; _, err = fmt.Fprint(c, "more") {
					}
				}()
			default:
				_, _ = c.Read(make([]byte, 4096))
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
	}()
	h := hookTo("http://" + ln.Addr().String())
	h.Timeout = 2 * time.Second
	h.Retry.Count = 10
	f := dispatch(t, h, nil)
	f.publish("c", "a", "1")
	eventually(t, func() bool { return f.Figures.Delivered.Load() == 1 })
	if n := f.Figures.Failed.Load(); n != 3 {
		t.Errorf("%d attempts failed", n)
	}
}

func TestFinalStatus(t *testing.T) {
	t.Parallel()
	for status := 300; status < 600; status++ {
		want := status >= 400 && status <= 418 && status != 400 && status != 404 && status != 408 && status != 409 || status == 426 || status == 431 || status == 451 || status == 501
		if final(status) != want {
			t.Errorf("%d: %v", status, !want)
		}
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	r := Retry{Count: 3, Interval: 3 * time.Second, Multiplier: 1.5, Jitter: 1500 * time.Millisecond}
	for n, base := range map[int]time.Duration{1: 3 * time.Second, 2: 4500 * time.Millisecond, 3: 6750 * time.Millisecond} {
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			d := r.pause(n)
			least, most = min(least, d), max(most, d)
		}
		if least < base-r.Jitter || most > base+r.Jitter || most-least < r.Jitter {
			t.Errorf("%d: from %v to %v", n, least, most)
		}
	}
	if d := (&Retry{Interval: time.Hour, Multiplier: 100}).pause(1000); d > maxPause {
		t.Errorf("%v", d)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within ten seconds")
		}
	}
}

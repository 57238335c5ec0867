package gateway

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"redoubt/gateway/store"
)

// event is an event of a stream.
type event struct{ id, data, kind string }

// events opens a stream, and returns a function that reads the next event.
func (f *fixture) events(last string) (next func() (event, error), close func()) {
	f.t.Helper()
	req, err := http.NewRequest("GET", f.url+"/channel/c/subscription/polling/s", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := (&http.Client{Transport: new(http.Transport)}).Do(req)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		f.t.Fatalf("%v %+v", err, res)
	}
	lines := bufio.NewReader(res.Body)
	return func() (e event, err error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return e, err
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch {
			case name == "id":
				e.id = value
			case name == "data":
				e.data = value
			case name == "event":
				e.kind = value
			case name == "" && e != event{}:
				return e, nil
			}
		}
	}, func() { res.Body.Close() }
}

func TestStream(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	next, stop := f.events("")
	eventually(t, func() bool { return f.g.Waiting() == 1 })
	expect := func(n int) (id string) {
		t.Helper()
		e, err := next()
		if want := fmt.Sprintf(`{"messageID":"m%d","content":{"n":%d}}`, n, n); err != nil || e.data != want || e.id == "" {
			t.Fatalf("%v %+v, want %s", err, e, want)
		}
		return e.id
	}
	for i := range 3 {
		f.do("PUT", fmt.Sprintf("/channel/c/message/m%d", i), fmt.Sprintf("{\n \"n\": %d }", i))
		expect(i)
	}
	stop()
	eventually(t, func() bool { return f.g.Waiting() == 0 && f.store.Waiting() == 0 })
	next, stop = f.events("") // nothing was acknowledged; what is there comes together
	for i := range 3 {
		if e, err := next(); err != nil || (e.id != "") != (i == 2) {
			t.Fatalf("%v %+v", err, e)
		}
	}
	stop()
	next, stop = f.events("c.s.2")
	expect(2)
	stop()
	status, body, _ := f.do("GET", "/channel/c/subscription/polling/s", "", "Accept: text/event-stream", "Last-Event-ID: c.other.1")
	if status != 400 || body != `{"code":"dsps.storage.ack-handle-malformed","error":"dsps.storage.ack-handle-malformed"}` {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := f.do("GET", "/channel/c/subscription/polling/none", "", "Accept: text/event-stream"); status != 404 {
		t.Errorf("%d", status)
	}
}

// A stream ends after a number of messages, so that its client acknowledges them.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	const all = streamMessages + 100
	for i := range all {
		f.do("PUT", fmt.Sprintf("/channel/c/message/m%d", i), "1")
	}
	last, got, streams := "", 0, 0
	for got < all {
		next, stop := f.events(last)
		streams++
		for n := 0; got < all; n++ {
			e, err := next()
			if err != nil {
				if n < streamMessages {
					t.Fatalf("a stream ended after %d messages: %v", n, err)
				}
				break
			}
			if !strings.Contains(e.data, fmt.Sprintf(`"m%d"`, got)) {
				t.Fatalf("%d: %+v", got, e)
			}
			if got++; e.id != "" {
				last = e.id
			}
		}
		stop()
	}
	if streams != 2 {
		t.Errorf("%d streams", streams)
	}
}

// A subscriber that is removed ends its stream with an error.
func TestStreamOfARemovedSubscriber(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.do("PUT", "/channel/c/subscription/polling/s", "")
	next, stop := f.events("")
	defer stop()
	eventually(t, func() bool { return f.g.Waiting() == 1 })
	f.do("DELETE", "/channel/c/subscription/polling/s", "")
	if e, err := next(); err != nil || e.kind != "error" || !strings.Contains(e.data, codeNoSubscription) {
		t.Errorf("%v %+v", err, e)
	}
	eventually(t, func() bool { return f.g.Waiting() == 0 })
}

// A browser does not come again after a status that is not 200, so a stream that cannot be
// served now is one that ends at once.
func TestStreamThatMustComeAgain(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) {
		o.Settings.Rate = 2
		o.Settings.Origins = []string{"https://a.example"}
	})
	f.store.Fail = func([]string) error { return store.Error("LOADING the store is being opened") }
	for _, want := range []string{"LOADING", "LOADING", "http-rate-limit"} {
		status, body, res := f.do("GET", "/channel/c/subscription/polling/s", "", "Accept: text/event-stream", "Origin: https://a.example")
		if status != 200 || res.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(body, "retry: 1000\n\nevent: error\ndata: {") || !strings.Contains(body, want) {
			t.Errorf("%d %s %v, want %s", status, body, res.Header, want)
		}
		if res.Header.Get("Access-Control-Allow-Origin") != "https://a.example" {
			t.Errorf("a page cannot read it: %v", res.Header)
		}
	}
	if got := f.g.Figures.Limited.Load(); got != 1 {
		t.Errorf("%d requests were limited", got)
	}
}

// A stream in which nothing happens does not outlive the token that opened it by much.
func TestStreamAge(t *testing.T) {
	t.Parallel()
	g := start(t, nil).g
	for age, want := range map[time.Duration]bool{streamPing: false, streamAge + time.Second: true} {
		s := &stream{began: time.Now().Add(-age)}
		if out, last := s.events(g, store.Batch{}, nil); last != want || string(out) != ":\n\n" {
			t.Errorf("after %s: %q, the last %v", age, out, last)
		}
	}
}

package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"redoubt/internal/testtikv"
)

// receiver is an HTTP server that webhooks send to.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []string // ids of messages, in the order in which they came
	hold string   // the request with this message is not answered
	held chan struct{}
	done chan struct{} // closed: hold is over
}

func newReceiver(t *testing.T, hold string) *receiver {
	r := &receiver{hold: hold, held: make(chan struct{}), done: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var m struct{ MessageID string }
		if err := json.NewDecoder(req.Body).Decode(&m); err != nil {
			t.Errorf("the body of a webhook: %v", err)
		}
		r.mu.Lock()
		r.got = append(r.got, m.MessageID)
		holds := m.MessageID == r.hold && !slices.Contains(r.got[:len(r.got)-1], r.hold)
		r.mu.Unlock()
		if holds {
			close(r.held)
			<-r.done
		}
	}))
	t.Cleanup(func() {
		r.free()
		r.Close()
	})
	return r
}

// free ends the hold.
func (r *receiver) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
	default:
		close(r.done)
	}
}

func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// A webhook of a channel is delivered once and in order by one of two front ends, whichever
// messages are published at. When that one is killed between a delivery and its answer, the
// other goes on where it was: that one message comes again, and nothing else.
func TestWebhooksThroughAKill(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, args ...string) *stage{
		"memory": func(t *testing.T, args ...string) *stage { return onMemory(t, 2, steady, args...) },
		"tikv":   func(t *testing.T, args ...string) *stage { return onTiKV(t, 2, testtikv.Shared(t), args...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testWebhooks(t, open)
		})
	}
}

func testWebhooks(t *testing.T, open func(t *testing.T, args ...string) *stage) {
	const n = 20 // messages before the one that is held, and behind it
	hook := newReceiver(t, fmt.Sprintf("m-%d", n))
	rules := filepath.Join(t.TempDir(), "channels.yaml")
	text := "channels:\n  - regex: 'news'\n    webhooks:\n      - url: " + hook.URL + "\n        timeout: 5m\n"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, "--channels-file", rules, "--webhook-private-addresses", "yes")
	at := []*client{s.dial(0), s.dial(1)}
	var want []string
	publish := func(c *client, count int) {
		for range count {
			id := fmt.Sprintf("m-%d", len(want))
			c.do("CHPUBLISH", "news", id, "1")
			want = append(want, id)
		}
	}
	had := func() bool { return len(hook.all()) >= len(want) }
	for range n / 2 {
		publish(at[0], 1)
		publish(at[1], 1)
	}
	s.until("all of the beginning is delivered", had)
	leader := -1
	s.until("one front end leads", func() bool {
		leads := []string{field(at[0], "INFO", "webhooks_leader"), field(at[1], "INFO", "webhooks_leader")}
		leader = slices.Index(leads, "1")
		return leader >= 0 && leads[1-leader] == "0"
	})
	publish(at[leader], 1)
	<-hook.held
	other := at[1-leader]
	publish(other, n)
	s.Kill(leader)
	hook.free()
	// What was held comes again, since its answer came to nobody.
	want = slices.Insert(want, n, want[n])
	s.until("the other front end goes on", had)
	publish(other, n)
	s.until("what was published behind the kill is delivered", had)
	if got := hook.all(); !slices.Equal(got, want) {
		t.Errorf("delivered\n%s\nwant\n%s", strings.Join(got, " "), strings.Join(want, " "))
	}
	// All of it is acknowledged, so nobody has it again.
	s.until("the webhook has read all", func() bool { return strings.Contains(other.do("CHINFO", "news", "FULL"), "backlog 0 ") })
}

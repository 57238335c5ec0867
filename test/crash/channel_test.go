package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Channels, over RESP and over HTTP, through kills.
//
// Publishers retry what was not answered under the same id. What was acknowledged to one is
// there after the kill, once, in the order in which it was published, and in the same place
// as before. A subscriber that acknowledges what it was given is never given that again. In
// the end the webhook of the channels has had every message, none before those ahead of it.

const (
	publishers = 6
	takers     = 2 // one for each channel
)

// chPublisher publishes to one channel, by RESP or by HTTP.
type chPublisher struct {
	id       int
	channel  string
	overHTTP bool
	serial   int
	acked    []string
	inflight string // was sent and not answered
}

// chTaker fetches and acknowledges over HTTP.
type chTaker struct {
	channel string
	acked   map[string]bool
}

type chRound struct {
	addr, url string
	client    *http.Client
}

func (r *chRound) ask(method, path, body string) (status int, text []byte, err error) {
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	res, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	return res.StatusCode, text, err
}

func chContent(id string) string {
	return `{"id":"` + id + `","more":"` + strings.Repeat("x", len(id)*7) + `"}`
}

// run publishes until the server is gone.
func (p *chPublisher) run(r *chRound) error {
	conn, err := respclient.Dial(r.addr)
	if err != nil {
		return nil // it is gone already
	}
	defer conn.Close()
	for {
		if p.inflight == "" {
			p.serial++
			p.inflight = fmt.Sprintf("m%d-%d", p.id, p.serial)
		}
		if p.overHTTP {
			status, text, err := r.ask("PUT", "/channel/"+p.channel+"/message/"+p.inflight, chContent(p.inflight))
			if err != nil {
				return nil
			}
			if status != http.StatusOK {
				return fmt.Errorf("%w: publish %s: %d %s", errWrongReply, p.inflight, status, text)
			}
		} else {
			v, err := conn.Do("CHPUBLISH", p.channel, p.inflight, chContent(p.inflight))
			if err != nil {
				return nil
			}
			if v.IsError() {
				return fmt.Errorf("%w: publish %s: %s", errWrongReply, p.inflight, v)
			}
		}
		p.acked = append(p.acked, p.inflight)
		p.inflight = ""
	}
}

type chFetched struct {
	AckHandle string
	Messages  []struct {
		MessageID string
		Content   json.RawMessage
	}
}

// run fetches and acknowledges until the server is gone.
func (k *chTaker) run(r *chRound, rng *rand.Rand) error {
	for {
		path := "/channel/" + k.channel + "/subscription/polling/taker"
		status, text, err := r.ask("GET", fmt.Sprintf("%s?timeout=1s&max=%d", path, 1+rng.IntN(20)), "")
		if err != nil {
			return nil
		}
		var got chFetched
		if err := json.Unmarshal(text, &got); err != nil || status != http.StatusOK {
			return fmt.Errorf("%w: fetch: %d %s", errWrongReply, status, text)
		}
		for _, m := range got.Messages {
			if k.acked[m.MessageID] {
				return fmt.Errorf("%w: %s was acknowledged and comes again", errWrongReply, m.MessageID)
			}
		}
		if got.AckHandle == "" || rng.IntN(4) == 0 {
			continue
		}
		status, text, err = r.ask("DELETE", path+"/message?ackHandle="+got.AckHandle, "")
		if err != nil {
			return nil
		}
		if status != http.StatusNoContent {
			return fmt.Errorf("%w: acknowledge: %d %s", errWrongReply, status, text)
		}
		for _, m := range got.Messages {
			k.acked[m.MessageID] = true
		}
	}
}

// chReceiver is an HTTP server that a webhook sends to.
type chReceiver struct {
	*httptest.Server
	mu   sync.Mutex
	list map[string][]string // what came first, by channel
	had  map[string]bool     // by channel and id
}

func newReceiver(t *testing.T) *chReceiver {
	h := &chReceiver{list: make(map[string][]string), had: make(map[string]bool)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ ChannelID, MessageID string }
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			return // the server was killed while it sent
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if key := m.ChannelID + " " + m.MessageID; !h.had[key] {
			h.had[key] = true
			h.list[m.ChannelID] = append(h.list[m.ChannelID], m.MessageID)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *chReceiver) got(channel string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list[channel])
}

// rules writes a channels file with a webhook that sends to the receiver.
func (h *chReceiver) rules(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "channels.yaml")
	text := "channels:\n  - regex: '.+'\n    webhooks:\n      - url: " + h.URL + "\n        retry: {count: 100, interval: 10ms}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// all are the messages of a channel in their order, as the subscriber all sees them, which
// never acknowledges.
func allMessages(conn *respclient.Client, channel string) (ids []string, err error) {
	args := []string{"CHFETCH", channel, "all", "COUNT", "100000"}
	for {
		v, err := conn.Do(args...)
		if err != nil {
			return nil, err
		}
		if v.IsError() || len(v.Elems) != 3 {
			return nil, errors.New(v.String())
		}
		for _, m := range v.Elems[0].Elems {
			id := m.Elems[1].Str
			if got := m.Elems[2].Str; got != chContent(id) {
				return nil, fmt.Errorf("message %s has the content %s", id, got)
			}
			ids = append(ids, id)
		}
		if v.Elems[1].Int() == 0 {
			return ids, nil
		}
		args = append(args[:5:5], "AFTER", v.Elems[2].Str)
	}
}

var httpPort = regexp.MustCompile(`listener3:name=http,bind=127\.0\.0\.1,port=(\d+)`)

func TestChannelsSurviveKills(t *testing.T) {
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, fsync)
			rng := rand.New(rand.NewPCG(*seed, 4711))
			var pubs []*chPublisher
			for i := range publishers {
				pubs = append(pubs, &chPublisher{id: i, channel: fmt.Sprint("c", i%takers), overHTTP: i >= publishers/2})
			}
			var takes []*chTaker
			for i := range takers {
				takes = append(takes, &chTaker{channel: fmt.Sprint("c", i), acked: make(map[string]bool)})
			}
			before := make(map[string][]string)
			hook := newReceiver(t)
			rules := hook.rules(t)
			for round := range *rounds + 1 {
				p := testserver.StartProcess(t, program, c.dir, append(c.args(), "--http-addr", "127.0.0.1:0", "--channels-file", rules, "--webhook-private-addresses", "yes")...)
				conn, err := respclient.Dial(p.Addr)
				if err != nil {
					t.Fatal(err)
				}
				v, err := conn.Do("INFO", "server")
				if err != nil {
					t.Fatal(err)
				}
				port := httpPort.FindStringSubmatch(v.Str)
				if port == nil {
					t.Fatalf("HTTP is not served:\n%s", v.Str)
				}
				for _, k := range takes {
					if round == 0 {
						for _, s := range []string{"all", "taker"} {
							if v, err := conn.Do("CHSUBSCRIBE", k.channel, s); err != nil || v.IsError() {
								t.Fatal(v, err)
							}
						}
					}
					list, err := allMessages(conn, k.channel)
					if err != nil {
						t.Fatal(err)
					}
					checkChannel(t, k, pubs, before[k.channel], list)
					before[k.channel] = list
				}
				conn.Close()
				if round == *rounds {
					for _, k := range takes {
						for begin := time.Now(); len(hook.got(k.channel)) < len(before[k.channel]) && time.Since(begin) < time.Minute; {
							time.Sleep(10 * time.Millisecond)
						}
						if got := hook.got(k.channel); !slices.Equal(got, before[k.channel]) {
							t.Errorf("%s: the webhook had %d messages, or in another order than the %d of the channel", k.channel, len(got), len(before[k.channel]))
						}
					}
					code, err := p.Terminate(20 * time.Second)
					if err != nil || code != 0 {
						t.Errorf("the end: %d, %v", code, err)
					}
					break
				}
				transport := &http.Transport{MaxIdleConnsPerHost: publishers}
				r := &chRound{addr: p.Addr, url: "http://127.0.0.1:" + port[1], client: &http.Client{Transport: transport}}
				var all sync.WaitGroup
				for _, pub := range pubs {
					all.Go(func() {
						if err := pub.run(r); err != nil {
							t.Error(err)
						}
					})
				}
				for i, k := range takes {
					own := rand.New(rand.NewPCG(*seed, uint64(round*10+i)))
					all.Go(func() {
						if err := k.run(r, own); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(time.Duration(200+rng.IntN(800)) * time.Millisecond)
				p.Kill()
				all.Wait()
				transport.CloseIdleConnections()
				c.inspect(t)
			}
			sum := 0
			for _, pub := range pubs {
				sum += len(pub.acked)
			}
			t.Logf("%d messages were acknowledged to their publishers", sum)
			if sum == 0 {
				t.Error("nothing was published")
			}
		})
	}
}

// checkChannel holds the messages of a channel against what its clients know, and against
// what was there before the last kill.
func checkChannel(t *testing.T, k *chTaker, pubs []*chPublisher, before, list []string) {
	t.Helper()
	at := make(map[string]int)
	for i, id := range list {
		if _, twice := at[id]; twice {
			t.Errorf("%s: %s is there twice", k.channel, id)
		}
		at[id] = i
	}
	if len(list) < len(before) || !slices.Equal(list[:len(before)], before) {
		t.Errorf("%s: what was there before is not the beginning of what is there now", k.channel)
	}
	for _, pub := range pubs {
		if pub.channel != k.channel {
			continue
		}
		last := -1
		for _, id := range pub.acked {
			i, there := at[id]
			if !there {
				t.Errorf("%s: %s was acknowledged to its publisher and is lost", k.channel, id)
			} else if i <= last {
				t.Errorf("%s: %s is not in the order in which it was published", k.channel, id)
			}
			last = max(last, i)
		}
	}
	for id := range k.acked {
		if _, there := at[id]; !there {
			t.Errorf("%s: %s was acknowledged by a subscriber, and no message", k.channel, id)
		}
	}
}

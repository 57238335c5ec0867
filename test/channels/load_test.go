package channels

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// load is how much the tests of load do: every subscriber subscribes to every channel.
type load struct {
	subscribers, channels, messages int
	patience                        time.Duration
}

func size() load {
	if *full {
		return load{1000, 100, 10, 10 * time.Minute}
	}
	return load{40, 10, 20, time.Minute}
}

// reader reads as a subscriber: the messages behind those that it has acknowledged, waiting
// for some time if there are none, and acknowledges.
type reader interface {
	read(channel, subscriber string) (ids []string, handle string, err error)
	acknowledge(channel, subscriber, handle string) error
}

// Every subscriber gets every message of every channel at least once and in order, while
// they are published, also those that it has fetched and not acknowledged.
func TestLoadOverRESP(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	testLoad(t, p, func() reader { return respReader{dial(t, p)} })
}

func TestLoadOverHTTP(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	transport := &http.Transport{MaxIdleConnsPerHost: size().subscribers, MaxConnsPerHost: size().subscribers}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	testLoad(t, p, func() reader { return httpReader{client, "http://" + p.HTTP} })
}

func testLoad(t *testing.T, p *testserver.Process, connect func() reader) {
	n, seed := size(), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	subscribeAll(t, p, n)
	began := time.Now()
	var fetches, delivered, again atomic.Int64
	var all sync.WaitGroup
	for i := range n.subscribers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			r, name := connect(), fmt.Sprintf("s-%d", i)
			for k := range n.channels {
				channel := fmt.Sprintf("c-%d", (i+k)%n.channels) // so that some wait at each channel
				for next := 0; next < n.messages; {
					if time.Since(began) > n.patience {
						t.Errorf("%s has %d of %d messages of %s after %s", name, next, n.messages, channel, n.patience)
						return
					}
					ids, handle, err := r.read(channel, name)
					if err != nil {
						t.Errorf("%s reads %s: %v", name, channel, err)
						return
					}
					fetches.Add(1)
					for j, id := range ids {
						if want := fmt.Sprintf("m-%d", next+j); id != want {
							t.Errorf("%s in %s: got %s, want %s", name, channel, id, want)
							return
						}
					}
					delivered.Add(int64(len(ids)))
					if len(ids) == 0 {
						continue
					}
					if rng.IntN(10) == 0 { // as one that crashed: all of them come again
						again.Add(int64(len(ids)))
						continue
					}
					if err := r.acknowledge(channel, name, handle); err != nil {
						t.Errorf("%s acknowledges in %s: %v", name, channel, err)
						return
					}
					next += len(ids)
				}
			}
		})
	}
	publishAll(t, p, n)
	all.Wait()
	if want := int64(n.subscribers * n.channels * n.messages); delivered.Load()-again.Load() != want {
		t.Errorf("%d messages were acknowledged, want %d", delivered.Load()-again.Load(), want)
	}
	t.Logf("%d subscribers at each of %d channels: %d messages in %d fetches, %d of them again, in %s",
		n.subscribers, n.channels, delivered.Load(), fetches.Load(), again.Load(), time.Since(began).Round(time.Millisecond))
}

func subscribeAll(t *testing.T, p *testserver.Process, n load) {
	t.Helper()
	c := dial(t, p)
	for k := range n.channels {
		var b []byte
		for i := range n.subscribers {
			b = respclient.AppendCommand(b, "CHSUBSCRIBE", fmt.Sprintf("c-%d", k), fmt.Sprintf("s-%d", i))
		}
		if err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		for range n.subscribers {
			if v, err := c.Read(); err != nil || v.IsError() {
				t.Fatalf("subscribe: %v %v", v, err)
			}
		}
	}
}

// publishAll publishes in all channels in turns, each message twice.
func publishAll(t *testing.T, p *testserver.Process, n load) {
	c := dial(t, p)
	for m := range n.messages {
		for k := range n.channels {
			for again := range 2 {
				v, err := c.Do("CHPUBLISH", fmt.Sprintf("c-%d", k), fmt.Sprintf("m-%d", m), strconv.Itoa(m))
				if err != nil || v.IsError() || len(v.Elems) != 2 || v.Elems[1].Int() != int64(1-again) {
					t.Errorf("publish: %v %v", v, err)
					return
				}
			}
		}
	}
}

// dial connects for a test.
func dial(t *testing.T, p *testserver.Process) *respclient.Client {
	t.Helper()
	c, err := respclient.Dial(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = 2 * time.Minute
	t.Cleanup(func() { c.Close() })
	return c
}

type respReader struct{ c *respclient.Client }

func (r respReader) read(channel, subscriber string) (ids []string, handle string, err error) {
	v, err := r.c.Do("CHREAD", channel, subscriber, "BLOCK", "5000")
	switch {
	case err != nil:
		return nil, "", err
	case v.IsError():
		return nil, "", fmt.Errorf("%s", v.Str)
	case len(v.Elems) != 3: // the time is over
		return nil, "", nil
	}
	for _, m := range v.Elems[0].Elems {
		ids = append(ids, m.Elems[1].Str)
	}
	return ids, v.Elems[2].Str, nil
}

func (r respReader) acknowledge(channel, subscriber, handle string) error {
	v, err := r.c.Do("CHACK", channel, subscriber, handle)
	if err == nil && v.Int() != 1 {
		err = fmt.Errorf("the reply is %v", v)
	}
	return err
}

type httpReader struct {
	c   *http.Client
	url string
}

func (r httpReader) ask(method, path string) (status int, body []byte, err error) {
	req, err := http.NewRequest(method, r.url+path, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := r.c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

func (r httpReader) read(channel, subscriber string) (ids []string, handle string, err error) {
	status, body, err := r.ask("GET", "/channel/"+channel+"/subscription/polling/"+subscriber+"?timeout=5s")
	if err != nil {
		return nil, "", err
	}
	var answer struct {
		AckHandle string
		Messages  []struct{ MessageID string }
	}
	if err := json.Unmarshal(body, &answer); err != nil || status != 200 {
		return nil, "", fmt.Errorf("%d %s: %w", status, strings.TrimSpace(string(body)), err)
	}
	for _, m := range answer.Messages {
		ids = append(ids, m.MessageID)
	}
	return ids, answer.AckHandle, nil
}

func (r httpReader) acknowledge(channel, subscriber, handle string) error {
	status, body, err := r.ask("DELETE", "/channel/"+channel+"/subscription/polling/"+subscriber+"/message?ackHandle="+handle)
	if err == nil && status != 204 {
		err = fmt.Errorf("%d %s", status, body)
	}
	return err
}

package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/bus"
	"redoubt/engine"
	"redoubt/internal/sharedmem"
	"redoubt/internal/testcert"
	"redoubt/server"
	"redoubt/server/peers"
)

// Front ends that tell each other what happens. Where a test needs no common data each
// has a store of its own: what is told does not depend on it.

// others is a list of front ends that a test changes.
type others struct {
	mu   sync.Mutex
	list []bus.Peer
	call []func()
}

func (o *others) Peers() []bus.Peer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.list)
}

func (o *others) OnChange(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.call = append(o.call, f)
}

func (o *others) Came(string)    {}
func (o *others) Reached(string) {}
func (o *others) Refused(string) {}

func (o *others) set(list ...bus.Peer) {
	o.mu.Lock()
	o.list = list
	calls := slices.Clone(o.call)
	o.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// join connects front ends with each other. Nothing is looked at unless somebody has
// told of it. It returns where the hub of each is, and whom each follows.
func join(t *testing.T, fronts ...*front) (where []bus.Peer, whom []*others) {
	t.Helper()
	var listeners []net.Listener
	for i := range fronts {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, ln)
		where = append(where, bus.Peer{ID: fmt.Sprintf("%040x", i+1), Addr: ln.Addr().String()})
	}
	for _, f := range fronts {
		<-f.Loaded()
	}
	for _, f := range fronts {
		f.StopPeers() // a shared store has made it follow others already
	}
	for i, f := range fronts {
		o := new(others)
		for j, p := range where {
			if i != j {
				o.list = append(o.list, p)
			}
		}
		whom = append(whom, o)
		err := f.StartPeers(peers.Options{Self: where[i].ID, Secret: [32]byte{7}, Source: o, Listener: listeners[i], CheckEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, f := range fronts {
		if err := f.PeersReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return where, whom
}

// two are two front ends, each with a store of its own.
func two(t *testing.T, pipes bool, args ...string) (a, b *front) {
	t.Helper()
	a, b = start(t, pipes, args...), start(t, pipes, args...)
	join(t, a, b)
	return a, b
}

// Who has the reply of SUBSCRIBE hears what is published from then on, anywhere.
func TestMessagesOfOtherFrontEnds(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		for range 5 { // each has its own first subscriber
			a, b := two(t, pipes)
			sender, c := a.dial(), b.dial()
			c.do("SUBSCRIBE", "ch")
			if got := sender.do("PUBLISH", "ch", "one"); got != "(integer) 0" { // those here, as in a cluster
				t.Errorf("PUBLISH says %s", got)
			}
			c.want("1) \"message\"\n2) \"ch\"\n3) \"one\"")
			shard := b.dial()
			shard.do("SSUBSCRIBE", "ch")
			sender.do("SPUBLISH", "ch", "two")
			shard.want("1) \"smessage\"\n2) \"ch\"\n3) \"two\"")
			pattern := b.dial()
			pattern.do("PSUBSCRIBE", "c*")
			sender.raw(frame("MULTI") + frame("PUBLISH", "ch", "three") + frame("SPUBLISH", "ch", "four") + frame("EXEC"))
			c.want("1) \"message\"\n2) \"ch\"\n3) \"three\"")
			pattern.want("1) \"pmessage\"\n2) \"c*\"\n3) \"ch\"\n4) \"three\"")
			shard.want("1) \"smessage\"\n2) \"ch\"\n3) \"four\"")
			// The other way, and not back again.
			b.dial().do("PUBLISH", "ch", "five")
			c.want("1) \"message\"\n2) \"ch\"\n3) \"five\"")
			sender.raw(strings.Repeat(frame("PUBLISH", "ch", "x"), 100) + frame("PUBLISH", "ch", "end"))
			for range 100 {
				c.want("1) \"message\"\n2) \"ch\"\n3) \"x\"")
			}
			c.want("1) \"message\"\n2) \"ch\"\n3) \"end\"")
			if !c.silent() {
				t.Errorf("and %s", c.read())
			}
		}
	})
}

// Events are told to those front ends that want their class, and go to nobody else.
func TestEventsOfOtherFrontEnds(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		a, b := two(t, pipes)
		writer, deaf, c := a.dial(), a.dial(), b.dial()
		b.dial().do("CONFIG", "SET", "notify-keyspace-events", "KE$")
		deaf.do("PSUBSCRIBE", "__key*")
		c.do("PSUBSCRIBE", "__key*")
		writer.do("SET", "k", "v")
		writer.do("DEL", "k")
		writer.do("LPUSH", "l", "v")
		writer.do("SET", "k2", "v")
		for _, k := range []string{"k", "k2"} {
			c.want("1) \"pmessage\"\n2) \"__key*\"\n3) \"__keyspace@0__:"+k+"\"\n4) \"set\"",
				"1) \"pmessage\"\n2) \"__key*\"\n3) \"__keyevent@0__:set\"\n4) \""+k+"\"")
		}
		// Another class, asked for while somebody listens.
		b.dial().do("CONFIG", "SET", "notify-keyspace-events", "Kg")
		until(t, "it is known", func() bool {
			writer.do("SET", "k", "v")
			writer.do("DEL", "k")
			return !c.silent()
		})
		c.want("1) \"pmessage\"\n2) \"__key*\"\n3) \"__keyspace@0__:k\"\n4) \"del\"")
		if !deaf.silent() {
			t.Errorf("a client heard of what its server does not tell: %s", deaf.read())
		}
	})
}

// Clients that track keys are told what other front ends have changed.
func TestTrackingAcrossFrontEnds(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		a, b := two(t, pipes)
		writer, c, all := a.dial(), b.dial(), b.dial()
		for _, c := range []*client{c, all} {
			c.do("HELLO", "3")
		}
		if writer.id() != "1" || c.do("CLIENT", "TRACKING", "ON", "NOLOOP") != "OK" {
			t.Error("no tracking") // NOLOOP is about clients of the same front end, though numbers may be equal
		}
		if got := all.do("CLIENT", "TRACKING", ""); got != "(error) ERR syntax error" {
			t.Error(got)
		}
		if got := all.do("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k"); got != "OK" {
			t.Error(got)
		}
		c.do("GET", "k")
		writer.do("SET", "k", "v")
		c.want("1> \"invalidate\"\n2> 1) \"k\"")
		all.want("1> \"invalidate\"\n2> 1) \"k\"")
		writer.do("SET", "k", "w") // was not read since
		all.want("1> \"invalidate\"\n2> 1) \"k\"")
		writer.do("SET", "other", "w")
		c.do("GET", "k")
		writer.do("FLUSHALL")
		// A new one may count as changes of all keys, too.
		c.want("1> \"invalidate\"\n2> (nil)")
		all.want("1> \"invalidate\"\n2> (nil)")
		if !c.silent() || !all.silent() {
			t.Error("they hear more than they should")
		}
	})
}

// When another front end may have changed keys without saying so, clients drop all.
func TestTrackingAfterALostConnection(t *testing.T) {
	t.Parallel()
	a, b := start(t, false), start(t, false)
	where, whom := join(t, a, b)
	c := b.dial()
	c.do("HELLO", "3")
	c.do("CLIENT", "TRACKING", "ON")
	c.do("GET", "k")
	a.StopPeers()
	c.want("1> \"invalidate\"\n2> (nil)")
	// It comes back, at another place.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &others{list: where[1:]}
	if err := a.StartPeers(peers.Options{Self: where[0].ID, Secret: [32]byte{7}, Source: o, Listener: ln}); err != nil {
		t.Fatal(err)
	}
	whom[1].set(bus.Peer{ID: where[0].ID, Addr: ln.Addr().String()})
	c.want("1> \"invalidate\"\n2> (nil)")
	c.do("GET", "k")
	a.dial().do("SET", "k", "v")
	c.want("1> \"invalidate\"\n2> 1) \"k\"")
	if got := b.dial().info("redoubt", "bus_connections_lost"); got != "1" {
		t.Errorf("%s connections were lost", got)
	}
	// And leaves for good.
	whom[1].set()
	c.want("1> \"invalidate\"\n2> (nil)")
}

// shared are front ends of one store.
func shared(t *testing.T, n int, pipes bool, args ...string) (list []*front) {
	t.Helper()
	store := sharedmem.New()
	for range n {
		list = append(list, startWith(t, server.Options{Engine: store.Open(), Pipes: pipes, Beat: 50 * time.Millisecond}, args...))
	}
	join(t, list...)
	return list
}

// A push on one front end wakes who waits on another, without anybody looking.
func TestWaitingAcrossFrontEnds(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		fronts := shared(t, 3, pipes)
		a, b, c := fronts[0].dial(), fronts[1].dial(), fronts[2].dial()
		for i := range 30 {
			text := strconv.Itoa(i)
			b.send("BLPOP", "other", "list", "0")
			if i%2 == 0 {
				waits(t, fronts[1], 1)
			}
			a.do("RPUSH", "list", text)
			b.want("1) \"list\"\n2) \"" + text + "\"")
		}
		// A chain over three front ends, and back.
		b.send("BLMOVE", "one", "two", "LEFT", "RIGHT", "0")
		c.send("BLPOP", "two", "0")
		waits(t, fronts[1], 1)
		waits(t, fronts[2], 1)
		if got := a.info("clients", "blocked_clients"); got != "0" {
			t.Errorf("%s clients wait where none does", got)
		}
		a.do("LPUSH", "one", "x")
		b.want("\"x\"")
		c.want("1) \"two\"\n2) \"x\"")
		for _, f := range []string{"one", "two", "list"} {
			if got := a.do("EXISTS", f); got != "(integer) 0" {
				t.Errorf("%s is left", f)
			}
		}
		b.send("BZPOPMIN", "z", "0")
		waits(t, fronts[1], 1)
		a.raw(frame("MULTI") + frame("ZADD", "z", "1", "m") + frame("EXEC"))
		a.want("OK", "QUEUED", "1) (integer) 1")
		b.want("1) \"z\"\n2) \"m\"\n3) \"1\"")
		b.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
		waits(t, fronts[1], 1)
		a.do("XADD", "s", "1-1", "f", "v")
		b.want("1) 1) \"s\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"f\"\n            2) \"v\"")
		b.send("BLPOP", "renamed", "0")
		waits(t, fronts[1], 1)
		c.do("RPUSH", "list", "y")
		c.do("RENAME", "list", "renamed")
		b.want("1) \"renamed\"\n2) \"y\"")
	})
}

func waits(t *testing.T, f *front, n int) {
	t.Helper()
	c := f.dial()
	defer c.Close()
	until(t, "a client waits", func() bool { return c.info("clients", "blocked_clients") == strconv.Itoa(n) })
}

// Each element goes to one of those who wait, wherever they are, and none is left.
func TestManyWaitAcrossFrontEnds(t *testing.T) {
	t.Parallel()
	fronts := shared(t, 3, false)
	const each, keys = 40, 5
	got := make(chan string, 3*each)
	var work sync.WaitGroup
	for i, f := range fronts {
		for j := range 4 {
			c := f.dial()
			work.Go(func() {
				for n := range each / 4 {
					args := []string{"BLPOP", "k" + strconv.Itoa((i+j+n)%keys), "all", "30"}
					v, err := c.Do(args...)
					if err != nil || len(v.Elems) != 2 {
						t.Errorf("%v: %s, %v", args, v, err)
						return
					}
					got <- v.Elems[1].Str
				}
			})
		}
	}
	for i, f := range fronts {
		c := f.dial()
		work.Go(func() {
			for n := range each {
				if _, err := c.Do("RPUSH", "all", fmt.Sprint(i, ".", n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(got)
	seen := map[string]bool{}
	for s := range got {
		if seen[s] {
			t.Errorf("%s came twice", s)
		}
		seen[s] = true
	}
	if len(seen) != 3*each {
		t.Errorf("%d elements came", len(seen))
	}
}

// What no client wants any more is not told any more, after a while.
func TestInterestFollowsClients(t *testing.T) {
	t.Parallel()
	a, b := start(t, false, "--metrics-addr", "127.0.0.1:0"), start(t, false)
	where, _ := join(t, a)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	err = b.StartPeers(peers.Options{
		Self: fmt.Sprintf("%040x", 9), Secret: [32]byte{7}, Source: &others{list: where}, Listener: ln, CheckEvery: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	admin, c := a.dial(), b.dial()
	wanted := func(what string) {
		t.Helper()
		until(t, "the other one wants "+what, func() bool { return admin.info("redoubt", "bus_wanted_by_others") == what })
	}
	until(t, "it is followed", func() bool { return admin.info("redoubt", "cluster_followers") == "1" })
	wanted("")
	c.do("HELLO", "3")
	c.do("SUBSCRIBE", "ch")
	wanted("messages")
	b.dial().do("CONFIG", "SET", "notify-keyspace-events", "KA")
	wanted("messages,events")
	c.do("CLIENT", "TRACKING", "ON")
	wanted("messages,events,keys")
	c.do("UNSUBSCRIBE")
	wanted("keys")
	other := b.dial()
	other.send("BLPOP", "k", "0")
	wanted("keys,waiting")
	other.Close()
	wanted("keys")
	c.Close()
	wanted("")
	if n := admin.info("redoubt", "bus_frames_out"); n != "0" {
		t.Errorf("%s frames were sent although nothing has happened", n)
	}
	admin.do("SET", "k", "v")
	admin.do("PUBLISH", "ch", "v")
	if n := admin.info("redoubt", "bus_frames_out"); n != "0" {
		t.Errorf("%s frames were sent that nobody wants", n)
	}
	resp, err := http.Get("http://" + a.MetricsAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte("redoubt_peer_followers 1\n")) {
		t.Errorf("the metrics say nothing of followers: %v", err)
	}
}

// With tls-cluster front ends talk over TLS, and only to who has a certificate.
func TestPeersOverTLS(t *testing.T) {
	t.Parallel()
	ca := testcert.New(t)
	secured := func(ca *testcert.Authority) *front {
		pair := ca.Sign("front")
		return start(t, false, "--tls-cluster", "yes", "--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key, "--tls-ca-cert-file", ca.File)
	}
	a, b := secured(ca), secured(ca)
	where, _ := join(t, a, b)
	c := b.dial()
	c.do("SUBSCRIBE", "ch")
	a.dial().do("PUBLISH", "ch", "secret")
	c.want("1) \"message\"\n2) \"ch\"\n3) \"secret\"")
	x := secured(testcert.New(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &others{list: where[:1]}
	if err := x.StartPeers(peers.Options{Self: fmt.Sprintf("%040x", 9), Secret: [32]byte{7}, Source: o, Listener: ln}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is refused", func() bool { return a.dial().info("redoubt", "bus_connections_refused") != "0" })
	if got := x.dial().info("redoubt", "cluster_peers_connected"); got != "0" {
		t.Error("a stranger was let in")
	}
	if links := a.PeerLinks(); len(links) != 2 || links[0].Inbound || !links[1].Inbound || links[0].Peer.String() != where[1].ID {
		t.Errorf("the links are %+v", links)
	}
}

// Clients cache what they read at one front end while others write there and
// elsewhere, and connections between the front ends break. In the end nobody keeps
// what is not so.
func TestNothingStaleIsKeptAcrossFrontEnds(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	store := sharedmem.New()
	var fronts []*front
	for range 3 {
		fronts = append(fronts, startWith(t, server.Options{Engine: store.Open(), Beat: 50 * time.Millisecond}))
	}
	where, whom := join(t, fronts...)
	const keys = 5
	for round := range 6 {
		key := func(r *rand.Rand) string { return "k" + strconv.Itoa(r.IntN(keys)) }
		var all []*caching
		var work, writing sync.WaitGroup
		written := make(chan struct{})
		for i := range 6 {
			c := &caching{fronts[i%3].dial(), rand.New(rand.NewPCG(seed, uint64(100*round+i))), map[string]string{}}
			c.do("HELLO", "3")
			all = append(all, c)
			work.Go(func() {
				c.do("CLIENT", "TRACKING", "ON")
				for {
					switch c.rand.IntN(4) {
					case 0:
						c.fetch([]string{"MGET"}, key(c.rand), key(c.rand))
					case 1:
						c.fetch([]string{"MULTI"}, key(c.rand), key(c.rand))
					default:
						c.fetch([]string{"GET"}, key(c.rand))
					}
					select {
					case <-written:
						return
					default:
					}
				}
			})
		}
		for i := range 4 {
			c := fronts[i%3].dial()
			r := rand.New(rand.NewPCG(seed, uint64(100*round+50+i)))
			writing.Go(func() {
				for n := range 60 {
					text := fmt.Sprintf("%d.%d", i, n)
					switch r.IntN(10) {
					case 0:
						c.do("DEL", key(r))
					case 1:
						c.do("MSET", key(r), text, key(r), text)
					default:
						c.do("SET", key(r), text)
					}
				}
			})
		}
		if round%2 == 1 { // one does not hear the others for a while
			whom[0].set()
			c := fronts[0].dial()
			until(t, "it follows nobody", func() bool { return c.info("redoubt", "cluster_peers") == "0" })
			whom[0].set(where[1:]...)
		}
		writing.Wait()
		close(written)
		work.Wait()
		admin, now := fronts[0].dial(), map[string]string{}
		for i := range keys {
			k := "k" + strconv.Itoa(i)
			now[k] = get(admin, k)
		}
		for i, c := range all {
			until(t, "what is kept is what there is", func() bool {
				c.send("PING")
				c.next()
				for k, v := range c.kept {
					if v != now[k] {
						t.Logf("client %d keeps %s of %s, which is %s", i, v, k, now[k])
						return false
					}
				}
				return true
			})
			c.Close()
		}
	}
}

// A commit of which nobody knows whether it happened counts as one for those who cache
// its keys, or wait for them, at every front end.
func TestUnknownOutcomeAcrossFrontEnds(t *testing.T) {
	t.Parallel()
	store := sharedmem.New()
	engines := []*sharedmem.Engine{store.Open(), store.Open()}
	a := startWith(t, server.Options{Engine: engines[0], Beat: 50 * time.Millisecond})
	b := startWith(t, server.Options{Engine: engines[1], Beat: 50 * time.Millisecond})
	join(t, a, b)
	lost := func(eng *sharedmem.Engine, key string) {
		eng.Intercept(func(batch *engine.Batch) (f sharedmem.Fault) {
			for op := range batch.Ops() {
				if bytes.HasSuffix(op.Key, []byte(key)) {
					f = sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: true}
				}
			}
			return f
		})
	}
	c, w, waiter := b.dial(), a.dial(), b.dial()
	c.do("HELLO", "3")
	c.do("CLIENT", "TRACKING", "ON")
	c.do("GET", "cached")
	lost(engines[0], "cached")
	if got := w.do("SET", "cached", "v"); !strings.Contains(got, "UNKNOWN") {
		t.Errorf("SET says %s", got)
	}
	c.want("1> \"invalidate\"\n2> 1) \"cached\"")
	waiter.send("BLPOP", "list", "0")
	waits(t, b, 1)
	lost(engines[0], "list")
	if got := w.do("RPUSH", "list", "v"); !strings.Contains(got, "UNKNOWN") {
		t.Errorf("RPUSH says %s", got)
	}
	waiter.want("1) \"list\"\n2) \"v\"")
	// And who waits gets the error when it is its own command.
	engines[0].Intercept(nil)
	waiter.send("BLPOP", "list", "0")
	waits(t, b, 1)
	lost(engines[1], "list")
	w.do("RPUSH", "list", "v")
	if got := waiter.read(); !strings.Contains(got, "UNKNOWN") {
		t.Errorf("BLPOP says %s", got)
	}
	waits(t, b, 0)
}

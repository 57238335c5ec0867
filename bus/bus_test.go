package bus

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/internal/testcert"
	"redoubt/keyspace"
)

// log is a handler that writes down what it is told.
type log struct {
	mu    sync.Mutex
	lines []string
	gate  chan struct{} // if set, effects wait until it is closed
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) Effects(from string, fx *keyspace.Effects) {
	if l.gate != nil {
		<-l.gate
	}
	for _, m := range fx.Messages {
		l.add("%s: %s", from, m.Channel)
	}
	for _, t := range fx.Touched {
		l.add("%s changed %s", from, t.Key)
	}
	if fx.UntrackedTouch {
		l.add("%s changed all", from)
	}
}

func (l *log) Synced(from string, gained Interest) {
	var what []string
	for name, is := range map[string]bool{"messages": gained.Messages, "keys": gained.Keys, "waiting": gained.Waiting} {
		if is {
			what = append(what, name)
		}
	}
	slices.Sort(what)
	l.add("synced %s %s", from, strings.Join(what, ","))
}

func (l *log) Lost(from string) { l.add("lost %s", from) }

func (l *log) Refused(from string) { l.add("refused %s", from) }

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

func (l *log) has(line string) bool { return slices.Contains(l.all(), line) }

func (l *log) count(line string) (n int) {
	for _, s := range l.all() {
		if s == line {
			n++
		}
	}
	return n
}

func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

var testSecret = [32]byte{1, 2, 3}

func hub(t testing.TB, o HubOptions) *Hub {
	t.Helper()
	if o.Listener == nil && o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Secret == ([32]byte{}) {
		o.Secret = testSecret
	}
	if o.Self == "" {
		o.Self = "hub"
	}
	h, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	h.Start()
	t.Cleanup(h.Close)
	return h
}

func (h *Hub) peer() Peer { return Peer{h.o.Self, h.Addr().String()} }

func follow(t testing.TB, o FollowOptions, peers ...Peer) *Follower {
	t.Helper()
	if o.Secret == ([32]byte{}) {
		o.Secret = testSecret
	}
	if o.Self == "" {
		o.Self = "follower"
	}
	f := Follow(context.Background(), o)
	t.Cleanup(f.Close)
	f.SetPeers(peers)
	return f
}

func message(channel string) *keyspace.Effects {
	return &keyspace.Effects{Messages: []keyspace.Message{{Channel: []byte(channel)}}}
}

func changed(key string) *keyspace.Effects {
	return &keyspace.Effects{Touched: []keyspace.Touch{{Key: []byte(key)}}}
}

// Everybody hears what he is interested in, in its order, and nothing else.
func TestFollowersHear(t *testing.T) {
	t.Parallel()
	a, b := hub(t, HubOptions{Self: "a"}), hub(t, HubOptions{Self: "b"})
	one, two := new(log), new(log)
	f := follow(t, FollowOptions{Self: "one", Handler: one}, a.peer(), b.peer())
	g := follow(t, FollowOptions{Self: "two", Handler: two}, a.peer())
	f.SetInterest(Interest{Messages: true})
	g.SetInterest(Interest{Keys: true})
	until(t, "both follow", func() bool {
		return reflect.DeepEqual(a.Followers(), []string{"one", "two"}) && len(b.Followers()) == 1 && f.Synced() && g.Synced()
	})
	if got := a.Interest(); got != (Interest{Messages: true, Keys: true}) {
		t.Errorf("the hub's interest is %+v", got)
	}
	const n = 1000
	for i := range n {
		a.Tell(message("m" + strconv.Itoa(i)))
		a.Tell(changed("k" + strconv.Itoa(i)))
		b.Tell(message("m" + strconv.Itoa(i)))
	}
	last := strconv.Itoa(n - 1)
	until(t, "all has come", func() bool { return one.has("a: m"+last) && one.has("b: m"+last) && two.has("a changed k"+last) })
	for _, from := range []string{"a", "b"} {
		var got []string
		for _, line := range one.all() {
			if strings.HasPrefix(line, from+": ") {
				got = append(got, line)
			}
		}
		if len(got) != n || !slices.IsSortedFunc(got, byNumber) {
			t.Errorf("%d messages of %s, perhaps not in order", len(got), from)
		}
	}
	for _, line := range append(one.all(), two.all()...) {
		if strings.HasPrefix(line, "b changed") || strings.HasPrefix(line, "lost") {
			t.Error(line)
		}
	}
	// Besides effects two acknowledgements came, for two interests; and beats.
	if s := f.Stats(); s.Peers != 2 || s.Connected != 2 || s.Frames != 2*n || s.Bytes == 0 || s.Received < 2*n+2 || s.Sent < 2 {
		t.Errorf("%+v", s)
	}
	if s := a.Stats(); s.Followers != 2 || s.Frames != 2*n || s.Bytes == 0 || s.Drops != 0 || s.Received < 2 {
		t.Errorf("%+v", s)
	}
	until(t, "all that was sent is counted", func() bool { return a.Stats().Sent >= 2*n+2 })
}

func byNumber(a, b string) int {
	x, _ := strconv.Atoi(a[strings.LastIndexByte(a, 'm')+1:])
	y, _ := strconv.Atoi(b[strings.LastIndexByte(b, 'm')+1:])
	return x - y
}

// The acknowledgement stands in the stream where the interest begins to hold: what is
// told by somebody who sees the new interest comes behind it.
func TestInterestIsAcknowledgedInOrder(t *testing.T) {
	t.Parallel()
	var h *Hub
	told, keys := 0, false // how often the owner of the hub was told that keys are wanted
	var mu sync.Mutex
	h = hub(t, HubOptions{Self: "h", Changed: func(i Interest) {
		mu.Lock()
		defer mu.Unlock()
		if i.Keys && !keys {
			told++
		}
		keys = i.Keys
	}})
	l := new(log)
	f := follow(t, FollowOptions{Handler: l}, h.peer())
	until(t, "it follows", f.Synced)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				h.Tell(changed(strconv.Itoa(i)))
				time.Sleep(time.Microsecond)
			}
		}
	}()
	const rounds = 50
	for i := range rounds {
		n := f.SetInterest(Interest{Keys: true})
		if err := f.Wait(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if !f.Acked(n) || !h.Interest().Keys {
			t.Error("the hub does not know it")
		}
		was := l.len()
		until(t, "something comes", func() bool { return l.len() > was })
		n = f.SetInterest(Interest{Messages: i%2 == 0})
		if f.SetInterest(Interest{Messages: i%2 == 0}) != n {
			t.Error("nothing new is asked for anew")
		}
		if err := f.Wait(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-done
	mu.Lock()
	if told != rounds {
		t.Errorf("the owner of the hub was told %d times", told)
	}
	mu.Unlock()
	last, hears := -1, false
	for _, line := range l.all() {
		switch {
		case strings.HasPrefix(line, "synced"):
			hears = strings.Contains(line, "keys")
			last = -1
		default:
			i, err := strconv.Atoi(strings.TrimPrefix(line, "h changed "))
			if err != nil || !hears || last >= 0 && i != last+1 {
				t.Fatalf("%q after %d, heard: %t", line, last, hears)
			}
			last = i
		}
	}
}

// Who does not know the secret hears nothing and tells nothing.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	l := new(log)
	f := follow(t, FollowOptions{Handler: l, Secret: [32]byte{9}, Backoff: [2]time.Duration{time.Millisecond, time.Millisecond}}, h.peer())
	f.SetInterest(Interest{Messages: true})
	until(t, "it was refused some times", func() bool { return h.Stats().Refused > 3 })
	h.Tell(message("secret"))
	if h.Stats().Followers != 0 || len(h.Followers()) != 0 || len(l.all()) != 0 || f.Stats().Connected != 0 || f.Synced() {
		t.Errorf("%+v, %q", h.Stats(), l.all())
	}
	if err := f.Wait(t.Context(), 2); err != nil {
		t.Error("who is not connected is waited for")
	}
}

// A hub with another id is not followed: it has the address of one that died.
func TestAnotherHubAtTheAddress(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "new"})
	l := new(log)
	f := follow(t, FollowOptions{Handler: l, Backoff: [2]time.Duration{time.Millisecond, time.Millisecond}}, Peer{"old", h.Addr().String()})
	until(t, "it has tried", func() bool { return h.Stats().Refused > 3 })
	if f.Stats().Connections != 0 {
		t.Error("it was followed")
	}
	if got := l.all(); !slices.Equal(got, []string{"refused old"}) {
		t.Errorf("the handler was told %q", got)
	}
	f.SetPeers([]Peer{h.peer()})
	until(t, "it is followed", f.Synced)
}

// That nobody listens any more is told once, and again when there was a connection
// since.
func TestRefused(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	at := h.peer()
	l := new(log)
	var dials atomic.Int64
	f := follow(t, FollowOptions{Handler: l, Backoff: [2]time.Duration{time.Millisecond, time.Millisecond}, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}}, at)
	for round := 1; round <= 2; round++ {
		until(t, "it follows", f.Synced)
		h.Close()
		until(t, "it is told", func() bool { return l.count("refused h") == round })
		tried := dials.Load()
		until(t, "it goes on trying", func() bool { return dials.Load() > tried+4 })
		if n := l.count("refused h"); n != round {
			t.Fatalf("told %d times in round %d", n, round)
		}
		h = hub(t, HubOptions{Self: "h", Addr: at.Addr})
	}
	// A peer that closes connections, or does not answer, may be alive.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	hung := make(chan struct{})
	go func() {
		for n := 0; n < 4; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
		close(hung)
	}()
	f.SetPeers([]Peer{{"mute", ln.Addr().String()}})
	<-hung
	if n := l.count("refused mute"); n != 0 {
		t.Errorf("told %d times", n)
	}
}

// Strangers that say nothing, or nonsense, are cut off and hurt nobody.
func TestStrangers(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h", Timing: Timing{Dead: 100 * time.Millisecond}})
	for _, text := range []string{"", "PING\r\n", string(appendFrame(nil, frameHello, []byte(magic), make([]byte, 40))),
		string(appendInterest(nil, 1, Interest{Keys: true})), "\x7f\xff\xff\xff\x10", strings.Repeat("\x00", 1000)} {
		conn, err := net.Dial("tcp", h.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, text)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v", text, err)
		}
		conn.Close()
	}
	until(t, "all are gone", func() bool { return h.Stats().Refused == 6 })
	f := follow(t, FollowOptions{Handler: new(log)}, h.peer())
	until(t, "a friend is let in", f.Synced)
}

// proved connects as a follower whose further words the test writes itself.
func proved(t *testing.T, h *Hub) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", h.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := greet(conn, testSecret, "raw", h.o.Self); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A follower that speaks nonsense is cut off; the others stay.
func TestMalformedFollower(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	l := new(log)
	f := follow(t, FollowOptions{Handler: l}, h.peer())
	f.SetInterest(Interest{Messages: true})
	until(t, "it follows", f.Synced)
	for _, text := range [][]byte{
		appendFrame(nil, frameEffects), appendFrame(nil, frameAck, make([]byte, 8)), appendFrame(nil, frameInterest, make([]byte, 3)),
		appendFrame(nil, frameInterest, make([]byte, 8), []byte{0, 0, 0, 0xf0}), {0xff, 0xff, 0xff, 0xff, 1}, appendFrame(nil, 0x77),
	} {
		conn := proved(t, h)
		conn.Write(text)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%x: %v", text, err)
		}
	}
	h.Tell(message("still"))
	until(t, "the other one hears", func() bool { return l.has("h: still") })
	until(t, "one is left", func() bool { return h.Stats().Followers == 1 })
}

// A hub that speaks nonsense is left, and tried again.
func TestMalformedHub(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	bad := [][]byte{
		appendFrame(nil, frameEffects, []byte{0x55}), appendFrame(nil, frameEffects, []byte{itemMessage, 200}), appendAck(nil, 99),
		appendFrame(nil, frameAck), appendInterest(nil, 1, Interest{}), {0xff, 0xff, 0xff, 0xff, 4},
	}
	go func() {
		for i := 0; ; i++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := receive(conn, testSecret, "h"); err == nil {
				conn.Write(bad[i%len(bad)])
				io.Copy(io.Discard, conn)
			}
			conn.Close()
		}
	}()
	l := new(log)
	follow(t, FollowOptions{Handler: l, Backoff: [2]time.Duration{time.Millisecond, time.Millisecond}}, Peer{"h", ln.Addr().String()})
	until(t, "all was tried", func() bool { return l.count("lost h") > len(bad) })
	for _, line := range l.all() {
		if line != "lost h" {
			t.Error(line)
		}
	}
}

// A follower that does not read is given up when its queue is full; Tell never waits
// for it, and the others hear everything.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h", Queue: 1 << 20, Timing: Timing{Dead: time.Minute}})
	slow := &log{gate: make(chan struct{})}
	quick := new(log)
	timing := Timing{Dead: time.Minute}
	f := follow(t, FollowOptions{Self: "slow", Handler: slow, Timing: timing}, h.peer())
	g := follow(t, FollowOptions{Self: "quick", Handler: quick, Timing: timing}, h.peer())
	f.SetInterest(Interest{Messages: true})
	g.SetInterest(Interest{Messages: true})
	until(t, "both follow", func() bool { return f.Synced() && g.Synced() && len(h.Followers()) == 2 })
	payload := make([]byte, 64<<10)
	sent := 0
	for ; h.Stats().Drops == 0; sent++ {
		if sent > 10000 {
			t.Fatal("it is never given up")
		}
		name := strconv.Itoa(sent)
		h.Tell(&keyspace.Effects{Messages: []keyspace.Message{{Channel: []byte(name), Payload: payload}}})
		until(t, "the quick one hears", func() bool { return quick.has("h: " + name) })
	}
	if s := h.Stats(); s.Queued > 2<<20 {
		t.Errorf("%d bytes are queued", s.Queued)
	}
	close(slow.gate)
	until(t, "the slow one knows", func() bool { return slow.has("lost h") })
	until(t, "and is back", func() bool { return slow.count("synced h messages") == 2 && f.Synced() })
	h.Tell(message("again"))
	until(t, "it hears again", func() bool { return slow.has("h: again") && quick.has("h: again") })
	if quick.has("lost h") {
		t.Error("the quick one was given up, too")
	}
}

// proxy is a way to a hub that can be cut, and made deaf.
type proxy struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	deaf  bool
}

func newProxy(t *testing.T, to string) *proxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: ln, to: to}
	t.Cleanup(func() { ln.Close(); p.cut() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go p.copy(in, out)
			go p.copy(out, in)
		}
	}()
	return p
}

func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			to.Close()
			return
		}
		p.mu.Lock()
		deaf := p.deaf
		p.mu.Unlock()
		if !deaf {
			to.Write(buf[:n])
		}
	}
}

func (p *proxy) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// A connection that breaks is told of, made again, and synced again.
func TestReconnect(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	p := newProxy(t, h.Addr().String())
	l := new(log)
	f := follow(t, FollowOptions{Handler: l, Backoff: [2]time.Duration{time.Millisecond, 10 * time.Millisecond}}, Peer{"h", p.Addr().String()})
	f.SetInterest(Interest{Messages: true, Keys: true})
	for i := range 5 {
		until(t, "it is synced", func() bool { return f.Synced() && l.count("synced h keys,messages") >= i+1 })
		m := "m" + strconv.Itoa(i)
		h.Tell(message(m))
		until(t, "it hears", func() bool { return l.has("h: " + m) })
		p.cut()
		until(t, "it knows", func() bool { return l.count("lost h") == i+1 })
	}
	until(t, "the hub has one follower", func() bool { return f.Synced() && h.Stats().Followers == 1 })
	f.SetPeers(nil)
	until(t, "it has left", func() bool { return h.Stats().Followers == 0 && h.Interest().Empty() })
	if !l.has("lost h") || len(f.Peers()) != 0 {
		t.Error(f.Peers())
	}
}

// A side that is silent counts as dead, on both sides.
func TestSilence(t *testing.T) {
	t.Parallel()
	timing := Timing{Beat: 20 * time.Millisecond, Dead: time.Second} // a busy machine may not run us for long
	h := hub(t, HubOptions{Self: "h", Timing: timing})
	p := newProxy(t, h.Addr().String())
	l := new(log)
	f := follow(t, FollowOptions{Handler: l, Timing: timing}, Peer{"h", p.Addr().String()})
	until(t, "it is synced", f.Synced)
	// Beats keep it alive for longer than silence would be allowed.
	for end := time.Now().Add(timing.Dead * 3 / 2); time.Now().Before(end); time.Sleep(timing.Beat) {
		if l.has("lost h") {
			t.Fatal("a connection was lost that was not broken")
		}
	}
	p.setDeaf(true)
	until(t, "both know", func() bool { return l.has("lost h") && h.Stats().Followers == 0 })
	p.setDeaf(false)
	until(t, "it is synced again", f.Synced)
}

// A follower that comes again, while the hub does not know yet that it had gone, takes
// the place of the old connection.
func TestFollowerComesAgain(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	first := proved(t, h)
	first.Write(appendInterest(nil, 1, Interest{Keys: true}))
	until(t, "the first is there", func() bool { return len(h.Followers()) == 1 })
	second := proved(t, h)
	second.Write(appendInterest(nil, 1, Interest{Messages: true}))
	until(t, "the second is there alone", func() bool {
		return h.Stats().Followers == 1 && h.Interest() == Interest{Messages: true}
	})
	first.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, first); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

// A follower counts as one when its interest is known, not before.
func TestFollowersHaveSaidWhatTheyWant(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	conn := proved(t, h)
	until(t, "it is connected", func() bool { return h.Stats().Followers == 1 })
	if got := h.Followers(); len(got) != 0 {
		t.Errorf("%q follow", got)
	}
	conn.Write(appendInterest(nil, 1, Interest{}))
	until(t, "it follows", func() bool { return slices.Equal(h.Followers(), []string{"raw"}) })
}

// Closing either side ends everything, whatever goes on.
func TestClose(t *testing.T) {
	t.Parallel()
	h := hub(t, HubOptions{Self: "h"})
	l := new(log)
	f := follow(t, FollowOptions{Handler: l}, h.peer(), Peer{"nobody", "127.0.0.1:1"})
	f.SetInterest(Interest{Messages: true})
	until(t, "it is connected", func() bool { return l.has("synced h messages") })
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				h.Tell(message("m"))
			}
		}
	}()
	f.Close()
	n := len(l.all())
	h.Close()
	close(stop)
	<-done
	if len(l.all()) != n {
		t.Error("the handler was called after the end")
	}
	if f.Wait(t.Context(), 99) == nil && f.Stats().Connected > 0 {
		t.Error("it waits for nobody")
	}
}

// Over TLS it is the same.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	serve, dial := certificates(t)
	h := hub(t, HubOptions{Self: "h", TLS: serve})
	l := new(log)
	f := follow(t, FollowOptions{Handler: l, TLS: dial}, h.peer())
	f.SetInterest(Interest{Messages: true})
	until(t, "it is synced", f.Synced)
	payload := make([]byte, 3<<20)
	h.Tell(&keyspace.Effects{Messages: []keyspace.Message{{Channel: []byte("large"), Payload: payload}, {Channel: []byte("small")}}})
	until(t, "it hears", func() bool { return l.has("h: large") && l.has("h: small") })
	plain := follow(t, FollowOptions{Self: "plain", Handler: new(log), Timing: Timing{Dead: 100 * time.Millisecond}}, h.peer())
	until(t, "who does not speak TLS is refused", func() bool { return h.Stats().Refused > 0 })
	if plain.Synced() {
		t.Error("it was let in")
	}
}

func certificates(t *testing.T) (serve, dial *tls.Config) {
	t.Helper()
	a := testcert.New(t)
	dial = a.Client(a.Sign("follower"))
	dial.ServerName = "localhost"
	serve = a.Client(a.Sign("hub"))
	serve.ClientCAs, serve.ClientAuth = serve.RootCAs, tls.RequireAndVerifyClientCert
	return serve, dial
}

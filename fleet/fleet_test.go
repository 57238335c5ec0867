package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
)

// world is a store with a clock that all its front ends share.
type world struct {
	t     *testing.T
	store *sharedmem.Store
	mu    sync.Mutex
	now   time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: sharedmem.New(), now: time.UnixMilli(1_700_000_000_000)}
	w.store.SetClock(w.time)
	return w
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// one is a front end of the test. Its goroutine does a turn when the test says so.
type one struct {
	*Fleet
	engine *sharedmem.Engine
	tick   chan time.Time
	asked  chan struct{} // the goroutine waits for a tick
}

func (w *world) join(port int, opts ...func(*Options)) *one {
	w.t.Helper()
	o := &one{engine: w.store.Open(), tick: make(chan time.Time), asked: make(chan struct{}, 1)}
	options := Options{
		Engine: o.engine, Self: Member{Host: "10.0.0.1", Port: port, BusPort: port + 10000, Version: "test"},
		Clock: Clock{Now: w.time, After: func(time.Duration) <-chan time.Time { o.asked <- struct{}{}; return o.tick }},
	}
	for _, opt := range opts {
		opt(&options)
	}
	f, err := Join(context.Background(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	o.Fleet = f
	<-o.asked
	w.t.Cleanup(func() { f.Leave(context.Background()) })
	return o
}

// beat lets some of the front ends do their turn, one after the other.
func (w *world) beat(of ...*one) {
	for _, o := range of {
		o.tick <- w.time()
		<-o.asked
	}
}

// pass lets a time pass in which some front ends live, and those only.
func (w *world) pass(d time.Duration, living ...*one) {
	for ; d > 0; d -= time.Second {
		w.mu.Lock()
		w.now = w.now.Add(time.Second)
		w.mu.Unlock()
		w.beat(living...)
	}
}

// ports are those of the members, by which tests know them.
func ports(members []Member) (list []int) {
	for _, m := range members {
		list = append(list, m.Port)
	}
	return list
}

func (w *world) expect(o *one, want ...int) {
	w.t.Helper()
	if got := ports(o.Members()); !slices.Equal(got, want) {
		w.t.Errorf("front end %d sees %v, want %v", o.Self().Port, got, want)
	}
}

func TestJoinAndLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.join(1)
	w.expect(a, 1)
	if !a.Leader() || a.Epoch() != 1 {
		t.Errorf("alone: leader %v, epoch %d", a.Leader(), a.Epoch())
	}
	changes := 0
	a.OnChange(func() { changes++ })
	b := w.join(2)
	w.expect(b, 1, 2) // at once
	w.expect(a, 1)
	w.beat(a)
	w.expect(a, 1, 2)
	if b.Leader() || !a.Leader() || changes != 1 || a.Epoch() != 2 {
		t.Errorf("leaders %v %v, %d changes, epoch %d", a.Leader(), b.Leader(), changes, a.Epoch())
	}
	w.beat(a, b, a)
	if changes != 1 || a.Epoch() != 2 {
		t.Errorf("beats are no changes: %d, epoch %d", changes, a.Epoch())
	}
	if m := a.Members()[1]; m.ID != b.Self().ID || m.Host != "10.0.0.1" || m.BusPort != 10002 || m.Version != "test" || m.Bus() != "10.0.0.1:10002" {
		t.Errorf("a sees of b: %+v", m)
	}
	if err := a.Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.beat(b)
	w.expect(b, 2)
	if !b.Leader() {
		t.Error("nobody leads")
	}
	if err := a.Leave(context.Background()); err != nil {
		t.Errorf("leaving twice: %v", err)
	}
	if err := b.Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	if rows, err := readMembers(w.store.Open()); len(rows) != 0 || err != nil {
		t.Errorf("%d rows are left, %v", len(rows), err)
	}
	for _, o := range []*one{a, b} {
		if err := o.engine.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Who is not ready is a member, and has no slots.
func TestAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.join(1)
	b := w.join(2, func(o *Options) { o.Self.Away = true })
	changes := 0
	a.OnChange(func() { changes++ })
	w.beat(a)
	slots := func(o *one) []int { return ports(o.Division().Members) }
	w.expect(a, 1, 2)
	w.expect(b, 1, 2)
	if x, y := slots(a), slots(b); !slices.Equal(x, []int{1}) || !slices.Equal(y, []int{1, 2}) || changes != 1 {
		t.Errorf("a divides among %v, b among %v, %d changes", x, y, changes)
	}
	b.Announce(func(m *Member) { m.Away, m.Port = false, 3 })
	<-b.asked // at once, without a tick
	w.beat(a)
	if x := slots(a); !slices.Equal(x, []int{1, 3}) || changes != 2 || a.Epoch() != 3 {
		t.Errorf("a divides among %v, %d changes, epoch %d", x, changes, a.Epoch())
	}
	// The oldest one takes no clients: another leads, and nobody is lost.
	a.Announce(func(m *Member) { m.Away = true })
	<-a.asked
	w.beat(b)
	if !b.Leader() || !slices.Equal(slots(b), []int{3}) {
		t.Errorf("b leads %v, %v", b.Leader(), slots(b))
	}
}

func TestDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.join(1), w.join(2), w.join(3)
	w.pass(2*time.Second, a, b, c)
	w.expect(c, 1, 2, 3)
	// a is killed.
	w.pass(3*time.Second, b, c)
	w.expect(b, 1, 2, 3)
	w.pass(2*time.Second, b, c)
	w.expect(b, 2, 3)
	w.expect(c, 2, 3)
	if !b.Leader() || c.Leader() || !a.Fenced() || a.Leader() {
		t.Errorf("leaders %v %v %v, a fenced %v", a.Leader(), b.Leader(), c.Leader(), a.Fenced())
	}
	id := a.Self().ID
	if rows, _ := readMembers(c.engine); rows[id] == nil {
		t.Error("its row was deleted too early")
	}
	w.pass(40*time.Second, b, c)
	if rows, _ := readMembers(c.engine); rows[id] != nil || len(rows) != 2 {
		t.Errorf("its row was not deleted; %d rows", len(rows))
	}
	// It was only asleep.
	epoch := b.Epoch()
	w.beat(a)
	w.beat(b, c)
	w.expect(a, 1, 2, 3)
	w.expect(b, 1, 2, 3)
	if a.Fenced() || !a.Leader() || b.Leader() || b.Epoch() != epoch+1 {
		t.Errorf("a fenced %v, leads %v; b leads %v, epoch %d after %d", a.Fenced(), a.Leader(), b.Leader(), b.Epoch(), epoch)
	}
}

// Who cannot reach the store knows that it is fenced before anybody takes it for
// dead, also while a call hangs, and does not take the others for dead.
func TestCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	w.pass(2*time.Second, a, b)
	a.engine.Cut(true)
	for s := range 8 {
		w.pass(time.Second, b, a)
		if dead := len(b.Members()) == 1; dead && !a.Fenced() {
			t.Errorf("after %d s b takes a for dead, which does not know it", s+1)
		}
	}
	w.expect(b, 2)
	w.expect(a, 1, 2)
	if !a.Fenced() || a.Leader() || !b.Leader() {
		t.Errorf("a is fenced %v and leads %v; b leads %v", a.Fenced(), a.Leader(), b.Leader())
	}
	w.pass(10*time.Second, a) // b is not heard of, but neither is anybody
	a.engine.Cut(false)
	w.pass(time.Second, a)
	w.expect(a, 1, 2)
	if a.Fenced() {
		t.Error("fenced after a beat that succeeded")
	}
	w.pass(5*time.Second, a)
	w.expect(a, 1)
}

// Who looks seldom, since the store is slow, finds the dead nevertheless, but not at
// its first look.
func TestSlowLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.join(1), w.join(2)
	w.beat(a)
	w.expect(a, 1, 2)
	for look := range 3 {
		w.pass(10 * time.Second)
		w.beat(a)
		if dead := len(a.Members()) == 1; dead != (look > 0) {
			t.Errorf("look %d: dead %v", look, dead)
		}
	}
}

// A commit that hangs fences its process without any help of the goroutine.
func TestFencedWhileABeatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.join(1)
	w.pass(time.Second, a)
	hang, reached := make(chan struct{}), make(chan struct{}, 1)
	a.engine.Intercept(func(*engine.Batch) sharedmem.Fault {
		reached <- struct{}{}
		return sharedmem.Fault{Wait: hang}
	})
	a.tick <- w.time()
	<-reached
	for range 4 {
		if a.Fenced() {
			t.Error("fenced too early")
		}
		w.pass(time.Second)
	}
	if !a.Fenced() {
		t.Error("not fenced after the lease")
	}
	a.engine.Intercept(nil)
	close(hang)
	<-a.asked
	if !a.Fenced() {
		t.Error("the beat counts from its end, not from its beginning")
	}
	w.beat(a)
	if a.Fenced() {
		t.Error("fenced for good")
	}
}

// Beats survive conflicts, unknown outcomes, and the deletion of their row.
func TestBeatGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	w.beat(a)
	conflict := sharedmem.Fault{Err: engine.ErrConflict}
	a.engine.Inject(conflict, conflict, conflict)
	w.pass(time.Second, a)
	if a.Fenced() || a.Self().Beat != 3 {
		t.Errorf("beat %d", a.Self().Beat)
	}
	a.engine.Inject(sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: true})
	w.pass(3*time.Second, a, b)
	w.expect(b, 1, 2)
	if err := transact(context.Background(), b.engine, func(_ engine.SharedView, batch *engine.Batch) error {
		batch.Delete(keyspace.MemberRow(a.Self().ID))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.beat(b)
	w.expect(b, 2)
	w.beat(a, b)
	w.expect(b, 1, 2)
}

// The leader does not delete the row of one that has just come back.
func TestBuriedAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	w.pass(30*time.Second, a)
	w.expect(a, 1)
	saved := false
	a.engine.Intercept(func(batch *engine.Batch) sharedmem.Fault {
		for op := range batch.Ops() {
			if op.Delete && !saved {
				saved = true
				w.beat(b)
			}
		}
		return sharedmem.Fault{}
	})
	w.pass(20*time.Second, a)
	if !saved {
		t.Fatal("the row was never to be deleted")
	}
	if rows, _ := readMembers(a.engine); rows[b.Self().ID] == nil {
		t.Error("it was deleted nevertheless")
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	secrets := make([][32]byte, 8)
	for i := range secrets {
		wg.Go(func() {
			s, err := readSecret(context.Background(), w.store.Open())
			if err != nil {
				t.Error(err)
			}
			secrets[i] = s
		})
	}
	wg.Wait()
	a := w.join(1)
	for i, s := range secrets {
		if s != a.Secret() || s == [32]byte{} {
			t.Errorf("%d has secret %x, a %x", i, s, a.Secret())
		}
	}
	// Of an outcome that is unknown both cases end with what is stored.
	for _, applied := range []bool{false, true} {
		store := sharedmem.New()
		e := store.Open()
		e.Inject(sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: applied})
		one, err := readSecret(context.Background(), e)
		two, err2 := readSecret(context.Background(), store.Open())
		if err != nil || err2 != nil || one != two {
			t.Errorf("applied %v: %x %v, %x %v", applied, one, err, two, err2)
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	w.pass(59*time.Second, a, b)
	if w.store.Forgotten() != 0 {
		t.Error("it forgets too early")
	}
	w.pass(2*time.Second, a, b)
	ago := func(d time.Duration) engine.Stamp { return sharedmem.StampOf(w.time().Add(-d)) }
	if got := w.store.Forgotten(); got < ago(10*time.Minute+2*time.Second) || got > ago(10*time.Minute-time.Second) {
		t.Errorf("it forgot what is before %d; ten minutes ago is %d", got, ago(10*time.Minute))
	}
	// A reader of an old state on another front end is respected, also when that is
	// taken for dead for a while.
	v, err := b.engine.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	at, err := v.(engine.SharedView).Stamp()
	if err != nil {
		t.Fatal(err)
	}
	w.pass(20*time.Minute, a, b)
	if got := w.store.Forgotten(); got != at {
		t.Errorf("it forgot what is before %d; the oldest reader is at %d", got, at)
	}
	w.pass(30*time.Second, a)
	if _, _, err := v.Get([]byte("k"), nil); err != nil {
		t.Error(err)
	}
	w.pass(3*time.Minute, a)
	if got := w.store.Forgotten(); got < ago(12*time.Minute) {
		t.Errorf("a dead reader holds it up at %d", got)
	}
}

func TestForgetIsTheLeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, b := w.join(1), w.join(2)
	before := b.engine.Trips()
	w.pass(3*time.Second, b)
	w.expect(b, 1, 2)
	if perBeat := (b.engine.Trips() - before) / 3; perBeat > 4 {
		t.Errorf("a beat costs %d trips", perBeat)
	}
	if w.store.Forgotten() != 0 {
		t.Error("it forgot something")
	}
	if n := b.engine.Claims(); n != 0 {
		t.Errorf("%d times a beat had to wait for clients", n)
	}
}

func TestJoinFails(t *testing.T) {
	t.Parallel()
	e := sharedmem.New().Open()
	if _, err := Join(context.Background(), Options{Engine: e}); err == nil {
		t.Error("joined without an address")
	}
	e.Cut(true)
	if _, err := Join(context.Background(), Options{Engine: e, Self: Member{Host: "h"}}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("without a store: %v", err)
	}
	e.Cut(false)
	e.Intercept(func(*engine.Batch) sharedmem.Fault { return sharedmem.Fault{Err: engine.ErrConflict} })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Join(ctx, Options{Engine: e, Self: Member{Host: "h"}}); !errors.Is(err, context.Canceled) || !errors.Is(err, engine.ErrConflict) {
		t.Errorf("with conflicts for ever: %v", err)
	}
	if n := e.Open(); n != 0 {
		t.Errorf("%d views are left open", n)
	}
}

// A row that cannot be understood is nobody's: the rest goes on.
func TestForeignRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.join(1)
	for i, value := range []string{"garbage", `{"host":""}`, `{"host":"10.0.0.9","port":9,"started":1,"beat":1,"hue":"blue"}`} {
		id := ID{byte(i + 1)}
		if err := transact(context.Background(), a.engine, func(_ engine.SharedView, b *engine.Batch) error {
			b.Put(keyspace.MemberRow(id), []byte(value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.beat(a)
	w.expect(a, 9, 1) // one of a newer version, which has been there for long
}

// The divisions of the living cover all slots once, whatever their number.
func TestSlots(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 5, 7, 16, 100, 1000, 16383, 16384, 20000} {
		next := 0
		for i := range n {
			lo, hi := Slots(i, n)
			if lo != next || hi < lo || hi-lo > keyspace.Slots/n+1 || hi-lo < keyspace.Slots/n {
				t.Fatalf("member %d of %d has [%d,%d), the one before ended at %d", i, n, lo, hi, next)
			}
			for slot := lo; slot < hi; slot++ {
				if got := Owner(slot, n); got != i {
					t.Fatalf("slot %d of %d members belongs to %d, not %d", slot, n, got, i)
				}
			}
			next = hi
		}
		if next != keyspace.Slots {
			t.Errorf("%d members have %d slots", n, next)
		}
	}
	d := Division{Members: make([]Member, 3)}
	if lo, hi := d.Slots(1); lo != 5461 || hi != 10922 || d.Owner(5461) != 1 || d.Owner(5460) != 0 {
		t.Errorf("[%d,%d)", lo, hi)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ announced, bind, want string }{
		{"1.2.3.4", "*", "1.2.3.4"},
		{"", "10.1.2.3 127.0.0.1", "10.1.2.3"},
		{"", "-10.1.2.3", "10.1.2.3"},
		{"", "* -::*", "127.0.0.1"},
		{"", "0.0.0.0", "127.0.0.1"},
		{"", "-::*", "127.0.0.1"},
		{"", "", "127.0.0.1"},
	} {
		if got, err := Address(c.announced, strings.Fields(c.bind), "127.0.0.1:2379"); got != c.want || err != nil {
			t.Errorf("announced %q, bind %q: %s, %v; want %s", c.announced, c.bind, got, err, c.want)
		}
	}
	if got, err := Address("", nil, ""); err == nil {
		t.Errorf("from nothing: %s", got)
	}
}

// With the machine's own clock, from many goroutines.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	store := sharedmem.New()
	const n = 8
	fleets := make([]*Fleet, n)
	var wg sync.WaitGroup
	for i := range fleets {
		wg.Go(func() {
			f, err := Join(context.Background(), Options{
				Engine: store.Open(), Self: Member{Host: "h", Port: i + 1}, Beat: time.Millisecond, Lease: time.Minute,
			})
			if err != nil {
				t.Error(err)
				return
			}
			fleets[i] = f
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("waited in vain: " + what)
			}
		}
	}
	for _, f := range fleets {
		await("all see all", func() bool { return len(f.Members()) == n })
	}
	leaders, lists := 0, map[string]bool{}
	for _, f := range fleets {
		if f.Leader() {
			leaders++
		}
		lists[fmt.Sprint(ports(f.Members()))] = true
	}
	if leaders != 1 || len(lists) != 1 {
		t.Errorf("%d leaders, lists %v", leaders, lists)
	}
	for _, f := range fleets[:n-1] {
		wg.Go(func() {
			if err := f.Leave(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	last := fleets[n-1]
	await("the last one is alone", func() bool { return len(last.Members()) == 1 && last.Leader() })
	wg.Wait()
	last.Leave(context.Background())
}

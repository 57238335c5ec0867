package sharedmem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(*testing.T) engine.Engine { return New().Open() },
		enginetest.Another(func(_ *testing.T, e engine.Engine) engine.Engine { return e.(*Engine).store.Open() }))
}

// begin opens a view that is closed at the end of the test.
func begin(t testing.TB, e *Engine, options ...engine.ViewOptions) engine.SharedView {
	t.Helper()
	var o engine.ViewOptions
	if len(options) > 0 {
		o = options[0]
	}
	v, err := e.Begin(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v.(engine.SharedView)
}

// batch makes one of "key=value", "-key" and "?key", which is a check.
func batch(notes ...string) *engine.Batch {
	b := new(engine.Batch)
	for _, n := range notes {
		switch n[0] {
		case '-':
			b.Delete([]byte(n[1:]))
		case '?':
			b.Check([]byte(n[1:]))
		default:
			b.Put([]byte(n[:1]), []byte(n[2:]))
		}
	}
	return b
}

func put(t testing.TB, e *Engine, notes ...string) {
	t.Helper()
	v := begin(t, e)
	defer v.Close()
	if _, err := v.Commit(batch(notes...)); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, r engine.Reader, key string) string {
	t.Helper()
	value, found, err := r.Get([]byte(key), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return "none"
	}
	return string(value)
}

// Besides what enginetest says: the limit is one of the store's own clock.
func TestBefore(t *testing.T) {
	t.Parallel()
	s := New()
	now := time.UnixMilli(1000)
	s.SetClock(func() time.Time { return now })
	e := s.Open()
	at, _ := e.Stamp()
	limit := e.Later(at, 100*time.Millisecond)
	if limit != at+100<<logical {
		t.Errorf("100 ms after %d is %d", at, limit)
	}
	for _, c := range []struct {
		ms int64
		ok bool
	}{{1000, true}, {1099, true}, {1100, false}, {2000, false}} {
		v := begin(t, e, engine.ViewOptions{CommitBefore: func() engine.Stamp { return limit }})
		get(t, v, "a")
		now = time.UnixMilli(c.ms)
		if _, err := v.Commit(batch("a=1")); (err == nil) != c.ok || !c.ok && !errors.Is(err, engine.ErrConflict) {
			t.Errorf("at %d ms: %v", c.ms, err)
		}
	}
	now = time.UnixMilli(500)
	if again, _ := e.Stamp(); again <= limit || e.Now().UnixMilli() != 2000 {
		t.Errorf("with the clock set back the stamp is %d and the time %v", again, e.Now())
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	s := New()
	e, other := s.Open(), s.Open()
	put(t, other, "a=0")
	hold := make(chan struct{})
	e.Inject(
		Fault{Err: engine.ErrConflict},
		Fault{Err: engine.ErrUnknownOutcome},
		Fault{Err: engine.ErrUnknownOutcome, Applied: true},
		Fault{Err: engine.ErrUnavailable},
		Fault{Wait: hold},
	)
	for i, c := range []struct {
		err  error
		left string
	}{
		{engine.ErrConflict, "0"}, {engine.ErrUnknownOutcome, "0"}, {engine.ErrUnknownOutcome, "3"},
		{engine.ErrUnavailable, "3"}, {nil, "5"}, {nil, "6"},
	} {
		if i == 4 {
			time.AfterFunc(time.Millisecond, func() {
				if got := get(t, begin(t, other), "a"); got != "3" {
					t.Errorf("a commit that waits was done: a=%s", got)
				}
				close(hold)
			})
		}
		if _, err := begin(t, e).Commit(batch(fmt.Sprint("a=", i+1))); !errors.Is(err, c.err) {
			t.Errorf("commit %d: %v", i, err)
		}
		if got := get(t, begin(t, other), "a"); got != c.left {
			t.Errorf("after commit %d a is %s", i, got)
		}
	}
	e.Intercept(func(b *engine.Batch) Fault {
		if _, _, writes := b.Get([]byte("a")); writes {
			return Fault{Err: engine.ErrFull}
		}
		return Fault{}
	})
	put(t, e, "b=1")
	if _, err := begin(t, e).Commit(batch("a=1")); !errors.Is(err, engine.ErrFull) {
		t.Errorf("an intercepted commit: %v", err)
	}
	e.Intercept(nil)
	put(t, e, "a=1")
}

func TestCut(t *testing.T) {
	t.Parallel()
	s := New()
	e, other := s.Open(), s.Open()
	put(t, e, "a=1")
	started := begin(t, e)
	get(t, started, "a")
	e.Cut(true)
	v := begin(t, e)
	for what, err := range map[string]error{
		"Get":      second(v.Get([]byte("a"), nil)),
		"later":    second(started.Get([]byte("a"), nil)),
		"Iter":     v.Iter(nil, nil, false).Close(),
		"Commit":   first(v.Commit(batch("a=2"))),
		"Snapshot": first(e.Snapshot()),
		"Stamp":    first(e.Stamp()),
		"NextID":   first(e.NextID()),
		"Counter":  first(e.Counter([]byte("n"))),
		"Forget":   e.Forget(1),
	} {
		if !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	put(t, other, "b=1")
	e.Cut(false)
	if got := get(t, begin(t, e), "b"); got != "1" {
		t.Errorf("b = %s", got)
	}
	if _, err := started.Commit(batch("a=3")); err != nil {
		t.Errorf("a view from before: %v", err)
	}
}

func first[T any](_ T, err error) error          { return err }
func second[T, U any](_ T, _ U, err error) error { return err }

// Oldest follows what is open, and what was forgotten cannot be read.
func TestForget(t *testing.T) {
	t.Parallel()
	s := New()
	e, other := s.Open(), s.Open()
	old, young := begin(t, e), begin(t, e)
	at, _ := old.Stamp()
	later, _ := young.Stamp()
	if got := e.Oldest(); got != at {
		t.Errorf("Oldest = %d, want %d", got, at)
	}
	if got := other.Oldest(); got <= later {
		t.Errorf("Oldest of an idle engine = %d", got)
	}
	if err := other.Forget(later); err != nil || s.Forgotten() != later {
		t.Errorf("Forget: %v, %d", err, s.Forgotten())
	}
	if _, _, err := old.Get([]byte("a"), nil); err == nil {
		t.Error("a forgotten moment is read")
	}
	if _, err := old.Commit(batch("a=1")); err == nil {
		t.Error("a forgotten moment is committed from")
	}
	get(t, young, "a")
	old.Close()
	if got := e.Oldest(); got != later {
		t.Errorf("Oldest = %d, want %d", got, later)
	}
	young.Close()
	if got := e.Oldest(); got <= later {
		t.Errorf("Oldest of nothing = %d", got)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// What is left open is told, and deleted rows are remembered only as long as it
// matters.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	s := New()
	e := s.Open()
	v := begin(t, e)
	get(t, v, "a")
	for i := range 6000 {
		var b engine.Batch
		b.Delete(fmt.Append(nil, i))
		w, _ := e.Begin(engine.ViewOptions{})
		if _, err := w.Commit(&b); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	if len(s.deleted) != 6000 {
		t.Errorf("a view is open; %d of 6000 deletes are remembered", len(s.deleted))
	}
	if _, err := v.Commit(batch("0=x")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("put of a deleted row: %v", err)
	}
	v.Close()
	for i := range 6000 { // they are dropped when there are more
		put(t, e, fmt.Sprint("-x", i))
		if len(s.deleted) < 2*manyDeleted {
			break
		}
	}
	if len(s.deleted) > manyDeleted {
		t.Errorf("%d deletes are remembered for nobody", len(s.deleted))
	}
	if _, err := e.Begin(engine.ViewOptions{}); err != nil || e.Open() == 0 {
		t.Fatalf("%v, %d open", err, e.Open())
	}
	if err := e.Close(); err == nil || errors.Is(err, engine.ErrClosed) {
		t.Errorf("Close with a view open: %v", err)
	}
}

func TestTrips(t *testing.T) {
	t.Parallel()
	e := New().Open()
	put(t, e, "a=1", "b=2")
	keys := [][]byte{[]byte("a"), []byte("b")}
	before := e.Trips()
	v := begin(t, e)
	v.Prefetch(keys)
	get(t, v, "a")
	get(t, v, "b")
	v.GetMany(keys, func(int, []byte, bool) error { return nil })
	if n := e.Trips() - before; n != 1 {
		t.Errorf("prefetched rows cost %d trips", n)
	}
	get(t, v, "c")
	v.Commit(batch("c=1"))
	if n := e.Trips() - before; n != 3 {
		t.Errorf("and one read and a commit: %d trips", n)
	}
}

// Many engines add one to rows; no addition is lost, ids are unique, and the checks
// keep the sum of two rows below a limit that none of them alone would.
func TestSerialisable(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := New()
	const engines, each, limit = 4, 100, 60
	var conflicts, spent atomic.Int64
	var ids sync.Map
	var wg sync.WaitGroup
	for n := range engines {
		wg.Go(func() {
			e, rng := s.Open(), rand.New(rand.NewPCG(seed, uint64(n)))
			run := func(what func(engine.SharedView, *engine.Batch) bool) bool {
				for {
					v, err := e.Begin(engine.ViewOptions{})
					if err != nil {
						t.Error(err)
						return false
					}
					var b engine.Batch
					did := what(v.(engine.SharedView), &b)
					_, err = v.Commit(&b)
					v.Close()
					if errors.Is(err, engine.ErrConflict) {
						conflicts.Add(1)
						continue
					}
					if err != nil {
						t.Error(err)
					}
					return did
				}
			}
			for range each {
				run(func(v engine.SharedView, b *engine.Batch) bool { // a counter
					value, _, _ := v.Get([]byte("n"), nil)
					b.Put([]byte("n"), append(value, '+'))
					return true
				})
				if run(func(v engine.SharedView, b *engine.Batch) bool { // two accounts with one limit
					x, _, _ := v.Get([]byte("x"), nil)
					y, _, _ := v.Get([]byte("y"), nil)
					b.Check([]byte("x"))
					b.Check([]byte("y"))
					if len(x)+len(y) >= limit {
						return false
					}
					if rng.IntN(2) == 0 {
						b.Put([]byte("x"), append(x, '+'))
					} else {
						b.Put([]byte("y"), append(y, '+'))
					}
					return true
				}) {
					spent.Add(1)
				}
				id, err := e.NextID()
				if _, twice := ids.LoadOrStore(id, true); twice || err != nil {
					t.Errorf("id %d twice, %v", id, err)
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	v := begin(t, s.Open())
	if n := len(get(t, v, "n")); n != engines*each {
		t.Errorf("%d additions of %d are left", n, engines*each)
	}
	if sum := len(get(t, v, "x")) + len(get(t, v, "y")); sum != limit || spent.Load() != limit {
		t.Errorf("the sum is %d after %d additions, the limit %d", sum, spent.Load(), limit)
	}
	t.Logf("%d conflicts", conflicts.Load())
}

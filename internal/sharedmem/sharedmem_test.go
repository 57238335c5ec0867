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
func begin(t testing.TB, e *Engine) engine.SharedView {
	t.Helper()
	v, err := e.Begin(true)
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

// What one engine does between another's first read and its commit.
func TestConflict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		theirs, ours  []string
		wantsConflict bool
	}{
		{"both put a row", []string{"a=2"}, []string{"a=3"}, true},
		{"both delete a row", []string{"-a"}, []string{"-a"}, true},
		{"they delete, we put", []string{"-a"}, []string{"a=3"}, true},
		{"they put, we delete", []string{"a=2"}, []string{"-a"}, true},
		{"both make a row", []string{"n=2"}, []string{"n=3"}, true},
		{"they delete a row that is not there", []string{"-n"}, []string{"n=3"}, true},
		{"a checked row is put", []string{"a=2"}, []string{"b=3", "?a"}, true},
		{"a checked row is deleted", []string{"-a"}, []string{"b=3", "?a"}, true},
		{"a checked row is made", []string{"n=2"}, []string{"b=3", "?n"}, true},
		{"a check without a write", []string{"a=2"}, []string{"?a"}, true},
		{"different rows", []string{"a=2"}, []string{"b=3"}, false},
		{"different rows, one of them checked", []string{"a=2"}, []string{"b=3", "?b", "?n"}, false},
		{"both check", []string{"b=2", "?a"}, []string{"n=3", "?a"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := New()
			one, two := s.Open(), s.Open()
			put(t, one, "a=1", "b=1")
			v := begin(t, one)
			if got := get(t, v, "b"); got != "1" {
				t.Fatalf("b = %s", got)
			}
			put(t, two, c.theirs...)
			ticket, err := v.Commit(batch(c.ours...))
			if errors.Is(err, engine.ErrConflict) != c.wantsConflict || err != nil && !c.wantsConflict || err != nil && ticket != 0 {
				t.Fatalf("Commit = %d, %v", ticket, err)
			}
			if c.wantsConflict { // nothing was written, and once more it works
				if got := get(t, begin(t, two), "b"); got == "3" {
					t.Error("half of a batch was written")
				}
				put(t, one, c.ours...)
			}
		})
	}
}

// A view shows the moment of its first read, not that of Begin; Version and Stamp
// fix it too.
func TestViewIsAMoment(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(engine.SharedView){
		"Get":      func(v engine.SharedView) { v.Get([]byte("x"), nil) },
		"Stamp":    func(v engine.SharedView) { v.Stamp() },
		"Version":  func(v engine.SharedView) { v.Version([]byte("x")) },
		"Iter":     func(v engine.SharedView) { v.Iter(nil, nil, false).Close() },
		"Prefetch": func(v engine.SharedView) { v.Prefetch([][]byte{[]byte("x")}) },
	} {
		s := New()
		one, two := s.Open(), s.Open()
		v := begin(t, one)
		put(t, two, "a=1")
		first(v)
		put(t, two, "a=2")
		if got := get(t, v, "a"); got != "1" {
			t.Errorf("%s: a = %s", name, got)
		}
		at, err := v.Stamp()
		if now, err2 := two.Stamp(); err != nil || err2 != nil || at == 0 || now <= at {
			t.Errorf("%s: the view is of moment %d, %v; now is %d, %v", name, at, err, now, err2)
		}
		if _, err := v.Commit(batch("a=3")); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without a read there is nothing to conflict with.
	s := New()
	one, two := s.Open(), s.Open()
	v := begin(t, one)
	put(t, two, "a=1")
	if _, err := v.Commit(batch("a=2")); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	e := New().Open()
	seen := make(map[uint64]bool)
	version := func() uint64 {
		n, err := begin(t, e).Version([]byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if version() != 0 {
		t.Error("a row that is not there has a version")
	}
	for range 3 {
		put(t, e, "a=same")
		n := version()
		if n == 0 || seen[n] || n != version() {
			t.Errorf("version %d, seen %v, now %d", n, seen, version())
		}
		seen[n] = true
		put(t, e, "b=other")
		if version() != n {
			t.Error("another row's commit changed it")
		}
		put(t, e, "-a")
		if version() != 0 {
			t.Error("a deleted row has a version")
		}
	}
}

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
		v := begin(t, e)
		get(t, v, "a")
		v.Before(func() engine.Stamp { return limit })
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

func TestLone(t *testing.T) {
	t.Parallel()
	s := New()
	one, two := s.Open(), s.Open()
	v := begin(t, one)
	v.Lone()
	put(t, two, "a=1")
	if got := get(t, v, "a"); got != "1" {
		t.Errorf("a = %s", got)
	}
	if at, err := v.Stamp(); at != 0 || err != nil {
		t.Errorf("Stamp = %d, %v", at, err)
	}
	if n, err := v.Version([]byte("a")); n == 0 || err != nil {
		t.Errorf("Version = %d, %v", n, err)
	}
	if _, _, err := v.Get([]byte("b"), nil); err == nil {
		t.Error("it reads a second row")
	}
	if err := v.Iter(nil, nil, false).Close(); err == nil {
		t.Error("it iterates")
	}
	if _, err := v.Commit(batch("a=2")); err == nil {
		t.Error("it commits")
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
		w, _ := e.Begin(true)
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
	if _, err := e.Begin(true); err != nil || e.Open() == 0 {
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
					v, err := e.Begin(true)
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

package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
)

// two opens an empty store twice, as two processes would, or skips the test.
func (s *suite) two(t *testing.T) (one, two *store) {
	t.Helper()
	one = s.begin(t)
	if s.another == nil {
		if one.Capabilities().Shared && s.reopen != nil {
			t.Error("a shared engine that is durable gives Another to the suite")
		}
		t.Skip("the engine is not shared")
	}
	two = &store{Engine: s.another(t, one.Engine), t: t}
	t.Cleanup(func() {
		if err := two.Engine.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return one, two
}

func (st *store) shared() engine.Shared { return st.Engine.(engine.Shared) }

// sharedView opens a view that is closed at the end of the test.
func (st *store) sharedView() engine.SharedView { return st.openShared(engine.ViewOptions{}) }

func (st *store) openShared(o engine.ViewOptions) engine.SharedView {
	st.t.Helper()
	v := st.open(o)
	st.t.Cleanup(v.Close)
	return v.(engine.SharedView)
}

func (st *store) stamp() engine.Stamp {
	st.t.Helper()
	at, err := st.shared().Stamp()
	if err != nil {
		st.t.Fatalf("Stamp: %v", err)
	}
	return at
}

// batch makes a batch of notes: "key=value", "-key", "?key" for a check, and "lo..hi" for a range
// delete. Keys are single bytes.
func batch(notes ...string) *engine.Batch {
	b := new(engine.Batch)
	for _, n := range notes {
		lo, hi, isRange := bytes.Cut([]byte(n), []byte(".."))
		switch {
		case isRange:
			b.DeleteRange(lo, hi)
		case n[0] == '-':
			b.Delete([]byte(n[1:]))
		case n[0] == '?':
			b.Check([]byte(n[1:]))
		default:
			b.Put([]byte(n[:1]), []byte(n[2:]))
		}
	}
	return b
}

// A view shows the moment of its first read, not that of Begin, whatever fixes it.
func testMoment(t *testing.T, s *suite) {
	one, two := s.two(t)
	one.needsMoments()
	for name, first := range map[string]func(engine.SharedView){
		"Get":      func(v engine.SharedView) { v.Get([]byte("x"), nil) },
		"GetMany":  func(v engine.SharedView) { v.GetMany([][]byte{{'x'}}, func(int, []byte, bool) error { return nil }) },
		"Stamp":    func(v engine.SharedView) { v.Stamp() },
		"Version":  func(v engine.SharedView) { v.Version([]byte("x")) },
		"Iter":     func(v engine.SharedView) { v.Iter(nil, nil, false).Close() },
		"Prefetch": func(v engine.SharedView) { v.Prefetch([][]byte{[]byte("x"), []byte("y")}) },
	} {
		v := one.sharedView()
		two.put("a", "1"+name)
		first(v)
		two.put("a", "2")
		if got, want := one.get(v, "a"), fmt.Sprintf("%q", "1"+name); got != want {
			t.Errorf("%s: a = %s, want %s", name, got, want)
		}
		at, err := v.Stamp()
		if now := two.stamp(); err != nil || at == 0 || now <= at {
			t.Errorf("%s: the view is of moment %d, %v; now is %d", name, at, err, now)
		}
		if _, err := v.Commit(batch("a=3")); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: Commit = %v", name, err)
		}
	}
	// Prefetched rows are of the same moment, rows that did not exist included.
	v := one.sharedView()
	keys := [][]byte{[]byte("a"), []byte("p"), []byte("q")}
	v.Prefetch(keys)
	two.put("a", "new", "p", "new", "q", "new")
	for _, key := range []string{"p", "q"} {
		if got := one.get(v, key); got != "none" {
			t.Errorf("%s was there when it was prefetched: %s", key, got)
		}
	}
	// Without a read there is nothing to conflict with.
	w := one.sharedView()
	two.put("a", "3")
	if _, err := w.Commit(batch("a=4", "?p")); err != nil {
		t.Errorf("a commit that read nothing: %v", err)
	}
	if got := two.get(two.sharedView(), "a"); got != `"4"` {
		t.Errorf("a = %s", got)
	}
	// An empty commit costs nothing, and a second one is refused.
	e := one.sharedView()
	one.get(e, "a")
	if ticket, err := e.Commit(new(engine.Batch)); ticket != 0 || err != nil {
		t.Errorf("an empty commit: %d, %v", ticket, err)
	}
	if _, err := e.Commit(batch("a=5")); err == nil {
		t.Error("a second commit on one view")
	}
}

// A view with PointRead reads one row as it is, and that only.
func testPointRead(t *testing.T, s *suite) {
	one, two := s.two(t)
	v := one.openShared(engine.ViewOptions{PointRead: true})
	two.put("a", "1", "b", "1")
	if got := one.get(v, "a"); got != `"1"` {
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
	// The view shows every commit that has returned.
	for i := range 30 {
		two.put("a", fmt.Sprint(i))
		v := one.open(engine.ViewOptions{PointRead: true})
		if got := one.get(v, "a"); got != fmt.Sprintf("%q", fmt.Sprint(i)) {
			t.Errorf("after commit %d: %s", i, got)
		}
		v.Close()
	}
	w := one.openShared(engine.ViewOptions{PointRead: true})
	if got := one.get(w, "nobody"); got != "none" {
		t.Errorf("a row that is not there: %s", got)
	}
}

// Each Put gives a row another version.
func testVersion(t *testing.T, s *suite) {
	one, two := s.two(t)
	seen := make(map[uint64]bool)
	version := func() uint64 {
		v := one.view().(engine.SharedView)
		defer v.Close()
		n, err := v.Version([]byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if version() != 0 {
		t.Error("a row that is not there has a version")
	}
	for i := range 4 {
		st := one
		if i%2 == 1 {
			st = two
		}
		st.put("a", "same")
		n := version()
		if n == 0 || seen[n] || n != version() {
			t.Errorf("version %d, seen %v", n, seen)
		}
		seen[n] = true
		if st.put("b", "other"); version() != n {
			t.Error("another row's commit changed it")
		}
		if i == 2 {
			two.commit(batch("-a"))
			if version() != 0 {
				t.Error("a deleted row has a version")
			}
		}
	}
}

// What another process does between a view's first read and its commit.
func testConflict(t *testing.T, s *suite) {
	for _, c := range []struct {
		name         string
		theirs, ours []string
	}{
		{"both put a row", []string{"a=2"}, []string{"a=3"}},
		{"both delete a row", []string{"-a"}, []string{"-a"}},
		{"they delete, we put", []string{"-a"}, []string{"a=3"}},
		{"they put, we delete", []string{"a=2"}, []string{"-a"}},
		{"both make a row", []string{"n=2"}, []string{"n=3"}},
		{"a checked row is put", []string{"a=2"}, []string{"b=3", "?a"}},
		{"a checked row is deleted", []string{"-a"}, []string{"b=3", "?a"}},
		{"a checked row is made", []string{"n=2"}, []string{"b=3", "?n"}},
		{"a check without a write", []string{"a=2"}, []string{"?a"}},
		{"a row that is put and checked", []string{"a=2"}, []string{"a=3", "?a"}},
		{"one of many", []string{"m=2"}, []string{"a=3", "b=3", "c=3", "d=3", "m=3", "n=3"}},
		{"a range delete", []string{"b=2"}, []string{"a..c"}},
		{"a row of their range delete", []string{"a..c"}, []string{"b=3"}},
		{"they change much", []string{"a=2", "b=2", "c=2", "d=2"}, []string{"d=3", "z=3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one, two := s.two(t)
			one.put("a", "1", "b", "1")
			v := one.sharedView()
			if got := one.get(v, "b"); got != `"1"` {
				t.Fatalf("b = %s", got)
			}
			for _, n := range c.ours { // a commit compares what was read
				if one.noMoments() {
					one.get(v, n[strings.IndexAny(n, "abcdmnz"):][:1])
				}
			}
			two.commit(batch(c.theirs...))
			if ticket, err := v.Commit(batch(c.ours...)); !errors.Is(err, engine.ErrConflict) || ticket != 0 {
				t.Fatalf("Commit = %d, %v", ticket, err)
			}
			// Nothing was written, and a second attempt succeeds.
			r := two.sharedView()
			for _, key := range []string{"a", "b", "c", "d", "m", "n", "z"} {
				if got := two.get(r, key); got == `"3"` {
					t.Errorf("%s of a commit in conflict was written", key)
				}
			}
			one.commit(batch(c.ours...))
		})
	}
}

// Commits without a common row do not conflict, and neither do rows that are read but neither
// written nor checked.
func testNoConflict(t *testing.T, s *suite) {
	one, two := s.two(t)
	one.put("a", "1", "b", "1")
	v := one.sharedView()
	if !one.noMoments() {
		one.get(v, "a")
	}
	one.get(v, "b")
	two.put("a", "2")
	if _, err := v.Commit(batch("b=3", "?b", "?n", "m=3")); err != nil {
		t.Errorf("Commit = %v", err)
	}
	r := two.sharedView()
	if a, b := two.get(r, "a"), two.get(r, "b"); a != `"2"` || b != `"3"` {
		t.Errorf("a=%s b=%s", a, b)
	}
	// A check leaves the row as it was, and its version.
	before, err := r.Version([]byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	w := one.sharedView()
	one.get(w, "b")
	if _, err := w.Commit(batch("c=1", "?b", "?nobody")); err != nil {
		t.Errorf("Commit = %v", err)
	}
	r = two.sharedView()
	if n, err := r.Version([]byte("b")); n != before || err != nil {
		t.Errorf("a check changed the version from %d to %d, %v", before, n, err)
	}
	if got := two.get(r, "nobody"); got != "none" {
		t.Errorf("a check made a row: %s", got)
	}
	if got := rows(t, r.Iter([]byte("b"), []byte("d"), false)); fmt.Sprint(got) != "[b=3 c=1]" {
		t.Errorf("rows = %v", got)
	}
}

// What a view has read is one state, or Validate fails: two rows, wherever they lie, always
// change together.
func testValidate(t *testing.T, s *suite) {
	one, two := s.two(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, pair := range [][]string{{"a", "x"}, {"b", "b2"}, {"k", "n", "s"}} {
		wg.Go(func() {
			for i := 0; ; i++ {
				var b engine.Batch
				for _, key := range pair {
					b.Put([]byte(key), fmt.Append(nil, i))
				}
				if _, err := apply(two.Engine, &b); err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		wg.Go(func() {
			for valid, tries := 0, 0; valid < 20 || tries < 60; tries++ {
				if tries > 20_000 {
					t.Errorf("only %d reads of %d are one state", valid, tries)
					break
				}
				v := one.open(engine.ViewOptions{}).(engine.SharedView)
				var got []string
				var err error
				for i := range pair {
					var value []byte
					if value, _, err = v.Get([]byte(pair[(i+tries)%len(pair)]), nil); err != nil {
						break
					}
					got = append(got, string(value))
				}
				if err == nil {
					err = v.Validate()
				}
				v.Close()
				switch {
				case err != nil && (!errors.Is(err, engine.ErrConflict) || !one.noMoments()):
					t.Error(err)
				case err == nil && slices.ContainsFunc(got, func(g string) bool { return g != got[0] }):
					t.Errorf("%q are %q, which are of several moments", pair, got)
				case err == nil:
					valid++
				}
			}
		})
	}
	time.AfterFunc(100*time.Millisecond, func() { close(stop) })
	wg.Wait()
}

// A commit does not take effect at the moment given or later.
func testCommitBefore(t *testing.T, s *suite) {
	one, _ := s.two(t)
	e := one.shared()
	for _, c := range []struct {
		name  string
		ahead time.Duration
		ok    bool
	}{{"long ago", -time.Hour, false}, {"now", 0, false}, {"in an hour", time.Hour, true}, {"in ten seconds", 10 * time.Second, true}} {
		try := func() error {
			var at engine.Stamp
			v := one.open(engine.ViewOptions{CommitBefore: func() engine.Stamp { return e.Later(at, c.ahead) }}).(engine.SharedView)
			defer v.Close()
			one.get(v, "a")
			var err error
			if at, err = v.Stamp(); err != nil {
				t.Fatal(err)
			}
			_, err = v.Commit(batch("a=" + c.name))
			return err
		}
		err := try()
		for c.ok && errors.Is(err, engine.ErrConflict) { // with one that came to nothing
			err = try()
		}
		if c.ok && err != nil || !c.ok && !errors.Is(err, engine.ErrConflict) {
			t.Errorf("before %s: %v", c.name, err)
		}
		if got := one.get(one.sharedView(), "a"); (got == fmt.Sprintf("%q", c.name)) != c.ok {
			t.Errorf("before %s: a is %s", c.name, got)
		}
	}
	// A commit that took effect before a moment is visible at that moment: nothing is added to the
	// past.
	limit := e.Later(one.stamp(), time.Second)
	commits := 0
	for {
		v := one.open(engine.ViewOptions{CommitBefore: func() engine.Stamp { return limit }})
		one.get(v, "a")
		_, err := v.Commit(batch("b=x"))
		v.Close()
		if errors.Is(err, engine.ErrConflict) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		commits++
	}
	if commits == 0 {
		t.Error("no commit within a second")
	}
	v := one.sharedView()
	n, err := v.Version([]byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the moment", func() bool { return one.stamp() >= limit })
	w := one.sharedView()
	if again, err := w.Version([]byte("b")); again != n || err != nil {
		t.Errorf("something took effect behind the moment: version %d, then %d, %v", n, again, err)
	}
}

func testNextID(t *testing.T, s *suite) {
	one, two := s.two(t)
	var seen sync.Map
	var wg sync.WaitGroup
	for _, st := range []*store{one, two, one, two} {
		wg.Go(func() {
			last := uint64(0)
			for range 100 {
				id, err := st.shared().NextID()
				if _, twice := seen.LoadOrStore(id, true); twice || err != nil || id == 0 {
					t.Errorf("id %d twice: %v, error %v", id, twice, err)
				}
				if id <= last {
					t.Errorf("id %d after %d", id, last)
				}
				last = id
			}
		})
	}
	wg.Wait()
}

// A stamp is after every commit that has returned, and before what begins later.
func testStamp(t *testing.T, s *suite) {
	one, two := s.two(t)
	if one.noMoments() {
		two = one // a stamp means something to one process only
	}
	last := engine.Stamp(0)
	for i := range 20 {
		a, b := one, two
		if i%2 == 1 {
			a, b = b, a
		}
		at := a.stamp()
		if at <= last {
			t.Fatalf("stamp %d after %d", at, last)
		}
		b.put("a", fmt.Sprint(i))
		v := a.sharedView()
		shows, err := v.Stamp()
		if err != nil || shows <= at {
			t.Fatalf("a view of %d after the stamp %d, %v", shows, at, err)
		}
		if got := a.get(v, "a"); got != fmt.Sprintf("%q", fmt.Sprint(i)) {
			t.Errorf("the view misses commit %d: %s", i, got)
		}
		if last = b.stamp(); last <= shows {
			t.Fatalf("stamp %d after a view of %d", last, shows)
		}
	}
	e := one.shared()
	if d := e.Later(last, time.Second) - last; d != 1000*(e.Later(last, time.Millisecond)-last) || d == 0 {
		t.Errorf("a second is %d", d)
	}
	if back := e.Later(e.Later(last, time.Minute), -time.Minute); back != last {
		t.Errorf("a minute there and back is %d", int64(back)-int64(last))
	}
}

// Time does not go back, and two processes agree about it.
func testNow(t *testing.T, s *suite) {
	one, two := s.two(t)
	const apart = time.Second
	last := one.shared().Now()
	for range 1000 {
		now := one.shared().Now()
		if now.Before(last) {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
	if d := two.shared().Now().Sub(one.shared().Now()); d > apart || d < -apart {
		t.Errorf("two processes differ by %v", d)
	}
	// Stamps follow the same time.
	begin, at := one.shared().Now(), one.stamp()
	await(t, "time to pass", func() bool { return one.shared().Now().Sub(begin) > 400*time.Millisecond })
	if one.noMoments() {
		two = one
	}
	if passed := two.stamp(); passed < one.shared().Later(at, 100*time.Millisecond) {
		t.Errorf("400 ms later the stamp has gone from %d to %d", at, passed)
	}
}

// Oldest follows what is open. Forgetting what is older leaves all that is open
// readable; it is done with some distance here, since a cluster may forget for all who
// use it.
func testOldest(t *testing.T, s *suite) {
	one, two := s.two(t)
	one.needsMoments()
	one.put("a", "1")
	old := one.sharedView()
	at, err := old.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := one.Engine.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := one.shared().Oldest(); got > at {
		t.Errorf("Oldest = %d, want %d", got, at)
	}
	two.put("a", "2")
	if err := two.shared().Forget(two.shared().Later(one.shared().Oldest(), -time.Minute)); err != nil {
		t.Errorf("Forget: %v", err)
	}
	if got := one.get(old, "a"); got != `"1"` {
		t.Errorf("an open view shows %s", got)
	}
	if got := one.get(snap, "a"); got != `"1"` {
		t.Errorf("an open snapshot shows %s", got)
	}
	old.Close()
	if got := one.shared().Oldest(); got < at {
		t.Errorf("Oldest = %d after the view of %d was closed", got, at)
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
	await(t, "Oldest to be younger", func() bool { return one.shared().Oldest() > at })
}

// Counters of two processes: the additions of each are counted once, also when one has closed its
// engine and when it is opened again.
func testSharedCounter(t *testing.T, s *suite) {
	one, two := s.two(t)
	add := func(st *store, delta int64) {
		var b engine.Batch
		b.Add([]byte("n"), delta)
		b.Put(fmt.Appendf(nil, "row%d", delta), nil)
		st.commit(&b)
	}
	all := func(want int64) {
		t.Helper()
		for _, st := range []*store{one, two} {
			await(t, fmt.Sprintf("the counter to be %d", want), func() bool { return st.counter("n") == want })
		}
	}
	add(one, 5)
	add(two, 7)
	all(12)
	add(one, -2)
	all(10)
	if err := two.Engine.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	add(one, 100)
	two.Engine = s.another(t, one.Engine)
	all(110)
	add(two, 1000)
	all(1110)
	for range 3 { // each leaves once more
		if err := two.Engine.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		two.Engine = s.another(t, one.Engine)
		if s.reopen != nil {
			one.Engine = s.reopen(t, one.Engine)
		}
		all(1110)
	}
}

// Many processes add one to a row, and move an amount between two under a check; no
// addition is lost and the sum of two rows stays within what the checks allow.
func testLostUpdate(t *testing.T, s *suite) {
	one, two := s.two(t)
	const workers, each = 4, 25
	number8 := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	one.commit(func() *engine.Batch {
		var b engine.Batch
		b.Put([]byte("x"), number8(50))
		b.Put([]byte("y"), number8(50))
		return &b
	}())
	// run has f make a batch from what it reads until the commit meets no conflict.
	run := func(st *store, f func(v engine.View, b *engine.Batch) error) error {
		var b engine.Batch
		for {
			b.Reset()
			v, err := st.Begin(engine.ViewOptions{})
			if err != nil {
				return err
			}
			if err = f(v, &b); err == nil {
				_, err = v.Commit(&b)
			}
			v.Close()
			if !errors.Is(err, engine.ErrConflict) {
				return err
			}
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		st := one
		if w%2 == 1 {
			st = two
		}
		wg.Go(func() {
			for range each {
				if err := run(st, func(v engine.View, b *engine.Batch) error {
					n, _, err := v.Get([]byte("sum"), nil)
					b.Put([]byte("sum"), number8(number(n)+1))
					return err
				}); err != nil {
					t.Error(err)
				}
				// Each process takes from one of two rows if both together have more than 10; without a check of
				// the other row it would take too much.
				mine, other := []byte("x"), []byte("y")
				if w%2 == 1 {
					mine, other = other, mine
				}
				if err := run(st, func(v engine.View, b *engine.Batch) error {
					m, _, err1 := v.Get(mine, nil)
					o, _, err2 := v.Get(other, nil)
					if number(m) > 0 && number(m)+number(o) > 10 {
						b.Put(mine, number8(number(m)-1))
						b.Check(other)
					}
					return errors.Join(err1, err2)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v := two.sharedView()
	get := func(key string) uint64 {
		p, _, err := v.Get([]byte(key), nil)
		if err != nil {
			t.Error(err)
		}
		return number(p)
	}
	if got := get("sum"); got != workers*each {
		t.Errorf("sum = %d, want %d", got, workers*each)
	}
	if x, y := get("x"), get("y"); x+y != 10 {
		t.Errorf("x=%d y=%d", x, y)
	}
}

package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"redoubt/engine"
)

func testGet(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "1", "b", "", "c\x00", "\x00\xff")
	check := func(t *testing.T, r engine.Reader) {
		for key, want := range map[string]string{"a": `"1"`, "b": `""`, "c\x00": `"\x00\xff"`, "c": "none", "": "none", "zz": "none"} {
			if got := st.get(r, key); got != want {
				t.Errorf("Get %q = %s, want %s", key, got, want)
			}
		}
		// A value is appended to dst, which is returned unchanged on a miss.
		if v, found, err := r.Get([]byte("a"), []byte("x")); string(v) != "x1" || !found || err != nil {
			t.Errorf("Get a into x = %q %v %v", v, found, err)
		}
		if v, found, err := r.Get([]byte("none"), []byte("x")); string(v) != "x" || found || err != nil {
			t.Errorf("Get none into x = %q %v %v", v, found, err)
		}
	}
	st.both(check)
	s.cycle(st)
	st.both(check)
	st.put("a", "2")
	v := st.view()
	defer v.Close()
	if got := st.get(v, "a"); got != `"2"` {
		t.Errorf("overwritten row = %s", got)
	}
}

func testGetMany(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "1", "b", "", "c", "3")
	st.both(func(t *testing.T, r engine.Reader) {
		var got []string
		visit := func(i int, value []byte, found bool) error {
			got = append(got, fmt.Sprintf("%d %q %v", i, value, found))
			return nil
		}
		if err := r.GetMany([][]byte{[]byte("c"), []byte("x"), []byte("b"), []byte("c")}, visit); err != nil {
			t.Errorf("GetMany: %v", err)
		}
		want := []string{`0 "3" true`, `1 "" false`, `2 "" true`, `3 "3" true`}
		if !slices.Equal(got, want) {
			t.Errorf("GetMany visits %q, want %q", got, want)
		}
		stop, calls := errors.New("stop"), 0
		err := r.GetMany([][]byte{[]byte("a"), []byte("b")}, func(int, []byte, bool) error { calls++; return stop })
		if !errors.Is(err, stop) || calls != 1 {
			t.Errorf("GetMany after an error of visit: %v, %d calls", err, calls)
		}
		if err := r.GetMany(nil, visit); err != nil {
			t.Errorf("GetMany of nothing: %v", err)
		}
	})
}

func testIter(t *testing.T, s *suite) {
	st := s.begin(t)
	st.both(func(t *testing.T, r engine.Reader) {
		if got := rows(t, r.Iter(nil, nil, false)); len(got) != 0 {
			t.Errorf("an empty store has rows: %q", got)
		}
	})
	var want []string
	for k, v := range pairs(200) {
		st.put(k, v)
		want = append(want, k+"="+v)
	}
	var back = slices.Clone(want)
	slices.Reverse(back)
	check := func(t *testing.T, r engine.Reader) {
		if got := rows(t, r.Iter(nil, nil, false)); !slices.Equal(got, want) {
			t.Errorf("forward: %q", got)
		}
		if got := rows(t, r.Iter(nil, nil, true)); !slices.Equal(got, back) {
			t.Errorf("backward: %q", got)
		}
		// Closing in the middle, or before the first row, is allowed.
		it := r.Iter(nil, nil, false)
		it.Next()
		if err := errors.Join(it.Close(), r.Iter(nil, nil, true).Close()); err != nil {
			t.Errorf("Close in the middle: %v", err)
		}
	}
	st.both(check)
	s.cycle(st)
	st.both(check)
}

func testIterBounds(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "1", "b", "2", "b\x00", "3", "c", "4", "\xfe\xff", "5")
	for _, c := range []struct {
		lo, hi string
		want   []string
	}{
		{"nil", "nil", []string{"a=1", "b=2", "b\x00=3", "c=4", "\xfe\xff=5"}},
		{"", "nil", []string{"a=1", "b=2", "b\x00=3", "c=4", "\xfe\xff=5"}},
		{"b", "nil", []string{"b=2", "b\x00=3", "c=4", "\xfe\xff=5"}},
		{"b", "c", []string{"b=2", "b\x00=3"}},
		{"b", "b\x00", []string{"b=2"}},
		{"aa", "bb", []string{"b=2", "b\x00=3"}},
		{"nil", "b", []string{"a=1"}},
		{"\xfe\xff", "\xff", []string{"\xfe\xff=5"}},
		{"\xfe\xff\x00", "nil", []string{}},
		{"b", "b", []string{}},
		{"c", "b", []string{}},
		{"a", "", []string{}}, // an empty bound is not nil: nothing is below it
	} {
		st.both(func(t *testing.T, r engine.Reader) {
			if got := rows(t, r.Iter(bound(c.lo), bound(c.hi), false)); !slices.Equal(got, c.want) {
				t.Errorf("[%q,%q) = %q, want %q", c.lo, c.hi, got, c.want)
			}
			back := slices.Clone(c.want)
			slices.Reverse(back)
			if got := rows(t, r.Iter(bound(c.lo), bound(c.hi), true)); !slices.Equal(got, back) {
				t.Errorf("[%q,%q) backward = %q, want %q", c.lo, c.hi, got, back)
			}
		})
	}
}

// An iterator of a snapshot shows the snapshot's state, whatever is committed meanwhile; an iterator
// of a view shows at least the rows that stay.
func testIterIsolation(t *testing.T, s *suite) {
	st := s.begin(t)
	var want, stays []string
	for k, v := range pairs(100) {
		st.put(k, v)
		want = append(want, k+"="+v)
		if (k < "k010" || k >= "k050") && k != "k060" && k != "k099" {
			stays = append(stays, k+"="+v)
		}
	}
	v := st.view()
	defer v.Close()
	snap, err := st.Engine.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	live, back := v.Iter(nil, nil, false), v.Iter(nil, nil, true)
	back.Next() // the iterator is on k099, which is deleted
	fresh, moved := snap.Iter(nil, nil, false), snap.Iter(nil, nil, true)
	if !moved.Next() {
		t.Fatal("no row")
	}
	var b engine.Batch
	b.DeleteRange([]byte("k010"), []byte("k050"))
	for i := range 100 {
		b.Put(fmt.Appendf(nil, "k%03d+", i), []byte("new"))
	}
	b.Put([]byte("k060"), []byte("changed"))
	b.Delete([]byte("k099"))
	st.commit(&b)
	if !st.noMoments() {
		if got := rows(t, fresh); !slices.Equal(got, want) {
			t.Errorf("an unplaced iterator saw a later commit: %q", got)
		}
		got := []string{string(moved.Key()) + "=" + string(moved.Value())}
		got = append(got, rows(t, moved)...)
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Errorf("a placed iterator saw a later commit: %q", got)
		}
	}
	for _, it := range []engine.Iterator{live, back} {
		var kept []string
		for _, row := range rows(t, it) {
			if slices.Contains(stays, row) {
				kept = append(kept, row)
			}
		}
		if it == back {
			slices.Reverse(kept)
		}
		if !slices.Equal(kept, stays) {
			t.Errorf("an iterator of a view lost rows that stayed: %q", kept)
		}
	}
	after := []string{"k010+=new", "k011+=new"}
	if st.Capabilities().Shared && !st.noMoments() { // its view is of one moment
		after = []string{"k010=v10", "k011=v11"}
	}
	if got := rows(t, v.Iter([]byte("k010"), []byte("k012"), false)); !slices.Equal(got, after) {
		t.Errorf("a new iterator shows %q, want %q", got, after)
	}
}

func testSnapshot(t *testing.T, s *suite) {
	st := s.begin(t)
	st.needsMoments()
	st.put("a", "1", "b", "2")
	snap, err := st.Engine.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b engine.Batch
	b.Put([]byte("a"), []byte("9"))
	b.Delete([]byte("b"))
	b.Put([]byte("c"), []byte("3"))
	st.commit(&b)
	b.Reset()
	b.DeleteRange([]byte("a"), []byte("z"))
	st.commit(&b)
	for range 2 { // every read returns the same
		if got := rows(t, snap.Iter(nil, nil, false)); !slices.Equal(got, []string{"a=1", "b=2"}) {
			t.Errorf("snapshot iterates %q", got)
		}
		if a, c := st.get(snap, "a"), st.get(snap, "c"); a != `"1"` || c != "none" {
			t.Errorf("snapshot has a=%s c=%s", a, c)
		}
	}
	if err := snap.Close(); err != nil {
		t.Errorf("Snapshot.Close: %v", err)
	}
	v := st.view()
	defer v.Close()
	if got := rows(t, v.Iter(nil, nil, false)); len(got) != 0 {
		t.Errorf("the store has %q", got)
	}
}

// An engine keeps no slice of its caller, and does not change the bytes that it has returned.
func testOwnership(t *testing.T, s *suite) {
	st := s.begin(t)
	var b engine.Batch
	key, value := []byte("key1"), []byte("value1")
	b.Put(key, value)
	st.commit(&b)
	clobber(key)
	clobber(value)
	b.Reset()
	b.Put([]byte("zzzz"), []byte("zzzzzz")) // over the memory of the first commit
	st.commit(&b)

	v := st.view()
	defer v.Close()
	probe := []byte("key1")
	got, found, err := v.Get(probe, nil)
	if string(got) != "value1" || !found || err != nil {
		t.Fatalf("Get = %q %v %v", got, found, err)
	}
	clobber(got) // the caller owns it
	if got := st.get(v, "key1"); got != `"value1"` {
		t.Errorf("changing a result changed the row: %s", got)
	}
	lo, hi := []byte("a"), []byte("zz")
	it := v.Iter(lo, hi, false)
	clobber(lo)
	clobber(hi)
	if got := rows(t, it); !slices.Equal(got, []string{"key1=value1"}) {
		t.Errorf("Iter kept its bounds: %q", got)
	}
	kept, _, _ := v.Get([]byte("key1"), nil)
	st.put("key1", "value2")
	if string(kept) != "value1" {
		t.Errorf("a commit changed an earlier result to %q", kept)
	}
}

// A NoWait view returns the right row or ErrCold; a view that may wait never returns ErrCold.
func testNoWait(t *testing.T, s *suite) {
	st := s.begin(t)
	var want []string
	var keys [][]byte
	for k, v := range pairs(300) {
		st.put(k, v)
		want = append(want, k+"="+v)
		keys = append(keys, []byte(k))
	}
	s.cycle(st)
	check := func() {
		v, err := st.Begin(engine.ViewOptions{NoWait: true})
		if err != nil {
			t.Fatalf("Begin: %v", err)
		}
		defer v.Close()
		if n := v.Prefetch(append(keys, []byte("none"))); n < 0 || n > len(keys)+1 {
			t.Errorf("Prefetch = %d", n)
		}
		for i, k := range keys {
			value, found, err := v.Get(k, []byte("x"))
			if errors.Is(err, engine.ErrCold) {
				continue
			}
			if err != nil || !found || string(k)+"="+string(value[1:]) != want[i] {
				t.Errorf("Get %s = %q %v %v", k, value, found, err)
			}
		}
		if value, found, err := v.Get([]byte("none"), nil); !errors.Is(err, engine.ErrCold) && (err != nil || found) {
			t.Errorf("Get none = %q %v %v", value, found, err)
		}
		n := 0
		err = v.GetMany(keys, func(i int, value []byte, found bool) error {
			if !found || i != n || string(keys[i])+"="+string(value) != want[i] {
				t.Errorf("GetMany: row %d is %q %v", i, value, found)
			}
			n++
			return nil
		})
		if !errors.Is(err, engine.ErrCold) && (err != nil || n != len(keys)) {
			t.Errorf("GetMany: %d rows, %v", n, err)
		}
		it, n := v.Iter(nil, nil, false), 0
		for ; it.Next(); n++ {
			if n >= len(want) || string(it.Key())+"="+string(it.Value()) != want[n] {
				t.Fatalf("row %d of an iterator is %s=%s", n, it.Key(), it.Value())
			}
		}
		if err := it.Close(); !errors.Is(err, engine.ErrCold) && (err != nil || n != len(want)) {
			t.Errorf("an iterator ends after %d rows: %v", n, err)
		}
	}
	check()
	v := st.view()
	v.Prefetch(keys)
	v.Close()
	check()
	st.both(func(t *testing.T, r engine.Reader) {
		if got := rows(t, r.Iter(nil, nil, false)); !slices.Equal(got, want) {
			t.Errorf("a view that waits shows %d rows", len(got))
		}
	})
	if st.Congested() {
		t.Error("congested by 300 rows")
	}
}

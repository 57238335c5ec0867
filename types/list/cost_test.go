package list

import (
	"strconv"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/keyspace"
	"redoubt/types"
)

// TestCost counts the rows that operations on a long list read and write: as many
// as they touch, however long the list is.
func TestCost(t *testing.T) {
	const length = 20000
	fill := func(l *List) {
		for i := range length {
			l.Push(false, []byte(strconv.Itoa(i)))
		}
	}
	for name, c := range map[string]struct {
		f             func(l *List)
		reads, writes int
	}{
		"push left":       {func(l *List) { l.Push(true, []byte("x")) }, 1, 2},
		"push right":      {func(l *List) { l.Push(false, []byte("x")) }, 1, 2},
		"pop left":        {func(l *List) { l.Pop(true, 1, func([]byte) {}) }, 2, 2},
		"pop right":       {func(l *List) { l.Pop(false, 1, func([]byte) {}) }, 2, 2},
		"pop ten":         {func(l *List) { l.Pop(true, 10, func([]byte) {}) }, 12, 11},
		"index":           {func(l *List) { l.Index(length / 2) }, 2, 0},
		"set":             {func(l *List) { l.Set(length/2, []byte("x")) }, 2, 2},
		"cap":             {func(l *List) { l.Trim(0, 1) }, 2, 2},
		"trim all but 10": {func(l *List) { l.Trim(0, length-10) }, 22, 15},
		"walk":            {func(l *List) { l.Walk(100, 200, false, func([]byte) bool { return true }) }, 102, 0},
		"insert left":     {func(l *List) { l.Insert(false, []byte("5"), []byte("x")) }, 15, 7},
		"remove at left":  {func(l *List) { l.Remove(1, []byte("5")) }, 15, 8},
		"remove at right": {func(l *List) { l.Remove(-1, []byte(strconv.Itoa(length-5))) }, 15, 8},
	} {
		s, count := newStore(t, true)
		do(t, s, "k", -2, fill)
		count.rows = 0
		s.Do(func(tx *keyspace.Tx) {
			l := open(t, tx, "k", -2)
			c.f(l)
			l.Save()
			if count.rows > c.reads || tx.Rows.Batch.Len() > c.writes {
				t.Errorf("%s: %d reads, at most %d; %d writes, at most %d", name, count.rows, c.reads, tx.Rows.Batch.Len(), c.writes)
			}
		})
	}
}

// TestAllocations: the hot paths allocate nothing of their own.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for name, setting := range map[string]int64{"packed": -5, "rows": 1} {
		s, _ := newStore(t, true)
		key, e := []byte("k"), elems("some element of thirty bytes..")
		limits := &types.Limits{ListSize: setting}
		s.Do(func(tx *keyspace.Tx) {
			run := func(f func(l *List)) float64 {
				return testing.AllocsPerRun(500, func() {
					tx.Start()
					l, _ := Open(tx, key, limits)
					f(l)
					l.Save()
					l.Release()
				})
			}
			run(func(l *List) { l.PushAll(true, e) })
			for what, n := range map[string]float64{
				"push left":  run(func(l *List) { l.PushAll(true, e) }),
				"push right": run(func(l *List) { l.PushAll(false, e) }),
				"pop left":   run(func(l *List) { l.Pop(true, 1, func([]byte) {}) }),
				"push one":   run(func(l *List) { l.Push(true, e[0]) }),
				"index":      run(func(l *List) { l.Index(0) }),
				"walk":       run(func(l *List) { l.Walk(0, min(l.Len(), pointMax), false, func([]byte) bool { return true }) }),
			} {
				if n > 0 {
					t.Errorf("%s: %s allocates %v times", name, what, n)
				}
			}
		})
	}
}

// FuzzBody opens what is no list: nothing may panic.
func FuzzBody(f *testing.F) {
	f.Add(byte(0), []byte{0, 2, 1, 'a', 1, 'b'})
	f.Add(byte(0), []byte{0, 3, 1, 'a', 200, 'b'})
	f.Add(byte(1), make([]byte, bodySize))
	f.Add(byte(1), keyspace.AppendRef(nil, keyspace.Ref{ID: 1, Home: 2, Size: 3}))
	f.Fuzz(func(t *testing.T, enc byte, body []byte) {
		s, _ := newStore(t, true)
		for _, op := range []func(l *List){
			func(l *List) { l.Push(true, []byte("x")) },
			func(l *List) { l.PushAll(false, elems("x", "y")) },
			func(l *List) { l.Pop(true, min(2, l.Len()), func([]byte) {}) },
			func(l *List) { l.Pop(false, min(1, l.Len()), func([]byte) {}) },
			func(l *List) { l.Trim(min(1, l.Len()), 0) },
			func(l *List) { l.Set(-1, []byte("z")) },
			func(l *List) { l.Insert(true, []byte("a"), []byte("z")) },
			func(l *List) { l.Remove(-1, []byte("a")) },
			func(l *List) { l.Walk(0, min(l.Len(), 100), true, func([]byte) bool { return true }) },
		} {
			err := s.Try(func(tx *keyspace.Tx) {
				m := keyspace.Meta{Type: keyspace.List, Encoding: keyspace.Encoding(enc % 5), Body: body}
				if m.External() && len(body) < keyspace.RefSize {
					return // decoding a meta row refuses it
				}
				l, err := Of(tx, []byte("k"), m)
				if err != nil || tx.Err() != nil {
					return
				}
				l.limit = limitOf(-1)
				op(l)
				l.Save()
				tx.Fail(engine.ErrConflict) // change nothing
			})
			_ = err // what it is depends on the body
		}
	})
}

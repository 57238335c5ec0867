package list

import (
	"fmt"
	"testing"

	"redoubt/engine"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

func init() {
	lookMax, rangeMin, pointMax, pageBytes = 6, 8, 3, 600
}

// counting is an engine that counts what is read, and may have a cheap range
// delete.
type counting struct {
	engine.Engine
	cheap bool
	rows  int // rows read by Get or by an iterator
}

func (c *counting) Capabilities() engine.Capabilities {
	caps := c.Engine.Capabilities()
	caps.CheapRangeDelete = c.cheap
	return caps
}

func (c *counting) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := c.Engine.Begin(o)
	return countingView{v, c}, err
}

type countingView struct {
	engine.View
	c *counting
}

func (v countingView) Get(key, dst []byte) ([]byte, bool, error) {
	v.c.rows++
	return v.View.Get(key, dst)
}

func (v countingView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return countingIterator{v.View.Iter(lo, hi, reverse), v.c}
}

func (v countingView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

type countingIterator struct {
	engine.Iterator
	c *counting
}

func (i countingIterator) Next() bool {
	i.c.rows++
	return i.Iterator.Next()
}

// newStore makes a store whose engine counts.
func newStore(t testing.TB, cheap bool) (*typestest.Store, *counting) {
	t.Helper()
	s := typestest.New(t)
	c := &counting{Engine: s.Eng, cheap: cheap}
	space, err := keyspace.Open(c, 2)
	if err != nil {
		t.Fatal(err)
	}
	s.Eng, s.Space = c, space
	return s, c
}

// open opens a list that must be one.
func open(t testing.TB, tx *keyspace.Tx, key string, setting int64) *List {
	t.Helper()
	l, err := Open(tx, []byte(key), &types.Limits{ListSize: setting})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// do changes a list.
func do(t testing.TB, s *typestest.Store, key string, setting int64, f func(l *List)) {
	t.Helper()
	s.Do(func(tx *keyspace.Tx) {
		l := open(t, tx, key, setting)
		f(l)
		l.Save()
	})
}

func (l *List) strings() (all []string) {
	l.Walk(0, l.Len(), false, func(e []byte) bool {
		all = append(all, string(e))
		return true
	})
	return all
}

func elems(s ...string) (b [][]byte) {
	for _, e := range s {
		b = append(b, []byte(e))
	}
	return b
}

// checkRows says what is wrong with the rows of the only list in a store.
func checkRows(t testing.TB, s *typestest.Store, key string) {
	t.Helper()
	var m keyspace.Meta
	s.Do(func(tx *keyspace.Tx) {
		m = tx.Find([]byte(key))
		m.Body = append([]byte(nil), m.Body...)
	})
	var want map[string]bool
	size := int64(0)
	if m.External() {
		want = make(map[string]bool)
		s.Do(func(tx *keyspace.Tx) {
			l, _ := Of(tx, []byte(key), m)
			for i := range l.Len() {
				want[string(l.rows.row(i))] = true
			}
			if known := l.rows.bytes; known != unknown {
				l.rows.count()
				size = l.rows.bytes - known
			}
		})
	}
	if size != 0 {
		t.Fatalf("the size is off by %d", size)
	}
	view, err := s.Eng.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var left []string
	garbage := make(map[string]bool) // values that are still to be cleared
	it := view.Iter(nil, nil, false)
	for it.Next() {
		switch k := it.Key(); {
		case len(k) < keyspace.RowKeyHead || k[0] >= keyspace.Slots>>8:
		case k[2] == 6:
			garbage[string(k[5:])] = true // the id
		case want[string(k)]:
			delete(want, string(k))
		case k[2] == byte(keyspace.SubRow):
			left = append(left, string(k))
		}
	}
	for _, k := range left {
		if !garbage[k[3:keyspace.RowKeyHead]] {
			t.Fatalf("a row is left: %x", k)
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if len(want) > 0 {
		t.Fatalf("%d rows are missing", len(want))
	}
}

func encoding(t testing.TB, s *typestest.Store, key string) string {
	t.Helper()
	name := ""
	s.Do(func(tx *keyspace.Tx) {
		m := tx.Find([]byte(key))
		switch {
		case !m.Exists():
			name = "none"
		case m.Encoding == keyspace.Packed:
			name = "listpack"
		case m.Encoding == keyspace.Rows:
			name = "quicklist"
		default:
			name = fmt.Sprint(m.Encoding)
		}
	})
	return name
}

package engine_test

import (
	"slices"
	"strings"
	"testing"

	"redoubt/engine"
)

// fetching is a view that notes what it fetches.
type fetching struct {
	engine.View
	rows []string
}

func (f *fetching) Prefetch(rows [][]byte) (cold int) {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = string(r)
	}
	f.rows = append(f.rows, strings.Join(list, " "))
	return len(rows)
}

func TestWanted(t *testing.T) {
	t.Parallel()
	add := func(w *engine.Wanted, rows ...string) {
		for _, r := range rows {
			w.Add([]byte(r))
		}
	}
	for _, c := range []struct {
		name       string
		do         func(w *engine.Wanted, v engine.View) int // returns how many rows are cold
		fetched    []string
		cold, left int
	}{
		{"nothing", func(w *engine.Wanted, v engine.View) int { return w.Fetch(v) }, nil, 0, 0},
		{"a single row", func(w *engine.Wanted, v engine.View) int {
			add(w, "a", "a")
			return w.Fetch(v)
		}, []string{"a"}, 1, 0},
		{"all at once, and repeated ones once", func(w *engine.Wanted, v engine.View) int {
			add(w, "a", "a", "b", "b", "a")
			return w.Fetch(v)
		}, []string{"a b a"}, 3, 0},
		{"portions of so many rows", func(w *engine.Wanted, v engine.View) (cold int) {
			add(w, "a", "b", "c", "d", "e")
			for range 2 {
				n, c := w.FetchSome(v, 2, 100)
				if cold += c; n != 2 {
					t.Errorf("a portion of %d rows", n)
				}
			}
			return cold
		}, []string{"a b", "c d"}, 4, 1},
		{"portions of so many bytes, of one row at least", func(w *engine.Wanted, v engine.View) (cold int) {
			add(w, "a", "b", "four", "c", "d", "e")
			for _, want := range []int{2, 1, 2} {
				n, c := w.FetchSome(v, 10, 2)
				if cold += c; n != want {
					t.Errorf("a portion of %d rows, want %d", n, want)
				}
			}
			return cold
		}, []string{"a b", "four", "c d"}, 5, 1},
		{"a row behind the last portion begins anew", func(w *engine.Wanted, v engine.View) int {
			add(w, "a", "b")
			w.Fetch(v)
			add(w, "b", "c")
			return w.Fetch(v)
		}, []string{"a b", "b c"}, 2, 0},
		{"a copy has what was fetched, too", func(w *engine.Wanted, v engine.View) int {
			add(w, "a", "b")
			w.Fetch(v)
			c := w.Clone()
			add(w, "x")
			return c.Fetch(v)
		}, []string{"a b", "a b"}, 2, 1},
		{"what is forgotten is not fetched", func(w *engine.Wanted, v engine.View) int {
			add(w, "a", "b", strings.Repeat("x", 1<<20))
			w.Reset()
			return w.Fetch(v)
		}, nil, 0, 0},
	} {
		var w engine.Wanted
		v := &fetching{}
		if cold := c.do(&w, v); cold != c.cold || w.Len() != c.left || !slices.Equal(v.rows, c.fetched) {
			t.Errorf("%s: %d cold, %d left, fetched %q; want %d, %d, %q", c.name, cold, w.Len(), v.rows, c.cold, c.left, c.fetched)
		}
	}
}

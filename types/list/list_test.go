package list

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
)

// TestModel runs random operations on lists with several limits, from one that
// keeps every list packed to one that unfolds each, and compares all of them with
// a slice.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, cheap := range []bool{false, true} {
		for _, setting := range []int64{-5, -1, 1, 2, 5, 12, 40} {
			t.Run(fmt.Sprintf("limit %d, cheap %v", setting, cheap), func(t *testing.T) {
				t.Parallel()
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				rng := rand.New(rand.NewPCG(seed, 1))
				s, _ := newStore(t, cheap)
				var model []string
				steps, forms := 1500, map[string]int{}
				for step := range steps {
					var what string
					what, model = modelStep(t, rng, func(f func(l *List)) { do(t, s, "k", setting, f) }, model)
					s.Do(func(tx *keyspace.Tx) {
						l := open(t, tx, "k", setting)
						if got := l.strings(); !slices.Equal(got, model) {
							t.Fatalf("step %d: %s\ngot  %.300q\nwant %.300q", step, what, got, model)
						}
						for _, i := range []int64{0, -1, rng.Int64N(60) - 30} {
							at := i
							if at < 0 {
								at += int64(len(model))
							}
							e, ok := l.Index(i)
							if in := at >= 0 && at < int64(len(model)); ok != in || in && string(e) != model[at] {
								t.Fatalf("step %d: element %d is %q, %v", step, i, e, ok)
							}
						}
					})
					forms[encoding(t, s, "k")]++
					if step%50 == 0 || len(model) < 3 {
						checkRows(t, s, "k")
					}
				}
				t.Log(forms)
			})
		}
	}
}

// modelStep runs one operation on a list and on a slice.
func modelStep(t *testing.T, rng *rand.Rand, do func(func(l *List)), model []string) (string, []string) {
	t.Helper()
	left, n := rng.IntN(2) == 0, len(model)
	word := func() string {
		switch rng.IntN(12) {
		case 0:
			return strings.Repeat("x", rng.IntN(300))
		case 1:
			return strconv.Itoa(rng.IntN(1<<30) - 1<<29)
		}
		return string(rune('a' + rng.IntN(5)))
	}
	switch op := rng.IntN(16); {
	case op < 6:
		e := make([]string, 1+rng.IntN(1+rng.IntN(12)))
		for i := range e {
			e[i] = word()
		}
		do(func(l *List) { l.PushAll(left, elems(e...)) })
		if !left {
			return fmt.Sprint("push right ", e), append(slices.Clone(model), e...)
		}
		slices.Reverse(e)
		return fmt.Sprint("push left ", e), append(e, model...)
	case op < 9 && n > 0:
		count := 1 + rng.IntN(1+rng.IntN(n))
		var got []string
		do(func(l *List) { l.Pop(left, int64(count), func(e []byte) { got = append(got, string(e)) }) })
		want := slices.Clone(model[:count])
		rest := model[count:]
		if !left {
			want, rest = slices.Clone(model[n-count:]), model[:n-count]
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pop %d, left %v: got %.200q, want %.200q", count, left, got, want)
		}
		return fmt.Sprintf("pop %d, left %v", count, left), rest
	case op < 10 && n > 0:
		front := rng.IntN(1 + rng.IntN(n))
		end := rng.IntN(1 + rng.IntN(n-front))
		do(func(l *List) { l.Trim(int64(front), int64(end)) })
		return fmt.Sprintf("trim %d and %d", front, end), model[front : n-end]
	case op < 12:
		i, e := rng.IntN(n+1), word()
		ok := false
		do(func(l *List) { ok = l.Set(int64(i), []byte(e)) })
		if ok != (i < n) {
			t.Fatalf("set %d of %d says %v", i, n, ok)
		}
		if model = slices.Clone(model); ok {
			model[i] = e
		}
		return fmt.Sprintf("set %d", i), model
	case op < 14:
		pivot, e := word(), word()
		at, ok := slices.Index(model, pivot), false
		do(func(l *List) { ok = l.Insert(left, []byte(pivot), []byte(e)) })
		if ok != (at >= 0) {
			t.Fatalf("insert at %q says %v", pivot, ok)
		}
		if at < 0 {
			return "insert nothing", model
		}
		if left { // here: behind the pivot
			at++
		}
		return fmt.Sprintf("insert at %d", at), slices.Insert(slices.Clone(model), at, e)
	}
	e, most := word(), rng.IntN(9)-4
	got := int64(0)
	do(func(l *List) { got = l.Remove(int64(most), []byte(e)) })
	rest, removed := removeStrings(model, most, e)
	if got != int64(removed) {
		t.Fatalf("remove %d of %q: got %d, want %d", most, e, got, removed)
	}
	return fmt.Sprintf("remove %d of %q", most, e), rest
}

func removeStrings(model []string, most int, e string) ([]string, int) {
	model = slices.Clone(model)
	if most < 0 {
		slices.Reverse(model)
		rest, n := removeStrings(model, -most, e)
		slices.Reverse(rest)
		return rest, n
	}
	n := 0
	model = slices.DeleteFunc(model, func(x string) bool {
		if x == e && (most == 0 || n < most) {
			n++
			return true
		}
		return false
	})
	return model, n
}

// TestFind looks in both directions and stops in time.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, setting := range []int64{-2, 1} {
		s, _ := newStore(t, true)
		do(t, s, "k", setting, func(l *List) {
			l.PushAll(false, elems(strings.Split("a b a c a d a", " ")...))
			for _, c := range []struct {
				reverse bool
				most    int64
				want    []int64
			}{
				{false, 0, []int64{0, 2, 4, 6}}, {true, 0, []int64{6, 4, 2, 0}},
				{false, 3, []int64{0, 2}}, {true, 3, []int64{6, 4}}, {false, 100, []int64{0, 2, 4, 6}}, {true, 1, []int64{6}},
			} {
				var got []int64
				l.Find([]byte("a"), c.reverse, c.most, func(i int64) bool {
					got = append(got, i)
					return true
				})
				if !slices.Equal(got, c.want) {
					t.Errorf("limit %d, reverse %v, most %d: got %v, want %v", setting, c.reverse, c.most, got, c.want)
				}
			}
			n := 0
			l.Find([]byte("a"), false, 0, func(int64) bool { n++; return n < 2 })
			if n != 2 {
				t.Errorf("limit %d: %d visits after a stop", setting, n)
			}
		})
	}
}

// TestExpiryStays: changes keep the time of death, in either form.
func TestExpiryStays(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, true)
	at := s.Now + 1000
	do(t, s, "k", 3, func(l *List) { l.PushAll(false, elems("a", "b")) })
	s.Do(func(tx *keyspace.Tx) {
		m := tx.Find([]byte("k"))
		to := m
		to.Expire = at
		tx.Store([]byte("k"), m, to)
	})
	for _, f := range []func(l *List){
		func(l *List) { l.Push(true, []byte("c")) },
		func(l *List) { l.PushAll(true, elems("d", "e")) }, // unfolds
		func(l *List) { l.Set(0, []byte("x")) },
		func(l *List) { l.Trim(1, 3) }, // packed again
	} {
		do(t, s, "k", 3, f)
		s.Do(func(tx *keyspace.Tx) {
			if m := tx.Find([]byte("k")); m.Expire != at {
				t.Errorf("the time of death is %d, not %d", m.Expire, at)
			}
		})
	}
	if e := encoding(t, s, "k"); e != "listpack" {
		t.Errorf("encoding %s", e)
	}
}

// TestCreate makes new lists in the place of an old one.
func TestCreate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 4, 100} {
		s, _ := newStore(t, true)
		do(t, s, "k", 1, func(l *List) { l.PushAll(false, elems("old", "rows")) })
		var want []string
		s.Do(func(tx *keyspace.Tx) {
			l := Create(tx, []byte("k"), &types.Limits{ListSize: 3})
			for i := range n {
				l.Append([]byte(strconv.Itoa(i)))
				want = append(want, strconv.Itoa(i))
			}
			if gone := l.Save(); gone != (n == 0) {
				t.Errorf("%d elements: Save says %v", n, gone)
			}
		})
		s.Do(func(tx *keyspace.Tx) {
			if got := open(t, tx, "k", 3).strings(); !slices.Equal(got, want) {
				t.Errorf("%d: got %q", n, got)
			}
		})
		checkRows(t, s, "k")
		if e := encoding(t, s, "k"); n > 0 && (e == "listpack") != (n <= 3) {
			t.Errorf("%d elements: encoding %s", n, e)
		}
	}
}

func TestWrongType(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, true)
	s.Do(func(tx *keyspace.Tx) {
		tx.Store([]byte("k"), keyspace.Meta{}, keyspace.Meta{Type: keyspace.String, Body: []byte("x")})
		if _, err := Open(tx, []byte("k"), &types.DefaultLimits); !errors.Is(err, types.ErrWrongType) {
			t.Errorf("Open: %v", err)
		}
		if _, err := Read(tx, []byte("k")); !errors.Is(err, types.ErrWrongType) {
			t.Errorf("Read: %v", err)
		}
	})
}

// TestMissingRow: a list that lacks a row is corrupt, and says so.
func TestMissingRow(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(l *List){
		"index":  func(l *List) { l.Index(2) },
		"walk":   func(l *List) { l.Walk(0, 5, false, func([]byte) bool { return true }) },
		"back":   func(l *List) { l.Walk(0, 5, true, func([]byte) bool { return true }) },
		"pop":    func(l *List) { l.Pop(true, 3, func([]byte) {}) },
		"trim":   func(l *List) { l.Trim(3, 0) },
		"insert": func(l *List) { l.Insert(true, []byte("d"), []byte("x")) },
		"remove": func(l *List) { l.Remove(0, []byte("a")) },
		"set":    func(l *List) { l.Set(2, []byte("x")) },
	} {
		s, _ := newStore(t, true)
		do(t, s, "k", 1, func(l *List) { l.PushAll(false, elems("a", "b", "c", "d", "e")) })
		do(t, s, "k", 1, func(l *List) { l.tx.DeleteRow(l.rows.row(2)) })
		err := s.Try(func(tx *keyspace.Tx) {
			l := open(t, tx, "k", 1)
			f(l)
			l.Save()
		})
		if !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

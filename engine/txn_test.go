package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// sliceView is a View over sorted rows, which cannot commit.
type sliceView struct {
	Uncounted
	rows map[string]string
}

func (sliceView) Prefetch([][]byte) int { return 0 }

func (v sliceView) Get(key, dst []byte) ([]byte, bool, error) {
	value, found := v.rows[string(key)]
	return append(dst, value...), found, nil
}

func (v sliceView) GetMany([][]byte, func(int, []byte, bool) error) error {
	return errors.ErrUnsupported
}

func (v sliceView) Iter(lo, hi []byte, reverse bool) Iterator {
	keys := slices.Sorted(maps.Keys(v.rows))
	keys = slices.DeleteFunc(keys, func(k string) bool { return k < string(lo) || hi != nil && k >= string(hi) })
	if reverse {
		slices.Reverse(keys)
	}
	return &sliceIter{rows: v.rows, keys: keys}
}

// rankedView is one that can tell numbers.
type rankedView struct{ sliceView }

func (v rankedView) Count(lo, hi []byte) (int, bool) {
	return len(v.Iter(lo, hi, false).(*sliceIter).keys), true
}

func (v rankedView) Nth(lo, hi []byte, n int, b []byte) ([]byte, bool, bool) {
	keys := v.Iter(lo, hi, false).(*sliceIter).keys
	if n >= len(keys) {
		return b, false, true
	}
	return append(b, keys[n]...), true, true
}

func (v rankedView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	keys := v.Iter(lo, hi, reverse).(*sliceIter).keys
	if len(keys) == 0 {
		return b, 0, false, nil
	}
	return append(append(b, keys[0]...), v.rows[keys[0]]...), len(keys[0]), true, nil
}

func (v sliceView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return EdgeByIter(v, lo, hi, reverse, b)
}

func (v sliceView) Commit(*Batch) (Ticket, error) { return 0, errors.ErrUnsupported }
func (v sliceView) Close()                        {}

// sliceIter reuses its buffers, so that a caller that keeps a row too long sees
// another one.
type sliceIter struct {
	rows       map[string]string
	keys       []string
	key, value []byte
	closed     bool
	err        error
}

func (i *sliceIter) Next() bool {
	if len(i.keys) == 0 {
		return false
	}
	i.key, i.value = append(i.key[:0], i.keys[0]...), append(i.value[:0], i.rows[i.keys[0]]...)
	i.keys = i.keys[1:]
	return true
}

func (i *sliceIter) Key() []byte   { return i.key }
func (i *sliceIter) Value() []byte { return i.value }
func (i *sliceIter) Close() error  { i.closed = true; return i.err }

// A Txn shows the rows as they would be after a commit, whichever way it is
// asked, and after rollbacks too.
func TestTxnAgainstModel(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	var b Batch
	for range 300 {
		w := newWorld(randomBase(rng))
		b.Reset()
		txn := &Txn{View: sliceView{rows: w.base}, Batch: &b}
		if rng.IntN(2) == 0 {
			txn.View = rankedView{sliceView{rows: w.base}}
		}
		mark, was := b.Mark(), w.clone()
		for range rng.IntN(40) {
			note(rng, &b, w)
			switch rng.IntN(8) {
			case 0:
				mark, was = b.Mark(), w.clone()
			case 1:
				b.Rollback(mark)
				w = was.clone()
			}
			checkTxn(t, txn, w, randomKey(rng), randomKey(rng))
		}
		checkTxn(t, txn, w, nil, nil)
	}
}

func checkTxn(t *testing.T, txn *Txn, w *world, lo, hi []byte) {
	t.Helper()
	for _, reverse := range []bool{false, true} {
		for _, hi := range [][]byte{hi, nil} {
			got := []string{}
			it := txn.Iter(lo, hi, reverse)
			for it.Next() {
				got = append(got, string(it.Key())+"="+string(it.Value()))
			}
			if it.Next() {
				t.Fatal("Next is true after the end")
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
			if want := w.walk(lo, hi, reverse); !slices.Equal(got, want) {
				t.Fatalf("Iter(%q, %q, %v)\n got %q\nwant %q", lo, hi, reverse, got, want)
			}
		}
	}
	if hi != nil {
		for _, reverse := range []bool{false, true} {
			want := ""
			if rows := w.walk(lo, hi, reverse); len(rows) > 0 {
				want = rows[0]
			}
			got, key, found, err := txn.Edge(lo, hi, reverse, []byte("x"))
			row := ""
			if found {
				row = string(got[1:1+key]) + "=" + string(got[1+key:])
			}
			if row != want || found != (want != "") || got[0] != 'x' || err != nil {
				t.Fatalf("Edge(%q, %q, %v) = %q %v %v, want %q", lo, hi, reverse, row, found, err, want)
			}
		}
	}
	if hi != nil && string(lo) < string(hi) {
		rows := w.walk(lo, hi, false)
		if n, ok := txn.Count(lo, hi); ok && n != len(rows) {
			t.Fatalf("Count(%q, %q) = %d, want %d", lo, hi, n, len(rows))
		}
		for i := range len(rows) + 1 {
			key, found, ok := txn.Nth(lo, hi, i, []byte("x"))
			if ok && (found != (i < len(rows)) || found && !strings.HasPrefix(rows[i], string(key[1:])+"=")) {
				t.Fatalf("Nth(%q, %q, %d) = %q %v, of %q", lo, hi, i, key, found, rows)
			}
		}
	}
	want, exists := w.rows[string(lo)]
	got, found, err := txn.Get(lo, []byte("x"))
	if string(got) != "x"+want || found != exists || err != nil {
		t.Fatalf("Get %q = %q %v %v, want %q %v", lo, got, found, err, "x"+want, exists)
	}
}

// failingView opens iterators that report an error when closed.
type failingView struct {
	sliceView
	last *sliceIter
}

func (v *failingView) Iter(lo, hi []byte, reverse bool) Iterator {
	v.last = v.sliceView.Iter(lo, hi, reverse).(*sliceIter)
	v.last.err = ErrCorrupt
	return v.last
}

func TestTxnIterCloses(t *testing.T) {
	t.Parallel()
	var b Batch
	view := &failingView{sliceView: sliceView{rows: map[string]string{"a": "1"}}}
	txn := &Txn{View: view, Batch: &b}
	for range 2 {
		it := txn.Iter(nil, nil, false)
		for it.Next() {
		}
		if err := it.Close(); !errors.Is(err, ErrCorrupt) || !view.last.closed {
			t.Errorf("Close = %v, closed %v", err, view.last.closed)
		}
		b.Put([]byte("b"), []byte("2"))
	}
}

// Any row is drawn as often as any other, whether the view has it, the batch has
// replaced it, or only the batch has it; one that is deleted never.
func TestAnyIsFair(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	base := map[string]string{}
	for i := range 20 {
		base[fmt.Sprintf("neighbours%02d", i)] = ""
	}
	var b Batch
	for i := range 8 {
		b.Delete(fmt.Appendf(nil, "neighbours%02d", i))
		b.Put(fmt.Appendf(nil, "neighbours%02d", 10+i), []byte("replaced"))
		b.Put(fmt.Appendf(nil, "neighbours%02d", 16+i), []byte("new from 20 on"))
	}
	b.Put([]byte("neighbours50"), nil)
	b.Delete([]byte("neighbours50"))
	txn := &Txn{View: rankedView{sliceView{rows: base}}, Batch: &b}
	const draws, rows = 32_000, 16 // 8 to 23
	seen := map[string]int{}
	for range draws {
		key, found, ok := txn.Any([]byte("neighbours"), []byte("neighbours~"), rng.IntN, []byte("x"))
		if !found || !ok {
			t.Fatal("nothing drawn")
		}
		seen[string(key[1:])]++
	}
	sum := 0.0
	for i := range rows {
		d := float64(seen[fmt.Sprintf("neighbours%02d", 8+i)]) - draws/rows
		sum += d * d / (draws / rows)
	}
	if len(seen) != rows || sum > 50 { // chi-square with 15 degrees of freedom: once in a hundred thousand
		t.Errorf("%v: chi-square %.1f", seen, sum)
	}
}

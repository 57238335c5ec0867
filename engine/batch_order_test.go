package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestBatchOrder notes, rolls back and walks in between: the order is the same
// whether it was kept up to date or made anew.
func TestBatchOrder(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var b Batch
	b.GroupBy(9)
	var marks []Mark
	keys := 300
	heads := []string{"k", "long-enough-1", "long-enough-2"}
	for range 40_000 {
		head := heads[rng.IntN(len(heads))]
		key := fmt.Appendf(nil, "%s%d", head, rng.IntN(keys))
		switch p := rng.IntN(100); {
		case p < 50:
			b.Put(key, []byte("v"))
		case p < 65:
			b.Delete(key)
		case p < 66:
			b.DeleteRange(key, append(slices.Clone(key), 'z'))
		case p < 75:
			marks = append(marks, b.Mark())
		case p < 80 && len(marks) > 0:
			i := max(0, len(marks)-1-rng.IntN(5))
			b.Rollback(marks[i])
			marks = marks[:i]
		case p < 81 && rng.IntN(20) == 0:
			b.Reset()
			b.GroupBy([]int{0, 9, 13}[rng.IntN(3)])
			marks, keys = marks[:0], []int{10, 300, 5000}[rng.IntN(3)]
		default:
			lo, hi := key, fmt.Appendf(nil, "%s%d", head, rng.IntN(keys))
			if rng.IntN(3) == 0 {
				lo, hi = nil, nil
			}
			checkOrder(t, &b, lo, hi, rng.IntN(2) == 0)
		}
	}
}

func checkOrder(t *testing.T, b *Batch, lo, hi []byte, reverse bool) {
	t.Helper()
	var want, got []string
	for i := range b.heads {
		if k := b.keyAt(int32(i)); inRange(k, lo, hi) {
			want = append(want, fmt.Sprintf("%s %d", k, i))
		}
	}
	slices.SortFunc(want, func(x, y string) int {
		kx, _, _ := bytes.Cut([]byte(x), []byte(" "))
		ky, _, _ := bytes.Cut([]byte(y), []byte(" "))
		return bytes.Compare(kx, ky)
	})
	if reverse {
		slices.Reverse(want)
	}
	c := b.cursor(lo, hi, reverse)
	for i := c.peek(); i >= 0; i = c.peek() {
		got = append(got, fmt.Sprintf("%s %d", b.keyAt(i), i))
		c.take(i)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("from %q to %q: %v, not %v", lo, hi, got, want)
	}
}

// TestBatchCursorUnderWrites walks while other rows are written and deleted: what
// was there all the time is met once, and in order.
func TestBatchCursorUnderWrites(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		var b Batch
		for i := range 1000 {
			b.Put(fmt.Appendf(nil, "a%04d", i), nil)
		}
		c := b.cursor([]byte("a"), []byte("b"), reverse)
		var got []string
		for i := c.peek(); i >= 0; i = c.peek() {
			key := string(b.keyAt(i))
			c.take(i)
			if len(key) == 5 {
				got = append(got, key)
			}
			for j := range 3 {
				b.Put(fmt.Appendf(nil, "%s+%d", key, j), nil)
				b.Put(fmt.Appendf(nil, "0%s%d", key, j), nil)
			}
			b.Put([]byte(key), []byte("again"))
			if len(got) > 1000 {
				t.Fatal("it does not end")
			}
			if len(key) > 5 { // a new one was met: do not follow it for ever
				break
			}
		}
		if reverse {
			slices.Reverse(got)
			if len(got) != 1000 {
				t.Fatalf("%d met", len(got))
			}
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatal("not in order")
		}
	}
}

package engine

import "testing"

// Commands of a batch that take from a queue at its ends, put rows between, and
// fail in between, always meet the row that is first, or last, by then.
func TestEdgeOfQueue(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for range 200 {
		w := newWorld(randomBase(rng))
		var b Batch
		txn := &Txn{View: rankedView{sliceView{rows: w.base}}, Batch: &b}
		lo, hi := randomKey(rng), randomKey(rng)
		if string(lo) > string(hi) {
			lo, hi = hi, lo
		}
		mark, was := b.Mark(), w.clone()
		for range 60 {
			switch n := rng.IntN(20); {
			case n < 12:
				reverse := n < 5
				checkTxn(t, txn, w, lo, hi)
				if row, key, found, _ := txn.Edge(lo, hi, reverse, nil); found {
					b.Delete(row[:key])
					delete(w.rows, string(row[:key]))
					w.touched[string(row[:key])] = true
				}
			case n < 16:
				k := randomKey(rng)
				b.Put(k, []byte("new"))
				w.rows[string(k)], w.touched[string(k)] = "new", true
			case n < 18:
				mark, was = b.Mark(), w.clone()
			default:
				b.Rollback(mark)
				w = was.clone()
			}
		}
		checkTxn(t, txn, w, lo, hi)
	}
}

// A steady load of look-ups allocates nothing.
func TestEdgeAllocatesNothing(t *testing.T) {
	var b Batch
	txn := &Txn{View: edgeView{}, Batch: &b}
	lo, hi := []byte("neighbours"), []byte("neighbours~")
	row := make([]byte, 0, 64)
	turn := func() {
		for i := range byte(50) {
			k := [12]byte([]byte("neighbours00"))
			k[10] += i / 10
			k[11] += i % 10
			b.Put(k[:], lo)
			if _, _, found, _ := txn.Edge(lo, hi, true, row); !found {
				t.Fatal("nothing found")
			}
		}
		b.Reset()
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// edgeView has one row, in front of all others.
type edgeView struct{ sliceView }

func (edgeView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return append(append(b, lo...), 'v'), len(lo), true, nil
}

package engine

import "bytes"

// Wanted is a plan: the keys of rows that will be read soon, which a view fetches all at
// once (View.Prefetch) or in portions. Where each read is a trip, to a disk or to another
// machine, one trip replaces many. A plan is a hint: rows that were not fetched are read as
// usual, and errors go to the caller that reads the row. To fetch a single row gains
// nothing, unless it is read often.
//
// The zero value is an empty plan. A plan keeps copies of the keys and reuses its memory.
type Wanted struct {
	keys []byte // concatenated
	ends []int  // where each key ends
	next int    // index of the first key that was not fetched
	rows [][]byte
}

// wantedKept is up to how many bytes of memory Reset keeps.
const wantedKept = 512 << 10

// Add adds a row, unless it equals the row added last. If all rows in the plan were fetched,
// Add empties the plan first.
func (w *Wanted) Add(row []byte) {
	n := len(w.ends)
	if w.next == n {
		w.Reset()
	} else if bytes.Equal(w.key(n-1), row) {
		return
	}
	w.keys = append(w.keys, row...)
	w.ends = append(w.ends, len(w.keys))
}

// Len is how many rows are still to be fetched.
func (w *Wanted) Len() int { return len(w.ends) - w.next }

// Each visits the keys that are still to be fetched. They are valid until the plan changes.
func (w *Wanted) Each(visit func(row []byte)) {
	for i := w.next; i < len(w.ends); i++ {
		visit(w.key(i))
	}
}

func (w *Wanted) key(i int) []byte {
	at := 0
	if i > 0 {
		at = w.ends[i-1]
	}
	return w.keys[at:w.ends[i]:w.ends[i]]
}

// Fetch has a view fetch all rows, and returns how many of them are cold.
func (w *Wanted) Fetch(v View) (cold int) {
	_, cold = w.FetchSome(v, w.Len(), len(w.keys))
	return cold
}

// FetchSome has a view fetch the next rows: at most rows of them, with at most size bytes
// of keys unless it is one row. It returns how many were fetched and how many are cold.
func (w *Wanted) FetchSome(v View, rows, size int) (n, cold int) {
	w.rows = w.rows[:0]
	sum := 0
	for ; w.next < len(w.ends) && len(w.rows) < rows; w.next++ {
		key := w.key(w.next)
		if sum += len(key); len(w.rows) > 0 && sum > size {
			break
		}
		w.rows = append(w.rows, key)
	}
	if n = len(w.rows); n > 0 {
		cold = v.Prefetch(w.rows)
	}
	clear(w.rows)
	return n, cold
}

// Clone returns a copy of the plan, with all rows still to be fetched.
func (w *Wanted) Clone() *Wanted {
	return &Wanted{keys: bytes.Clone(w.keys), ends: append([]int(nil), w.ends...)}
}

// Reset empties the plan.
func (w *Wanted) Reset() {
	w.keys, w.ends, w.next = w.keys[:0], w.ends[:0], 0
	if cap(w.keys) > wantedKept {
		*w = Wanted{}
	}
}

package keyspace

import "redoubt/engine"

// Rows that a command is about to read.
//
// A command that names many members of a collection reads their rows one after the
// other. If each read goes over a network or to a disk, the command announces the rows
// first, and the engine fetches them all at once:
//
//	if tx.WorthPrefetching(len(members)) {
//		for _, m := range members { tx.Expect(rowOf(m)) }
//		tx.FetchExpected()
//	}
//	for _, m := range members { ... tx.GetRow(rowOf(m)) ... }
//
// This is a hint and changes nothing else: rows are read as without it, and errors are
// returned by the reads.

// expected is the plan of an execution.
type expected struct {
	rows    engine.Wanted
	reads   int  // how many rows are read before the next portion is fetched
	fetched bool // a portion was fetched: the next Expect begins a new plan
}

// These bound a portion, which is fetched at once. The next portion is fetched when as many
// rows were read as the last one had: so rows are not evicted from a full memory before
// they are read. A remote store gets small requests, while a disk is read in the order of
// the keys: the more are known, the closer they lie.
const (
	portionRows       = 512
	portionBytes      = 64 << 10
	portionRowsLocal  = 4096
	portionBytesLocal = 512 << 10
)

// WorthPrefetching reports whether it is worth while to announce so many rows by Expect: the engine is
// remote, or the execution is on a worker or waits for the disk. For rows that are in
// memory it would only cost.
func (t *Tx) WorthPrefetching(rows int) bool {
	return rows > 1 && t.Latched && t.err == nil && (t.Cold || t.Worker || !t.Local())
}

// Expect announces that a row will be read soon, after those announced before.
func (t *Tx) Expect(row []byte) {
	if t.expected.fetched {
		t.expected.reset()
	}
	if _, _, known := t.Rows.Batch.Get(row); !known && !t.isFresh(row) {
		t.expected.rows.Add(row)
	}
}

// FetchExpected fetches the rows announced since the last call, or the first portion of
// them, if they are many.
func (t *Tx) FetchExpected() {
	if t.expected.rows.Len() < 2 { // a single row is fetched by its read
		t.expected.reset()
		return
	}
	t.expected.fetched = true
	t.fetchPortion()
}

// fetchPortion fetches the next portion.
func (t *Tx) fetchPortion() {
	e := &t.expected
	rows, bytes := portionRows, portionBytes
	if t.Local() {
		rows, bytes = portionRowsLocal, portionBytesLocal
	}
	if t.err == nil {
		e.reads, _ = e.rows.FetchSome(t.Rows.View, rows, bytes)
	}
	if e.rows.Len() == 0 || t.err != nil {
		e.reset()
	}
}

// reset empties the plan.
func (e *expected) reset() {
	e.rows.Reset()
	e.reads, e.fetched = 0, false
}

// read is called before each row is read; it fetches the next portion when that is due.
func (t *Tx) read() {
	if t.expected.reads == 0 {
		t.fetchPortion()
	}
	if t.expected.reads > 0 {
		t.expected.reads--
	}
}

package keyspace

import "redoubt/engine"

// Rows that a command is about to read.
//
// A command that names many members of a collection reads their rows one after the
// other. If each read goes over a network or to a disk, the command announces the rows
// first, and the engine fetches them all at once:
//
//	if tx.Ahead(len(members)) {
//		for _, m := range members { tx.Expect(rowOf(m)) }
//		tx.FetchExpected()
//	}
//	for _, m := range members { ... tx.GetRow(rowOf(m)) ... }
//
// This is a hint and changes nothing else: rows are read as without it, and errors are
// returned by the reads.

// ahead is the plan of an execution.
type ahead struct {
	rows    engine.Wanted
	reads   int  // how many rows are read before the next portion is fetched
	fetched bool // a portion was fetched: the next Expect begins a new plan
}

// These bound a portion, which is fetched at once. The next portion is fetched when as many
// rows were read as the last one had: so rows are not evicted from a full memory before
// they are read. A remote store gets small requests, while a disk is read in the order of
// the keys: the more are known, the closer they lie.
const (
	aheadRows      = 512
	aheadBytes     = 64 << 10
	aheadRowsNear  = 4096
	aheadBytesNear = 512 << 10
)

// Ahead reports whether it is worth while to announce so many rows by Expect: the engine is
// remote, or the execution is on a worker or waits for the disk. For rows that are in
// memory it would only cost.
func (t *Tx) Ahead(rows int) bool {
	return rows > 1 && t.Latched && t.err == nil && (t.Cold || t.Worker || !t.Near())
}

// Expect announces that a row will be read soon, after those announced before.
func (t *Tx) Expect(row []byte) {
	if t.soon.fetched {
		t.soon.reset()
	}
	if _, _, known := t.Rows.Batch.Get(row); !known && !t.isFresh(row) {
		t.soon.rows.Add(row)
	}
}

// FetchExpected fetches the rows announced since the last call, or the first portion of
// them, if they are many.
func (t *Tx) FetchExpected() {
	if t.soon.rows.Len() < 2 { // a single row is fetched by its read
		t.soon.reset()
		return
	}
	t.soon.fetched = true
	t.fetchSoon()
}

// fetchSoon fetches the next portion.
func (t *Tx) fetchSoon() {
	s := &t.soon
	rows, bytes := aheadRows, aheadBytes
	if t.Near() {
		rows, bytes = aheadRowsNear, aheadBytesNear
	}
	if t.err == nil {
		s.reads, _ = s.rows.FetchSome(t.Rows.View, rows, bytes)
	}
	if s.rows.Len() == 0 || t.err != nil {
		s.reset()
	}
}

// reset forgets what is expected.
func (s *ahead) reset() {
	s.rows.Reset()
	s.reads, s.fetched = 0, false
}

// read is called before each row is read; it fetches the next portion when that is due.
func (t *Tx) read() {
	if t.soon.reads == 0 {
		t.fetchSoon()
	}
	if t.soon.reads > 0 {
		t.soon.reads--
	}
}

package keyspace

// Rows that a command is about to read.
//
// A command that names many members of a collection reads their rows one after the
// other. Where each of these reads is a trip, over a network or to a disk, it tells
// before which ones they are, and the engine fetches them all at once:
//
//	if tx.Ahead(len(members)) {
//		for _, m := range members { tx.Expect(rowOf(m)) }
//		tx.FetchExpected()
//	}
//	for _, m := range members { ... tx.GetRow(rowOf(m)) ... }
//
// It is a hint and changes nothing else: rows are read as without it, and what is
// wrong with one is said to who reads it.

// ahead holds the keys of rows that are expected, each behind the one before.
type ahead struct {
	keys    []byte
	ends    []int    // where each key ends
	next    int      // the first one that was not fetched
	reads   int      // how many rows are read before more are fetched
	fetched bool     // some were: no more are added
	rows    [][]byte // scratch
}

// Not more than this is fetched at once. What is more goes in portions, the next one
// when as many rows were read as the last one had: so they are not gone again, from
// a memory that is full, before somebody comes to read them. A store far away gets
// small requests, while a disk is read in the order of the keys: the more are known,
// the closer they lie.
const (
	aheadRows      = 512
	aheadBytes     = 64 << 10
	aheadRowsNear  = 4096
	aheadBytesNear = 512 << 10
)

// Ahead says whether it is worth while to tell that so many rows will be read: the
// engine is remote, or the execution is one that waits for rows from the disk. For
// rows that are in memory it would only cost.
func (t *Tx) Ahead(rows int) bool {
	return rows > 1 && t.Latched && t.err == nil && (t.Cold || t.Worker || t.far())
}

func (t *Tx) far() bool { return t.Space.eng.Capabilities().Remote }

// Expect tells that a row will be read soon, behind those that were told before.
func (t *Tx) Expect(row []byte) {
	s := &t.soon
	if s.fetched {
		s.reset()
	}
	if _, _, known := t.Rows.Batch.Get(row); known || t.isFresh(row) {
		return
	}
	s.keys = append(s.keys, row...)
	s.ends = append(s.ends, len(s.keys))
}

// FetchExpected has the engine fetch the rows that were told since it was called last,
// or the first of them, if they are many.
func (t *Tx) FetchExpected() {
	s := &t.soon
	if s.fetched = true; len(s.ends) < 2 { // a single one is fetched by who reads it
		s.reset()
		return
	}
	t.fetchSoon()
}

// fetchSoon fetches the next portion.
func (t *Tx) fetchSoon() {
	s := &t.soon
	rows, bytes := aheadRows, aheadBytes
	if !t.far() {
		rows, bytes = aheadRowsNear, aheadBytesNear
	}
	at := 0
	if s.next > 0 {
		at = s.ends[s.next-1]
	}
	s.rows = s.rows[:0]
	for from := at; s.next < len(s.ends) && len(s.rows) < rows; s.next++ {
		end := s.ends[s.next]
		if len(s.rows) > 0 && end-from > bytes {
			break
		}
		s.rows = append(s.rows, s.keys[at:end:end])
		at = end
	}
	s.reads = len(s.rows)
	if t.err == nil {
		t.Rows.View.Prefetch(s.rows)
	}
	clear(s.rows)
	if s.next == len(s.ends) {
		s.reset()
	}
}

// reset forgets what is expected.
func (s *ahead) reset() {
	s.keys, s.ends, s.next, s.reads, s.fetched = s.keys[:0], s.ends[:0], 0, 0, false
	if cap(s.keys) > aheadBytesNear {
		*s = ahead{}
	}
}

// read notes that a row is about to be read.
func (t *Tx) read() {
	if t.soon.reads == 0 {
		t.fetchSoon()
	}
	if t.soon.reads > 0 {
		t.soon.reads--
	}
}

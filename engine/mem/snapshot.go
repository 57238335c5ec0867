package mem

import (
	"redoubt/engine"
)

// snapshot reads the state after one commit.
type snapshot struct {
	engine.Uncounted
	e   *Engine
	seq uint64
}

// Edge implements engine.Reader.
func (s *snapshot) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(s, lo, hi, reverse, b)
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.snapshot(), nil
}

func (e *Engine) snapshot() *snapshot {
	e.gate.Lock() // waits until no commit is under way
	defer e.gate.Unlock()
	e.snapMu.Lock()
	defer e.snapMu.Unlock()
	seq := e.seq.Load()
	e.snaps[seq]++
	e.newest.Store(seq + 1)
	return &snapshot{e: e, seq: seq}
}

func (s *snapshot) Get(key, dst []byte) ([]byte, bool, error) { return s.e.get(key, dst, s.seq) }

func (s *snapshot) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	return s.e.getMany(keys, visit, s.seq)
}

func (s *snapshot) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return newIter(s, lo, hi, reverse, false)
}

// Close closes the snapshot and drops the versions that only it needed.
func (s *snapshot) Close() error {
	e := s.e
	e.snapMu.Lock()
	if e.snaps[s.seq]--; e.snaps[s.seq] == 0 {
		delete(e.snaps, s.seq)
	}
	newest, oldest := e.span()
	e.newest.Store(newest)
	n := 0
	for n < len(e.trail) && (newest == 0 || e.trail[n].seq <= oldest) {
		n++
	}
	done := e.trail[:n:n]
	if e.trail = e.trail[n:]; len(e.trail) == 0 {
		e.trail = nil
	}
	e.snapMu.Unlock()
	for _, t := range done {
		e.tidy(t.row)
	}
	return nil
}

// span returns the number of the newest open snapshot + 1, and the number of the oldest
// one; if none is open, 0 and the number of the newest commit. snapMu is held.
func (e *Engine) span() (newest, oldest uint64) {
	oldest = e.seq.Load()
	for seq := range e.snaps {
		newest, oldest = max(newest, seq+1), min(oldest, seq)
	}
	return newest, oldest
}

// tidy drops the versions of a row that no snapshot sees, and the row itself if every
// snapshot sees it deleted. It calls span again under the shard's lock: a commit may
// have deleted the row since, relying on this call.
func (e *Engine) tidy(r *row) {
	h := engine.Hash(r.key)
	s := e.shardOf(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.snapMu.Lock()
	_, oldest := e.span()
	e.snapMu.Unlock()
	v := r.at(oldest)
	if v == nil || s.rows.find(h, r.key) != r {
		return // written after the oldest snapshot, or already removed
	}
	v.prev = nil
	if r.dead() && v == &r.version {
		e.unlink(r)
	}
}

// Iter implements engine.Reader, on a snapshot of its own.
func (e *Engine) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return newIter(e.snapshot(), lo, hi, reverse, true)
}

// iter walks over the parts in order and collects their rows in pieces, so that it holds
// no lock between calls.
type iter struct {
	snap    *snapshot
	own     bool // the snapshot is the iterator's own
	lo, hi  []byte
	reverse bool
	part    int
	piece   []*row
	next    int
	key     []byte
	val     []byte
}

const piece = 64

func newIter(s *snapshot, lo, hi []byte, reverse, own bool) *iter {
	it := &iter{snap: s, own: own, reverse: reverse, lo: append([]byte{}, lo...)}
	if hi != nil {
		it.hi = append([]byte{}, hi...)
	}
	it.part = partOf(lo)
	if reverse {
		it.part = it.lastPart()
	}
	return it
}

func (it *iter) lastPart() int {
	if it.hi == nil {
		return len(it.snap.e.parts) - 1
	}
	return partOf(it.hi)
}

func (it *iter) Next() bool {
	for {
		if it.next == len(it.piece) && !it.fill() {
			it.key, it.val = nil, nil
			return false
		}
		r := it.piece[it.next]
		it.next++
		if it.read(r) {
			return true
		}
	}
}

// read copies the row as the snapshot sees it, and reports whether the row exists there.
func (it *iter) read(r *row) bool {
	s := it.snap.e.shardOf(engine.Hash(r.key))
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := r.at(it.snap.seq)
	if v == nil || v.dead() {
		return false
	}
	it.key, it.val = r.key, append(it.val[:0], v.val...)
	return true
}

// fill collects the next piece of rows. It returns false at the end.
func (it *iter) fill() bool {
	lo, hi := it.lo, it.hi
	if n := len(it.piece); n > 0 { // go on behind the last row of the piece
		last := it.piece[n-1].key
		if it.reverse {
			hi = last
		} else {
			lo = append(append(make([]byte, 0, len(last)+1), last...), 0)
		}
	}
	it.next = 0
	for first, last := partOf(it.lo), it.lastPart(); it.part >= first && it.part <= last; {
		if p := it.snap.e.parts[it.part].Load(); p != nil {
			if it.piece = p.collect(it.piece[:0], lo, hi, it.reverse, piece); len(it.piece) > 0 {
				return true
			}
		}
		if it.reverse {
			it.part--
		} else {
			it.part++
		}
	}
	it.piece = it.piece[:0]
	return false
}

func (it *iter) Key() []byte   { return it.key }
func (it *iter) Value() []byte { return it.val }

func (it *iter) Close() error {
	if it.own {
		it.own = false
		return it.snap.Close()
	}
	return nil
}

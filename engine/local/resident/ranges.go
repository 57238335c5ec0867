package resident

import (
	"bytes"
	"math"
	"sync"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

// Range deletes cost the same for one row and for ten million: a deletion is noted in its part,
// readers ignore the rows that it covers, and these rows are removed in the background. The
// deletion itself goes to the store with the next write-back. It is forgotten when its rows are
// gone from memory, the store has it, and no snapshot needs it.

// deletion is a range delete that is still pending.
type deletion struct {
	lo, hi []byte
	seq    uint64 // rows of commits before this one are deleted
	tag    uint64 // snapshots up to this id do not know of it
	// storedAt: snapshots up to this id see a store without it. It is all ones
	// while the store does not have it.
	storedAt uint64
	taken    bool // on its way to the store
	cleared  bool // no row that it covers is resident
}

const notStored = math.MaxUint64

// pending reports whether the part has deletions.
func (p *part) pending() bool { return len(p.gone)+len(p.ranges) > 0 }

// deleted reports whether a resident row of commit seq is deleted for a reader.
func (s *Set) deleted(p *part, key []byte, seq, id uint64) bool {
	return s.anyDeletion(p, key, func(d *deletion) bool { return d.seq > seq && d.tag < id })
}

// storeDeleted reports whether a row of the store, as a reader sees the store, is
// deleted for it.
func (s *Set) storeDeleted(p *part, key []byte, id uint64) bool {
	return s.anyDeletion(p, key, func(d *deletion) bool { return d.tag < id && id <= d.storedAt })
}

func (s *Set) anyDeletion(p *part, key []byte, applies func(*deletion) bool) bool {
	if len(p.gone) > 0 {
		if d := p.gone[string(s.prefix(key))]; d != nil && applies(d) {
			return true
		}
	}
	for _, d := range p.ranges {
		if bytes.Compare(d.lo, key) <= 0 && bytes.Compare(key, d.hi) < 0 && applies(d) {
			return true
		}
	}
	return false
}

// StoreDeleted reports whether a row that an iterator over the store has come to is deleted for
// the reader with this id.
func (s *Set) StoreDeleted(key []byte, id uint64) bool {
	p := s.parts[Part(key)].Load()
	if p == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pending() && s.storeDeleted(p, key, id)
}

// deleteRange notes a deletion in those parts of nos, which are locked, that it covers a piece of.
func (s *Set) deleteRange(nos []uint16, lo, hi []byte, seq, newest uint64) {
	for _, no := range nos {
		if int(no) < Part(lo) || int(no) > Part(hi) {
			continue
		}
		p := s.parts[no].Load()
		if s.empty(p, lo, hi) {
			continue
		}
		d := &deletion{lo: bytes.Clone(lo), hi: bytes.Clone(hi), seq: seq, tag: newest, storedAt: notStored}
		if Part(lo) < int(no) {
			d.lo = PartKey(int(no))
		}
		if Part(hi) > int(no) {
			d.hi = PartKey(int(no) + 1)
		}
		if s.storeless {
			d.storedAt = 0 // nothing needs to hide rows of a store
		}
		whole := len(d.lo) == s.unit(d.lo) && isSuccessor(d.lo, d.hi)
		if whole && p.othersComplete {
			p.units.forget(d.lo) // it has no rows now, so it is complete
		}
		if whole && p.gone[string(d.lo)] == nil {
			if p.gone == nil {
				p.gone = make(map[string]*deletion)
			}
			p.gone[string(d.lo)] = d
		} else {
			p.ranges = append(p.ranges, d)
		}
		s.pendingRanges.Add(1)
		s.clearing.add(p, d)
	}
}

// empty reports that there is nothing to delete: all rows are resident, and none is
// in the range.
func (s *Set) empty(p *part, lo, hi []byte) bool {
	if !p.allComplete() {
		return false
	}
	none := true
	s.order(p)
	p.tree.ascend(lo, func(ref arena.Ref) bool {
		none = bytes.Compare(s.row(ref).key(), hi) >= 0
		return false
	})
	return none
}

// PartKey is the first key of a part; nil behind the last.
func PartKey(no int) []byte {
	switch {
	case no >= parts:
		return nil
	case no == 0:
		return []byte{}
	case no&0xff == 0:
		return []byte{byte(no >> 8)}
	}
	return []byte{byte(no >> 8), byte(no)}
}

// clearing is the queue of deletions whose rows are still in memory.
type clearing struct {
	mu   sync.Mutex
	jobs []job
	wake chan struct{}
}

type job struct {
	p  *part
	d  *deletion
	at []byte
}

func (c *clearing) add(p *part, d *deletion) {
	c.mu.Lock()
	c.jobs = append(c.jobs, job{p, d, d.lo})
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// ClearWake gets a value when there is something to clear.
func (s *Set) ClearWake() <-chan struct{} { return s.clearing.wake }

// Clear removes some of the rows that pending deletions cover. It returns how many,
// and whether it may do more at once.
func (s *Set) Clear() (rows int, more bool) {
	c := &s.clearing
	c.mu.Lock()
	if len(c.jobs) == 0 {
		c.mu.Unlock()
		return 0, false
	}
	j := c.jobs[0]
	c.jobs = c.jobs[1:]
	left := len(c.jobs)
	c.mu.Unlock()
	j.p.mu.Lock()
	waits := s.snapshots.oldest() <= j.d.tag // a snapshot still sees the rows
	if !waits {
		if j.at, rows, j.d.cleared = s.clear(j.p, j.d, j.at); j.d.cleared {
			s.forget(j.p)
		}
	}
	j.p.mu.Unlock()
	if !j.d.cleared {
		c.mu.Lock()
		c.jobs = append(c.jobs, j)
		c.mu.Unlock()
		return rows, !waits // else CloseSnapshot wakes us
	}
	return rows, left > 0
}

// clearStep is how many rows are looked at under one hold of the lock.
const clearStep = 256

// clear removes up to clearStep rows that a deletion covers, from at on. next is where to go on.
func (s *Set) clear(p *part, d *deletion, at []byte) (next []byte, rows int, done bool) {
	var victims []arena.Ref
	done = true
	seen := 0
	s.order(p)
	p.tree.ascend(at, func(ref arena.Ref) bool {
		r := s.row(ref)
		if bytes.Compare(r.key(), d.hi) >= 0 {
			return false
		}
		if seen++; seen > clearStep {
			next, done = bytes.Clone(r.key()), false
			return false
		}
		if r.seq() < d.seq {
			victims = append(victims, ref)
		}
		return true
	})
	for _, ref := range victims {
		r := s.row(ref)
		s.drop(p, ref, r, engine.Hash(r.key()))
	}
	return next, len(victims), done
}

// forget removes the deletions that nobody needs any more.
func (s *Set) forget(p *part) {
	for prefix, d := range p.gone {
		if s.over(d) {
			delete(p.gone, prefix)
			if !p.othersComplete {
				p.units.forget([]byte(prefix)) // it has no rows, and most get none again
			}
			s.pendingRanges.Add(-1)
		}
	}
	kept := p.ranges[:0]
	for _, d := range p.ranges {
		if s.over(d) {
			s.pendingRanges.Add(-1)
		} else {
			kept = append(kept, d)
		}
	}
	clear(p.ranges[len(kept):])
	p.ranges = kept
}

// over reports whether nobody needs the deletion any more.
func (s *Set) over(d *deletion) bool {
	return d.cleared && d.storedAt != notStored && d.storedAt < s.snapshots.oldest()
}

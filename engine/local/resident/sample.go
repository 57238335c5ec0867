package resident

import (
	"math/rand/v2"
	"sync/atomic"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

// Rows of a storeless set have a mark of their use (engine.Usage) in the upper bits of their
// flags, and rows of some kinds can be sampled: the kind of a row is the third byte of its key.
// The rows of these kinds are counted for each part and for each group of parts, so a random row
// is found by two short walks over counts, and one look into a part.

const (
	markShift  = 8
	groupParts = 128 // parts whose rows are counted together
)

// sampled are the kinds that can be sampled, and where their counts are.
type sampled struct {
	kinds  []byte
	groups [2][slots / groupParts]atomic.Int64
	usage  atomic.Pointer[engine.Usage]
}

// SampleKinds sets the kinds that can be sampled, two at most. It is called before the set is
// used.
func (s *Set) SampleKinds(kinds ...byte) { s.sampled.kinds = kinds }

// SetUsage sets how rows remember their use.
func (s *Set) SetUsage(u engine.Usage) { s.sampled.usage.Store(&u) }

// Usage is what SetUsage has set, nil before that.
func (s *Set) Usage() *engine.Usage { return s.sampled.usage.Load() }

// kind is the index of the kind of a key that can be sampled, -1 if it cannot.
func (s *Set) kind(p *part, key []byte) int {
	if p.no < slots && len(key) > 2 {
		for i, k := range s.sampled.kinds {
			if key[2] == k {
				return i
			}
		}
	}
	return -1
}

// tally counts a row that comes or goes.
func (s *Set) tally(p *part, key []byte, n int64) {
	if i := s.kind(p, key); i >= 0 {
		p.sampled[i].Add(n)
		s.sampled.groups[i][p.no/groupParts].Add(n)
	}
}

func (r row) mark() uint32 { return atomic.LoadUint32(r.flags()) >> markShift }

// setMark may race with readers that mark a use; one of them wins.
func (r row) setMark(mark uint32) {
	for {
		f := atomic.LoadUint32(r.flags())
		if atomic.CompareAndSwapUint32(r.flags(), f, f&(1<<markShift-1)|mark<<markShift) {
			return
		}
	}
}

// used counts a use of a row.
func (s *Set) used(r row) {
	u := s.sampled.usage.Load()
	if u == nil {
		r.touch()
		return
	}
	if old := r.mark(); u.LFU || old != u.Used(old, nil) {
		r.setMark(u.Used(old, rand.Float64))
	}
}

// Peek is Get that does not count as a use.
func (s *Set) Peek(key []byte, hash uint64, dst []byte) ([]byte, State) {
	return s.At(now, key, hash, dst)
}

// RowMark returns the mark of a row.
func (s *Set) RowMark(key []byte) (mark uint32, ok bool) {
	s.onRow(key, func(r row) { mark, ok = r.mark(), true })
	return mark, ok
}

// SetRowMark changes the mark of a row.
func (s *Set) SetRowMark(key []byte, mark uint32) { s.onRow(key, func(r row) { r.setMark(mark) }) }

// onRow calls f with a row, if it is there.
func (s *Set) onRow(key []byte, f func(row)) {
	p := s.parts[Part(key)].Load()
	if p == nil {
		return
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if ref := s.find(p, engine.Hash(key), key); ref != 0 && s.lives(p, s.row(ref)) {
		f(s.row(ref))
	}
}

func (s *Set) lives(p *part, r row) bool {
	return !r.is(dead) && !(p.pending() && s.deleted(p, r.key(), r.seq(), now))
}

// sampleTries is how often Sample draws again, since a row was deleted meanwhile.
const sampleTries = 8

// Sample appends the key of a random row of a kind to b.
func (s *Set) Sample(kind byte, b []byte) (key []byte, ok bool) {
	for i, k := range s.sampled.kinds {
		for try := 0; k == kind && try < sampleTries; try++ {
			p := s.randomPart(i)
			if p == nil {
				break
			}
			if key, ok = s.sampleIn(p, i, b); ok {
				return key, true
			}
		}
	}
	return b, false
}

// randomPart draws a part, each as likely as it has rows of a kind. It is nil if there are none.
func (s *Set) randomPart(i int) *part {
	total := int64(0)
	groups := &s.sampled.groups[i]
	for g := range groups {
		total += groups[g].Load()
	}
	if total <= 0 {
		return nil
	}
	at := rand.Int64N(total)
	var last *part
	for g := range groups {
		if n := groups[g].Load(); at >= n && last == nil {
			at -= n
			continue
		}
		for no := g * groupParts; no < (g+1)*groupParts; no++ {
			p := s.parts[no].Load()
			if p == nil {
				continue
			}
			n := p.sampled[i].Load()
			if n > 0 {
				last = p
			}
			if at < n {
				return p
			}
			at -= n
		}
	}
	return last // counts have changed meanwhile
}

// sampleIn draws a row of a part: by its number if the part has a tree, else the first of the
// kind behind a random place in the table.
func (s *Set) sampleIn(p *part, i int, b []byte) (key []byte, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var ref arena.Ref
	if n := int64(p.sampled[i].Load()); n > 0 && p.ordered {
		lo := []byte{byte(p.no >> 8), byte(p.no), s.sampled.kinds[i]}
		ref = p.tree.nth(p.tree.rank(lo) + int(rand.Int64N(n)))
	} else if n > 0 {
		ref = p.tab.behind(rand.Uint64(), func(ref arena.Ref) bool { return s.kind(p, s.row(ref).key()) == i })
	}
	if ref == 0 {
		return b, false
	}
	r := s.row(ref)
	if s.kind(p, r.key()) != i || !s.lives(p, r) {
		return b, false
	}
	return append(b, r.key()...), true
}

// behind returns the first row at or behind a random place for which f reports true, 0 if there
// is none.
func (t *table) behind(random uint64, f func(arena.Ref) bool) arena.Ref {
	cursor := random
	for range t.slots/minSlots + 1 {
		b := t.bucket(cursor)
		if b == nil {
			return 0
		}
		from := int(random & (1<<32 - 1) * uint64(len(b.slots)) >> 32)
		for i := range b.slots {
			if slot := b.slots[(from+i)%len(b.slots)]; slot != 0 && f(refOf(slot)) {
				return refOf(slot)
			}
		}
		if b.depth == 0 {
			return 0
		}
		step := uint64(1) << (64 - b.depth)
		cursor = cursor&^(step-1) + step // past the last it comes to 0
	}
	return 0
}

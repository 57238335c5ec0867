package executor

import (
	"sync"
	"sync/atomic"
)

// ages are the access counters that RESTORE gave to keys. Nobody counts accesses
// here, so a key has one until it is used: as long as its stripe was not used in a
// later second.
type ages struct {
	some atomic.Bool // there is one at all
	mu   sync.Mutex
	list map[uint32]age // by stripe
}

type age struct {
	freq int64
	used uint32
}

// Age makes a key one that was not used for so many seconds, or, unless freq is
// negative, one with this access counter.
func (b *Batch) Age(key []byte, idle, freq int64) {
	i := b.x.latches.of(key)
	used := uint32(max(1, int64(b.seconds)-idle))
	b.x.latches.tab[i].used.Store(used)
	a := &b.x.ages
	if freq < 0 && !a.some.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.list, i); freq < 0 {
		return
	}
	if a.list == nil {
		a.list = make(map[uint32]age)
	}
	a.list[i] = age{freq, used}
	a.some.Store(true)
}

// freq is the access counter that the stripe was given, if it still has it.
func (a *ages) freq(i, used uint32) (freq int64, ok bool) {
	if !a.some.Load() {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g, ok := a.list[i]
	if ok && g.used != used {
		delete(a.list, i)
		ok = false
	}
	return g.freq, ok
}

// Idle, Freq and Touch implement command.Usage. They go by the key's stripe:
// a key may look fresher than it is when another one shares it. Nothing is known
// of the time before the start.
func (b *Batch) Idle(key []byte) int64 {
	used := b.x.latches.tab[b.x.latches.of(key)].used.Load()
	if used == 0 {
		used = b.x.born
	}
	return max(0, int64(b.seconds)-int64(used))
}

// Freq is not tracked: see Idle; a key that was used in this minute counts 5,
// as a new key does in Redis.
func (b *Batch) Freq(key []byte) int64 {
	i := b.x.latches.of(key)
	if n, ok := b.x.ages.freq(i, b.x.latches.tab[i].used.Load()); ok {
		return n
	}
	if b.Idle(key) < 60 {
		return 5
	}
	return 0
}

// Touch marks a key as used.
func (b *Batch) Touch(key []byte) { b.x.latches.tab[b.x.latches.of(key)].used.Store(b.seconds) }

package executor

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"redoubt/command"
)

// ages are the access counters that RESTORE gave to keys. Accesses are not counted, so a
// key keeps its counter until it is used: until its stripe is used in a later second.
type ages struct {
	some atomic.Bool // a counter was ever given
	mu   sync.Mutex
	list map[uint32]age // by stripe
}

type age struct {
	freq int64
	used uint32
}

// Age marks a key as last used idle seconds ago and, unless freq is negative, gives it this
// access counter.
func (b *Batch) Age(key []byte, idle, freq int64) {
	if b.x.Evicts() {
		if u := b.x.evicting.sampler.Usage(); !u.LFU || freq >= 0 {
			b.setMark(key, u.Mark(idle, freq))
		}
		return
	}
	i := b.x.latches.Stripe(key)
	used := uint32(max(1, int64(b.seconds)-idle))
	b.x.latches.SetUsed(i, used)
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

// freq returns the access counter that the stripe was given, if it still has it.
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

// Idle returns for how many seconds a key was not used. Idle, Freq and Touch implement
// command.Usage by the mark of the key's row, if the engine has marks, else by the key's stripe: a key may look fresher than it is when another key
// shares the stripe. Nothing is known of the time before the start.
func (b *Batch) Idle(key []byte) int64 {
	if b.x.Evicts() {
		u, mark := b.usage(key)
		return u.Idle(mark)
	}
	used := b.x.latches.Used(b.x.latches.Stripe(key))
	if used == 0 {
		used = b.x.born
	}
	return max(0, int64(b.seconds)-int64(used))
}

// Freq returns the access counter that RESTORE gave to the key. Accesses are not counted:
// else a key that was used within a minute has 5, as a new key in Redis, and others 0.
func (b *Batch) Freq(key []byte) int64 {
	if b.x.Evicts() {
		u, mark := b.usage(key)
		return u.Freq(mark)
	}
	i := b.x.latches.Stripe(key)
	if n, ok := b.x.ages.freq(i, b.x.latches.Used(i)); ok {
		return n
	}
	if b.Idle(key) < 60 {
		return 5
	}
	return 0
}

// Touch marks a key as used.
func (b *Batch) Touch(key []byte) {
	b.x.latches.SetUsed(b.x.latches.Stripe(key), b.seconds)
	if b.x.Evicts() {
		u, mark := b.usage(key)
		b.setMark(key, u.Used(mark, rand.Float64))
	}
}

var _ command.Usage = (*Batch)(nil)

package executor

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Eviction, as Redis does it: before a command while the data is beyond its limit. A few keys are
// drawn, the best of all that were drawn so far and are still there goes, and so on. The keys
// that were drawn and did not go are kept in a pool, which makes up for the small samples.

// Eviction is what the eviction policy says.
type Eviction struct {
	// Volatile: only keys that expire go.
	Volatile bool
	// By is what decides among the keys that were drawn.
	By EvictBy
	// Samples is how many keys are drawn before one goes.
	Samples int
	// For bounds how long one command evicts; 0 is no bound.
	For time.Duration
	// Del is the command by which replicas are told.
	Del []byte
}

// EvictBy is what decides which key goes.
type EvictBy int

// The ways to decide.
const (
	ByUse    EvictBy = iota // the idlest, or with LFU the one that is used least
	ByExpiry                // the one that expires next
	ByChance
)

// evicting is the pool, which all batches share.
type evicting struct {
	sampler engine.Sampler // nil: the engine cannot evict
	mu      sync.Mutex
	pool    []drawn // by score, the best last
	by      Eviction
}

type drawn struct {
	keyspace.Candidate
	score int64
}

const (
	poolSize = 16
	// evictTries is how often in a row a key that was chosen may turn out to stay.
	evictTries = 64
)

// Evicts reports whether the engine can evict keys.
func (x *Executor) Evicts() bool { return x.evicting.sampler != nil }

// Evict evicts keys until over reports false, or the time is up. It reports false if there is no
// key to evict. guard is the Call.Guard that the caller holds.
func (b *Batch) Evict(e Eviction, over func() bool, guard sync.Locker) (ok bool, err error) {
	b.guard = guard
	if b.open {
		b.commit()
	}
	newest := b.ticket
	defer func() { b.ticket = max(b.ticket, newest) }()
	start := time.Now()
	for tries := 0; over(); {
		if b.x.evicting.sampler.Reclaim() {
			continue // memory of keys that went before
		}
		c, ok, err := b.x.evicting.choose(e)
		if !ok || err != nil {
			return !over(), err
		}
		if ok, err = b.begin(); !ok || err != nil {
			return err == nil, err // the keyspace is latched: a later command goes on
		}
		gone := false
		t, err := b.transact(func(b *Batch) {
			if b.keys = append(b.keys[:0], b.x.latches.Stripe(c.Key())); b.latch.Try(b.keys) {
				gone = b.tx.Evict(c, e.Volatile, e.Del)
			}
		})
		newest = max(newest, t)
		if err != nil {
			return false, err
		}
		if tries++; gone {
			tries = 0
			b.x.Stats.Evicted.Add(1)
		}
		if tries > evictTries {
			return false, nil
		}
		if e.For > 0 && time.Since(start) > e.For {
			return true, nil
		}
	}
	return true, nil
}

// choose returns the next key to evict.
func (v *evicting) choose(e Eviction) (c keyspace.Candidate, ok bool, err error) {
	if e.By == ByChance {
		return keyspace.SampleKey(v.sampler.Sample, e.Volatile)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by.By != e.By || v.by.Volatile != e.Volatile {
		v.pool = v.pool[:0]
	}
	v.by = e
	for range evictTries {
		if err := v.draw(e); err != nil || len(v.pool) == 0 {
			return c, false, err
		}
		for n := len(v.pool); n > 0; n = len(v.pool) {
			best := v.pool[n-1].Candidate
			v.pool = v.pool[:n-1]
			if _, there := v.sampler.RowMark(best.Row); there {
				return best, true, nil
			}
		}
	}
	return c, false, nil
}

// draw draws some keys and puts those that are better than the worst of the pool into it.
func (v *evicting) draw(e Eviction) error {
	for range e.Samples {
		c, ok, err := keyspace.SampleKey(v.sampler.Sample, e.Volatile)
		if !ok || err != nil {
			return err
		}
		mark, there := v.sampler.RowMark(c.Row)
		if !there || slices.ContainsFunc(v.pool, func(d drawn) bool { return bytes.Equal(d.Row, c.Row) }) {
			continue
		}
		score := -c.At
		if u := v.sampler.Usage(); e.By == ByUse && u.LFU {
			score = 255 - u.Freq(mark)
		} else if e.By == ByUse {
			score = u.Idle(mark)
		}
		i, _ := slices.BinarySearchFunc(v.pool, score, func(d drawn, score int64) int {
			if d.score < score {
				return -1
			}
			return 1
		})
		if v.pool = slices.Insert(v.pool, i, drawn{c, score}); len(v.pool) > poolSize {
			v.pool = slices.Delete(v.pool, 0, 1)
		}
	}
	return nil
}

// tick tells the engine the time, once a second, and how rows count their uses.
func (b *Batch) tick() {
	v := &b.x.evicting
	if v.sampler == nil {
		return
	}
	limits := b.x.limits.Load()
	u := engine.Usage{LFU: limits.LFU, LogFactor: limits.LFULogFactor, DecayTime: limits.LFUDecay, Now: int64(b.seconds)}
	if *v.sampler.Usage() != u {
		v.sampler.SetUsage(u)
	}
}

// marked are the marks that a command gave to keys whose rows are not committed yet.
type marked struct {
	row  []byte
	mark uint32
}

// setMark gives a key a mark, once the batch is committed.
func (b *Batch) setMark(key []byte, mark uint32) {
	b.marked = append(b.marked, marked{b.tx.MetaRow(nil, key), mark})
}

// usage returns the mark of a key, and how to read it.
func (b *Batch) usage(key []byte) (*engine.Usage, uint32) {
	u := b.x.evicting.sampler.Usage()
	row := b.tx.MetaRow(nil, key)
	for i := len(b.marked) - 1; i >= 0; i-- {
		if bytes.Equal(b.marked[i].row, row) {
			return u, b.marked[i].mark
		}
	}
	if mark, ok := b.x.evicting.sampler.RowMark(row); ok {
		return u, mark
	}
	return u, u.New() // the key is of this batch
}

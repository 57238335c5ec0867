package local

import (
	"errors"
	"runtime"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine/local/resident"
)

// One goroutine keeps the resident set within its share of the budget: it evicts rows when
// there are too many, and fills parts from the store when there is room.

const (
	// Rows are evicted down to evictTo percent of the limit, and parts are filled up to
	// fillTo percent.
	evictTo = 97
	fillTo  = 85
	// fillPause is the pause when there is nothing to fill, fillSlice how long one fill takes.
	fillPause = time.Second
	fillSlice = 5 * time.Millisecond
)

func (e *Engine) evictLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := 0 // the part to be filled next
	for {
		select {
		case <-e.stop:
			return
		case <-e.evictor:
			e.evict()
			continue
		case <-timer.C:
		}
		e.evict()
		if err := e.store.iterators.closeIdle(false, false); err != nil {
			e.log.Error("ending a walk over the store failed", "dir", e.dir, "err", err)
		}
		pause := fillPause
		// Fill for a slice, then pause as long: clients come first.
		start := time.Now()
		for time.Since(start) < fillSlice && e.fillable() {
			if next = e.fillNext(next); next == 0 {
				break
			}
			pause = time.Since(start)
		}
		timer.Reset(pause)
	}
}

func (e *Engine) evict() {
	g := e.pin()
	defer g.unpin()
	set := g.set
	limit := e.rowLimit.Load()
	start := time.Now()
	for set.UndoBytes() > e.undoLimit.Load() && e.revoke(set) {
	}
	if over := set.Bytes() - limit; over > 0 {
		want := set.Bytes() - limit/100*evictTo
		if set.Evict(want) < want {
			wake(e.writeback) // the rest is dirty, or a snapshot needs it
			if _, dirty := set.Dirty(); over > e.undoLimit.Load() && dirty < e.dirtyLimit.Load()/2 {
				e.revoke(set)
			}
		}
	} else if set.Mapped() <= mostMapped(limit) {
		return
	}
	e.compact(set, limit)
	e.evictNanos.Add(time.Since(start).Nanoseconds())
}

// revoke revokes the oldest snapshot, and reports whether there was one: memory must not
// fill with old rows while one client reads a large value slowly.
func (e *Engine) revoke(set *resident.Set) bool {
	undo := set.UndoBytes()
	if !set.Revoke() {
		return false
	}
	e.revoked.Add(1)
	if e.revokeLog.due() {
		e.log.Warn("a snapshot was revoked: too much was changed while it was read; its client reads slowly, or maxmemory is small for what is read and written at once",
			"dir", e.dir, "undo_bytes", undo, "limit", e.undoLimit.Load(), "revoked_so_far", e.revoked.Load())
	}
	return true
}

// mostMapped is how many bytes may be mapped for rows: a little above their limit.
func mostMapped(limit int64) int64 { return limit + limit/16 }

// compact brings the memory that is mapped for rows below its limit, if it can. It gives free
// pages back, moves rows together so that more pages are free, gives back free memory between
// rows, and in the end evicts more rows: fragmentation counts as used memory.
func (e *Engine) compact(set *resident.Set, limit int64) {
	most := mostMapped(limit)
	over := func() int64 { return set.Mapped() - most }
	if over() <= 0 {
		return
	}
	if set.Trim(); over() <= 0 {
		return
	}
	if n := over(); n > limit/16 { // Split is fast, moving rows is slow
		set.Split(n)
	}
	start := time.Now()
	move := start.After(e.compactAgain)
	if move && over() > 0 {
		e.rowsMoved.Add(int64(set.Compact(max(limit/compactShare, over()))))
		set.Trim()
	}
	if n := over(); n > 0 {
		set.Split(n)
	}
	if move {
		if n := over(); n > 0 {
			set.Evict(min(n, limit/compactShare))
		}
		e.compactAgain = time.Now().Add(min(compactPause*time.Since(start), time.Second))
	}
}

const (
	// compactShare: a compaction moves up to 1/compactShare of the rows' limit, or as much
	// as is mapped too much, and evicts up to that share.
	compactShare = 8
	// compactPause is the pause between two compactions, as a multiple of the duration of
	// one, up to a second.
	compactPause = 8
)

// fillable reports whether there is room for rows that no read has asked for.
func (e *Engine) fillable() bool {
	return e.set().Bytes() < e.rowLimit.Load()/100*fillTo && !e.closed.Load()
}

// fillNext fills the next incomplete part, from number no on. It returns the number to
// continue from, 0 at the end.
func (e *Engine) fillNext(no int) int {
	g := e.pin()
	defer g.unpin()
	err := e.skipVacant(g.set, no)
	for ; no < 1<<16 && err == nil; no++ {
		if f := g.set.Fill(no); f != nil {
			if err = e.fill(no, f); err == nil {
				return (no + 1) % (1 << 16)
			}
		}
	}
	if err != nil && !e.closed.Load() {
		e.log.Error("bringing rows into memory failed", "dir", e.dir, "err", err)
	}
	return 0
}

// skipVacant marks the parts, from number no on, of which the store has no row.
func (e *Engine) skipVacant(set *resident.Set, no int) error {
	if !set.Untouched(no) {
		return nil
	}
	it, err := e.store.iter(e.store.db, resident.PartKey(no), reserved)
	if err != nil {
		return err
	}
	next := 1 << 16
	if it.First() {
		next = resident.Part(it.Key())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return storeError("reading the store", err)
	}
	for ; no < next; no++ {
		set.MarkVacant(no)
	}
	return nil
}

func (e *Engine) fill(no int, f *resident.Filling) (err error) {
	start := time.Now()
	defer func() { e.fillNanos.Add(time.Since(start).Nanoseconds()) }()
	hi := resident.PartKey(no + 1)
	if hi == nil {
		hi = reserved
	}
	it, err := e.store.iter(e.store.db, resident.PartKey(no), hi)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var c resident.Chunk
	more := it.First()
	for more {
		c.Reset()
		if more, err = nextRows(it, &c); err != nil {
			return storeError("reading the store", err)
		}
		e.filled.Add(int64(c.Len()))
		if ok, err := f.Add(&c); err != nil || !ok || !e.fillable() {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return storeError("reading the store", err)
	}
	f.Done()
	return nil
}

// nextRows reads a chunk of rows.
func nextRows(it *lsm.Iterator, c *resident.Chunk) (more bool, err error) {
	for more = true; more && c.Len() < 256 && c.Size() < 256<<10; more = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return false, err
		}
		c.Put(it.Key(), value)
	}
	return more, nil
}

// clearLoop removes rows that range deletes cover.
func (e *Engine) clearLoop() {
	for {
		g := e.present.Load()
		select {
		case <-e.stop:
			return
		case <-g.replaced:
			continue
		case <-g.set.ClearWake():
		}
		e.clear()
	}
}

func (e *Engine) clear() {
	g := e.pin()
	defer g.unpin()
	cleared := 0
	for more := true; more && !e.closed.Load(); {
		var rows int
		rows, more = g.set.Clear()
		cleared += rows
	}
	if cleared > manyCleared {
		g.set.Trim()
		runtime.GC() // creating and clearing them left garbage, too
	}
}

// manyCleared is the number of rows from which on clearLoop frees their memory at once.
const manyCleared = 50_000

// Reserve sets how many bytes of the rows' share other parts of the server need now. If
// the rows exceed what is left, eviction starts at once.
func (e *Engine) Reserve(bytes int64) {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	e.memory.reserved = bytes
	e.limitRows()
}

// Share is the most that rows may take of a budget.
func (e *Engine) Share(memory int64) int64 { return RowShare(memory) }

// limitRows sets the limits of rows. memory.mu is held.
func (e *Engine) limitRows() {
	rows, dirty := e.memory.budget.limits(e.memory.reserved)
	e.rowLimit.Store(rows)
	e.dirtyLimit.Store(dirty)
	wake(e.evictor)
}

package memory

import (
	"runtime"
	"time"
)

// One goroutine removes rows that range deletes cover, ends snapshots for which too much is
// kept, and keeps the memory that is mapped for rows near what they need.

const (
	tidyEvery = time.Second
	// tidyParts is how many parts a turn looks at for orders that nobody walks any more.
	tidyParts = 1 << 10
	// looseLeast and looseShare say how much more than the rows need may be mapped:
	// looseLeast, and one part in looseShare of it.
	looseLeast = 4 << 20
	looseShare = 16
	// undoShare and undoLeast: the versions that snapshots keep may take that part of the limit.
	undoShare = 8
	undoLeast = 8 << 20
	// undoUnlimited is how much they may take when there is no limit.
	undoUnlimited = 1 << 30
)

// undoLimit is how much memory versions for snapshots may take.
func (e *Engine) undoLimit() int64 {
	if limit := e.memory.Load(); limit > 0 {
		return max(limit/undoShare, undoLeast)
	}
	return undoUnlimited
}

// loose is how much more is mapped than the rows need, beyond what is allowed.
func (e *Engine) loose() int64 {
	bytes := e.set.Bytes()
	return e.set.Mapped() - bytes - bytes/looseShare - looseLeast
}

// untidy reports whether a commit should wake the tidying.
func (e *Engine) untidy() bool { return e.set.UndoBytes() > e.undoLimit() }

func (e *Engine) tidyLoop() {
	timer := time.NewTimer(tidyEvery)
	defer timer.Stop()
	for part := 0; ; {
		select {
		case <-e.stop:
			return
		case <-e.set.ClearWake():
			e.clear()
			continue
		case <-e.tidying:
			e.revoke()
			continue
		case <-timer.C:
		}
		e.revoke()
		e.compact()
		part = e.set.Disorder(part, tidyParts)
		e.counters.Forget(e.counters.Copy())
		timer.Reset(tidyEvery)
	}
}

// clear removes rows that range deletes cover.
func (e *Engine) clear() {
	for more := true; more && !e.closed.Load(); {
		_, more = e.set.Clear()
		runtime.Gosched()
	}
}

// revoke ends the oldest snapshots while too much is kept for them.
func (e *Engine) revoke() {
	for e.set.UndoBytes() > e.undoLimit() && e.set.Revoke() {
		e.revoked.Add(1)
		e.log.Warn("a snapshot was revoked: too much was changed while it was read; its client reads slowly, or maxmemory is small for what is read and written at once",
			"limit", e.undoLimit(), "revoked_so_far", e.revoked.Load())
	}
}

// compact gives memory back that rows do not need: free pages, pages that are free once rows
// are moved together, and free memory between rows.
func (e *Engine) compact() {
	if e.loose() <= 0 {
		return
	}
	if e.set.Trim(); e.loose() <= 0 {
		return
	}
	e.moved.Add(int64(e.set.Compact(max(e.set.Bytes()/looseShare, e.loose()))))
	e.set.Trim()
	if n := e.loose(); n > 0 {
		e.set.Split(n)
	}
}

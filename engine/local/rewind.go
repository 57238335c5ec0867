package local

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
)

// A log that several processes agree upon (journal.Log) differs from the journal of one in two
// things: records come that others appended (Replay), and records that this process has
// appended and applied may be taken back (Rewind).
//
// Memory may be ahead of what is agreed upon; the tables never are: a round hands its
// tables to the store only when everything that they may have is durable (settle). So to go back
// is to begin again from the tables, and to replay the log from there to what is agreed
// upon. The cost is that of a part of a start, and bounded by the log since the last
// round (Options.JournalBytes), whatever the number of keys. The store stays open, and memory
// fills up from it as after a start.
//
// Rejected: undoing commit by commit. It would need the old state of each row that is not
// durable yet, noted by every commit, for what is rare.

// Replay makes a record visible that is agreed upon: the next one of the log, whoever
// appended it. An empty payload is a record that says nothing to the store. A record that memory
// has already, since it was appended here, is passed over. The batch is what has
// changed, nil if nothing; it is valid until the next call.
//
// Replay waits for room as Commit does, so it must not be called where that keeps the log from
// telling what is durable. An error that wraps engine.ErrReadOnly while Err is nil passes (a
// full disk): the same record may be replayed again. After any other the store can only be
// closed. Replay and Rewind are called by one goroutine at a time.
func (e *Engine) Replay(seq uint64, payload []byte) (changed *engine.Batch, err error) {
	if seq <= e.applied.Load() {
		return nil, nil
	}
	if e.rewinding.Load() {
		return nil, errRewinding
	}
	if err := e.refusal(); err != nil {
		return nil, err
	}
	if err := e.awaitRoom(true, e.crowded); err != nil {
		return nil, err
	}
	g := e.pin()
	defer g.unpin()
	g.set.Cut(func() { // behind the commits of this process that have a number
		at := e.applied.Load()
		switch {
		case seq <= at:
			return
		case seq > at+1:
			err = fmt.Errorf("%w: the log has record %d behind record %d", engine.ErrCorrupt, seq, at)
			return
		}
		e.reached(seq)
		if len(payload) > 0 {
			changed = &e.changed
			err = g.take(seq, payload, changed)
		}
	})
	if err != nil {
		e.fail("replaying the log in", e.dir, err)
		return nil, err
	}
	if changed != nil {
		e.followed.Add(1)
		e.appended.Add(int64(len(payload)))
		e.afterCommit()
	}
	return changed, nil
}

// reached notes that memory has commit seq, or is about to.
func (e *Engine) reached(seq uint64) {
	for at := e.applied.Load(); at < seq && !e.applied.CompareAndSwap(at, seq); at = e.applied.Load() {
	}
}

// errRewinding is the error while memory has records that were taken back.
var errRewinding = errors.New("commits are just being taken back that the group did not agree upon: try again")

// Rewind takes note that the log has taken back all records behind kept. If memory has some of
// them it is replaced by the state of record to, which is durable: records calls replay with each
// record above from and up to to, as at a start (journal.Opening). The records behind to that
// were not taken back are replayed when they are agreed upon.
//
// The log's epoch has grown since the last of the records was appended that were taken back, and
// Durable does not pass kept before Rewind has returned nil. After an error memory is still
// what it was, of no use, and cannot be written; Rewind may be called again.
//
// Whoever has a view, an iterator or a snapshot keeps the state that it was opened on, but
// snapshots are revoked.
func (e *Engine) Rewind(kept, to uint64, records func(from, to uint64, replay func(seq uint64, payload []byte) error) error) error {
	if err := e.usable(); err != nil {
		return err
	}
	var ahead bool
	e.set().Cut(func() { ahead = e.applied.Load() > kept }) // behind commits that have a number
	if !ahead && !e.rewinding.Load() {
		return nil
	}
	start := time.Now()
	e.cuts.note(e.journal.Epoch(), kept)
	e.rewinding.Store(true)
	e.tell() // what waits for the records that were taken back
	wake(e.agreed)
	e.ingest.Lock() // the round that is under way gives up
	defer e.ingest.Unlock()
	replayed, err := e.rewind(to, records)
	if err != nil {
		return fmt.Errorf("going back to commit %d: %w", to, err)
	}
	e.rewinding.Store(false)
	e.rewinds.Add(1)
	e.rewindNanos.Add(time.Since(start).Nanoseconds())
	wake(e.evictor)
	e.log.Info("commits were taken back that were not agreed upon", "dir", e.dir, "kept", kept, "memory", to, "replayed_commits", replayed, "took", time.Since(start).Round(time.Millisecond))
	return nil
}

func (e *Engine) rewind(to uint64, records func(from, to uint64, replay func(seq uint64, payload []byte) error) error) (count int64, err error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	// The old rows stay until the new ones are there. Together they must keep to the limit.
	old := e.set()
	if over := old.Bytes() + e.journalSince() - e.rowLimit.Load(); over > 0 {
		old.Evict(over)
	}
	g, from, _, err := e.newGeneration()
	if err != nil {
		return 0, err
	}
	r := replayer{g: g, last: from}
	if to < from {
		err = fmt.Errorf("%w: the tables have everything up to commit %d", engine.ErrCorrupt, from)
	} else {
		err = records(from, to, r.replay)
	}
	if err == nil && r.last != to {
		err = fmt.Errorf("%w: the log ended with record %d", engine.ErrCorrupt, r.last)
	}
	if err != nil {
		g.unpin()
		return 0, err
	}
	g.set.SetLoadStamp(to)
	e.replace(g, to)
	e.settledBytes.Store(e.appended.Load() - r.bytes)
	return r.count, nil
}

// Epoch implements engine.Replicated.
func (e *Engine) Epoch() uint64 { return e.journal.Epoch() }

// Outcome implements engine.Replicated.
func (e *Engine) Outcome(epoch uint64, t engine.Ticket) engine.Outcome {
	durable := e.Durable() >= t // read first: Durable passes a ticket that was taken back only later
	if o := e.cuts.outcome(epoch, uint64(t)); o != engine.Pending {
		return o
	}
	if durable {
		return engine.Durable
	}
	return engine.Pending
}

// cuts are the occasions on which commits of this process were taken back.
type cuts struct {
	mu        sync.Mutex
	list      []cut
	forgotten uint64 // the epoch of the newest one that is not in the list any more
}

// cut says that of the commits that were made before the epoch, those behind kept are void.
type cut struct{ epoch, kept uint64 }

// mostCuts is how many cuts are remembered. A reply is not held back over so many.
const mostCuts = 256

func (c *cuts) note(epoch, kept uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list = append(c.list, cut{epoch, kept}); len(c.list) > mostCuts {
		c.forgotten = c.list[0].epoch
		c.list = append(c.list[:0], c.list[1:]...)
	}
}

func (c *cuts) outcome(epoch, seq uint64) engine.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.list {
		if o.epoch > epoch && seq > o.kept {
			return engine.Void
		}
	}
	if epoch < c.forgotten {
		return engine.Unknown
	}
	return engine.Pending
}

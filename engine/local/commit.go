package local

import (
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
	"redoubt/journal"
)

// Commit implements engine.View. It appends the batch to the journal, which numbers it
// (the number is the ticket), and then applies it to the resident set.
func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	e := v.e
	if b.Empty() {
		return 0, e.usable()
	}
	if err := e.refusal(); err != nil {
		return 0, err
	}
	if b.Size() > maxBatch {
		return 0, fmt.Errorf("%w: a commit of %d bytes, the most is %d", engine.ErrFull, b.Size(), maxBatch)
	}
	for op := range b.Ops() {
		if isReserved(op.Key) || len(op.Key) == 0 { // Pebble has no empty keys
			return 0, fmt.Errorf("the row key %q is reserved to the engine", op.Key)
		}
	}
	if (v.wait || e.roundErr.Load() != nil || e.full.Load() != nil) && e.Congested() {
		if err := e.awaitRoom(v.wait, func() bool { return e.Congested() && v.epoch == e.journal.Epoch() }); err != nil {
			return 0, err
		}
	}
	v.record = appendRecord(append(v.record[:0], e.headRoom...), b)
	seq, err := v.apply(v.record, b)
	if cap(v.record) > keepRecord {
		v.record = nil
	}
	if err != nil {
		return 0, err
	}
	e.afterCommit()
	return engine.Ticket(seq), nil
}

// maxBatch keeps a record well below the journal's limit.
const maxBatch = 1 << 30

// keepRecord is the size up to which a view keeps its buffer.
const keepRecord = 1 << 20

func (v *view) apply(record []byte, b *engine.Batch) (seq uint64, err error) {
	e, g := v.e, v.g
	g.set.Enter()
	defer g.set.Leave()
	if seq, err = e.journal.Append(v.epoch, record); err != nil {
		return 0, e.journalError(err)
	}
	e.reached(seq)
	e.commits.Add(1)
	e.appended.Add(int64(len(record)))
	g.counters.Add(b)
	if err = g.set.Apply(b, seq); err != nil {
		// The journal has the commit, memory has a part of it: a restart repairs that,
		// and no commit may follow until then.
		e.fail("keeping rows in", "memory", err)
		return 0, e.Err()
	}
	return seq, nil
}

func (e *Engine) journalError(err error) error {
	switch {
	case errors.Is(err, journal.ErrClosed):
		return engine.ErrClosed
	case errors.Is(err, journal.ErrNotLeader):
		return fmt.Errorf("%w: %w", engine.ErrNotLeader, err)
	case errors.Is(err, journal.ErrCongested):
		return fmt.Errorf("%w: %w", engine.ErrOverloaded, err)
	case errors.Is(err, engine.ErrUnknownOutcome):
		return err
	case errors.Is(err, journal.ErrFull):
		return e.noRoom(e.volumes[len(e.volumes)-1], err)
	}
	if e.Err() == nil {
		e.fail("writing", e.dir, err)
	}
	return e.Err()
}

// afterCommit wakes the background work that the commit made necessary.
func (e *Engine) afterCommit() {
	set := e.set()
	if _, dirty := set.Dirty(); dirty > e.dirtyLimit.Load()/2 || e.journalSince() > e.journalBytes {
		wake(e.writeback)
	}
	if set.Bytes() > e.rowLimit.Load() || set.UndoBytes() > e.undoLimit.Load() {
		wake(e.evictor)
	}
}

// journalSince is how many bytes of journal a restart would replay.
func (e *Engine) journalSince() int64 { return e.appended.Load() - e.settledBytes.Load() }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Congested implements engine.Engine: there is no room in memory, or the log has too much that
// is not agreed upon.
func (e *Engine) Congested() bool { return e.crowded() || e.journal.Congested() }

// crowded reports that dirty rows exceed their limit, or all rows exceed theirs by an eighth
// and a round would help.
func (e *Engine) crowded() bool {
	set := e.set()
	_, dirty := set.Dirty()
	limit := e.rowLimit.Load()
	return dirty > e.dirtyLimit.Load() || dirty > 0 && set.Bytes() > limit+limit/8
}

// awaitRoom waits as long as the store is congested, as the function says. If wait is false, or
// the last round has failed, it returns at once, in the latter case with the reason. While the disk is full,
// commits that free space may use twice the limit of dirty rows; beyond that they wait for a
// round, for fullWait at most.
func (e *Engine) awaitRoom(wait bool, congested func() bool) error {
	if !congested() {
		return nil
	}
	start := time.Now()
	if wait {
		e.waits.Add(1)
		defer func() { e.waitNanos.Add(time.Since(start).Nanoseconds()) }()
	}
	for congested() {
		if err := e.refusal(); err != nil {
			return err
		}
		if full := e.full.Load(); full != nil {
			if _, dirty := e.set().Dirty(); dirty < 2*e.dirtyLimit.Load() {
				return nil
			}
			if !wait || e.roundErr.Load() != nil || time.Since(start) > fullWait {
				e.refusals.Add(1)
				return *full
			}
		} else if err := e.roundFailure(); err != nil || !wait {
			return err
		}
		if e.crowded() {
			wake(e.writeback)
			wake(e.evictor)
		}
		select {
		case <-e.room():
		case <-time.After(waitStep):
		}
	}
	return nil
}

// waitStep is how long a writer waits before it checks again.
const waitStep = 5 * time.Millisecond

// fullWait is how long a writer waits for a round while the disk is full.
const fullWait = time.Second

// roundFailure returns the error of the last round for a commit, nil if it succeeded.
func (e *Engine) roundFailure() error {
	cause := e.roundErr.Load()
	if cause == nil {
		return nil
	}
	e.refusals.Add(1)
	if isFull(*cause) {
		return e.noRoom(e.volumes[0], *cause)
	}
	return fmt.Errorf("%w: writing rows to the store failed: %w; it is tried again, writes go on when it succeeds", engine.ErrReadOnly, *cause)
}

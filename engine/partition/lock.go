package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
)

// lock is what a transaction over several partitions leaves in each of them: its id and the
// number of its primary partition. The transaction is committed when the primary has noted
// its id, and not before; then what it has staged is what the partition holds.
type lock struct {
	id      []byte
	primary int
}

const idSize = 16

func (l lock) encode() []byte {
	return binary.BigEndian.AppendUint16(append(make([]byte, 0, idSize+2), l.id...), uint16(l.primary))
}

func decodeLock(b []byte) (lock, error) {
	if len(b) != idSize+2 {
		return lock{}, fmt.Errorf("a lock of %d bytes does not decode: %w", len(b), engine.ErrCorrupt)
	}
	return lock{b[:idSize], int(binary.BigEndian.Uint16(b[idSize:]))}, nil
}

// sightings are the locks that were met, and when each was met first.
type sightings struct {
	mu    sync.Mutex
	first map[string]time.Time
}

// maxSightings is from how many locks on old ones are forgotten.
const maxSightings = 1024

// age returns how long ago a lock was met first.
func (s *sightings) age(l lock, forget time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = make(map[string]time.Time)
	}
	if len(s.first) >= maxSightings {
		for id, at := range s.first {
			if time.Since(at) > forget {
				delete(s.first, id)
			}
		}
	}
	at, met := s.first[string(l.id)]
	if !met {
		at = time.Now()
		s.first[string(l.id)] = at
	}
	return time.Since(at)
}

// pass deals with a lock that a read has met. If its transaction is committed, its rows are
// applied and the read must be made again. Else the rows are as they were before the
// transaction, which was not committed after they were read.
func (e *Engine) pass(ctx context.Context, part int, a *Answer) (again bool, err error) {
	if len(a.Lock) == 0 {
		return false, nil
	}
	l, err := decodeLock(a.Lock)
	if err != nil || l.primary == part {
		return false, err
	}
	t, err := e.store.Trace(ctx, l.primary, e.owner, l.id)
	switch {
	case err != nil:
		return false, err
	case t.Decided:
		return true, e.apply(ctx, part, l)
	case bytes.Equal(t.Lock, a.Lock):
		return false, nil
	}
	// The note of a decision goes when all partitions are changed. So there was none to be
	// found if this one is as it was.
	b, err := e.store.Read(ctx, &Query{Part: part, Keys: [][]byte{nil}, Level: Serial})
	return b.Version != a.Version, err
}

// apply makes the changes that a committed transaction has staged in a partition, if its
// lock is still there.
func (e *Engine) apply(ctx context.Context, part int, l lock) error {
	for try := 0; try < maxMoves; try++ {
		t, err := e.store.Trace(ctx, part, e.owner, l.id)
		if err != nil || !bytes.Equal(t.Lock, l.encode()) {
			return err
		}
		p, err := decodePiece(t.Staged)
		if err != nil {
			return err
		}
		c := &Change{Part: part, From: t.Version, To: after(t.Version), Owner: -e.owner, Locked: true, Unlock: true}
		p.fill(c)
		gaps, err := decodeGaps(t.Note)
		if err != nil {
			return err
		}
		c.store(gaps, gaps)
		applied, _, err := e.change(ctx, c)
		if err != nil {
			return err
		}
		if applied {
			e.figures.resolved.Add(1)
			return nil
		}
	}
	return fmt.Errorf("partition %d is changed all the time: %w", part, engine.ErrContended)
}

// clear waits until a partition is not locked any more. A transaction that takes longer than
// its time is aborted.
func (e *Engine) clear(ctx context.Context, part int, now State) error {
	for pause := time.Millisecond; len(now.Lock) > 0; pause = min(2*pause, 50*time.Millisecond) {
		l, err := decodeLock(now.Lock)
		if err != nil {
			return err
		}
		ended, err := e.tryClear(ctx, part, l)
		if err != nil {
			return e.note(err)
		}
		if !ended {
			sleep(ctx, pause)
			if ctx.Err() != nil {
				return fmt.Errorf("a transaction holds partition %d: %w", part, engine.ErrContended)
			}
		}
		t, err := e.store.Trace(ctx, part, e.owner, nil)
		if err != nil {
			return e.note(err)
		}
		now = t.State
	}
	return nil
}

// tryClear removes a lock if its transaction is committed or has taken too long.
func (e *Engine) tryClear(ctx context.Context, part int, l lock) (ended bool, err error) {
	t, err := e.store.Trace(ctx, l.primary, e.owner, l.id)
	switch {
	case err != nil:
		return false, err
	case t.Decided:
		return true, e.apply(ctx, part, l)
	case e.locks.age(l, 10*e.opt.LockTTL) < e.opt.LockTTL:
		return false, nil
	}
	// The transaction commits by a change of the primary that expects the version which
	// its lock has made there, or its lock is still to come, for which the same holds.
	// After any other change of the primary neither can succeed.
	c := &Change{Part: l.primary, From: t.Version, To: after(t.Version), Owner: -e.owner, Locked: len(t.Lock) > 0, Unlock: bytes.Equal(t.Lock, l.encode())}
	applied, _, err := e.change(ctx, c)
	if err != nil || !applied {
		return false, err // look again
	}
	e.figures.aborted.Add(1)
	e.log.Warn("a transaction over several partitions did not go on, and was aborted", "partition", part, "primary", l.primary)
	if part == l.primary {
		return true, nil
	}
	return true, e.release(ctx, part, l)
}

// release removes the lock of a transaction that cannot be committed any more.
func (e *Engine) release(ctx context.Context, part int, l lock) error {
	for try := 0; try < maxMoves; try++ {
		t, err := e.store.Trace(ctx, part, e.owner, l.id)
		if err != nil || !bytes.Equal(t.Lock, l.encode()) {
			return err
		}
		c := &Change{Part: part, From: t.Version, To: after(t.Version), Owner: -e.owner, Locked: true, Unlock: true}
		if applied, _, err := e.change(ctx, c); err != nil || applied {
			return err
		}
	}
	return fmt.Errorf("partition %d is changed all the time: %w", part, engine.ErrContended)
}

// Changes that resolve locks are made without the turn at a gate, by another owner than
// commits are: the trace of a commit whose answer was lost stays. What comes of the changes
// themselves can be seen at the lock.

var errRefused = errors.New("a partition refused the lock")

package partition

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
)

// A commit over several partitions:
//
//  1. Each partition is locked, from the version that the view has seen there, together
//     with what the transaction writes in it. All at once; if one refuses, all are released.
//  2. The primary is changed: its rows, no lock any more, and a note that the transaction is
//     committed. That is the moment of the commit.
//  3. The other partitions are changed, behind the answer. Then the note can go.
//
// A transaction locks each partition at most once: a lock that others have removed is never
// set again under the same id. So if the primary still has its lock in the second step, all
// partitions have theirs. The turns at all gates are held meanwhile, in the order of the
// partitions, so that two transactions of one process do not meet.

// many is such a commit.
type many struct {
	e       *Engine
	v       *view
	pieces  map[int]*piece
	parts   []int // ascending
	lock    lock
	staged  map[int][]byte
	mu      sync.Mutex
	locked  map[int]int64 // the versions that the locks have made
	gaps    map[int]gaps  // of the locked partitions
	refused map[int]State
}

// commitMany commits in several partitions.
func (v *view) commitMany(pieces map[int]*piece) error {
	v.e.figures.many.Add(1)
	m := &many{e: v.e, v: v, pieces: pieces, parts: slices.Sorted(maps.Keys(pieces)), staged: make(map[int][]byte)}
	for i, part := range m.parts {
		led, err := v.e.gateOf(part).enter(v.ctx, nil)
		if err == nil && !led {
			err = errors.New("a turn alone was done by another")
		}
		if err != nil {
			m.leave(m.parts[:i])
			return err
		}
	}
	left := slices.Clone(m.parts) // whose gates are to be left
	defer func() { m.leave(left) }()
	for part, p := range pieces {
		m.staged[part] = p.encode()
	}
	for try := 0; ; try++ {
		err := m.prepare()
		if err == nil {
			break
		}
		if !errors.Is(err, errRefused) {
			return err
		}
		if try == maxMoves {
			return v.e.conflict(m.parts[0])
		}
		if err := m.renew(); err != nil {
			return err
		}
	}
	if err := m.decide(); err != nil {
		return err
	}
	// The rest is done behind the answer, by the staged bytes, since the batch may change.
	left = nil
	m.e.gateOf(m.lock.primary).leave()
	m.e.wg.Add(1)
	go m.finish()
	return nil
}

func (m *many) leave(parts []int) {
	for _, part := range parts {
		m.e.gateOf(part).leave()
	}
}

// prepare locks all partitions, or none.
func (m *many) prepare() error {
	if b := m.v.o.CommitBefore; b != nil && m.e.present() >= b() {
		return fmt.Errorf("the commit would come too late: %w", engine.ErrConflict)
	}
	m.lock = lock{id: make([]byte, idSize), primary: -1}
	if _, err := rand.Read(m.lock.id); err != nil {
		return err
	}
	for _, part := range m.parts {
		if !m.pieces[part].empty() {
			m.lock.primary = part
			break
		}
	}
	m.locked, m.gaps, m.refused = make(map[int]int64), make(map[int]gaps), make(map[int]State)
	err := eachAtOnce(m.pieces, m.lockOne)
	if err == nil && len(m.refused) == 0 {
		return nil
	}
	m.release()
	if err == nil {
		err = errRefused
	}
	return err
}

// lockOne locks a partition from the version that the view has seen.
func (m *many) lockOne(part int, _ *piece) error {
	g := m.e.gateOf(part)
	from, gaps := int64(0), gaps(nil)
	if s := m.v.seen[part]; s != nil {
		from, gaps = s.version, s.gaps
		if p := (&pending{base: s.version, read: &s.read, wrote: m.pieces[part].wrote()}); g.known && g.full && g.passes(p) {
			from, gaps = g.version, g.gaps
		}
	} else if err := m.e.learn(m.v.ctx, g); err != nil {
		return err
	} else {
		from, gaps = g.version, g.gaps
	}
	c := &Change{Part: part, From: from, To: after(from), Owner: m.e.owner, Lock: m.lock.encode(), Staged: m.staged[part]}
	if part == m.lock.primary {
		c.Staged = nil
	}
	g.lose()
	applied, now, err := m.e.change(m.v.ctx, c)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, engine.ErrUnknownOutcome):
		// Without its lock known, the transaction is not committed.
		return fmt.Errorf("a partition could not be locked: %w (%w)", engine.ErrUnavailable, withoutKind(err))
	case err != nil:
		return err
	case applied:
		m.locked[part], m.gaps[part] = c.To, gaps
	default:
		m.refused[part] = now
	}
	return nil
}

// release removes the locks of an attempt that has failed and will not be decided.
func (m *many) release() {
	ctx, cancel := context.WithTimeout(m.e.ctx, m.e.opt.Timeout)
	defer cancel()
	for part := range m.locked {
		if err := m.e.release(ctx, part, m.lock); err != nil {
			m.e.log.Debug("a lock stays until another transaction meets it", "partition", part, "err", err)
		}
	}
}

// renew waits for the locks of others that were met, and has the view see the partitions as
// they are.
func (m *many) renew() error {
	for part, now := range m.refused {
		if err := m.e.clear(m.v.ctx, part, now); err != nil {
			return err
		}
	}
	for part, s := range m.v.seen {
		if err := m.v.renew(part, s); err != nil {
			return err
		}
	}
	return nil
}

// decide commits: it changes the primary.
func (m *many) decide() error {
	primary := m.lock.primary
	from := m.locked[primary]
	c := &Change{Part: primary, From: from, To: after(from), Owner: m.e.owner, Locked: true, Unlock: true, Decide: m.lock.id}
	m.pieces[primary].fill(c)
	gaps := c.store(m.gaps[primary], m.gaps[primary])
	g := m.e.gateOf(primary)
	c.Forget = g.dropped()
	applied, now, err := m.e.change(m.v.ctx, c)
	switch {
	case err != nil:
		return err // who meets the locks finds out
	case !applied:
		g.drop(c.Forget...)
		m.release()
		return fmt.Errorf("partition %d has version %d instead of the lock's: %w", primary, now.Version, engine.ErrConflict)
	}
	g.learned(c.To, gaps)
	return nil
}

// finish applies the rest of a committed transaction. The gates of all partitions but the
// primary are held until then, and are left here.
func (m *many) finish() {
	defer m.e.wg.Done()
	ctx, cancel := context.WithTimeout(m.e.ctx, m.e.opt.Timeout)
	defer cancel()
	var wg sync.WaitGroup
	var failed atomic.Bool
	for _, part := range m.parts {
		if part == m.lock.primary {
			continue
		}
		wg.Go(func() {
			defer m.e.gateOf(part).leave()
			if err := m.finishOne(ctx, part); err != nil {
				failed.Store(true)
				m.e.log.Debug("a committed transaction is applied when another meets its lock", "partition", part, "err", err)
			}
		})
	}
	wg.Wait()
	if !failed.Load() {
		m.e.gateOf(m.lock.primary).drop(m.lock.id)
	}
}

// finishOne applies a committed transaction in one partition.
func (m *many) finishOne(ctx context.Context, part int) error {
	p, err := decodePiece(m.staged[part])
	if err != nil {
		return err
	}
	c := &Change{Part: part, From: m.locked[part], To: after(m.locked[part]), Owner: m.e.owner, Locked: true, Unlock: true}
	p.fill(c)
	gaps := c.store(m.gaps[part], m.gaps[part])
	applied, _, err := m.e.change(ctx, c)
	if err != nil {
		return err
	}
	if applied {
		m.e.gateOf(part).learned(c.To, gaps)
		return nil
	}
	return m.e.apply(ctx, part, m.lock)
}

// Fence implements engine.Fencer: every partition is changed, so that no change of before
// can be made any more.
func (e *Engine) Fence() error {
	ctx, cancel := context.WithTimeout(e.ctx, max(e.opt.Timeout, time.Minute))
	defer cancel()
	all := make(map[int]*gate, len(e.gates))
	for i := range e.gates {
		all[e.gates[i].part] = &e.gates[i]
	}
	return eachAtOnce(all, func(part int, g *gate) error {
		if _, err := g.enter(ctx, nil); err != nil {
			return err
		}
		defer g.leave()
		g.lose()
		for ctx.Err() == nil {
			t, err := e.store.Trace(ctx, part, e.owner, nil)
			if err == nil && len(t.Lock) > 0 {
				err = e.clear(ctx, part, t.State)
			} else if err == nil {
				c := &Change{Part: part, From: t.Version, To: after(t.Version), Owner: e.owner}
				var applied bool
				if applied, _, err = e.change(ctx, c); applied {
					t.Version = c.To
					return g.learnedState(t.State)
				}
			}
			if err != nil && !engine.Transient(err) && !errors.Is(err, engine.ErrUnknownOutcome) {
				return err
			}
			sleep(ctx, time.Millisecond)
		}
		return fmt.Errorf("partition %d could not be fenced: %w", part, engine.ErrUnavailable)
	})
}

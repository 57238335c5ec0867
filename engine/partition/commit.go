package partition

import (
	"errors"
	"fmt"

	"redoubt/engine"
)

// Commit implements engine.View.
func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	switch {
	case v.o.PointRead:
		return 0, errPointRead
	case v.settled:
		return 0, errors.New("a second commit on one view")
	case v.closed:
		return 0, errClosed
	case v.e.ctx.Err() != nil || v.e.closed.Load() && !v.own:
		return 0, engine.ErrClosed
	}
	v.settled = true
	if b.Len() == 0 {
		if err := v.checkOnly(b); err != nil || b.Empty() {
			return 0, err
		}
		v.done(b)
		return engine.Ticket(v.e.seq.Add(1)), nil
	}
	if err := v.enter(); err != nil {
		return 0, err
	}
	parts, err := v.pieces(b)
	if err != nil {
		return 0, err
	}
	for part, s := range v.seen {
		if parts[part] == nil {
			parts[part] = new(piece)
		}
		parts[part].settle(s)
	}
	for part, p := range parts {
		if p.empty() && v.seen[part] == nil { // a check of what was not read
			delete(parts, part)
		}
	}
	ticket := engine.Ticket(v.e.seq.Add(1)) // before the commit: what a reader sees has a ticket
	wrote := -1
	for part, p := range parts {
		if !p.empty() {
			wrote = part
		}
	}
	switch {
	case wrote < 0: // ranges without any place
		err = v.checkOnly(b)
	case len(parts) == 1:
		err = v.commitOne(wrote, parts[wrote])
	default:
		err = v.commitMany(parts)
	}
	if err != nil {
		return 0, v.e.note(err)
	}
	v.done(b)
	return ticket, nil
}

// done counts a commit.
func (v *view) done(b *engine.Batch) {
	v.e.counters.Add(b)
	v.e.figures.commits.Add(1)
}

// checkOnly ends a batch that writes no row: what it checks must be as it was read.
func (v *view) checkOnly(b *engine.Batch) error {
	some := false
	for range b.Checks() {
		some = true
	}
	if !some || len(v.seen) == 0 {
		return nil
	}
	if err := v.enter(); err != nil {
		return err
	}
	for part, s := range v.seen {
		if err := v.renew(part, s); err != nil {
			return err
		}
	}
	return nil
}

// settle adds what a piece checks to what its view has read.
func (p *piece) settle(s *seen) {
	for _, key := range p.checks {
		if _, read := s.rows[string(key)]; !read {
			s.read.add(key)
			s.unread = true
		}
	}
}

// commitOne commits in one partition.
func (v *view) commitOne(part int, p *piece) error {
	c := &pending{ctx: v.ctx, base: -1, piece: p, wrote: p.wrote(), before: v.o.CommitBefore}
	s := v.seen[part]
	for range maxMoves {
		if s != nil {
			c.base, c.read, c.gaps, c.spent = s.version, &s.read, s.gaps, s.empties(p)
		}
		c.err = nil
		err := v.e.commit(v.e.gateOf(part), c)
		if !errors.Is(err, errMoved) {
			return err
		}
		if err := v.renew(part, s); err != nil {
			return err
		}
	}
	return v.e.conflict(part)
}

// gateOf returns the gate of a partition.
func (e *Engine) gateOf(part int) *gate {
	i := e.layout.index(part)
	if e.gates[i].part != part {
		panic(fmt.Sprintf("there is no partition %d", part))
	}
	return &e.gates[i]
}

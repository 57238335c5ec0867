package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// gate is what this process knows of a partition. One change at a time is under way: commits
// that come meanwhile wait, and those at the head of the queue go together in the next
// change (group commit). A transaction over several partitions has its turn alone.
type gate struct {
	part int

	mu    sync.Mutex
	busy  bool
	queue []*turn

	// Used by whoever has the turn.
	version     int64 // newest known version; -1: not known
	known       bool
	full        bool     // gaps are those of the version
	gaps        gaps     //
	past        []passed // changes by this process, each from the version of the one before it
	growing     map[string]int
	remembering atomic.Bool // a gap that a read has found is about to be stored
	forget      [][]byte    // decisions that nobody needs; protected by mu
}

// passed is a change that this process has made.
type passed struct {
	from  int64
	wrote footprint
}

// maxPast is how many of its own changes a gate remembers.
const maxPast = 64

// turn is a place in the queue of a gate.
type turn struct {
	commit *pending  // nil: the turn is for one alone
	lead   chan bool // true: it is the head's turn; false: the commit was done by another
}

// pending is a commit in one partition.
type pending struct {
	ctx    context.Context
	base   int64 // the version that the view has seen; -1: it has read nothing
	gaps   gaps  // of that version
	spent  []emptied
	piece  *piece
	wrote  footprint
	read   *footprint // nil: nothing
	before func() engine.Stamp
	err    error
}

// errMoved: the partition has moved, by more than changes of this process that do not meet
// what the commit has read.
var errMoved = errors.New("the partition has moved")

// enter waits for a turn. led is false if the commit was done by another one's turn.
func (g *gate) enter(ctx context.Context, p *pending) (led bool, err error) {
	t := &turn{commit: p, lead: make(chan bool, 1)}
	g.mu.Lock()
	if !g.busy {
		g.busy = true
		g.mu.Unlock()
		return true, nil
	}
	g.queue = append(g.queue, t)
	g.mu.Unlock()
	select {
	case led = <-t.lead:
		return led, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	for i, o := range g.queue {
		if o == t {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			g.mu.Unlock()
			return false, fmt.Errorf("others write to the same partition: %w", engine.ErrContended)
		}
	}
	g.mu.Unlock()
	return <-t.lead, nil // it was taken; what comes of it is known soon
}

// leave ends a turn.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.busy = false
		return
	}
	next := g.queue[0]
	g.queue = g.queue[1:]
	next.lead <- true
}

// take takes commits from the head of the queue that may go together with a group.
func (g *gate) take(n, size int) (more []*turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) > 0 && g.queue[0].commit != nil && n < maxTogether {
		t := g.queue[0]
		if size += t.commit.piece.size; size > maxTogetherSize {
			break
		}
		more, g.queue = append(more, t), g.queue[1:]
		n++
	}
	return more
}

const (
	maxTogether     = 256
	maxTogetherSize = 1 << 20
)

// commit commits a piece in a partition.
func (e *Engine) commit(g *gate, p *pending) error {
	led, err := g.enter(p.ctx, p)
	if err != nil || !led {
		return errors.Join(err, p.err)
	}
	others := g.take(1, p.piece.size)
	group := []*pending{p}
	for _, t := range others {
		group = append(group, t.commit)
	}
	for len(group) > 0 {
		group = e.commitGroup(g, group)
	}
	g.leave()
	for _, t := range others {
		t.lead <- false
	}
	return p.err
}

// commitGroup makes one change of the commits that can go together, sets their errors, and
// returns the others, which can be tried in another change. The caller has the turn.
func (e *Engine) commitGroup(g *gate, group []*pending) (left []*pending) {
	lead := group[0]
	if err := e.learn(lead.ctx, g, group...); err != nil {
		return fail(group, err)
	}
	c := &Change{Part: g.part, From: g.version, To: after(g.version), Owner: e.owner}
	var wrote footprint
	var going []*pending
	var spent []emptied
	for _, p := range group {
		switch {
		case p.ctx.Err() != nil:
			p.err = fmt.Errorf("others write to the same partition: %w", engine.ErrContended)
		case p.before != nil && e.present() >= p.before():
			p.err = fmt.Errorf("the commit would come too late: %w", engine.ErrConflict)
		case !g.passes(p):
			p.err = errMoved
		case wrote.meets(&p.wrote) || p.read != nil && wrote.meets(p.read):
			left = append(left, p)
		default:
			p.piece.fill(c)
			wrote.addAll(&p.wrote)
			going, spent = append(going, p), append(spent, p.spent...)
		}
	}
	if len(going) == 0 {
		return left
	}
	c.Forget = g.dropped()
	gaps := g.noteGaps(c, spent)
	applied, now, err := e.change(going[0].ctx, c)
	switch {
	case err != nil:
		g.lose()
		fail(going, err)
	case applied:
		g.pass(c, wrote)
		g.gaps = gaps
		e.figures.together.Add(int64(len(going) - 1))
	default:
		g.drop(c.Forget...)
		g.moved(now.Version)
		if now.Lock != nil {
			if err := e.clear(going[0].ctx, g.part, now); err != nil {
				return fail(append(going, left...), err)
			}
			g.lose()
		}
		left = append(going, left...)
	}
	return left
}

func fail(group []*pending, err error) []*pending {
	for _, p := range group {
		p.err = err
	}
	return nil
}

// learn ensures that the version of a partition is known, and its gaps, if any of a group
// can go on it.
func (e *Engine) learn(ctx context.Context, g *gate, group ...*pending) error {
	blind := len(group) == 0
	for _, p := range group {
		// Its view may have seen a change by another process.
		if p.base >= 0 && (!g.known || p.base > g.version || p.base == g.version && !g.full) {
			g.learned(p.base, p.gaps)
		}
		blind = blind || p.base < 0
	}
	if g.known && (g.full || !blind) {
		return nil
	}
	t, err := e.store.Trace(ctx, g.part, e.owner, nil)
	if err != nil {
		return e.note(err)
	}
	return g.learnedState(t.State)
}

func (g *gate) learned(version int64, gaps gaps) {
	g.version, g.known, g.full, g.gaps, g.past = version, true, true, gaps, nil
}

func (g *gate) learnedState(s State) error {
	gaps, err := decodeGaps(s.Note)
	if err == nil {
		g.learned(s.Version, gaps)
	}
	return err
}

// moved notes a version of which the gaps are not known: only a commit of which the view has
// seen that version can go on it.
func (g *gate) moved(version int64) {
	g.version, g.known, g.full, g.gaps, g.past = version, true, false, nil, nil
}

func (g *gate) lose() { g.known, g.full, g.gaps, g.past = false, false, nil, nil }

// pass notes a change that was made.
func (g *gate) pass(c *Change, wrote footprint) {
	if len(g.past) == maxPast {
		g.past = append(g.past[:0], g.past[maxPast/2:]...)
	}
	g.past = append(g.past, passed{c.From, wrote})
	g.version = c.To
}

// passes reports whether a commit may go on the newest known version: what has changed since
// its view was done by this process, and meets nothing that the view has read.
func (g *gate) passes(p *pending) bool {
	if p.base < 0 || p.base == g.version {
		return true
	}
	for i := len(g.past) - 1; i >= 0; i-- {
		c := &g.past[i]
		if p.read != nil && c.wrote.meets(p.read) || c.wrote.meets(&p.wrote) {
			return false
		}
		if c.from == p.base {
			return true
		}
	}
	return false
}

// after returns a version above another one. Two processes hardly choose the same; should
// they, the trace tells whose change it was.
func after(version int64) int64 { return version + 1 + rand.Int64N(1<<32) }

// drop notes decisions that nobody needs any more, and dropped takes the notes.
func (g *gate) drop(ids ...[]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget = append(g.forget, ids...)
}

func (g *gate) dropped() (ids [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids, g.forget = g.forget, nil
	return ids
}

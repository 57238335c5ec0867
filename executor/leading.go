package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Background work on a store that several processes use. One of them does it, the
// one that leads; two at once would only be wasteful, since all of it is done in
// transactions, and a step that conflicts with somebody is tried again later.
//
// What others store this process does not hear of, but that they have stored anything
// (SetNews). As long as they do, it reads each group of slots again and again besides what
// it has stored itself, a share of them at a time: for expire rows, and for garbage. When
// nobody has stored such rows for a while, all of them are known, and groups are read for
// safety only. Who takes the lead knows nothing and reads all of them.
//
// To read is to wait for an answer. What does not depend on each other is asked at
// once, and of one moment, since a moment has to be asked for, too.

const (
	expiryEvery  = 2 * time.Second  // each group's expire rows are read so often
	garbageEvery = 30 * time.Second // and its garbage rows, whose space comes back later still
	expiryIdle   = time.Minute      // the same while nobody stores such rows
	garbageIdle  = 5 * time.Minute
	shares       = 8                // into which the groups are divided
	clearEvery   = time.Second / 10 // it is seen whether a share has its turn
	deadEvery    = time.Second      // databases that were flushed are looked for
	scansAtOnce  = 8
	sharedStep   = 256 // keys expired per commit, or garbage rows listed: a page
	sweepRounds  = 100 // so often one sweep goes through the groups that have more
)

// leading is what a process knows of its lead.
type leading struct {
	leads      func() bool
	recountDue func() bool
	news       func() uint64 // nil: nobody tells of others
	// stored counts the commits of this process that have stored rows for background work,
	// or may have; unlisted those of them of which it does not know the groups: with garbage,
	// or with an unknown outcome.
	stored, unlisted atomic.Uint64
	// sweeping and clearing are held while either goes on.
	sweeping, clearing sync.Mutex
	expiry, garbage    rota
	dead               int64 // when flushed databases were last looked for
}

// SetLeads sets who says whether this process does the background work of a store
// that others use, too. Without it does. It must be called before Background.
func (x *Executor) SetLeads(f func() bool) { x.sweep.leading.leads = f }

func (x *Executor) leads() bool {
	f := x.sweep.leading.leads
	return f == nil || f()
}

// SetNews sets a function whose number changes after other processes may have stored rows
// that background work looks for. Without it they may at any time. It must be called
// before Background.
func (x *Executor) SetNews(f func() uint64) { x.sweep.leading.news = f }

// Deferred counts the commits of this process that have stored rows which background work
// looks for. Those rows are in the store before they are counted.
func (x *Executor) Deferred() uint64 { return x.sweep.leading.stored.Load() }

// defers notes that a batch was committed, or that its outcome is unknown.
func (l *leading) defers(fx *keyspace.Effects, unknown bool) {
	if !fx.Deferred() {
		return
	}
	if fx.Garbage != 0 || unknown {
		l.unlisted.Add(1)
	}
	l.stored.Add(1)
}

// rota says which groups of slots have their turn, so that all have in a period.
type rota struct {
	led   bool
	idle  bool   // nothing was stored for a while
	news  uint64 // what the last call of hear was told
	heard int64  // when that changed, in milliseconds
	since int64  // in milliseconds; so many turns were given since then:
	given int64
	next  int
	// rounds is how many more times the sweep under way may go through the groups.
	rounds int
}

// turn returns the groups whose turn it is, a share of them at least; for one who has
// just taken the lead those are all.
func (r *rota) turn(now int64, period time.Duration) (groups []int) {
	owed := (now-r.since)*keyspace.Groups/period.Milliseconds() - r.given
	switch {
	case !r.led || owed < 0 || owed > keyspace.Groups:
		r.led, r.since, r.given = true, now, 0
		owed = keyspace.Groups
	case owed < keyspace.Groups/shares:
		return nil
	default:
		r.given += owed
	}
	for range owed {
		groups = append(groups, r.next)
		r.next = (r.next + 1) % keyspace.Groups
	}
	return groups
}

// hear notes whether rows may have been stored that this process does not know of. It says
// true if they were after a time without.
func (r *rota) hear(l *leading, now int64, period time.Duration) (woken bool) {
	if l.news == nil {
		return false
	}
	news := l.news() + l.unlisted.Load()
	was := r.idle
	if news != r.news || now < r.heard {
		r.news, r.heard, r.idle = news, now, false
	} else {
		r.idle = now-r.heard >= 2*period.Milliseconds() // all groups were read since
	}
	if r.idle != was {
		r.since, r.given = now, 0 // the period is another one
	}
	return was && !r.idle
}

// yield notes that another process leads.
func (l *leading) yield() {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	l.expiry.led = false
}

// beginSweep prepares a sweep. It says false if this process does not lead; else
// sweeping is held.
func (x *Executor) beginSweep() bool {
	l := &x.sweep.leading
	if !x.leads() {
		l.yield()
		return false
	}
	l.sweeping.Lock()
	r, now, period := &l.expiry, x.clock().UnixMilli(), expiryEvery
	if r.hear(l, now, period) {
		r.led = false // clients hear of expired keys: all groups are read now
	}
	if r.idle {
		period = expiryIdle
	}
	for _, group := range r.turn(now, period) {
		x.space.Unknown(group)
	}
	r.rounds = sweepRounds
	return true
}

// sweepShared is sweepAll on such a store: it gathers keys over the groups that may
// have some, and says true when there are more.
func (x *Executor) sweepShared(ctx context.Context) (left bool, err error) {
	var list []keyspace.Due
	full, gone := false, 0
	now := x.clock().UnixMilli()
	groups := x.space.TakeDue(now)
	m := moment{eng: x.eng}
	defer func() {
		for _, group := range groups { // which were not read
			x.space.Unknown(group)
		}
		err = errors.Join(err, m.end())
	}()
	for len(groups) > 0 || len(list) > 0 {
		if len(groups) > 0 && len(list) < sharedStep {
			if err := m.begin(); err != nil {
				return false, err
			}
			some := groups[:min(scansAtOnce, len(groups))]
			lists := make([][]keyspace.Due, len(some))
			err := atOnce(len(some), func(i int) (err error) {
				lists[i], err = x.space.DueTaken(m.snap, some[i], now, sharedStep)
				return err
			})
			if err != nil {
				return false, err
			}
			groups = groups[len(some):]
			for _, l := range lists {
				list = append(list, l...)
				full = full || len(l) == sharedStep
			}
			continue
		}
		step := list[:min(sharedStep, len(list))]
		list = list[len(step):]
		busy, more, err := x.expireApart(step)
		if err != nil {
			return false, err
		}
		gone += len(step) - busy
		left = left || more
		if err := m.end(); err != nil { // what others wrote meanwhile is seen
			return false, err
		}
		if ctx.Err() != nil || x.rests() {
			return false, nil
		}
	}
	r := &x.sweep.leading.expiry
	r.rounds--
	return (left || full && gone > 0) && r.rounds > 0, nil
}

// expireApart is expire. If that conflicts with another process, only the keys that
// do are left, and counted as busy.
func (x *Executor) expireApart(list []keyspace.Due) (busy int, more bool, err error) {
	busy, more, err = x.expire(list)
	if !errors.Is(err, engine.ErrConflict) {
		return busy, more, err
	}
	x.sweep.Conflicts.Add(1)
	if len(list) == 1 {
		return 1, false, nil
	}
	busy, more = 0, false
	for part := range slices.Chunk(list, (len(list)+1)/2) {
		b, m, err := x.expireApart(part)
		if err != nil {
			return busy, more, err
		}
		busy, more = busy+b, more || m
	}
	return busy, more, nil
}

// fetchDue has the rows of keys fetched at once.
func (b *Batch) fetchDue(list []keyspace.Due) {
	if len(list) < 2 {
		return
	}
	rows := make([][]byte, len(list))
	for i, d := range list {
		rows[i] = d.Row(nil)
	}
	b.tx.Rows.View.Prefetch(rows)
}

// clearShared clears what there is to clear, as far as it is to be looked at now.
func (x *Executor) clearShared(ctx context.Context) error {
	l := &x.sweep.leading
	l.clearing.Lock()
	defer l.clearing.Unlock()
	if !x.leads() {
		l.garbage.led = false
		return nil
	}
	now := x.clock().UnixMilli()
	if since := now - l.dead; !l.garbage.led || since < 0 || since >= deadEvery.Milliseconds() {
		l.dead = now
		if err := x.clearDead(ctx); err != nil {
			return err
		}
	}
	if x.eng.Capabilities().CheapRangeDelete {
		return nil
	}
	period := garbageEvery
	if l.garbage.hear(l, now, period); l.garbage.idle {
		period = garbageIdle
	}
	err := x.clearGroups(ctx, l.garbage.turn(now, period))
	if err != nil {
		l.garbage.led = false // not all of them have had their turn
	}
	return err
}

// clearDead clears flushed databases.
func (x *Executor) clearDead(ctx context.Context) error {
	m := moment{eng: x.eng}
	err := m.begin()
	if err != nil {
		return err
	}
	more, err := x.space.Dead(m.snap)
	err = errors.Join(err, m.end())
	var c keyspace.Clearing
	for before := int64(0); more && err == nil && ctx.Err() == nil && x.leads(); before = c.Cleared {
		x.sweep.Clearing.Store(true)
		x.sweep.turn.Lock()
		_, err = x.Do(nil, func(tx *keyspace.Tx) { more = tx.ClearDead(&c, clearStep) })
		x.sweep.turn.Unlock()
		if err == nil {
			x.sweep.Cleared.Add(c.Cleared - before)
		}
	}
	return err
}

// clearGroups clears the rows of the deleted values of some groups. Values of which
// another process clears rows at the same time are left for the next turn.
func (x *Executor) clearGroups(ctx context.Context, groups []int) error {
	for len(groups) > 0 && ctx.Err() == nil && x.leads() {
		m := moment{eng: x.eng}
		if err := m.begin(); err != nil {
			return err
		}
		lists := make([][]keyspace.Ref, len(groups))
		err := atOnce(len(groups), func(i int) (err error) {
			lists[i], err = x.space.Garbage(m.snap, groups[i], sharedStep)
			return err
		})
		if err = errors.Join(err, m.end()); err != nil {
			return err
		}
		var gone atomic.Int64
		all := slices.Concat(lists...)
		x.sweep.Clearing.Store(len(all) > 0)
		err = atOnce(len(all), func(i int) error {
			err := x.clearValue(ctx, all[i])
			if errors.Is(err, engine.ErrConflict) {
				x.sweep.Conflicts.Add(1)
				return nil
			}
			gone.Add(1)
			return err
		})
		if err != nil || gone.Load() == 0 {
			return err
		}
		var more []int
		for i, l := range lists {
			if len(l) == sharedStep {
				more = append(more, groups[i])
			}
		}
		groups = more
	}
	return nil
}

// clearValue clears the rows of a deleted value.
func (x *Executor) clearValue(ctx context.Context, r keyspace.Ref) error {
	var from []byte
	for more := true; more && ctx.Err() == nil && x.leads(); more = from != nil {
		n := 0
		if _, err := x.Do(nil, func(tx *keyspace.Tx) { n, from = tx.ClearValue(r, from, clearStep) }); err != nil {
			return err
		}
		x.sweep.Cleared.Add(int64(n))
	}
	return nil
}

// moment is a state of the store that several look at.
type moment struct {
	eng  engine.Engine
	snap engine.Snapshot // nil until begin
}

func (m *moment) begin() (err error) {
	if m.snap == nil {
		m.snap, err = m.eng.Snapshot()
	}
	return err
}

func (m *moment) end() (err error) {
	if m.snap != nil {
		err = m.snap.Close()
	}
	m.snap = nil
	return err
}

// atOnce calls f with the numbers below n, some at the same time, until one fails.
func atOnce(n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var wait sync.WaitGroup
	for range min(n, scansAtOnce) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
				if errs[i] = f(i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

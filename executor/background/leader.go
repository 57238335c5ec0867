package background

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

// Background work on a store that several processes use. One of them, the leader, does
// it; two at once would only be wasteful, since all of the work is done in
// transactions, and a step that conflicts is retried later.
//
// The leader learns only that other processes have stored expire or garbage rows
// (Options.News), not which. As long as they do, the leader reads every group of slots
// periodically, a share of the groups at a time. When no process has stored such rows for
// a while, the leader knows all of them, and reads groups more rarely, for safety only. A
// process that becomes the leader knows none and reads all groups.
//
// Each read is a round trip. Independent reads are made concurrently, and on one snapshot,
// since to take a snapshot is a round trip, too.

const (
	expiryEvery  = 2 * time.Second  // period in which each group's expire rows are read
	garbageEvery = 30 * time.Second // the same for its garbage rows, which are less urgent
	expiryIdle   = time.Minute      // the same while no process stores such rows
	garbageIdle  = 5 * time.Minute
	shares       = 8                // into which the groups are divided
	clearEvery   = time.Second / 10 // how often to look whether a share has its turn
	deadEvery    = time.Second      // how often to look for flushed databases
	scansAtOnce  = 8
	sharedStep   = 256 // keys expired per commit, or garbage rows listed: a page
	sweepRounds  = 100 // how often one sweep goes through the groups that have more
)

// leader is the storeWorker of a store that several processes share.
type leader struct {
	*Worker
	// stored counts the commits of this process that have stored rows for background work,
	// or may have. unlisted counts those whose groups are not known: commits with garbage
	// rows, or with an unknown outcome.
	stored, unlisted atomic.Uint64
	// sweepMu is held during a sweep, clearMu while rows are cleared.
	sweepMu, clearMu sync.Mutex
	expiry, garbage  schedule
	dead             int64 // when flushed databases were last looked for
}

func newLeader(w *Worker) *leader { return &leader{Worker: w} }

// Deferred returns how many commits of this process have stored rows for background work.
// The rows are in the store before they are counted. On a store of one process it is 0.
func (w *Worker) Deferred() uint64 {
	if l, ok := w.store.(*leader); ok {
		return l.stored.Load()
	}
	return 0
}

func (l *leader) leads() bool { return l.Leads == nil || l.Leads() }

func (l *leader) deferred(fx *keyspace.Effects, unknown bool) {
	if fx.Garbage != 0 || unknown {
		l.unlisted.Add(1)
	}
	l.stored.Add(1)
}

func (l *leader) clearWhen() (<-chan struct{}, time.Duration) {
	return nil, clearEvery // each deleted value would wake it
}

func (l *leader) catalogHolds(f func()) (holds bool, err error) {
	if err := l.Space.Catalog().Renew(); err != nil {
		return false, err
	}
	l.Executor.Exclusively(func() {
		f()
		holds = l.Space.Catalog().Lease().Holds(0)
	})
	return holds, nil
}

// schedule schedules the groups of slots, so that each has its turn once in a period.
type schedule struct {
	led    bool   // this process has been the leader since the last turn
	idle   bool   // nothing was stored for a while
	news   uint64 // Options.News plus unlisted at the last call of noteNews
	newsAt int64  // when that changed, in milliseconds
	since  int64  // in milliseconds: when turns began to be counted
	given  int64  // turns since then
	next   int
	// rounds is how often the sweep under way may still go through the groups.
	rounds int
}

// due returns the groups whose turn it is: none, or a share of them at least. A process
// that has just become the leader gets all groups.
func (r *schedule) due(now int64, period time.Duration) (groups []int) {
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

// noteNews notes whether rows may have been stored that this process does not know of. It
// reports true if so and the schedule was idle before.
func (r *schedule) noteNews(l *leader, now int64, period time.Duration) (woken bool) {
	if l.News == nil {
		return false
	}
	news := l.News() + l.unlisted.Load()
	was := r.idle
	if news != r.news || now < r.newsAt {
		r.news, r.newsAt, r.idle = news, now, false
	} else {
		r.idle = now-r.newsAt >= 2*period.Milliseconds() // all groups were read since
	}
	if r.idle != was {
		r.since, r.given = now, 0 // the period changes
	}
	return was && !r.idle
}

// yield notes that another process leads.
func (l *leader) yield() {
	l.sweepMu.Lock()
	defer l.sweepMu.Unlock()
	l.expiry.led = false
}

func (l *leader) sweepDue() bool {
	if !l.leads() {
		l.yield()
		return false
	}
	return true
}

// beginSweep decides which groups this sweep reads. sweepMu is held until the sweep ends.
func (l *leader) beginSweep() (end func(), ok bool) {
	if !l.sweepDue() {
		return nil, false
	}
	l.sweepMu.Lock()
	r, now, period := &l.expiry, l.Clock().UnixMilli(), expiryEvery
	if r.noteNews(l, now, period) {
		r.led = false // clients wait for expiry events: read all groups now
	}
	if r.idle {
		period = expiryIdle
	}
	for _, group := range r.due(now, period) {
		l.Space.Unknown(group)
	}
	r.rounds = sweepRounds
	return l.sweepMu.Unlock, true
}

// sweep lists expired keys of the groups that may have some, and removes them in steps.
func (l *leader) sweep(ctx context.Context) (left bool, err error) {
	var list []keyspace.Due
	full, gone := false, 0
	now := l.Clock().UnixMilli()
	groups := l.Space.TakeDue(now)
	m := moment{eng: l.Engine}
	defer func() {
		for _, group := range groups { // which were not read
			l.Space.Unknown(group)
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
				lists[i], err = l.Space.DueTaken(m.snap, some[i], now, sharedStep)
				return err
			})
			if err != nil {
				return false, err
			}
			groups = groups[len(some):]
			for _, due := range lists {
				list = append(list, due...)
				full = full || len(due) == sharedStep
			}
			continue
		}
		step := list[:min(sharedStep, len(list))]
		list = list[len(step):]
		busy, more, err := l.expireSplitting(step)
		if err != nil {
			return false, err
		}
		gone += len(step) - busy
		left = left || more
		if err := m.end(); err != nil { // the next snapshot shows what others wrote meanwhile
			return false, err
		}
		if ctx.Err() != nil || l.rests() {
			return false, nil
		}
	}
	r := &l.expiry
	r.rounds--
	return (left || full && gone > 0) && r.rounds > 0, nil
}

// expireSplitting is expire. On a conflict with another process it halves the list, so that
// only the keys that conflict are left, and counted as busy.
func (l *leader) expireSplitting(list []keyspace.Due) (busy int, more bool, err error) {
	busy, more, err = l.expire(list)
	if !errors.Is(err, engine.ErrConflict) {
		return busy, more, err
	}
	l.conflicts.Add(1)
	if len(list) == 1 {
		return 1, false, nil
	}
	busy, more = 0, false
	for part := range slices.Chunk(list, (len(list)+1)/2) {
		b, m, err := l.expireSplitting(part)
		if err != nil {
			return busy, more, err
		}
		busy, more = busy+b, more || m
	}
	return busy, more, nil
}

// clear clears flushed databases, and deleted values in the groups whose turn it is.
func (l *leader) clear(ctx context.Context) error {
	l.clearMu.Lock()
	defer l.clearMu.Unlock()
	if !l.leads() {
		l.garbage.led = false
		return nil
	}
	now := l.Clock().UnixMilli()
	if since := now - l.dead; !l.garbage.led || since < 0 || since >= deadEvery.Milliseconds() {
		l.dead = now
		if err := l.clearDead(ctx); err != nil {
			return err
		}
	}
	if l.Engine.Capabilities().CheapRangeDelete {
		return nil
	}
	period := garbageEvery
	if l.garbage.noteNews(l, now, period); l.garbage.idle {
		period = garbageIdle
	}
	err := l.clearGroups(ctx, l.garbage.due(now, period))
	if err != nil {
		l.garbage.led = false // not all of them have had their turn
	}
	return err
}

// clearDead clears flushed databases.
func (l *leader) clearDead(ctx context.Context) error {
	m := moment{eng: l.Engine}
	err := m.begin()
	if err != nil {
		return err
	}
	more, err := l.Space.Dead(m.snap)
	err = errors.Join(err, m.end())
	if err != nil || !more {
		return err
	}
	var c keyspace.Clearing
	return l.clearStepwise(&c, func() bool { return ctx.Err() == nil && l.leads() }, func(tx *keyspace.Tx) bool {
		return tx.ClearDead(&c, clearStep)
	})
}

// clearGroups clears the rows of the deleted values of some groups. Values of which
// another process clears rows at the same time are left for the next turn.
func (l *leader) clearGroups(ctx context.Context, groups []int) error {
	for len(groups) > 0 && ctx.Err() == nil && l.leads() {
		m := moment{eng: l.Engine}
		if err := m.begin(); err != nil {
			return err
		}
		lists := make([][]keyspace.Ref, len(groups))
		err := atOnce(len(groups), func(i int) (err error) {
			lists[i], err = l.Space.Garbage(m.snap, groups[i], sharedStep)
			return err
		})
		if err = errors.Join(err, m.end()); err != nil {
			return err
		}
		var gone atomic.Int64
		all := slices.Concat(lists...)
		l.Worker.clearing.Store(len(all) > 0)
		err = atOnce(len(all), func(i int) error {
			err := l.clearValue(ctx, all[i])
			if errors.Is(err, engine.ErrConflict) {
				l.conflicts.Add(1)
				return nil
			}
			gone.Add(1)
			return err
		})
		if err != nil || gone.Load() == 0 {
			return err
		}
		var more []int
		for i, refs := range lists {
			if len(refs) == sharedStep {
				more = append(more, groups[i])
			}
		}
		groups = more
	}
	return nil
}

// clearValue clears the rows of a deleted value.
func (l *leader) clearValue(ctx context.Context, r keyspace.Ref) error {
	var from []byte
	for more := true; more && ctx.Err() == nil && l.leads(); more = from != nil {
		n := 0
		if _, err := l.Executor.DoLatching(func(tx *keyspace.Tx, _ func([]byte) bool) { n, from = tx.ClearValue(r, from, clearStep) }); err != nil {
			return err
		}
		l.cleared.Add(int64(n))
	}
	return nil
}

// moment is a snapshot of the store that several reads share.
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

// atOnce calls f with the numbers below n, up to scansAtOnce concurrently, until one fails.
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

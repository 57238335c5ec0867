// Package fleet knows the living front ends of one shared store.
//
// Each front end has a row that it writes again every second. Whoever lists the rows
// and finds that one has not changed for four seconds, by its own clock, takes its
// writer for dead. No clock is compared with another's. The living divide the slots
// among them by a pure function of their list, and the one that lives longest leads:
// it does the work that one is enough for.
//
// Nothing depends on all front ends having the same list at the same time. Any of
// them answers any key correctly; where two think they lead they do some work twice,
// in transactions.
//
// A member at whose address nobody listens any more (Refused) is left out at once, until
// its row changes again: a process that was killed need not be waited for. That is only
// a guess, since the network may refuse as well.
//
// What does hold: nobody is found silent before it knows it. A front end that
// cannot write its row is fenced as soon as the lease is over, counted from before
// its last write that succeeded; the others count from when they saw that write, which is later.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
)

const (
	defaultBeat  = time.Second
	defaultLease = 4 * time.Second
	// buried: the row of a dead member is deleted after so many leases.
	buried = 10
	// forgetEvery is how often the leader lets the store forget, and remember how
	// much history it always leaves.
	forgetEvery = time.Minute
	remember    = 10 * time.Minute
)

// Clock is how a fleet tells time. The zero Clock is the machine's.
type Clock struct {
	// Now returns the time on a monotonic clock.
	Now func() time.Time
	// After is like time.After.
	After func(time.Duration) <-chan time.Time
}

// Options are how a front end joins.
type Options struct {
	Engine engine.Shared
	// Self is what the member says of itself. ID and Started are made by Join where
	// they are zero; Beat and Oldest are the fleet's.
	Self Member
	// Beat is how often the row is written, one second if 0.
	Beat time.Duration
	// Lease is how long a member lives without, four seconds if 0.
	Lease time.Duration
	Clock Clock
	// Log is told about members that come and go, and about a store that fails. It
	// may be nil.
	Log *slog.Logger
}

// Fleet is the membership of this process.
type Fleet struct {
	o      Options
	log    *slog.Logger
	start  time.Time // all times below are since then
	secret [32]byte

	division atomic.Pointer[Division]
	beaten   atomic.Int64 // when the last beat that succeeded was begun
	deaths   atomic.Uint64

	mu       sync.Mutex
	onChange []func()
	changes  []func(*Member) // of what this process says of itself
	reports  map[ID]bool     // members that were found: true if their address refused, false if they answered
	changed  chan struct{}

	work atomic.Pointer[func() uint64] // see SetWork
	news atomic.Uint64

	stop   chan struct{}
	ended  chan struct{}
	leave  sync.Once
	left   error
	keeper // of the goroutine
}

// Join writes the row of this process, reads those of the others, and goes on doing
// both until Leave.
func Join(ctx context.Context, o Options) (*Fleet, error) {
	if o.Beat == 0 {
		o.Beat = defaultBeat
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Clock.Now == nil {
		o.Clock = Clock{Now: time.Now, After: time.After}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Self.Host == "" {
		return nil, errors.New("join the fleet: there is no address to announce")
	}
	if o.Self.ID == (ID{}) {
		o.Self.ID = NewID()
	}
	f := &Fleet{o: o, log: o.Log, start: o.Clock.Now(), stop: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}, 1), reports: make(map[ID]bool)}
	f.keeper = newKeeper(f)
	if err := f.join(ctx); err != nil {
		return nil, fmt.Errorf("join the fleet: %w", err)
	}
	go f.run()
	return f, nil
}

func (f *Fleet) join(ctx context.Context) (err error) {
	if f.self.Started == 0 {
		if f.self.Started, err = f.o.Engine.Stamp(); err != nil {
			return err
		}
	}
	if f.secret, err = readSecret(ctx, f.o.Engine); err != nil {
		return err
	}
	if err := f.succeed(ctx); err != nil {
		return err
	}
	if err := f.beat(ctx); err != nil {
		return err
	}
	if err := f.list(); err != nil {
		return errors.Join(err, f.delete(context.WithoutCancel(ctx)))
	}
	return nil
}

// run beats and lists until the end.
func (f *Fleet) run() {
	defer close(f.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-f.stop:
			return
		case <-f.changed:
		case <-f.o.Clock.After(f.o.Beat):
		}
		f.turn(ctx)
	}
}

// Leave ends the membership: the others see at once that this process is gone.
func (f *Fleet) Leave(ctx context.Context) error {
	f.leave.Do(func() {
		close(f.stop)
		<-f.ended
		if err := f.delete(ctx); err != nil {
			f.left = fmt.Errorf("leave the fleet: %w", err)
		}
	})
	return f.left
}

// Division returns the living members and their slots, as of the last look.
func (f *Fleet) Division() *Division { return f.division.Load() }

// Members are the living, by age, also those that take no clients. This process is
// always among them.
func (f *Fleet) Members() []Member { return slices.Clone(f.Division().all) }

// Self is this process.
func (f *Fleet) Self() Member { d := f.Division(); return d.Members[d.Self] }

// Epoch grows with each change of the living that this process has seen.
func (f *Fleet) Epoch() uint64 { return f.Division().Epoch }

// Leader says whether this process leads. Two may believe so for a moment.
func (f *Fleet) Leader() bool { return f.Division().Self == 0 && !f.Fenced() }

// Deaths is how often a member was found dead: it has not left, but was silent.
func (f *Fleet) Deaths() uint64 { return f.deaths.Load() }

// Fenced says that the others take this process for dead, or soon will: its row could
// not be written for a lease.
func (f *Fleet) Fenced() bool { return f.now()-time.Duration(f.beaten.Load()) >= f.o.Lease }

// Secret is known to whoever can read the store, and the same for all members.
func (f *Fleet) Secret() [32]byte { return f.secret }

// Lease is how long a member lives without writing its row.
func (f *Fleet) Lease() time.Duration { return f.o.Lease }

// Announce changes what this process says of itself, but for what the fleet does. The
// others are told at once.
func (f *Fleet) Announce(change func(*Member)) {
	f.mu.Lock()
	f.changes = append(f.changes, change)
	f.mu.Unlock()
	f.Look()
}

// Look has the own row written and those of the others read now, and does not wait for
// it.
func (f *Fleet) Look() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// SetWork sets who counts the commits of this process that have stored rows which
// background work looks for. The count is told to the others with each beat; see News.
func (f *Fleet) SetWork(count func() uint64) { f.work.Store(&count) }

// News changes whenever another member may have stored rows that background work looks
// for: its count of them has grown, it does not tell, or it has come or gone. Those that
// a member has committed are in the store before News tells of them.
func (f *Fleet) News() uint64 { return f.news.Load() }

// OnChange has a function called after each change of the division, one change after
// the other. It must not wait: beats do meanwhile.
func (f *Fleet) OnChange(call func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onChange = append(f.onChange, call)
}

// now is the time since the start.
func (f *Fleet) now() time.Duration { return f.o.Clock.Now().Sub(f.start) }

// Package fleet is the membership of the front ends of one shared store.
//
// Each front end has a row that it writes again every second (heartbeat). A front end that
// lists the rows and finds that one has not changed for four seconds, by its own clock,
// considers the writer dead. Clocks are not compared. The living members divide the slots
// by a pure function of their list, and the oldest is the leader: it does the work that
// one process should do.
//
// Nothing depends on all front ends having the same list at the same time. Any of them
// serves any key correctly; two that both think they lead do some work twice, in
// transactions.
//
// A member whose address refuses connections (Refused) is left out at once, until its row
// changes again, so that the lease of a killed process is not waited for. That is only a
// guess, since the network may refuse as well.
//
// The guarantee: a front end that cannot write its row is fenced before others consider it
// silent. It counts the lease from before its last write that succeeded; the others count
// from when they saw that write, which is later.
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
	// deadLeases is after how many leases the row of a dead member is deleted.
	deadLeases = 10
	// forgetEvery is how often the leader lets the store drop old states, and remember
	// how much history it always keeps.
	forgetEvery = time.Minute
	remember    = 10 * time.Minute
)

// Clock is the clock of a fleet. The zero Clock is the machine's.
type Clock struct {
	// Now returns the time on a monotonic clock.
	Now func() time.Time
	// After is like time.After.
	After func(time.Duration) <-chan time.Time
}

// Options are how a front end joins.
type Options struct {
	Engine engine.Shared
	// Self describes the member. Join sets ID and Started if they are zero; Beat, At, Work
	// and Oldest are set with each beat.
	Self Member
	// Beat is how often the row is written, one second if 0.
	Beat time.Duration
	// Lease is how long a member lives without writing its row, four seconds if 0.
	Lease time.Duration
	Clock Clock
	// Log gets members that join and leave, and failures of the store. It may be
	// nil.
	Log *slog.Logger
}

// Fleet is the membership of this process.
type Fleet struct {
	o      Options
	log    *slog.Logger
	start  time.Time // all times below are relative to it
	secret [32]byte

	division atomic.Pointer[Division]
	beaten   atomic.Int64 // when the last beat that succeeded began
	deaths   atomic.Uint64

	mu       sync.Mutex
	onChange []func()
	changes  []func(*Member) // to be applied to the row of this process
	reports  map[ID]bool     // by member: true if its address refused, false if it answered
	changed  chan struct{}

	work atomic.Pointer[func() uint64] // see SetWork
	news atomic.Uint64

	stop   chan struct{}
	ended  chan struct{}
	leave  sync.Once
	left   error
	keeper // used by the goroutine alone
}

// Join writes the row of this process, reads the rows of the others, and repeats both
// every beat until Leave.
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
	if err := f.replacePredecessor(ctx); err != nil {
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

// run takes a turn every beat, and whenever Refresh requests one, until Leave.
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

// Leave ends the membership and deletes the row of this process.
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

// Division returns the living members and their slots, as of the last read of the rows.
func (f *Fleet) Division() *Division { return f.division.Load() }

// Members returns the living members by age, also those that take no clients. This process
// is always among them.
func (f *Fleet) Members() []Member { return slices.Clone(f.Division().all) }

// Self returns the Member of this process.
func (f *Fleet) Self() Member { d := f.Division(); return d.Members[d.Self] }

// Epoch returns a number that grows with each change of the living members that this
// process sees.
func (f *Fleet) Epoch() uint64 { return f.Division().Epoch }

// Leader reports whether this process is the leader. Two may believe so for a moment.
func (f *Fleet) Leader() bool { return f.Division().Self == 0 && !f.Fenced() }

// Deaths returns how often a member was found silent for a lease without having left.
func (f *Fleet) Deaths() uint64 { return f.deaths.Load() }

// Fenced reports whether the row of this process could not be written for a lease: the
// others consider it dead, or soon will.
func (f *Fleet) Fenced() bool { return f.now()-time.Duration(f.beaten.Load()) >= f.o.Lease }

// Secret returns the secret of the store, which is the same for all members.
func (f *Fleet) Secret() [32]byte { return f.secret }

// Lease returns how long a member lives without writing its row.
func (f *Fleet) Lease() time.Duration { return f.o.Lease }

// Announce changes the row of this process by change, which must leave the fields that the
// fleet sets. The row is written at once.
func (f *Fleet) Announce(change func(*Member)) {
	f.mu.Lock()
	f.changes = append(f.changes, change)
	f.mu.Unlock()
	f.Refresh()
}

// Refresh requests that the row of this process is written and the others are read now. It
// does not wait for that.
func (f *Fleet) Refresh() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// SetWork sets count, which returns how many commits of this process have stored rows for
// background work. Each beat writes the count for the others; see News.
func (f *Fleet) SetWork(count func() uint64) { f.work.Store(&count) }

// News returns a number that changes whenever another member may have stored rows for
// background work: its count has changed, it has none, or a member has joined or gone. The
// rows are in the store before News changes.
func (f *Fleet) News() uint64 { return f.news.Load() }

// OnChange sets a function that is called after each change of the division, one change
// after the other. The function must not wait: it delays the beats.
func (f *Fleet) OnChange(call func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onChange = append(f.onChange, call)
}

// now is the time since the start.
func (f *Fleet) now() time.Duration { return f.o.Clock.Now().Sub(f.start) }

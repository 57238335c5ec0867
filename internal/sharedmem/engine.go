package sharedmem

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
)

// Engine is one process's way to the store. It implements engine.Shared.
type Engine struct {
	store   *Store
	closed  atomic.Bool
	cut     atomic.Bool
	commits atomic.Int64
	trips   atomic.Int64
	claims  atomic.Int64

	mu      sync.Mutex
	reading map[engine.Stamp]int // the moments of what is open
	open    int                  // views and snapshots, also those that have no moment yet
	faults  []Fault
	every   func(*engine.Batch) Fault
}

var _ engine.Shared = (*Engine)(nil)

// Fault is what happens to a commit. The zero Fault is none.
type Fault struct {
	// Delay and Wait: the commit does nothing for so long, and until the channel is
	// closed.
	Delay time.Duration
	Wait  <-chan struct{}
	// Err is what the commit answers, wrapped: engine.ErrConflict,
	// engine.ErrUnknownOutcome, engine.ErrUnavailable, or any other.
	Err error
	// Applied: the batch is written nevertheless, if there is no conflict. That is
	// for engine.ErrUnknownOutcome.
	Applied bool
}

// Inject sets what happens to the next commits through this engine, to one each,
// behind what was injected before.
func (e *Engine) Inject(faults ...Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, faults...)
}

// Intercept has f say what happens to each commit for which nothing was injected; nil
// ends that. f may change rows through another engine: the commit has not begun.
func (e *Engine) Intercept(f func(*engine.Batch) Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.every = f
}

// Cut makes the store unreachable for this engine: whatever asks it answers
// engine.ErrUnavailable, until it is called with false.
func (e *Engine) Cut(cut bool) { e.cut.Store(cut) }

// Trips counts how often the store was asked: each read, also one of many rows, each
// iterator, commit, stamp and id is one. What a view has prefetched is free.
func (e *Engine) Trips() int64 { return e.trips.Load() }

// Claims counts the views that have read or committed and for which clients wait: on
// another engine each would have taken a place.
func (e *Engine) Claims() int64 { return e.claims.Load() }

// Open says how many views and snapshots are open.
func (e *Engine) Open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

// trip is a question to the store.
func (e *Engine) trip() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	e.trips.Add(1)
	if e.cut.Load() {
		return fmt.Errorf("the way is cut: %w", engine.ErrUnavailable)
	}
	return nil
}

// Begin implements engine.Engine.
func (e *Engine) Begin(wait bool) (engine.View, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open++
	return &view{e: e, wait: wait}, nil
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	s, err := e.snapshot()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open++
	return &frozen{s}, nil
}

// snapshot fixes a moment.
func (e *Engine) snapshot() (*snapshot, error) {
	if err := e.trip(); err != nil {
		return nil, err
	}
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	rows, err := e.store.rows.Snapshot()
	if err != nil {
		return nil, err
	}
	s := &snapshot{e: e, rows: rows, at: e.store.stamp()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading[s.at]++
	return s, nil
}

// Counter implements engine.Engine. It is exact.
func (e *Engine) Counter(key []byte) (int64, error) {
	if err := e.trip(); err != nil {
		return 0, err
	}
	return e.store.rows.Counter(key)
}

// Committed and Durable are of the whole store.
func (e *Engine) Committed() engine.Ticket { return e.store.rows.Committed() }
func (e *Engine) Durable() engine.Ticket   { return e.store.rows.Durable() }

// OnDurable has nothing to report.
func (e *Engine) OnDurable(func()) {}

// Err is always nil.
func (e *Engine) Err() error { return nil }

// Congested is never so.
func (e *Engine) Congested() bool { return false }

// Full is never so.
func (e *Engine) Full() error { return nil }

// Checkpoint has nowhere to write from.
func (e *Engine) Checkpoint(string) error { return errors.ErrUnsupported }

// Capabilities implements engine.Engine.
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{Remote: true, Shared: true}
}

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	return engine.Stats{Commits: e.commits.Load(), Detail: []engine.Stat{{Name: "sharedmem_trips", Value: e.trips.Load()}}}
}

// Close ends the engine; the store stays.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return engine.ErrClosed
	}
	e.store.mu.Lock()
	delete(e.store.engines, e)
	e.store.mu.Unlock()
	if n := e.Open(); n > 0 {
		return fmt.Errorf("%d views or snapshots are open", n)
	}
	return nil
}

// NextID implements engine.Shared.
func (e *Engine) NextID() (uint64, error) {
	if err := e.trip(); err != nil {
		return 0, err
	}
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return uint64(e.store.stamp()), nil
}

// Now implements engine.Shared.
func (e *Engine) Now() time.Time {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return e.store.time()
}

// Stamp implements engine.Shared.
func (e *Engine) Stamp() (engine.Stamp, error) {
	if err := e.trip(); err != nil {
		return 0, err
	}
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return e.store.stamp(), nil
}

// Later implements engine.Shared.
func (e *Engine) Later(s engine.Stamp, d time.Duration) engine.Stamp {
	return s + engine.Stamp(int64(math.Ceil(float64(d)/float64(time.Millisecond)*(1<<logical)))) // also back
}

// Oldest implements engine.Shared.
func (e *Engine) Oldest() engine.Stamp {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return e.oldest(e.store.stamp())
}

// oldest is the oldest moment that something of the engine shows, or now.
func (e *Engine) oldest(now engine.Stamp) engine.Stamp {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at := range e.reading {
		now = min(now, at)
	}
	return now
}

// Forget implements engine.Shared.
func (e *Engine) Forget(s engine.Stamp) error {
	if err := e.trip(); err != nil {
		return err
	}
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	e.store.forgotten = max(e.store.forgotten, s)
	return nil
}

// next is what happens to a commit.
func (e *Engine) next(b *engine.Batch) Fault {
	e.mu.Lock()
	if len(e.faults) > 0 {
		f := e.faults[0]
		e.faults = e.faults[1:]
		e.mu.Unlock()
		return f
	}
	every := e.every
	e.mu.Unlock()
	if every == nil {
		return Fault{}
	}
	return every(b)
}

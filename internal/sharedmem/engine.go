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

// Engine is one process's connection to the store. It implements engine.Shared.
type Engine struct {
	store   *Store
	closed  atomic.Bool
	cut     atomic.Bool
	commits atomic.Int64
	trips   atomic.Int64
	claims  atomic.Int64

	mu      sync.Mutex
	reading map[engine.Stamp]int // the stamps of open views and snapshots
	open    int                  // open views and snapshots, also views without a stamp yet
	faults  []Fault
	every   func(*engine.Batch) Fault
}

var _ engine.Shared = (*Engine)(nil)

// Fault is a fault injected into a commit. The zero Fault is none.
type Fault struct {
	// Delay and Wait delay the commit: by a time, and until the channel is closed.
	Delay time.Duration
	Wait  <-chan struct{}
	// Err is the error that the commit returns, wrapped: engine.ErrConflict,
	// engine.ErrUnknownOutcome, engine.ErrUnavailable, or any other.
	Err error
	// Applied writes the batch nevertheless, if there is no conflict, for
	// engine.ErrUnknownOutcome.
	Applied bool
}

// Inject queues faults for the next commits through this engine, one for each commit.
func (e *Engine) Inject(faults ...Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, faults...)
}

// Intercept makes f choose the fault of each commit for which none was injected; nil ends
// that. f may change rows through another engine: the commit has not begun.
func (e *Engine) Intercept(f func(*engine.Batch) Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.every = f
}

// Cut makes the store unreachable for this engine: every request fails with
// engine.ErrUnavailable, until Cut(false).
func (e *Engine) Cut(cut bool) { e.cut.Store(cut) }

// Trips returns the number of requests to the store: each read, also one of many rows, each
// iterator, commit, stamp and id is one. Reads of prefetched rows are free.
func (e *Engine) Trips() int64 { return e.trips.Load() }

// Claims returns how many views without ViewOptions.Background have read or committed: in
// another engine each would have taken a client's place.
func (e *Engine) Claims() int64 { return e.claims.Load() }

// Open returns how many views and snapshots are open.
func (e *Engine) Open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

// trip counts a request to the store, or returns why there can be none.
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
func (e *Engine) Begin(o engine.ViewOptions) (engine.View, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open++
	return &view{e: e, o: o}, nil
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
	return &frozen{s: s}, nil
}

// snapshot makes a snapshot with a stamp.
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

// Congested always returns false.
func (e *Engine) Congested() bool { return false }

// Full always returns nil.
func (e *Engine) Full() error { return nil }

// Checkpoint is not supported.
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

// oldest returns the oldest stamp of an open view or snapshot, or now.
func (e *Engine) oldest(now engine.Stamp) engine.Stamp {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at := range e.reading {
		now = min(now, at)
	}
	return now
}

// Timeout implements engine.Shared: there is none.
func (e *Engine) Timeout() time.Duration { return 0 }

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

// next returns the fault for a commit.
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

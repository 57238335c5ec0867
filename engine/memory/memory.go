// Package memory is the engine that keeps rows in memory only: the resident set of the local
// store (engine/local/resident) without a journal and without a store behind. All rows are
// resident, so no read waits, and a commit is durable as soon as it is visible: nothing in
// memory can become more durable. What was stored is gone when the process ends.
//
// The engine has a limit (SetMemory), but refuses nothing by itself: the server refuses
// commands, or evicts keys, while Memory is above the limit. What the engine does by itself is
// to keep the memory that it has from the system near the memory that its rows need (tidy.go).
package memory

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// Options of an engine.
type Options struct {
	// Memory is the limit of the data in bytes; 0 is none.
	Memory int64
	// Unit is as in local.Options.
	Unit func(key []byte) int
	// Kinds are the third bytes of the keys of rows that Sample may be asked for, two at most.
	Kinds []byte
	// Logger gets messages for the operator; nil means slog.Default().
	Logger *slog.Logger
}

// Engine implements engine.Engine.
type Engine struct {
	set      *resident.Set
	counters *resident.Counters
	log      *slog.Logger
	last     atomic.Uint64 // the number of the newest commit
	failure  atomic.Pointer[error]
	hook     atomic.Pointer[func()]
	closed   atomic.Bool
	stop     chan struct{}
	tidying  chan struct{} // has a token when there is something to tidy up
	tasks    sync.WaitGroup

	views, iterators sync.Pool

	memory, reserved atomic.Int64
	revoked, moved   atomic.Int64
}

// Open makes an empty engine.
func Open(o Options) *Engine {
	if o.Unit == nil {
		o.Unit = func([]byte) int { return 2 }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	e := &Engine{
		set: resident.NewStoreless(o.Unit), counters: resident.NewCounters(map[string]int64{}), log: o.Logger,
		stop: make(chan struct{}), tidying: make(chan struct{}, 1),
	}
	e.memory.Store(o.Memory)
	e.set.SampleKinds(o.Kinds...)
	e.set.SetUsage(engine.Usage{})
	e.views.New = func() any { return &view{e: e} }
	e.iterators.New = func() any { return &iterator{e: e} }
	e.tasks.Go(e.tidyLoop)
	return e
}

// reserved is the prefix of the keys that belong to engines; this one has no such rows.
const reserved = "\xff\xff\xff\xff"

func isReserved(key []byte) bool {
	return len(key) >= len(reserved) && string(key[:len(reserved)]) == reserved
}

// usable is nil until Close.
func (e *Engine) usable() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return nil
}

// Begin implements engine.Engine.
func (e *Engine) Begin(engine.ViewOptions) (engine.View, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	return e.views.Get().(*view), nil
}

// Commit implements engine.View.
func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	e := v.e
	if err := e.usable(); err != nil || b.Empty() {
		return 0, err
	}
	if err := e.Err(); err != nil {
		return 0, err
	}
	for op := range b.Ops() {
		if isReserved(op.Key) || len(op.Key) == 0 {
			return 0, fmt.Errorf("the row key %q is reserved to the engine", op.Key)
		}
	}
	e.set.Enter()
	seq := e.last.Add(1)
	e.counters.Add(b)
	err := e.set.Apply(b, seq)
	e.set.Leave()
	if err != nil {
		return 0, e.fail(err)
	}
	if e.untidy() {
		wake(e.tidying)
	}
	return engine.Ticket(seq), nil
}

// fail makes the engine refuse commits: a part of one is visible.
func (e *Engine) fail(err error) error {
	err = fmt.Errorf("%w: the system gave no memory for rows: %w; restart with a smaller maxmemory, or on a larger machine", engine.ErrReadOnly, err)
	if e.failure.CompareAndSwap(nil, &err) {
		e.log.Error("the store refuses writes from now on", "err", err)
		if hook := e.hook.Load(); hook != nil {
			(*hook)()
		}
	}
	return err
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Counter implements engine.Engine.
func (e *Engine) Counter(key []byte) (int64, error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	return e.counters.Get(key), nil
}

// Committed implements engine.Engine.
func (e *Engine) Committed() engine.Ticket { return engine.Ticket(e.last.Load()) }

// Durable implements engine.Engine.
func (e *Engine) Durable() engine.Ticket { return engine.Ticket(e.last.Load()) }

// OnDurable implements engine.Engine. Only Err ever changes: commits are durable at once.
func (e *Engine) OnDurable(hook func()) { e.hook.Store(&hook) }

// Err implements engine.Engine.
func (e *Engine) Err() error {
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Full implements engine.Engine: there is no disk.
func (e *Engine) Full() error { return nil }

// Congested implements engine.Engine: memory takes commits as fast as they come.
func (e *Engine) Congested() bool { return false }

// Checkpoint implements engine.Engine.
func (e *Engine) Checkpoint(string) error { return errors.ErrUnsupported }

// Capabilities implements engine.Engine.
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{CheapRangeDelete: true}
}

// SetMemory changes the limit of the data; 0 is none.
func (e *Engine) SetMemory(bytes int64) { e.memory.Store(bytes) }

// Reserve sets how much of the limit other parts of the process need, beyond what the limit
// leaves them.
func (e *Engine) Reserve(bytes int64) { e.reserved.Store(bytes) }

// Reserved is how much of the limit rows may not use. Rows keep a quarter of it, whatever
// other parts of the process need.
func (e *Engine) Reserved() int64 { return min(e.reserved.Load(), e.memory.Load()/4*3) }

// Memory is what rows use, with the versions that snapshots need.
func (e *Engine) Memory() int64 { return e.set.Bytes() + e.set.UndoBytes() }

// SetUsage implements engine.Sampler.
func (e *Engine) SetUsage(u engine.Usage) { e.set.SetUsage(u) }

// Usage implements engine.Sampler.
func (e *Engine) Usage() *engine.Usage { return e.set.Usage() }

// RowMark implements engine.Sampler.
func (e *Engine) RowMark(key []byte) (mark uint32, ok bool) { return e.set.RowMark(key) }

// SetRowMark implements engine.Sampler.
func (e *Engine) SetRowMark(key []byte, mark uint32) { e.set.SetRowMark(key, mark) }

// Sample implements engine.Sampler.
func (e *Engine) Sample(kind byte, b []byte) (key []byte, ok bool) { return e.set.Sample(kind, b) }

// Reclaim implements engine.Sampler: it removes some of the rows that range deletes cover.
func (e *Engine) Reclaim() bool {
	_, more := e.set.Clear()
	return more
}

// Share is how much rows may take of a limit.
func (e *Engine) Share(limit int64) int64 { return limit }

// OffHeap is how much memory outside of the Go heap is mapped for rows.
func (e *Engine) OffHeap() int64 { return e.set.Mapped() }

// Closed returns a channel that is closed when Close begins.
func (e *Engine) Closed() <-chan struct{} { return e.stop }

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	f := e.set.Figures()
	return engine.Stats{
		MemoryBytes: e.Memory(), OffHeapBytes: f.Mapped, Commits: int64(e.last.Load()),
		Detail: []engine.Stat{
			{Name: "resident_rows", Value: f.Rows}, {Name: "resident_bytes", Value: f.Bytes}, {Name: "resident_mapped_bytes", Value: f.Mapped},
			{Name: "resident_limit_bytes", Value: e.memory.Load() - e.Reserved()}, {Name: "resident_tombstones", Value: f.Dead},
			{Name: "resident_range_deletes", Value: f.PendingRanges}, {Name: "snapshot_undo_bytes", Value: e.set.UndoBytes()},
			{Name: "snapshots_revoked", Value: e.revoked.Load()}, {Name: "rows_moved", Value: e.moved.Load()}, {Name: "open_snapshots", Value: f.Open},
		},
	}
}

// Close implements engine.Engine. A second Close returns engine.ErrClosed.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return engine.ErrClosed
	}
	close(e.stop)
	e.tasks.Wait()
	e.set.Close()
	return nil
}

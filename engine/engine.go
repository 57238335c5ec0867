// Package engine is the contract between Redoubt and what stores its rows.
//
// An engine is an ordered, transactional store of rows: byte-string keys with
// byte-string values, sorted by bytes.Compare. An engine knows rows, not Redis.
//
// What an engine must do:
//   - Begin a View, which one execution reads and commits against.
//   - Commit a Batch atomically: all of it becomes visible at one moment, or
//     none of it ever does. A commit returns a Ticket: the writes are visible
//     when Commit returns and durable once Durable reaches the ticket.
//   - Iterate over a range in both directions.
//   - Keep counters: signed sums that commits add to, exact after a crash unless
//     the engine is Shared.
//
// Concurrency: every method of Engine may be called from any goroutine. A View
// and an Iterator belong to one goroutine at a time. Writers of one row do not
// race: the executor's latches see to that, so an engine on one machine needs
// no conflict detection. An engine that several processes share (see Shared)
// detects conflicts and answers ErrConflict.
//
// Ownership of bytes: an engine keeps no slice that a caller passed in; the
// caller may reuse it as soon as the call returns. Each method says how long
// the bytes that it hands out are valid.
//
// Keys that begin with ff ff ff ff are reserved to engines, for rows of their
// own: no batch may touch them, and no reader sees them.
//
// The suite in engine/enginetest holds an engine to this page; engine/mem is
// the simplest engine that passes it, and the reference for the others.
package engine

import (
	"errors"
	"time"
)

// Errors that an engine returns, wrapped with what the engine was doing.
var (
	// ErrConflict: another process changed a row that this view read. Nothing
	// was written; running the whole execution again may succeed.
	ErrConflict = errors.New("conflict with a concurrent commit")
	// ErrUnknownOutcome: the commit may or may not have happened (the
	// connection was lost, say). It must not be retried blindly.
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")
	// ErrReadOnly: the store refuses writes since an earlier write or sync
	// failed. Reads still work where they can. The wrapped text says why. The
	// state is permanent if Engine.Err returns it; else writes may work again later.
	ErrReadOnly = errors.New("store refuses writes")
	// ErrFull: the store has no room for the rows. Nothing was written.
	ErrFull = errors.New("store is full")
	// ErrCorrupt: stored bytes failed their checksum or do not decode.
	ErrCorrupt = errors.New("store is corrupt")
	// ErrCold: the row is not in memory, and the view is a NoWait view.
	// Nothing is wrong; the same read on a view that may wait succeeds.
	ErrCold = errors.New("row is not in memory")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("store is in use by another process")
	// ErrFormat: the store was written by a newer version or another program.
	ErrFormat = errors.New("store has a foreign format")
	// ErrUnavailable: the store did not answer in time. Nothing was written.
	ErrUnavailable = errors.New("store cannot be reached")
	// ErrOverloaded: the store answers that it is overloaded, or this process has as many
	// transactions under way as it may. Nothing was written.
	ErrOverloaded = errors.New("store is overloaded, try again with fewer requests at a time")
	// ErrContended: other transactions held the rows for too long. Nothing was written.
	ErrContended = errors.New("other transactions hold the same keys, try again later")
	// ErrSnapshotLost: the engine has revoked a snapshot, since it kept too many old rows
	// for it. The read may be made again on a new snapshot.
	ErrSnapshotLost = errors.New("snapshot was revoked")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("store is closed")
)

// Transient reports whether nothing was written and the same call may succeed later
// without intervention: ErrUnavailable, ErrOverloaded, ErrContended and ErrNotLeader.
func Transient(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrContended) || errors.Is(err, ErrNotLeader)
}

// A Ticket is a place in the order of commits. Ticket 0 is always durable.
type Ticket uint64

// Reader reads rows.
type Reader interface {
	// Get appends the value of key to dst and returns the extended slice, and
	// whether the row exists. The caller owns the result.
	Get(key, dst []byte) (value []byte, found bool, err error)
	// GetMany calls visit once for each key, in order. The value is valid only
	// during the call. An error from visit ends the walk and is returned.
	GetMany(keys [][]byte, visit func(i int, value []byte, found bool) error) error
	// Iter opens an iterator over the rows with lo <= key < hi, in ascending
	// order, or in descending order if reverse. A nil hi means the end of all
	// rows. The iterator of a Snapshot shows the snapshot's state. The iterator of a
	// View shows a row that a commit changes meanwhile in its old or its new state: a
	// caller that needs one state of many rows holds their latches. An iterator must be
	// closed.
	Iter(lo, hi []byte, reverse bool) Iterator
	// Edge appends the key and the value of the first row with lo <= key < hi, or of
	// the last one if reverse, to b, and returns the length of the key, and whether
	// there is such a row: what the first step of Iter would show, for less where the
	// engine has a shorter way. lo is below hi, which is not nil.
	Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error)
	// Count returns the number of rows with lo <= key < hi. ok is false if the engine
	// would have to walk to know it; the caller then iterates. lo is below hi, which
	// is not nil.
	Count(lo, hi []byte) (n int, ok bool)
	// Nth appends the key of the row with the number n in the range, counted from 0,
	// to b, and returns whether there is one. ok is false as for Count. Nth agrees with
	// Count while no commit changes the rows of the range.
	Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool)
}

// EdgeByIter is Reader.Edge for readers that have no shorter way than an iterator.
func EdgeByIter(r interface {
	Iter(lo, hi []byte, reverse bool) Iterator
}, lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	at := len(b)
	it := r.Iter(lo, hi, reverse)
	if found = it.Next(); found {
		key = len(it.Key())
		b = append(append(b, it.Key()...), it.Value()...)
	}
	if err := it.Close(); err != nil {
		return b[:at], 0, false, err
	}
	return b, key, found, nil
}

// Uncounted implements Count and Nth of a Reader that can count rows only by iterating.
type Uncounted struct{}

// Count implements Reader.
func (Uncounted) Count(_, _ []byte) (n int, ok bool) { return 0, false }

// Nth implements Reader.
func (Uncounted) Nth(_, _ []byte, _ int, b []byte) (key []byte, found, ok bool) {
	return b, false, false
}

// Iterator walks over rows and starts before the first one.
//
//	it := r.Iter(lo, hi, false)
//	for it.Next() { ... it.Key() ... it.Value() ... }
//	err := it.Close()
type Iterator interface {
	// Next moves to the next row. It returns false at the end and on error.
	Next() bool
	// Key and Value are valid until the next call of Next or Close, and must
	// not be changed.
	Key() []byte
	Value() []byte
	// Close releases the iterator and returns its first error.
	Close() error
}

// ViewOptions say what a view is for. The zero value is a view that may wait for a disk
// and that a client waits for. Only a Shared engine uses the fields after NoWait.
type ViewOptions struct {
	// NoWait: the view never waits for a disk; a read that would have to fails with ErrCold.
	NoWait bool
	// PointRead: the view reads one row, as it is now, and commits nothing. That may cost
	// less than a view of a fixed moment.
	PointRead bool
	// Background: no client waits for the view. Background views have a limit of their own
	// on how many may be under way.
	Background bool
	// CommitBefore, if not nil, returns a deadline: a commit that would take effect then
	// or later fails with ErrConflict. CommitBefore is called when the moment of the
	// commit is known, since a commit may take long, and from any goroutine. It does not
	// apply to a batch of checks alone, which writes nothing.
	CommitBefore func() Stamp
}

// View is what one execution reads, and commits against. A view of a Shared engine
// reads a snapshot, and Commit detects conflicts with it; a view of any other engine
// reads the latest committed state.
type View interface {
	Reader
	// Prefetch is a hint that this view will read the rows soon. An engine may load
	// all of them at once, or do nothing. Prefetch returns how many rows are cold: a
	// NoWait view cannot read them.
	Prefetch(keys [][]byte) (cold int)
	// Commit applies the batch atomically; only a Shared engine uses its checks. After
	// a nil error the writes are visible to every reader that starts. An empty batch
	// gets ticket 0. The batch is not changed and may be reset at once. A store that
	// fails during a commit may return a ticket that never becomes durable: a caller
	// that waits for a ticket checks Engine.Err, too. After any error but
	// ErrUnknownOutcome nothing was written. Errors: ErrConflict, ErrUnknownOutcome,
	// ErrReadOnly, ErrFull, ErrClosed, and those that Transient reports.
	Commit(b *Batch) (Ticket, error)
	// Close ends the view. It must be called once, after Commit or instead.
	Close()
}

// Stamp is a timestamp of a store that several processes share. Every commit takes
// effect at a moment of its own, and a view shows the state at one moment.
type Stamp uint64

// Shared is an optional interface of an engine whose store several processes use at
// the same time. Its views are SharedViews.
//
// Conflicts isolate executions in different processes: a commit fails with
// ErrConflict if, since the moment that its view shows, another commit has put or
// deleted a row that it puts, deletes or checks (Batch.Check). Counters may be
// estimates.
type Shared interface {
	Engine
	// NextID returns a number that no process was ever given.
	NextID() (uint64, error)
	// Now is the store's time, the same for all processes but for the drift of their
	// clocks between two readings of it. Now never goes back.
	Now() time.Time
	// Stamp returns a moment after every commit that has returned, in any process.
	Stamp() (Stamp, error)
	// Later returns the moment that is a duration after another moment.
	Later(Stamp, time.Duration) Stamp
	// Oldest is the oldest moment that a view or snapshot of this process shows, or now.
	Oldest() Stamp
	// Timeout is how long the engine tries before a call fails with ErrUnavailable; 0
	// means no limit. A caller that retries after conflicts should give up after about
	// that time.
	Timeout() time.Duration
	// Forget lets the store drop row versions that only readers of moments before s
	// could see.
	Forget(s Stamp) error
}

// SharedView is a view of a Shared engine: the state of one moment, which is fixed
// by its first read.
type SharedView interface {
	View
	// Stamp returns the moment that the view shows, 0 if it was begun with PointRead.
	Stamp() (Stamp, error)
	// Version returns the version of a row as the view shows it: 0 if there is no such
	// row; every put of the row changes it.
	Version(key []byte) (uint64, error)
	// Validate returns ErrConflict unless all rows that were read by their keys were as the
	// view has shown them at one moment since its first read. It is for executions that
	// commit no rows, on an engine without moments; any other engine returns nil.
	Validate() error
}

// Fencer is an optional interface of a Shared engine on which a commit may take effect later
// than CommitBefore allows: one that was under way, and whose answer was lost.
type Fencer interface {
	// Fence returns when no commit that was under way at the call can take effect any more.
	Fence() error
}

// Snapshot is a frozen state of all rows and must be closed. Several goroutines may
// read it.
type Snapshot interface {
	Reader
	Close() error
}

// FrozenView makes a View of a Snapshot, for executions that only read. Close does not
// close the snapshot: its opener does.
type FrozenView struct{ Snapshot }

var errFrozen = errors.New("an execution on a snapshot tried to write")

// Prefetch implements View and does nothing.
func (FrozenView) Prefetch([][]byte) (cold int) { return 0 }

// Commit implements View and always fails.
func (FrozenView) Commit(*Batch) (Ticket, error) {
	return 0, errFrozen
}

// Close implements View.
func (FrozenView) Close() {}

// Capabilities tell the layers above what an engine is and which operations are cheap.
type Capabilities struct {
	// CheapRangeDelete: DeleteRange costs the same for one row and a million.
	CheapRangeDelete bool
	// Remote: a read or a commit is a round trip; commands run on workers.
	Remote bool
	// Durable: rows outlive the process.
	Durable bool
	// Shared: other processes use the store too; the engine implements Shared.
	Shared bool
	// NoMoments: a view has no moment that its first read fixes. It shows each row as it is
	// when it is read first, any read may fail with ErrConflict, SharedView.Validate tells
	// whether what was read is one state, and a commit compares the rows that the view has
	// read, or checks, and no others. An iterator over distant keys, and a Snapshot, show each
	// row as it is when it is read. A Stamp is of this process's clock, and means nothing to
	// another process. The engine is a Fencer.
	NoMoments bool
}

// Engine is an open store.
type Engine interface {
	// Begin opens a view on the present state.
	Begin(ViewOptions) (View, error)
	// Snapshot freezes the present state. An engine may revoke a snapshot for which it
	// must keep too many old rows: reads then fail with ErrSnapshotLost.
	Snapshot() (Snapshot, error)
	// Counter returns the sum of all committed Batch.Add calls on key.
	Counter(key []byte) (int64, error)
	// Committed is the ticket of the newest commit: no reader has seen a write
	// whose ticket is above it.
	Committed() Ticket
	// Durable is the ticket up to which every commit is safe, in the sense of
	// the engine's durability setting. It never decreases.
	Durable() Ticket
	// OnDurable sets the one function that the engine calls, from any goroutine and
	// without locks held, whenever Durable has grown or Err has changed. The function
	// is not called for a commit that is durable when Commit returns.
	OnDurable(func())
	// Err is nil, or wraps ErrReadOnly once the store has failed: commits
	// above Durable will then never become durable, and further commits fail.
	Err() error
	// Full is nil, or the reason why nothing should be committed that adds rows: the disk
	// has no space. The error wraps ErrReadOnly and goes away once there is space again.
	// Meanwhile commits that delete rows are accepted as long as there is room for them.
	Full() error
	// Congested reports back pressure: commits come faster than the store can take them.
	// Commit then waits for room while there is progress. On a NoWait view it does not
	// wait; its caller should leave writes to a view that may wait.
	Congested() bool
	// Checkpoint writes a consistent copy of the store, as of some moment
	// during the call, into dir, which must not exist. Engines that keep
	// nothing on disk return errors.ErrUnsupported.
	Checkpoint(dir string) error
	// Stats reports the engine's own figures for INFO and metrics.
	Stats() Stats
	Capabilities() Capabilities
	// Close makes all commits durable and closes the store. No view, iterator
	// or snapshot may be open.
	Close() error
}

// Stats are an engine's figures. A figure that does not apply to an engine is zero.
// Detail holds figures that only this engine has, as ordered name-value pairs.
type Stats struct {
	MemoryBytes   int64 // memory the engine holds for rows, caches and buffers
	OffHeapBytes  int64 // the part of MemoryBytes outside of Go's heap
	DiskBytes     int64 // files of the store, logs included
	CacheHits     int64
	CacheMisses   int64
	Commits       int64
	Syncs         int64
	SyncNanos     int64
	PendingTicket int64 // number of commits that are not durable yet
	Detail        []Stat
}

// Stat is one named figure.
type Stat struct {
	Name  string
	Value int64
}

// Package engine is the contract between Redoubt and what stores its rows.
//
// An engine is an ordered, transactional store of rows: byte-string keys with
// byte-string values, sorted by bytes.Compare. It knows rows, not Redis.
//
// What an engine must do:
//   - Begin a View: what one execution reads and commits against.
//   - Commit a Batch atomically: all of it becomes visible at one moment, or
//     none of it ever does. A commit returns a Ticket: the writes are visible
//     when Commit returns and durable once Durable reaches the ticket.
//   - Iterate over a range in both directions.
//   - Keep counters: signed sums that commits add to, exact after a crash.
//
// Concurrency: every method of Engine may be called from any goroutine. A View
// and an Iterator belong to one goroutine at a time. Writers of one row do not
// race: the executor's latches see to that, so an engine on one machine needs
// no conflict detection. An engine that several processes share (see Shared)
// detects conflicts and answers ErrConflict.
//
// Ownership of bytes: an engine keeps no slice that a caller passed in, and a
// caller may reuse it as soon as the call returns. What an engine hands out is
// said on each method.
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

// Errors that an engine returns, wrapped with what it was doing.
var (
	// ErrConflict: another process changed a row that this view read. Nothing
	// was written; running the whole execution again may succeed.
	ErrConflict = errors.New("conflict with a concurrent commit")
	// ErrUnknownOutcome: the commit may or may not have happened (the
	// connection was lost, say). It must not be retried blindly.
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")
	// ErrReadOnly: the store refuses writes since an earlier write or sync
	// failed. Reads still work where they can. The wrapped text says why. It
	// is for good once Engine.Err says so, else writes may work again later.
	ErrReadOnly = errors.New("store refuses writes")
	// ErrFull: the store has no room for the rows. Nothing was written.
	ErrFull = errors.New("store is full")
	// ErrCorrupt: stored bytes failed their checksum or do not decode.
	ErrCorrupt = errors.New("store is corrupt")
	// ErrCold: the row is not in memory, and the view may not wait for it.
	// Nothing is wrong; the same read on a view that may wait succeeds.
	ErrCold = errors.New("row is not in memory")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("store is in use by another process")
	// ErrFormat: the store was written by a newer version or another program.
	ErrFormat = errors.New("store has a foreign format")
	// ErrUnavailable: the store did not answer in time. Nothing was written.
	ErrUnavailable = errors.New("store cannot be reached")
	// ErrSnapshotLost: the engine has revoked a snapshot, since what it must keep for it
	// has become too much. The read may be made again on a new one.
	ErrSnapshotLost = errors.New("snapshot was revoked")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("store is closed")
)

// A Ticket names a place in the order of commits. Zero is durable always.
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
	// rows. The iterator of a Snapshot shows its state. That of a View shows rows
	// that no commit changes meanwhile as they are, and of others either state:
	// who needs one state of many rows holds their latches. It must be closed.
	Iter(lo, hi []byte, reverse bool) Iterator
}

// Ranked is what a View may offer besides: the numbers of rows without a walk. It
// says ok only if it knows; the caller then has another way. lo is below hi, which
// is not nil.
type Ranked interface {
	// Count counts the rows with lo <= key < hi.
	Count(lo, hi []byte) (n int, ok bool)
	// Nth appends the key of the row of a number, counted from 0, to b. It says
	// found if there is one.
	Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool)
}

// Edged is what a View may offer besides: the first or the last row of a range
// without an iterator. It says ok only if it knows; the caller then has another
// way. lo is below hi, which is not nil.
type Edged interface {
	// Edge appends the key and the value of the first row with lo <= key < hi, or
	// of the last one if reverse, to b, and says how long the key is. It says found
	// if there is one. Like an iterator it shows either state of a row that a
	// commit changes meanwhile.
	Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found, ok bool)
}

// Iterator walks rows. It starts before the first row.
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
	// Close releases the iterator and returns the first error that it met.
	Close() error
}

// View is what one execution reads, and commits against. On an engine of one
// process it reads the latest committed state; on a shared one it reads a
// snapshot, and Commit finds conflicts with it.
type View interface {
	Reader
	// Prefetch is a hint: the rows will be read soon, by this view. An engine
	// may bring them nearer, all at once; it may do nothing. It returns how many
	// of them are cold: a view that may not wait cannot read them.
	Prefetch(keys [][]byte) (cold int)
	// Commit applies the batch atomically; its checks are of a Shared engine. After a nil error the writes are
	// visible to every reader that starts. An empty batch gets ticket 0. The
	// batch is not changed and may be reset at once. A store that fails while a
	// commit is under way may return a ticket that never becomes durable: who
	// waits for one looks at Engine.Err. Errors: ErrConflict, ErrUnknownOutcome, ErrReadOnly,
	// ErrFull, ErrClosed; on each but ErrUnknownOutcome nothing was written.
	Commit(b *Batch) (Ticket, error)
	// Close ends the view. It must be called once, after Commit or instead.
	Close()
}

// Stamp is a moment in the time of a store that several processes share. Every
// commit takes effect at a moment of its own, and a view shows the state of one.
type Stamp uint64

// Shared is what an engine offers besides when several processes use its store at
// the same time. Its views are SharedViews.
//
// Two executions in different processes are kept apart by conflicts: a commit
// answers ErrConflict if, since the moment that its view shows, another one has
// put or deleted a row that it puts, deletes or checks (Batch.Check). Counters may
// be estimates.
type Shared interface {
	Engine
	// NextID returns a number that no process was ever given.
	NextID() (uint64, error)
	// Now is the store's time: the same for all processes, but for the little that
	// clocks differ between two looks at it. It does not go back.
	Now() time.Time
	// Stamp returns a moment after every commit that has returned, to whomever.
	Stamp() (Stamp, error)
	// Later returns the moment some time after another.
	Later(Stamp, time.Duration) Stamp
	// Oldest is the oldest moment that this process still reads, or now.
	Oldest() Stamp
	// Forget lets the store drop what only readers of moments before s could see.
	Forget(s Stamp) error
}

// SharedView is a view of a Shared engine: the state of one moment, which is fixed
// by its first read.
type SharedView interface {
	View
	// Lone says before the first read that it will be the only one and that nothing
	// will be committed: the row is read as it is now, which may be cheaper.
	Lone()
	// Behind says before the first read that no client waits for the view. How many such
	// views may be under way is bounded apart: they never take a client's place, nor
	// wait for one.
	Behind()
	// Stamp returns the moment that the view shows, 0 if it is a lone one.
	Stamp() (Stamp, error)
	// Before has Commit answer ErrConflict if it would take effect at the moment that
	// until returns, or later. A commit may take its time, so until is asked when the
	// moment of the commit is known, from any goroutine.
	Before(until func() Stamp)
	// Version of a row as the view shows it: 0 if there is none, and another one
	// whenever the row was put.
	Version(key []byte) (uint64, error)
}

// Snapshot is a frozen state of all rows and must be closed. Several goroutines may
// read it.
type Snapshot interface {
	Reader
	Close() error
}

// Capabilities tell the layers above which ways are cheap.
type Capabilities struct {
	// CheapRangeDelete: DeleteRange costs the same for one row and a million.
	CheapRangeDelete bool
	// Remote: a read or a commit is a round trip; commands run on workers.
	Remote bool
	// Durable: rows outlive the process.
	Durable bool
	// Shared: other processes use the store too; the engine is a Shared.
	Shared bool
}

// Engine is an open store.
type Engine interface {
	// Begin opens a view on the present state. If wait is false the view never
	// waits for a disk: reads that would have to answer ErrCold.
	Begin(wait bool) (View, error)
	// Snapshot freezes the present state. An engine may revoke it when it must keep too
	// much for it: reads then fail with ErrSnapshotLost.
	Snapshot() (Snapshot, error)
	// Counter returns the sum of all committed Batch.Add calls on key.
	Counter(key []byte) (int64, error)
	// Committed is the ticket of the newest commit: no reader has seen a write
	// whose ticket is above it.
	Committed() Ticket
	// Durable is the ticket up to which every commit is safe, in the sense of
	// the engine's durability setting. It never decreases.
	Durable() Ticket
	// OnDurable sets the one function to be called, from any goroutine and
	// without locks held, whenever Durable has grown or Err has changed. It is
	// not called for a commit that is durable when Commit returns.
	OnDurable(func())
	// Err is nil, or wraps ErrReadOnly once the store has failed: commits
	// above Durable will then never become durable, and further commits fail.
	Err() error
	// Full is nil, or says why nothing should be committed that adds rows: the disk
	// has no space. It wraps ErrReadOnly, and passes by itself. Commits that delete rows
	// are taken meanwhile, as long as there is room for those.
	Full() error
	// Congested says that commits come faster than the store can take them.
	// Commit on a view that may wait then waits for room while there is progress; on another view it
	// does not, and whoever uses one should leave writes to somebody who can.
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

// Stats are an engine's figures. Bytes are zero where an engine has no such
// part. Detail holds what only this engine has, as ordered name-value pairs.
type Stats struct {
	MemoryBytes   int64 // memory the engine holds for rows, caches and buffers
	OffHeapBytes  int64 // of it, what is outside of Go's heap
	DiskBytes     int64 // files of the store, logs included
	CacheHits     int64
	CacheMisses   int64
	Commits       int64
	Syncs         int64
	SyncNanos     int64
	PendingTicket int64 // commits not durable yet
	Detail        []Stat
}

// Stat is one named figure.
type Stat struct {
	Name  string
	Value int64
}

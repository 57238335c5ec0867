// Package pebble is the durable engine of one machine: rows in a Pebble LSM
// tree with its own write-ahead log.
//
// Where to look:
//
//	engine.go   opening, closing, failure, the once-a-second work
//	commit.go   commits, tickets, who is told when
//	read.go     views, snapshots, iterators
//	counter.go  exact sums
//	wal.go      the fsync policies
//	disk.go     what happens when the disk fails
//	format.go   the file REDOUBT, foreign and newer directories
//	stats.go    figures
//
// What a ticket's durability means is the FsyncPolicy. Under each of them a
// commit whose ticket is durable outlives kill -9; under Always also a power
// cut, under EverySec a power cut loses about the last second, and what is lost
// is always a tail of the commits.
package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// Engine is an open store. It implements engine.Engine.
type Engine struct {
	dir  string
	log  *slog.Logger
	disk *diskFS
	db   *lsm.DB
	lock *lsm.Lock
	view view

	reserve  uint64 // disk space below which commits are refused
	counters counters

	closed  atomic.Bool
	failure atomic.Pointer[error] // set once; the disk is frozen from then on
	hurdle  atomic.Pointer[error] // why commits are refused for now; see watch

	mu         sync.Mutex
	settleable sync.Cond // on mu: the head of queue was applied, or closed
	queue      []*pending
	lastTicket engine.Ticket

	committed, durable atomic.Uint64
	hook               atomic.Pointer[func()]
	kicked             chan struct{}
	settled, notified  chan struct{} // closed at the end of settle, notify
	watched            chan struct{} // closed at the end of watch

	stalling                                 atomic.Bool
	patience                                 atomic.Int32
	compactionErr                            atomic.Pointer[error]
	commits, backgroundErrors, corruptions   atomic.Int64
	stalls, stallStart, stallNanos, refusals atomic.Int64
	stats                                    statsCache
}

var _ engine.Engine = (*Engine)(nil)

// Open opens the store in a directory, or creates one there. Errors:
// engine.ErrLocked, engine.ErrFormat, engine.ErrCorrupt.
//
// An existing store whose disk is full or broken for writing opens all the same
// where it can be read; Err then says what is wrong and commits are refused.
func Open(o Options) (*Engine, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Memory <= 0 {
		o.Memory = defaultMemory
	}
	o.Memory = max(o.Memory, minMemory)
	o.Dir = o.FS.PathJoin(o.Dir) // cleaned, as paths are compared with it

	// Before the lock file is made: a foreign directory is left as it is.
	if _, err := checkFormat(o.FS, o.Dir); err != nil {
		return nil, err
	}
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	lock, err := lsm.LockDirectory(o.Dir, o.FS)
	if err != nil {
		return nil, lockError(o.Dir, err)
	}
	e, err := open(o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return e, nil
}

func open(o Options, lock *lsm.Lock) (*Engine, error) {
	// Again: another process may have made the store while we came to the lock.
	exists, err := checkFormat(o.FS, o.Dir)
	if err == nil && !exists {
		err = writeFormat(o.FS, o.Dir)
	}
	if err != nil {
		return nil, err
	}
	e := &Engine{
		dir: o.Dir, log: o.Logger, lock: lock,
		reserve: uint64(2*memtableSize(o.Memory)) + 16<<20,
		kicked:  make(chan struct{}, 1),
		settled: make(chan struct{}), notified: make(chan struct{}), watched: make(chan struct{}),
	}
	e.settleable.L = &e.mu
	e.patience.Store(stallPatience)
	if e.disk, err = newDiskFS(o.FS, o.Dir, func() bool { return e.failure.Load() != nil }, e.fail); err != nil {
		return nil, err
	}
	e.disk.policy.Store(int32(o.Fsync))
	if err := e.openPebble(o); err != nil {
		return nil, err
	}
	e.view = view{reader{e, e.db}}
	go e.settle()
	go e.notify()
	go e.watch()
	return e, nil
}

func (e *Engine) openPebble(o Options) (err error) {
	defer func() {
		if r := recover(); r != nil { // Pebble has let go of its files by then
			err = fmt.Errorf("opening the store in %s: %v", o.Dir, r)
		}
		if err == nil {
			return
		}
		close(e.disk.closing)
		if e.db != nil {
			err = errors.Join(err, e.db.Close())
		}
	}()
	desc, err := lsm.Peek(o.Dir, o.FS)
	if err != nil {
		return openError(o.Dir, err)
	}
	po := e.pebbleOptions(o)
	po.Lock = e.lock
	e.disk.opening.Store(true)
	if e.db, err = lsm.Open(o.Dir, po); err != nil {
		return openError(o.Dir, errors.Join(err, e.Err()))
	}
	e.disk.opening.Store(false)
	if err = e.Err(); err != nil && !desc.Exists {
		err = fmt.Errorf("creating the store in %s: %w", o.Dir, err) // there is nothing to read
	} else if err = e.counters.load(e.db); err != nil {
		err = fmt.Errorf("reading the counters of %s: %w", o.Dir, readError(err))
	}
	return err
}

func lockError(dir string, err error) error {
	// Pebble has no sentinel for a lock held by this process.
	if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process") {
		return fmt.Errorf("%w: directory %s; stop the other process or give another directory (%w)", engine.ErrLocked, dir, err)
	}
	return fmt.Errorf("locking directory %s: %w", dir, err)
}

func openError(dir string, err error) error {
	if lsm.IsCorruptionError(err) {
		return fmt.Errorf("%w: directory %s: %w; restore it from a backup or a checkpoint", engine.ErrCorrupt, dir, err)
	}
	return fmt.Errorf("opening the store in %s: %w", dir, err)
}

// fail records the failure that ends all writing. See disk.go.
func (e *Engine) fail(op, path string, err error) {
	what := "repair or replace the disk"
	if isFull(err) {
		what = "free space on the disk"
	}
	failure := fmt.Errorf("%w: %s %s failed: %w; %s, then restart: every acknowledged write is kept", engine.ErrReadOnly, op, path, err, what)
	if e.failure.CompareAndSwap(nil, &failure) {
		e.log.Error("the store takes no more writes", "dir", e.dir, "err", failure)
		e.kick()
	}
}

// usable is nil while reads are allowed.
func (e *Engine) usable() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return nil
}

// refusal is nil while commits are taken.
func (e *Engine) refusal() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	err := e.failure.Load()
	if err == nil {
		err = e.hurdle.Load()
	}
	if err == nil {
		if cause := e.disk.tableErr.Load(); cause != nil {
			refusal := hurdleError("writing a table", *cause)
			err = &refusal
		}
	}
	if err == nil {
		return nil
	}
	e.refusals.Add(1)
	return *err
}

// hurdleError says why commits are refused for now. Taking them would only
// block their callers, as Pebble has no room for them.
func hurdleError(op string, cause error) error {
	if isFull(cause) {
		return fmt.Errorf("%w: %s failed: %w; free space on the disk, writes then go on by themselves", engine.ErrFull, op, cause)
	}
	return fmt.Errorf("%w: %s failed: %w; it is tried again, writes go on when it succeeds", engine.ErrReadOnly, op, cause)
}

// watch does what is due each second: the fsync of EverySec, and a look at what
// would make commits wait for ever.
func (e *Engine) watch() {
	defer close(e.watched)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for hopeless := 0; ; {
		select {
		case <-e.disk.closing:
			return
		case <-tick.C:
		}
		if FsyncPolicy(e.disk.policy.Load()) == EverySec {
			e.disk.syncDirty()
		}
		e.hurdle.Store(e.findHurdle())
		// A commit that Pebble holds until a memtable is flushed, while no
		// table can be written: end it by giving up writing for good.
		if cause := e.disk.tableErr.Load(); cause != nil && e.stalling.Load() {
			if hopeless++; hopeless >= int(e.patience.Load()) {
				e.fail("writing tables to", e.dir, *cause)
			}
		} else {
			hopeless = 0
		}
	}
}

func (e *Engine) findHurdle() *error {
	if usage, err := e.disk.GetDiskUsage(e.dir); err == nil && usage.AvailBytes < e.reserve {
		err := fmt.Errorf("%w: %d bytes left on the disk of %s, below the reserve of %d; free space, writes then go on by themselves",
			engine.ErrFull, usage.AvailBytes, e.dir, e.reserve)
		return &err
	}
	if cause := e.compactionErr.Load(); cause != nil && e.failure.Load() == nil {
		if m := e.metrics(); m.Levels[0].Sublevels >= l0Stop-4 {
			err := hurdleError("compaction", *cause)
			return &err
		}
	}
	return nil
}

// SetFsync changes the policy for the commits that begin after it returns.
// Changing to Always also syncs what earlier policies left unsynced.
func (e *Engine) SetFsync(p FsyncPolicy) error {
	e.disk.policy.Store(int32(p))
	if p == Always {
		e.disk.syncDirty()
	}
	return e.Err()
}

// Fsync returns the policy.
func (e *Engine) Fsync() FsyncPolicy { return FsyncPolicy(e.disk.policy.Load()) }

// Begin implements engine.Engine. It allocates nothing.
func (e *Engine) Begin() (engine.View, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	return &e.view, nil
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	s := e.db.NewSnapshot()
	return &snapshot{reader{e, s}, s}, nil
}

// Counter implements engine.Engine.
func (e *Engine) Counter(key []byte) (int64, error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	return e.counters.get(key), nil
}

// Committed implements engine.Engine.
func (e *Engine) Committed() engine.Ticket { return engine.Ticket(e.committed.Load()) }

// Durable implements engine.Engine.
func (e *Engine) Durable() engine.Ticket { return engine.Ticket(e.durable.Load()) }

// OnDurable implements engine.Engine.
func (e *Engine) OnDurable(hook func()) { e.hook.Store(&hook) }

// Err implements engine.Engine.
func (e *Engine) Err() error {
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Capabilities implements engine.Engine.
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{CheapRangeDelete: true, Durable: true}
}

// Checkpoint implements engine.Engine. Tables are hard links where the file
// system has them. The file REDOUBT comes last: a copy that was cut short is
// not taken for a store.
func (e *Engine) Checkpoint(dir string) error {
	if err := e.usable(); err != nil {
		return err
	}
	if err := e.Err(); err != nil {
		return err
	}
	fs := e.disk.FS
	dir = fs.PathJoin(dir)
	if err := makeDir(fs, fs.PathDir(dir)); err != nil {
		return err
	}
	if err := e.db.Checkpoint(dir, lsm.WithFlushedWAL()); err != nil {
		return fmt.Errorf("writing a checkpoint to %s: %w", dir, err)
	}
	if err := writeFormat(fs, dir); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(dir))
}

// Close implements engine.Engine. A second Close returns engine.ErrClosed.
func (e *Engine) Close() error {
	e.mu.Lock()
	again := e.closed.Swap(true)
	e.settleable.Signal()
	e.mu.Unlock()
	if again {
		return engine.ErrClosed
	}
	<-e.settled
	close(e.disk.closing)
	<-e.watched
	err := e.db.Close() // syncs the WAL
	<-e.notified
	if err = errors.Join(err, e.lock.Close(), e.Err()); err != nil {
		return fmt.Errorf("closing the store in %s: %w", e.dir, err)
	}
	return nil
}

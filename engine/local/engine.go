// Package local is the durable engine of one machine: rows in memory first, a
// journal on disk, and a Pebble LSM tree that is written in the background.
//
//	   Commit                        Get, Iter
//	     |                             |
//	1 journal  --- replay ------> 2 resident set <--- cold rows, refill --+
//	                                   |                                  |
//	                             write-back round --------------> 3 store (Pebble)
//
// A commit is one record of the journal, whose number is the ticket, and is then
// applied to the resident set, which makes it visible. Rows that the store does not
// have are dirty and stay in memory. A round writes them to the store and records
// up to which commit the store is complete (the checkpoint); older journal segments
// are removed. A restart replays the journal from the checkpoint.
//
// Where to look:
//
//	engine.go      opening, closing, failure
//	commit.go      commits, congestion
//	generation.go  what is in memory, and who keeps it there
//	rewind.go      records of a log that others write, and records that are taken back
//	read.go        views, snapshots
//	iterator.go    iterators over memory and store
//	prefetch.go    cold rows, many at once
//	writeback.go   rounds, checkpoints
//	evict.go       eviction, refill, the budget
//	pinned.go      pinned rows: units that stay in memory
//	filter.go      the Bloom filter of the keys that the store has
//	record.go      a commit as a journal record
//	store.go       Pebble: reads, how rounds are ingested; compactions.go: when it may compact
//	disk.go        what happens when the disk under Pebble fails
//	volume.go      what happens when a disk is full; reserve.go, reserve_fs.go, reclaim.go
//	nowait.go      no-wait reads: an event loop reads blocks of the store that are in the page cache
//	format.go      the file REDOUBT, foreign and newer directories
//	checkpoint.go  a copy of the store that can be opened
//	inspect*.go    tools read a store that no server has open; check.go checks its files
//	stats.go       figures
//	resident/      the resident set
//
// What survives: a commit whose ticket is durable outlives kill -9 under every
// policy; under Always also a power cut; under EverySec a power cut loses about
// the last second, and what is lost is always a tail of the commits.
package local

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/journal"
)

// Engine is an open store. It implements engine.Engine.
type Engine struct {
	dir      string
	fs       vfs.FS
	log      *slog.Logger
	lock     *lsm.Lock
	disk     *diskFS
	store    *store
	journal  journal.Log
	headRoom []byte // what a record begins with: see journal.Log.HeadRoom
	unit     func(key []byte) int
	pinned   func(key []byte) bool

	present   atomic.Pointer[generation] // see generation.go
	retired   sync.Map                   // generations before it that are still pinned
	applied   atomic.Uint64              // the newest commit that memory has, or is about to have
	views     sync.Pool
	iterators sync.Pool
	readers   chan struct{} // semaphore of goroutines that read ahead: see prefetch.go

	memory               memory
	rowLimit, dirtyLimit atomic.Int64 // see limitRows
	undoLimit            atomic.Int64 // see revoke
	journalBytes         int64

	closed  atomic.Bool
	stop    chan struct{}
	tasks   sync.WaitGroup
	ready   atomic.Bool           // journal is set
	failing sync.Mutex            // held to set failure
	failure atomic.Pointer[error] // set once
	// lastDurable limits Durable after a failure; math.MaxUint64 before.
	lastDurable atomic.Uint64
	hook        atomic.Pointer[func()]

	// Space, see volume.go.
	volumes      []*volume             // of the store, and of the journal if that is another one
	full         atomic.Pointer[error] // why rows cannot be added now
	fullLogged   atomic.Bool           // that the disk is full was logged
	fullLoggedAt atomic.Int64          // when that was logged, Unix nanoseconds
	cleared      atomic.Int64          // when the disk was not full any more, Unix nanoseconds
	diskWarning  atomic.Int64          // percent
	tableBytes   atomic.Int64          // size of the store's tables, if space is short
	deleted      deleted
	reclaim      chan struct{}

	// A log that is agreed upon with others, see rewind.go.
	rewinding atomic.Bool   // memory has records that were taken back
	agreed    chan struct{} // wakes a round that waits for Durable
	cuts      cuts
	changed   engine.Batch // of the last Replay

	// Rounds, see writeback.go.
	round        sync.Mutex
	ingest       sync.Mutex // held by a round while it uses memory and store, and by Rewind; after round
	writeback    chan struct{}
	evictor      chan struct{}
	roundErr     atomic.Pointer[error] // of the last round
	roundLog     logLimit
	roomMu       sync.Mutex
	roomCh       chan struct{} // closed when a round has ended
	checkpoint   atomic.Uint64 // the commit up to which the store is complete
	checkpointAt atomic.Int64  // when the checkpoint was made, Unix nanoseconds
	appended     atomic.Int64  // bytes of records since the start, replayed ones included
	settledBytes atomic.Int64  // the part of appended that the store has

	commits, refusals, waits, waitNanos        atomic.Int64
	coldReads, noWaitReads, hits               atomic.Int64
	rounds, roundNanos, roundRows, roundBytes  atomic.Int64
	roundErrors, filled, fillNanos, evictNanos atomic.Int64
	revoked                                    atomic.Int64 // snapshots that were revoked
	revokeLog                                  logLimit
	wanted                                     chan []byte // see pinned.go
	wantedAgain                                atomic.Int64
	rowsMoved                                  atomic.Int64
	followed, rewinds, rewindNanos             atomic.Int64
	compactAgain                               time.Time // no compaction of memory before this time
	replayed, replayedBytes, replayNanos       int64
	stats                                      statsCache
}

var _ engine.Replicated = (*Engine)(nil)

// Open opens the store in a directory, or creates one there. Errors:
// engine.ErrLocked, engine.ErrFormat, engine.ErrCorrupt.
func Open(o Options) (*Engine, error) {
	o.defaults()
	// Checked before the lock file is made, so that a foreign directory stays unchanged.
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
	e := &Engine{
		dir: o.Dir, fs: o.FS, log: o.Logger, lock: lock, journalBytes: o.JournalBytes,
		stop: make(chan struct{}), writeback: make(chan struct{}, 1), evictor: make(chan struct{}, 1),
		roomCh: make(chan struct{}), readers: make(chan struct{}, allReaders),
		wanted: make(chan []byte, 1), reclaim: make(chan struct{}, 1), agreed: make(chan struct{}, 1),
		unit: o.Unit, pinned: o.Pinned,
	}
	e.views.New = func() any { return &view{e: e} }
	e.lastDurable.Store(math.MaxUint64)
	e.SetMemory(o.Memory)
	if err := e.open(o); err != nil {
		if e.store != nil {
			close(e.disk.closing)
			err = errors.Join(err, e.store.db.Close())
		}
		if g := e.present.Load(); g != nil {
			g.set.Close()
		}
		return nil, errors.Join(err, lock.Close())
	}
	e.store.compactions.release()
	for _, task := range []func(){e.writebackLoop, e.evictLoop, e.clearLoop, e.filterLoop, e.pinnedLoop, e.volumeLoop, e.reclaimLoop} {
		e.tasks.Add(1)
		go func() { defer e.tasks.Done(); task() }()
	}
	return e, nil
}

// Directories inside the store's.
const (
	storeDir   = "store"
	journalDir = "journal"
	roundsDir  = "rounds"
)

func (e *Engine) open(o Options) error {
	// Checked again: another process may have made the store before this one got the lock.
	exists, err := checkFormat(o.FS, o.Dir)
	if err == nil && !exists {
		err = writeFormat(o.FS, o.Dir, false)
	}
	if err != nil {
		return err
	}
	ended, err := readFormat(o.FS, o.Dir)
	if err == nil {
		err = checkEnd(o.FS, o.Dir, ended)
	}
	if err != nil {
		return err
	}
	path := func(name string) string { return o.FS.PathJoin(o.Dir, name) }
	for _, name := range []string{storeDir, journalDir, roundsDir} {
		if err := makeDir(o.FS, path(name)); err != nil {
			return err
		}
	}
	if err = e.openVolumes(o, path(journalDir)); err != nil {
		return err
	}
	if e.disk, err = newDiskFS(e.tableFiles(o.FS), path(storeDir), func() bool { return e.failure.Load() != nil }, e.fail); err != nil {
		return err
	}
	e.disk.full = func() bool { return e.full.Load() != nil }
	// The files of other file systems have no descriptors for no-wait reads.
	e.disk.noWait.never.Store(!canReadNoWait || o.FS != vfs.Default)
	cache := divide(o.Memory).cache
	if e.store, err = openStore(e.disk, path(storeDir), path(roundsDir), cache, e.log, func(err error) { e.fail("running", o.Dir, err) }); err != nil {
		return err
	}
	e.store.tableBytes = o.tableBytes
	if err := e.recover(o, path(journalDir)); err != nil || ended {
		return err
	}
	if err := writeFormat(o.FS, o.Dir, true); err != nil { // the journal has made its end file
		return errors.Join(err, e.journal.Close())
	}
	return nil
}

// recover finds the last checkpoint and replays the journal from there.
func (e *Engine) recover(o Options, dir string) error {
	g, seq, base, err := e.newGeneration()
	if err != nil {
		return err
	}
	e.present.Store(g)
	e.checkpoint.Store(seq)
	e.checkpointAt.Store(time.Now().UnixNano())
	start := time.Now()
	r := replayer{g: g, last: seq}
	e.journal, err = o.Log(journal.Opening{
		Options: journal.Options{
			FS: e.segmentFiles(o.FS), Dir: dir, SegmentBytes: o.SegmentBytes, Policy: o.Fsync, Logger: o.Logger,
			OnDurable: e.durable,
		},
		From: seq, Base: base, Progress: o.Progress,
		Replay: func(seq uint64, payload []byte) error {
			if err := o.Context.Err(); err != nil {
				return err
			}
			return r.replay(seq, payload)
		},
	})
	if errors.Is(err, journal.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", engine.ErrCorrupt, err)
	}
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	e.headRoom = make([]byte, e.journal.HeadRoom())
	e.applied.Store(r.last)
	e.appended.Store(r.bytes)
	e.ready.Store(true)
	if err := e.journal.Err(); err != nil { // the journal may have failed before ready was set
		return err
	}
	g.set.SetLoadStamp(r.last)
	e.replayed, e.replayedBytes, e.replayNanos = r.count, r.bytes, time.Since(start).Nanoseconds()
	if e.replayed > 0 {
		e.log.Info("replayed the journal", "commits", e.replayed, "bytes", e.replayedBytes, "took", time.Since(start).Round(time.Millisecond))
	}
	return nil
}

func lockError(dir string, err error) error {
	// Pebble has no sentinel for a lock held by this process.
	if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process") {
		return fmt.Errorf("%w: directory %s; stop the other process or give another directory (%w)", engine.ErrLocked, dir, err)
	}
	return fmt.Errorf("locking directory %s: %w", dir, err)
}

// fail records the failure that ends all writing. See disk.go.
func (e *Engine) fail(op, path string, err error) {
	what := "repair or replace the disk"
	if isFull(err) { // while the store was opened, or from an fsync
		what = "free space on the disk"
	}
	failure := fmt.Errorf("%w: %s %s failed: %w; %s, then restart: every acknowledged write is kept", engine.ErrReadOnly, op, path, err, what)
	e.failing.Lock()
	first := e.failure.Load() == nil
	if first {
		// Nothing becomes durable after this. Stored twice: a caller of Durable may have
		// seen more than the first value before failure is set.
		for range 2 {
			if e.ready.Load() {
				e.lastDurable.Store(e.journal.Durable())
			}
		}
		e.failure.Store(&failure)
	}
	e.failing.Unlock()
	if first {
		e.log.Error("the store takes no more writes", "dir", e.dir, "err", failure.Error())
		e.tell()
	}
}

// isFull reports whether an error means that the disk has no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// durable is called by the journal when commits became durable, or never will.
func (e *Engine) durable() {
	if !e.ready.Load() {
		return // no ticket was handed out yet
	}
	if err := e.journal.Err(); err != nil && e.failure.Load() == nil {
		e.fail("writing the journal in", e.dir, err)
		return
	}
	wake(e.agreed)
	e.tell()
}

func (e *Engine) tell() {
	if hook := e.hook.Load(); hook != nil {
		(*hook)()
	}
}

// usable is nil while reads are allowed.
func (e *Engine) usable() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return nil
}

// refusal is nil while commits are accepted.
func (e *Engine) refusal() error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	if err := e.failure.Load(); err != nil {
		e.refusals.Add(1)
		return *err
	}
	return nil
}

// SetFsync changes the journal's fsync policy.
func (e *Engine) SetFsync(p journal.Policy) error { return e.journal.SetPolicy(p) }

// SetMemory changes the memory budget. Pebble's cache keeps its size.
func (e *Engine) SetMemory(memory int64) {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	e.memory.budget = divide(memory)
	e.undoLimit.Store(e.memory.budget.undo)
	e.limitRows()
	if g := e.present.Load(); g != nil {
		g.limit(e.memory.budget)
	}
}

// Begin implements engine.Engine.
func (e *Engine) Begin(o engine.ViewOptions) (engine.View, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	v := e.views.Get().(*view)
	v.epoch = e.journal.Epoch() // before the rows: see journal.Log
	v.g = e.pin()
	v.wait, v.noWaitLeft = !o.NoWait, noWaitReads
	return v, nil
}

// Closed returns a channel that is closed when Close begins.
func (e *Engine) Closed() <-chan struct{} { return e.stop }

// Counter implements engine.Engine.
func (e *Engine) Counter(key []byte) (int64, error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	return e.present.Load().counters.Get(key), nil
}

// Committed implements engine.Engine.
func (e *Engine) Committed() engine.Ticket { return engine.Ticket(e.applied.Load()) }

// Durable implements engine.Engine.
func (e *Engine) Durable() engine.Ticket {
	return engine.Ticket(min(e.journal.Durable(), e.lastDurable.Load()))
}

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

// Close implements engine.Engine. A second Close returns engine.ErrClosed.
// Rows that the store does not have stay in the journal: closing is quick, and
// the next start replays them.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return engine.ErrClosed
	}
	close(e.stop)
	close(e.disk.closing)
	e.tasks.Wait()
	for _, busy := range []*sync.Mutex{&e.round, &e.ingest} { // a checkpoint or a rewind may be under way
		busy.Lock()
		//lint:ignore SA2001 only to wait for those: whoever comes later finds the store closed
		busy.Unlock()
	}
	err := errors.Join(e.journal.Close(), e.store.iterators.closeIdle(true, true), e.store.db.Close(), e.lock.Close(), e.Err())
	e.set().Close()
	if err != nil {
		return fmt.Errorf("closing the store in %s: %w", e.dir, err)
	}
	return nil
}

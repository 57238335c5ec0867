// Package journal is an ordered log of records, the part of a store that makes
// writes durable before anything else has them. It knows bytes, not rows.
//
// A Journal keeps its log in the segment files of one directory; FORMAT.md has
// their bytes. Records are numbered from 1 on without gaps. Append writes a
// record with one write to the operating system, in the order of the numbers.
// One goroutine fsyncs: each fsync serves all records that were written before it
// began (group commit). Another goroutine makes the next segment ahead, so that
// rotation does not wait for it.
//
// Invariants:
//  1. What Open replays is a prefix of what was appended, and never shorter
//     than what Synced had reached.
//  2. A record of which Append returned an error is never replayed. There is one
//     exception: if the disk refuses the undo of the write as well, the journal has
//     failed, and its error says that the record may appear after a restart.
//  3. After a failed fsync nothing becomes durable any more: a later fsync that
//     succeeds proves nothing about the pages that were lost. Open therefore
//     rewrites the records of which it does not know that they are on disk.
//  4. A log from which durable records are missing is not opened, whichever of
//     its files are gone, cut or older, as long as the end file is there.
//  5. Files that Open found are not appended to: a checkpoint may share them.
//
// The journal does not lock its directory; its owner does.
package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Errors of a journal, wrapped with the file and what to do.
var (
	// ErrFull: there is no space for the record. Nothing of it was kept, and
	// later appends may work.
	ErrFull = errors.New("no space left for the journal")
	// ErrFailed: a write or an fsync failed. The journal takes no more records.
	ErrFailed = errors.New("journal has failed")
	// ErrCorrupt: records that were on disk are damaged or missing.
	ErrCorrupt = errors.New("journal is corrupt")
	// ErrVersion: the files are of a version that this program does not know.
	ErrVersion = errors.New("unknown version of the journal")
	// ErrReplicated: the log is one that several processes agree upon.
	ErrReplicated = errors.New("the journal is that of a replicated store")
	// ErrTooLarge: the payload is larger than MaxPayload.
	ErrTooLarge = errors.New("record is too large for the journal")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// Policy says when a record counts as durable, and when fsync is called.
type Policy int32

const (
	Always   Policy = 1 // durable when fsynced, which is done at once
	EverySec Policy = 2 // durable when written; fsync once a second, and of the first record after a pause at once
	No       Policy = 3 // durable when written; fsync when a segment is full
)

// Options are how a journal is opened. Only Dir is needed.
type Options struct {
	FS           FS     // OS if nil
	Dir          string // made if it is not there
	SegmentBytes int64  // size of a segment; 64 MiB if zero
	Policy       Policy // EverySec if zero
	Logger       *slog.Logger
	// OnDurable is called, without locks and never twice at a time, when
	// Durable has grown by an fsync or by a change of policy, and when Err has
	// changed.
	OnDurable func()
	// For tests: Tick comes once a second, Now tells the time, LogID is the
	// number of a new log (random if zero).
	Tick     <-chan time.Time
	Now      func() time.Time
	LogID    uint32
	fillStep int64 // how many zeros are written at a time; 256 KiB if zero
}

// Journal is a Log in local files.
type Journal struct {
	o    Options
	log  uint32 // the log's number
	form form

	last, synced, durable atomic.Uint64
	err                   atomic.Pointer[error]

	wake, make chan struct{} // wake the syncer and the maker of segments; each holds one token
	quit       chan struct{}
	running    sync.WaitGroup
	files      sync.Mutex // held by what removes or links segments; before mu

	mu      sync.Mutex
	changed sync.Cond // on mu: synced, err, making or closed has changed
	policy  Policy
	closed  bool
	active  *segment
	spare   *segment   // the next one, if it is ready
	making  bool       // it is being made
	rotated []*segment // full, not yet synced
	old     []span     // all segments before active
	claimed uint64     // the newest number that a record claims as synced
	want    uint64     // the records up to here are to be fsynced
	notify  bool       // OnDurable is to be called
	idleAt  uint64     // last, at the tick before
	rested  bool       // no record came for a second: the next one is fsynced at once
	head    [raftHeaderSize]byte
	end     *endFile // see end.go
	// endFailed: that the end file could not be written was logged.
	endFailed atomic.Bool
	figures   figures
}

var _ Log = (*Journal)(nil)

// span is a segment that is no longer written.
type span struct {
	index, first uint64
	bytes        int64
}

// Open reads the log in o.Dir and returns it, ready for Append. It calls replay for every
// record with a number above from, in order; the payload is valid during the call. The
// caller has the records up to from elsewhere: they may be missing. progress, if not nil,
// is called with the number of bytes read so far and of all bytes. A torn tail is cut off;
// if records that were on disk are damaged or missing, the error wraps ErrCorrupt.
func Open(o Options, from uint64, replay func(seq uint64, payload []byte) error, progress func(done, total int64)) (*Journal, error) {
	j, err := newJournal(o, plain{})
	if err != nil {
		return nil, err
	}
	c, err := j.load(from)
	if err != nil {
		return nil, err
	}
	if s := c.firstRaft(); s != nil {
		return nil, errors.Join(fmt.Errorf("journal: segment %s: %w: open the store as one, or take it out of its group", s.name, ErrReplicated), c.close())
	}
	x, err := j.read(c, func(e Entry) error {
		if e.Kind == Data && e.Seq > from {
			return replay(e.Seq, e.Payload)
		}
		return nil
	}, progress)
	if err == nil {
		err = j.settle(c, x)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	j.run()
	return j, nil
}

// newJournal returns a journal with its options, before anything was read.
func newJournal(o Options, f form) (*Journal, error) {
	if o.FS == nil {
		o.FS = OS
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.fillStep <= 0 {
		o.fillStep = 256 << 10
	}
	if o.Policy == 0 {
		o.Policy = EverySec
	}
	if o.Policy < Always || o.Policy > No {
		return nil, fmt.Errorf("journal: unknown policy %d", o.Policy)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnDurable == nil {
		o.OnDurable = func() {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	j := &Journal{o: o, form: f, policy: o.Policy, wake: make(chan struct{}, 1), make: make(chan struct{}, 1), quit: make(chan struct{})}
	j.changed.L = &j.mu
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("journal: making %s: %w", o.Dir, err)
	}
	return j, nil
}

// run starts the goroutines of a journal that was read.
func (j *Journal) run() {
	j.figures.syncedAt = j.o.Now()
	j.running.Go(j.runSyncer)
	j.running.Go(j.runMaker)
	poke(j.make)
}

// poke wakes the goroutine that receives from c. It never blocks: one token is enough.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Append implements Log. When it returns nil the record is with the operating
// system: it survives the end of this process, however that comes. There is only one epoch.
func (j *Journal) Append(_ uint64, rec []byte) (uint64, error) {
	if len(rec) < HeadRoom {
		return 0, fmt.Errorf("journal: a record of %d bytes has no room for its header", len(rec))
	}
	if uint64(len(rec)-HeadRoom) > MaxPayload {
		return 0, fmt.Errorf("journal: %w: %d bytes", ErrTooLarge, len(rec)-HeadRoom)
	}
	sum := crc32.Checksum(rec[HeadRoom:], castagnoli)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.room(int64(len(rec))); err != nil {
		return 0, err
	}
	return j.add(rec, sum, Data)
}

// add writes a record that has a number of its own, and returns the number. The active
// segment has room for the record. mu is held.
func (j *Journal) add(rec []byte, sum uint32, kind Kind) (uint64, error) {
	seq := j.last.Load() + 1
	if err := j.write(rec, sum, kind, seq); err != nil {
		return 0, err
	}
	j.figures.records++
	j.last.Store(seq)
	if j.policy == Always {
		j.want = seq
		poke(j.wake)
	} else {
		j.durable.Store(seq)
		if j.rested && j.policy == EverySec {
			j.want = seq
			poke(j.wake)
		}
	}
	j.rested = false
	return seq, nil
}

// write puts a record at the end of the active segment. mu is held.
func (j *Journal) write(rec []byte, sum uint32, kind Kind, seq uint64) error {
	synced := j.synced.Load()
	head{length: uint32(len(rec) - HeadRoom), log: j.log, seq: seq, synced: synced, kind: kind}.put(rec, sum)
	n, err := j.active.file.WriteAt(rec, j.active.end)
	if err != nil || n < len(rec) {
		return j.undo(n, err)
	}
	size := padded(int64(n))
	j.active.end += size
	j.claimed = synced
	j.figures.writes++
	j.figures.written += size
	return nil
}

// undo removes the n bytes that were written of a record before err came.
func (j *Journal) undo(n int, err error) error {
	if err == nil {
		err = io.ErrShortWrite
	}
	if n > 0 || !isFull(err) {
		// The bytes that were not written may be zeros, which the file has there anyway: the
		// record could be valid. So the undo must reach the disk.
		undo := j.active.file.Truncate(j.active.end)
		if undo == nil {
			undo = j.active.file.Sync()
		}
		if undo != nil {
			return j.fail(fmt.Errorf("writing %s: %w; removing what was written: %w; the record behind %d may appear after a restart", filepath.Join(j.o.Dir, j.active.name), err, undo, j.last.Load()))
		}
	}
	return j.failWrite(j.active.name, err)
}

// failWrite turns the error of a write into that of the journal: ErrFull if the disk is
// full, which may pass; any other error is final. mu is held.
func (j *Journal) failWrite(name string, err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: writing %s: %w: free some space, then writes work again", ErrFull, filepath.Join(j.o.Dir, name), err)
	}
	return j.fail(fmt.Errorf("writing %s: %w", filepath.Join(j.o.Dir, name), err))
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// fail stops the journal for good and returns its error. mu is held.
func (j *Journal) fail(cause error) error {
	if p := j.err.Load(); p != nil {
		return *p
	}
	err := fmt.Errorf("%w: %w: no more records are taken, those after %d may not be on disk: check the disk, then restart", ErrFailed, cause, j.synced.Load())
	j.err.Store(&err)
	j.o.Logger.Error("journal: failed", "err", err)
	j.notify = true
	poke(j.wake)
	j.changed.Broadcast()
	return err
}

// refusal is nil, or the error for callers that append. mu is held.
func (j *Journal) refusal() error {
	if j.closed {
		return ErrClosed
	}
	return j.Err()
}

// Last is the number of the newest record.
func (j *Journal) Last() uint64 { return j.last.Load() }

// Durable implements Log: by the policy what is fsynced, or what is written.
func (j *Journal) Durable() uint64 { return j.durable.Load() }

// Synced is the number up to which all records are fsynced.
func (j *Journal) Synced() uint64 { return j.synced.Load() }

// Err implements Log.
func (j *Journal) Err() error {
	if p := j.err.Load(); p != nil {
		return *p
	}
	return nil
}

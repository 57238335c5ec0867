package replica

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/engine/local"
	"redoubt/journal"
	"redoubt/replica/state"
)

// A disk is what a host of the simulation has that outlives it: a log that can lose
// what was not synced, and a state file.
type disk interface {
	// open starts the log and returns it; what is committed is given to replay.
	open(replay func(*pb.Entry)) (Log, error)
	// position is that of the newest record, sync makes all up to one durable.
	position() uint64
	sync(position uint64) error
	// crash ends the host that has the log open, by a power cut or by kill -9.
	crash(power bool, rng *rand.Rand) error
	// stateFile opens the state file.
	stateFile() (*state.File, error)
}

// files has a state file on a file system that can crash.
type files struct{ mem *vfs.MemFS }

const statePath = "/raft/state"

func newFiles(s state.State) (files, error) {
	f := files{vfs.NewCrashableMem()}
	for _, dir := range []string{"/raft", "/journal"} {
		if err := f.mem.MkdirAll(dir, 0o700); err != nil {
			return f, err
		}
	}
	if err := local.JournalFiles(f.mem).SyncDir("/"); err != nil {
		return f, err
	}
	file, err := state.Create(local.JournalFiles(f.mem), statePath, s)
	if err != nil {
		return f, err
	}
	return f, file.Close()
}

func (f *files) stateFile() (*state.File, error) {
	return state.Open(local.JournalFiles(f.mem), statePath)
}

func (f *files) lose(power bool, rng *rand.Rand) {
	if power {
		f.mem = f.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 30, 70}[rng.IntN(3)], RNG: rng})
	}
}

// journalDisk keeps the log in a journal.
type journalDisk struct {
	files
	log *journal.RaftLog
}

func (d *journalDisk) open(replay func(*pb.Entry)) (Log, error) {
	var err error
	d.log, err = journal.OpenRaft(journal.Options{
		FS: local.JournalFiles(d.mem), Dir: "/journal", SegmentBytes: 3000, Policy: journal.No, LogID: 1, Tick: make(chan time.Time),
	}, journal.Applied{}, func(h journal.RaftHead, payload []byte) error {
		replay(Entry(h, append([]byte(nil), payload...)))
		return nil
	}, nil)
	return &Journal{RaftLog: d.log}, err
}

func (d *journalDisk) position() uint64           { return d.log.Position() }
func (d *journalDisk) sync(position uint64) error { return d.log.Sync(position) }

func (d *journalDisk) crash(power bool, rng *rand.Rand) error {
	d.lose(power, rng) // before Close, which syncs
	if !power {
		d.mem = d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
	}
	return d.log.Close()
}

// memDisk keeps the log in memory: for many histories. It is a list of records in the
// order in which they were written, of which a crash leaves the first ones.
type memDisk struct {
	files
	records []memRecord
	synced  uint64
	*memLog
}

type memRecord struct {
	entry  *pb.Entry // nil: a cut
	cut    uint64
	commit uint64
}

type memLog struct {
	disk    *memDisk
	entries []*pb.Entry // of index 1 and so on
	commit  uint64
}

func (d *memDisk) open(replay func(*pb.Entry)) (Log, error) {
	d.memLog = &memLog{disk: d}
	for _, r := range d.records {
		d.memLog.take(r)
	}
	for _, e := range d.entries[:d.commit] {
		replay(e)
	}
	return d.memLog, nil
}

func (d *memDisk) position() uint64 { return uint64(len(d.records)) }

func (d *memDisk) sync(position uint64) error {
	d.synced = max(d.synced, position)
	return nil
}

func (d *memDisk) crash(power bool, rng *rand.Rand) error {
	if power {
		d.records = d.records[:d.synced+rng.Uint64N(uint64(len(d.records))-d.synced+1)]
	}
	d.synced = uint64(len(d.records)) // opening syncs
	d.lose(power, rng)
	return nil
}

func (l *memLog) take(r memRecord) {
	if r.entry == nil {
		l.entries = l.entries[:r.cut]
	} else {
		l.entries = append(l.entries, r.entry)
	}
	l.commit = max(l.commit, r.commit)
}

func (l *memLog) write(r memRecord) {
	r.commit = min(l.commit, uint64(len(l.entries)))
	l.disk.records = append(l.disk.records, r)
	l.take(r)
}

func (l *memLog) First() uint64     { return 1 }
func (l *memLog) Last() uint64      { return uint64(len(l.entries)) }
func (l *memLog) Committed() uint64 { return l.commit }
func (l *memLog) Commit(index uint64) {
	l.commit = max(l.commit, min(index, l.Last()))
}

func (l *memLog) Term(index uint64) (uint64, error) {
	if index == 0 {
		return 0, nil
	}
	if index > l.Last() {
		return 0, journal.ErrOrder
	}
	return l.entries[index-1].GetTerm(), nil
}

func (l *memLog) Entries(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	if hi > l.Last()+1 {
		return nil, journal.ErrOrder
	}
	var out []*pb.Entry
	for _, e := range l.entries[lo-1 : hi-1] {
		n := uint64(len(e.GetData()))
		if n > maxBytes && len(out) > 0 {
			break
		}
		maxBytes -= min(n, maxBytes)
		out = append(out, e)
	}
	return out, nil
}

func (l *memLog) Cut(index uint64) error {
	if index < l.commit || index > l.Last() {
		return fmt.Errorf("%w: a cut behind %d of %d, committed %d", journal.ErrOrder, index, l.Last(), l.commit)
	}
	l.write(memRecord{cut: index})
	return nil
}

func (l *memLog) Append(e *pb.Entry) error {
	if e.GetIndex() != l.Last()+1 {
		return fmt.Errorf("%w: entry %d behind %d", journal.ErrOrder, e.GetIndex(), l.Last())
	}
	l.write(memRecord{entry: e})
	return nil
}

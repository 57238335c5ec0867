package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/local/resident"
	"redoubt/journal"
)

// This file reads a store that no server has open, for tools. It changes nothing in the
// directory but the lock file, which it removes again if it was not there before. So a
// store whose last start failed can be inspected as it is, and a checkpoint stays as it
// was.

// InspectOptions say which store is inspected, and how. Only Dir is required.
type InspectOptions struct {
	Dir string
	FS  vfs.FS // as in Options
	// Unit as in Options.
	Unit func(key []byte) int
	// Unfinished: the store is an unfinished copy, whose file REDOUBT still has the name
	// REDOUBT.tmp.
	Unfinished bool
}

// Inspection is a store that is open for inspection. It is for one goroutine.
type Inspection struct {
	dir      string
	unit     func(key []byte) int
	fs       vfs.FS
	readOnly readOnlyFS
	lock     *lsm.Lock
	// madeLock: there was no lock file before Inspect.
	madeLock bool

	opts   *lsm.Options
	db     *lsm.DB
	dbErr  error
	opened bool
	log    *JournalState
}

// Inspect takes the lock of a store to inspect it. Errors: engine.ErrLocked,
// engine.ErrFormat, os.ErrNotExist.
func Inspect(o InspectOptions) (*Inspection, error) {
	opts := Options{Dir: o.Dir, FS: o.FS, Unit: o.Unit}
	opts.defaults()
	i := &Inspection{dir: opts.Dir, unit: opts.Unit, fs: opts.FS, readOnly: readOnlyFS{FS: opts.FS, unfinished: o.Unfinished}}
	exists, err := checkFormat(i.readOnly, i.dir)
	switch {
	case errors.Is(err, engine.ErrFormat) && !exists:
		return nil, fmt.Errorf("%w; a copy that was interrupted has none either", err)
	case err != nil:
		return nil, err
	case !exists:
		return nil, fmt.Errorf("there is no store in %s: %w", i.dir, os.ErrNotExist)
	}
	_, err = i.fs.Stat(i.path(lockFile))
	i.madeLock = errors.Is(err, os.ErrNotExist)
	i.lock, err = lsm.LockDirectory(i.dir, i.fs)
	if err != nil && !errors.Is(err, syscall.EROFS) { // on a read-only file system no lock is needed
		return nil, lockError(i.dir, err)
	}
	return i, nil
}

const lockFile = "LOCK"

func (i *Inspection) path(names ...string) string {
	return i.fs.PathJoin(append([]string{i.dir}, names...)...)
}

// Dir is the store's directory.
func (i *Inspection) Dir() string { return i.dir }

// Close releases the store.
func (i *Inspection) Close() (err error) {
	if i.db != nil {
		err = i.db.Close()
	}
	if i.lock != nil {
		if i.madeLock { // removed while it is held: no process waits for it
			err = errors.Join(err, i.fs.Remove(i.path(lockFile)))
		}
		err = errors.Join(err, i.lock.Close())
	}
	return err
}

// tables opens Pebble for reading.
func (i *Inspection) tables() (*lsm.DB, error) {
	if i.opened {
		return i.db, i.dbErr
	}
	i.opened = true
	var fatal error
	i.opts = &lsm.Options{
		FS: i.readOnly, ReadOnly: true, DisableWAL: true, MaxOpenFiles: 500, MemTableSize: 256 << 10,
		DisableConsistencyCheck: true, // checkTables does that in more detail
		Logger:                  storeLogger{slog.New(slog.DiscardHandler), func(err error) { fatal = err }},
		CacheSize:               32 << 20,
	}
	i.opts.EnsureDefaults()
	dir := i.path(storeDir)
	if unmade, err := i.unmade(dir); err != nil {
		i.dbErr = err
		return nil, err
	} else if unmade {
		dir = ""
		i.opts.FS, i.opts.ReadOnly = vfs.NewMem(), false
	}
	func() {
		defer func() {
			if r := recover(); r != nil {
				i.dbErr = fmt.Errorf("%v", r)
			}
		}()
		i.db, i.dbErr = lsm.Open(dir, i.opts)
	}()
	if i.dbErr = errors.Join(i.dbErr, fatal); i.dbErr != nil {
		i.dbErr = storeError("opening the store in "+dir, i.dbErr)
	}
	return i.db, i.dbErr
}

// unmade reports whether a crash came before Pebble had made its files.
func (i *Inspection) unmade(dir string) (bool, error) {
	names, err := i.fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	for _, name := range names {
		if name != lockFile {
			return false, err
		}
	}
	return true, err
}

// Checkpoint is the number of the commit up to which the tables have everything.
func (i *Inspection) Checkpoint() (uint64, error) {
	db, err := i.tables()
	if err != nil {
		return 0, err
	}
	seq, _, _, err := (&store{db: db}).state()
	return seq, err
}

// Stored calls visit for the rows of a range as the tables have them, without
// the journal.
func (i *Inspection) Stored(lo, hi []byte, visit func(key, value []byte)) error {
	db, err := i.tables()
	if err != nil {
		return err
	}
	it, err := (&store{db: db}).iter(db, lo, hi)
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		visit(it.Key(), it.Value())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return storeError("reading the store", err)
	}
	return nil
}

// ReadRecord resets b and decodes a record of the journal into it.
func ReadRecord(payload []byte, b *engine.Batch) error {
	b.Reset()
	return readRecord(payload, b)
}

// State is the rows of a store with the journal replayed into memory, as a server would
// see them.
type State struct {
	engine.Snapshot
	Counters map[string]int64
	Last     uint64 // the newest commit
	set      *resident.Set
}

// Close releases the state. It must be called before Inspection.Close.
func (s *State) Close() error {
	err := s.Snapshot.Close()
	s.set.Close()
	return err
}

// State replays the journal, up to its first damaged place if it has one.
func (i *Inspection) State(progress func(done, total int64)) (*State, error) {
	db, err := i.tables()
	if err != nil {
		return nil, err
	}
	j, err := i.Journal(nil)
	if err != nil {
		return nil, err
	}
	if j.Replicated { // its void entries would count
		return nil, fmt.Errorf("the journal in %s: %w: only \"redoubt journal\" can read it yet", i.dir, journal.ErrReplicated)
	}
	e := &Engine{dir: i.dir, fs: i.readOnly, store: &store{db: db}, unit: i.unit}
	g, seq, _, err := e.newGeneration()
	if err != nil {
		return nil, err
	}
	e.present.Store(g)
	e.checkpoint.Store(seq)
	s := &State{Last: seq, set: g.set}
	var batch engine.Batch
	var done int64
	_, err = i.WalkJournal(func(at journal.Entry) error {
		if !j.replays(at) {
			return nil
		}
		if err := g.take(at.Seq, at.Payload, &batch); err != nil {
			return err
		}
		if done += int64(len(at.Payload)); progress != nil {
			progress(done, max(done, j.Payload))
		}
		s.Last = at.Seq
		return nil
	})
	if err == nil {
		g.set.SetLoadStamp(s.Last)
		s.Counters = g.counters.Copy()
		s.Snapshot, err = e.Snapshot()
	}
	if err != nil {
		s.set.Close()
		return nil, fmt.Errorf("replaying the journal in %s: %w", i.dir, err)
	}
	return s, nil
}

// readOnlyFS is a file system that refuses changes.
type readOnlyFS struct {
	vfs.FS
	unfinished bool
}

var errReadOnlyFS = errors.New("the store is open for inspection, and must not be changed")

func (f readOnlyFS) Unwrap() vfs.FS { return f.FS }
func (f readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnlyFS
}
func (f readOnlyFS) Link(_, _ string) error             { return errReadOnlyFS }
func (f readOnlyFS) Remove(string) error                { return errReadOnlyFS }
func (f readOnlyFS) RemoveAll(string) error             { return errReadOnlyFS }
func (f readOnlyFS) Rename(_, _ string) error           { return errReadOnlyFS }
func (f readOnlyFS) MkdirAll(string, os.FileMode) error { return errReadOnlyFS }
func (f readOnlyFS) ReuseForWrite(_, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnlyFS
}
func (f readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnlyFS
}

// Lock does nothing: the lock of the whole store is held.
func (f readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// List and Open show REDOUBT.tmp of an unfinished copy as REDOUBT.
func (f readOnlyFS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	for i, name := range names {
		if f.unfinished && name == unfinishedFile {
			names[i] = formatFile
		}
	}
	return names, err
}

func (f readOnlyFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.unfinished && f.PathBase(name) == formatFile {
		name = f.PathJoin(f.PathDir(name), unfinishedFile)
	}
	return f.FS.Open(name, opts...)
}

const unfinishedFile = formatFile + ".tmp"

package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// store is a Pebble database that changes only by whole write-back rounds. A round
// builds tables of its own and has Pebble ingest them, which is atomic and durable.
// So Pebble's WAL and memtables are never used, and a crash always leaves the state
// of a round.
type store struct {
	db     *lsm.DB
	fs     *diskFS
	dir    string // Pebble's directory
	rounds string // the directory where tables are built
	table  sstable.WriterOptions

	tableBytes uint64 // the size at which a round begins another table

	iterators   iteratorPool
	compactions *compactions

	builds           atomic.Int64 // number of the next table that is built
	backgroundErrors atomic.Int64
	corruptions      atomic.Int64
	backgroundLog    logLimit
	log              *slog.Logger
}

// reserved is the prefix of the engine's own rows in the store:
//
//	ff ff ff ff 01      the checkpoint: seq:8, the commit up to which the store is complete, and the log's base
//	ff ff ff ff 02 key  a counter: sum:8
var reserved = []byte{0xff, 0xff, 0xff, 0xff}

var checkpointKey = append(append([]byte{}, reserved...), 1)

var counterPrefix = append(append([]byte{}, reserved...), 2)

func isReserved(key []byte) bool { return len(key) >= 4 && string(key[:4]) == string(reserved) }

// pebbleFormat is pinned: raising it makes older programs unable to open the
// store, so it goes with formatVersion.
const pebbleFormat = lsm.FormatColumnarBlocks

// A table of the last level has lastBytes, one of the others upperBytes, and a round
// begins another one at tableBytes, by default. Small tables have small filters: a
// filter is read and cached as a whole. The filter of a 32 MB table of small rows has
// two megabytes, which no shard of a small cache holds, so that every cold read would
// read it anew. The last level, where nearly all rows are, has no filters.
const (
	tableBytes = 8 << 20
	upperBytes = 4 << 20
	lastBytes  = 32 << 20
)

// l0Patience is the number of L0 sublevels at which the next round waits for
// compactions.
const l0Patience = 12

func openStore(fs *diskFS, dir, rounds string, cache int64, log *slog.Logger, fatal func(error)) (_ *store, err error) {
	s := &store{fs: fs, dir: dir, rounds: rounds, log: log, compactions: newCompactions()}
	if err := clearDir(fs.FS, rounds); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil { // Pebble has closed its files by then
			err = fmt.Errorf("opening the store in %s: %v", dir, r)
		}
	}()
	c := lsm.NewCache(cache)
	defer c.Unref()
	o := &lsm.Options{
		FS:                         fs,
		Logger:                     storeLogger{log, fatal},
		FormatMajorVersion:         pebbleFormat,
		Cache:                      c,
		DisableWAL:                 true,
		MemTableSize:               256 << 10, // never used
		L0CompactionThreshold:      4,
		L0StopWritesThreshold:      1000,
		MaxOpenFiles:               1000,
		CompactionConcurrencyRange: concurrency,
		EventListener:              s.listener(),
	}
	o.Experimental.CompactionScheduler = s.compactions
	for i := range o.Levels {
		o.Levels[i].BlockSize = 4 << 10 // a cold read allocates one
		o.TargetFileSizes[i] = lastBytes
		if i < len(o.Levels)-1 { // Pebble's Get does not use filters of the last level
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
			o.TargetFileSizes[i] = upperBytes
		}
		// Snappy for the upper levels, which are rewritten often, zstd for the last one.
		compression := block.SnappyCompression
		if i == len(o.Levels)-1 {
			compression = block.BalancedCompression
		}
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return compression }
	}
	fs.opening.Store(true)
	if s.db, err = lsm.Open(dir, o); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: opening the store in %s: a table is missing: %w; restore the directory from a backup or a checkpoint", engine.ErrCorrupt, dir, err)
	} else if err != nil {
		return nil, storeError("opening the store in "+dir, err)
	}
	fs.opening.Store(false)
	s.table = o.MakeWriterOptions(0, s.db.TableFormat())
	return s, nil
}

func storeError(doing string, err error) error {
	if lsm.IsCorruptionError(err) {
		return fmt.Errorf("%w: %s: %w; restore the directory from a backup or a checkpoint", engine.ErrCorrupt, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// listener counts and logs failures of Pebble's background work. Its functions are
// called with Pebble's mutex held and must not call Pebble.
func (s *store) listener() *lsm.EventListener {
	return &lsm.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, errFrozen) {
				s.backgroundErrors.Add(1)
				if !isFull(err) && s.backgroundLog.due() { // volume.go logs a full disk
					s.log.Error("background work of the store failed, it will be tried again", "dir", s.dir, "err", err.Error())
				}
			}
		},
		DataCorruption: func(info lsm.DataCorruptionInfo) {
			s.corruptions.Add(1)
			s.log.Error("the store found corrupt data; restore the directory from a backup", "dir", s.dir, "what", info.String())
		},
	}
}

// storeLogger passes Pebble's messages on. Fatalf returns: diskFS hides the known fatal
// errors from Pebble (see disk.go), and after any other the engine refuses writes.
type storeLogger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l storeLogger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
	}
}
func (l storeLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble: " + fmt.Sprintf(format, args...))
}
func (l storeLogger) Fatalf(format string, args ...any) { l.fatal(fmt.Errorf(format, args...)) }

// get appends the value of a row to dst.
func (s *store) get(r lsm.Reader, key, dst []byte) ([]byte, bool, error) {
	value, closer, err := r.Get(key)
	if err == lsm.ErrNotFound {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, storeError("reading the store", err)
	}
	dst = append(dst, value...)
	if err := closer.Close(); err != nil {
		return dst, false, storeError("reading the store", err)
	}
	return dst, true, nil
}

// iter opens an iterator over the keys from lo to hi.
func (s *store) iter(r lsm.Reader, lo, hi []byte) (*lsm.Iterator, error) {
	if len(lo) == 0 {
		lo = nil // Pebble: no bound
	}
	it, err := r.NewIter(&lsm.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, storeError("reading the store", err)
	}
	return it, nil
}

// state reads the engine's own rows: the checkpoint, what the log wants to know of it
// (journal.Log.Base), and the counters as of it.
func (s *store) state() (seq uint64, base []byte, counters map[string]int64, err error) {
	counters = make(map[string]int64)
	it, err := s.iter(s.db, reserved, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var v []byte
		if v, err = it.ValueAndErr(); err != nil {
			break
		}
		key := it.Key()
		if len(key) < 5 || len(v) < 8 || len(v) > 8 && key[4] != checkpointKey[4] {
			err = fmt.Errorf("%w: the engine's row % x has % x", engine.ErrCorrupt, key, v)
			break
		}
		switch n := binary.BigEndian.Uint64(v); key[4] {
		case checkpointKey[4]:
			seq = n
			if len(v) > 8 {
				base = bytes.Clone(v[8:])
			}
		case counterPrefix[4]:
			counters[string(key[5:])] = int64(n)
		}
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return 0, nil, nil, storeError("reading the checkpoint", err)
	}
	return seq, base, counters, nil
}

// empty reports whether the store has no rows.
func (s *store) empty() (bool, error) {
	it, err := s.iter(s.db, nil, reserved)
	if err != nil {
		return false, err
	}
	none := !it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return false, storeError("reading the store", err)
	}
	return none, nil
}

// builder writes the tables of one round. Rows are added in the order of their keys. A
// range delete is added before the rows behind its beginning, and does not delete rows
// of this round.
type builder struct {
	s      *store
	w      *sstable.Writer
	paths  []string
	ranges []span // range deletes that are not yet written
	rows   int64
	bytes  int64
	gone   deleted // the range of keys that the round deletes
}

type span struct{ lo, hi []byte }

func (b *builder) deleteRange(lo, hi []byte) {
	if string(hi) > string(reserved) || hi == nil {
		hi = reserved
	}
	if string(lo) >= string(hi) {
		return
	}
	if len(lo) == 0 {
		lo = []byte{0} // Pebble does not always distinguish an empty key from none
	}
	if n := len(b.ranges); n > 0 && string(b.ranges[n-1].hi) == string(lo) {
		b.ranges[n-1].hi = hi // a range over several parts
		b.gone.add(lo, hi)
		return
	}
	b.gone.add(lo, hi)
	b.ranges = append(b.ranges, span{lo, hi})
}

func (b *builder) add(key, value []byte, deleted bool) error {
	if err := b.open(key); err != nil {
		return err
	}
	b.rows++
	b.bytes += int64(len(key) + len(value))
	if deleted {
		b.gone.add(key, key)
		return b.w.Delete(key)
	}
	return b.w.Set(key, value)
}

// open makes sure that there is a table to write to. A new table begins at key.
func (b *builder) open(key []byte) error {
	if b.w != nil && b.w.Raw().EstimatedSize() >= b.s.tableBytes {
		if err := b.close(key); err != nil {
			return err
		}
	}
	if b.w != nil {
		return nil
	}
	path := b.s.fs.PathJoin(b.s.rounds, strconv.FormatInt(b.s.builds.Add(1), 10)+".sst")
	f, err := b.s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating a table: %w", err)
	}
	b.paths = append(b.paths, path)
	b.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), b.s.table)
	return nil
}

// close ends a table. next is where the following table begins: range deletes that
// reach beyond it are split there. nil means that no table follows.
func (b *builder) close(next []byte) error {
	rest := b.ranges[:0]
	var err error
	for _, r := range b.ranges {
		if next != nil && string(r.lo) >= string(next) {
			rest = append(rest, r)
			continue
		}
		hi := r.hi
		if next != nil && string(hi) > string(next) {
			hi = append([]byte(nil), next...)
			rest = append(rest, span{hi, r.hi})
		}
		err = errors.Join(err, b.w.DeleteRange(r.lo, hi))
	}
	b.ranges = rest
	err = errors.Join(err, b.w.Close())
	b.w = nil
	return err
}

// finish ends the last table and has Pebble ingest all of them.
func (b *builder) finish() error {
	if len(b.ranges) > 0 && b.w == nil {
		if err := b.open(nil); err != nil {
			return err
		}
	}
	if b.w != nil {
		if err := b.close(nil); err != nil {
			return fmt.Errorf("writing a table: %w", err)
		}
	}
	if err := b.s.fs.frozenErr(); err != nil {
		return err
	}
	err := b.s.iterators.closeIdle(true, false)
	if err == nil {
		err = b.s.db.Ingest(context.Background(), b.paths)
	}
	if err = errors.Join(err, b.s.iterators.closeIdle(true, false)); err != nil {
		return fmt.Errorf("handing tables to the store: %w", err)
	}
	return b.s.fs.frozenErr()
}

// abandon removes what a failed round has written.
func (b *builder) abandon() {
	if b.w != nil {
		_ = b.w.Close() // the round has failed already
	}
	for _, path := range b.paths {
		_ = b.s.fs.Remove(path) // ingested files are gone; the next openStore removes the rest
	}
}

// backlog returns the number of sublevels of L0, each of which costs a read one more
// table, and whether a compaction is running.
func (s *store) backlog() (sublevels int, compacting bool) {
	m := s.db.Metrics()
	return int(m.Levels[0].Sublevels), m.Compact.NumInProgress > 0
}

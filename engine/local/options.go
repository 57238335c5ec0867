package local

import (
	"context"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/journal"
)

// Options of a store.
type Options struct {
	// Context, if set, ends the opening when it ends.
	Context context.Context
	// Dir is the store's directory. It is created if absent.
	Dir string
	// FS is the file system; nil means that of the operating system.
	FS vfs.FS
	// Memory is the budget in bytes for everything: rows, caches, buffers and
	// the process around them. Zero means 256 MiB.
	Memory int64
	// Fsync says when a ticket is durable. It can be changed by SetFsync.
	Fsync journal.Policy
	// Unit gives the length of the prefix of a row key that names the unit whose
	// completeness is tracked; nil: the first two bytes. It may be given the
	// beginning of a key, and be longer than that.
	Unit func(key []byte) int
	// Keep, if set, says which rows are to stay in memory before all others: few that
	// many reads need. It says the same of all rows of a unit, and may be given the
	// beginning of a key.
	Keep func(key []byte) bool
	// SegmentBytes is the size of a journal segment; 0 means 16 MiB.
	SegmentBytes int64
	// JournalBytes is how much journal there may be since the last checkpoint
	// before the next one begins: what a restart has to replay. 0 means 256 MiB.
	JournalBytes int64
	// Progress, if set, is told while the journal is replayed.
	Progress func(done, total int64)
	// DiskWarning is the share of a file system, in percent, below which free space is
	// warned of; 0: never. It can be changed by SetDiskWarning.
	DiskWarning int
	// Logger gets what an operator should know; nil means slog.Default().
	Logger *slog.Logger

	tableBytes uint64 // for tests; the constant of that name if zero
}

func (o *Options) defaults() {
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Memory <= 0 {
		o.Memory = 256 << 20
	}
	if o.Unit == nil {
		o.Unit = func([]byte) int { return 2 }
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.JournalBytes <= 0 {
		o.JournalBytes = 256 << 20
	}
	if o.tableBytes == 0 {
		o.tableBytes = tableBytes
	}
	o.Dir = o.FS.PathJoin(o.Dir) // cleaned, as paths are compared with it
}

// budget divides the memory. What is not given to rows or to Pebble's cache is
// for the process: connections, the tables that are being written, the Go heap.
type budget struct {
	rows  int64 // the resident set; the hand of the clock keeps it below
	dirty int64 // of it, rows that the store does not have
	names int64 // of it, the most that the filter of the store's keys may take
	kept  int64 // of it, rows that are kept; beyond that they are as others are
	undo  int64 // versions of rows for open snapshots; and how far rows that a snapshot needs may exceed their share
	cache int64 // Pebble's block cache
}

func divide(memory int64) budget {
	var b budget
	b.cache = min(max(memory/64*5, 1<<20), 1<<30)
	// A process takes some 40 MB whatever its data; a budget in which that is much
	// still has most of the rest for rows.
	process := min(max(memory/16*3, min(memory/8*5, 40<<20), min(memory/32*7, 56<<20), 4<<20), 768<<20)
	b.rows = max(memory-b.cache-process, memory/4, 64<<10)
	b.dirty = b.rows / 4
	b.names = b.rows / 8
	b.kept = b.rows / 4
	b.undo = max(b.rows/8, 8<<20)
	return b
}

// RowShare is what the rows may take of a budget while nothing of it is reserved.
func RowShare(memory int64) int64 { return divide(memory).rows }

// memory is what the limits of the rows are made of.
type memory struct {
	mu       sync.Mutex
	budget   budget
	reserved int64
}

// limits are those of all rows and of the dirty ones, if others have reserved a part of
// the rows' share. A quarter of it stays: the store would do nothing but read.
func (b budget) limits(reserved int64) (rows, dirty int64) {
	rows = max(b.rows-reserved, b.rows/4)
	return rows, min(b.dirty, rows/2)
}

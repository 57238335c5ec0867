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
	// Context, if set, cancels Open.
	Context context.Context
	// Dir is the store's directory. It is created if absent.
	Dir string
	// FS is the file system; nil means that of the operating system.
	FS vfs.FS
	// Memory is the budget in bytes for everything: rows, caches, buffers and
	// the process around them. Zero means 256 MiB.
	Memory int64
	// Fsync is the policy that decides when a ticket is durable; see SetFsync.
	Fsync journal.Policy
	// Unit gives the length of the prefix of a row key that names the unit whose
	// completeness is tracked; nil: the first two bytes. The argument may be only the
	// beginning of a key, and the result longer than the argument.
	Unit func(key []byte) int
	// Pinned, if set, reports whether a row is pinned, so that it is evicted last. Pinned rows
	// should be few that many reads need. The answer must be the same for all rows of a
	// unit, and the argument may be only the beginning of a key.
	Pinned func(key []byte) bool
	// SegmentBytes is the size of a journal segment; 0 means 16 MiB.
	SegmentBytes int64
	// JournalBytes is the size of the journal since the last checkpoint at which the
	// next round begins: what a restart has to replay. 0 means 256 MiB.
	JournalBytes int64
	// Progress, if set, is called while the journal is replayed.
	Progress func(done, total int64)
	// DiskWarning is the share of a file system, in percent, below which a warning of low
	// free space is logged; 0: never. SetDiskWarning changes it.
	DiskWarning int
	// Log opens the log of the commits; nil means journal.OpenLog, the journal of a store that is
	// alone.
	Log func(journal.Opening) (journal.Log, error)
	// Logger gets messages for the operator; nil means slog.Default().
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
	if o.Log == nil {
		o.Log = journal.OpenLog
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
	o.Dir = o.FS.PathJoin(o.Dir) // cleaned, since paths are compared with it
}

// budget divides the memory. The rest beside rows and Pebble's cache is for the
// process: connections, the tables that are being written, the Go heap.
type budget struct {
	rows  int64 // limit of the resident set, which eviction keeps
	dirty int64 // part of rows: limit of dirty rows
	names int64 // part of rows: limit of the Bloom filter of the store's keys
	kept  int64 // part of rows: limit of pinned rows; beyond it they are evicted like others
	undo  int64 // limit of row versions for open snapshots, and of how far rows that a snapshot needs may exceed rows
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

// RowShare is the limit of the rows for a budget of which nothing is reserved.
func RowShare(memory int64) int64 { return divide(memory).rows }

// memory holds the values from which limitRows computes the limits.
type memory struct {
	mu       sync.Mutex
	budget   budget
	reserved int64
}

// limits returns the limits of all rows and of dirty rows when a part of the rows' share
// is reserved. Rows keep a quarter of their share: with less, the engine would only read
// from the store.
func (b budget) limits(reserved int64) (rows, dirty int64) {
	rows = max(b.rows-reserved, b.rows/4)
	return rows, min(b.dirty, rows/2)
}

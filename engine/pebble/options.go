package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options of a store.
type Options struct {
	// Dir is the store's directory. It is created if absent.
	Dir string
	// FS is the file system; nil means that of the operating system.
	FS vfs.FS
	// Memory is the engine's share of memory in bytes: the block cache, out of
	// which Pebble also takes its memtables. Zero means 64 MiB.
	Memory int64
	// Fsync says when a ticket is durable. It can be changed by SetFsync.
	Fsync FsyncPolicy
	// Logger gets what an operator should know; nil means slog.Default().
	Logger *slog.Logger
}

const (
	defaultMemory = 64 << 20
	minMemory     = 8 << 20

	// pebbleFormat is pinned: see the invariants in wal.go before raising it.
	pebbleFormat = lsm.FormatColumnarBlocks

	// Writers stall when this many memtables are full, or L0 has this many
	// sublevels. Both leave room for bursts while the two cores are busy.
	memtableStop = 4
	l0Stop       = 24

	// stallPatience is for how many seconds a stalled commit waits for a disk
	// that takes no tables; Engine.patience starts with it.
	stallPatience = 10
)

// memtableSize gives each of the memtables that may be full at once an eighth
// of the memory, so that at least half of it stays a cache.
func memtableSize(memory int64) int64 { return min(max(memory/(2*memtableStop), 1<<20), 64<<20) }

func (e *Engine) pebbleOptions(o Options) *lsm.Options {
	po := &lsm.Options{
		FS:                          e.disk,
		Logger:                      logger{e},
		Merger:                      sumMerger,
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   o.Memory,
		MemTableSize:                uint64(memtableSize(o.Memory)),
		MemTableStopWritesThreshold: memtableStop,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       l0Stop,
		MaxOpenFiles:                1000,
		FlushDelayDeleteRange:       10 * time.Second,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)/2) },
		EventListener:               e.listener(),
	}
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		// Snappy while data is young and rewritten often, zstd where it settles.
		compression := block.SnappyCompression
		if i == len(po.Levels)-1 {
			compression = block.BalancedCompression
		}
		po.Levels[i].Compression = func() *sstable.CompressionProfile { return compression }
	}
	return po
}

// listener counts and logs what happens behind Pebble's back. Its functions are
// called with Pebble's mutex held: they must not call Pebble.
func (e *Engine) listener() *lsm.EventListener {
	return &lsm.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, errFrozen) {
				e.backgroundErrors.Add(1)
				e.log.Error("background work of the store failed, it will be tried again", "dir", e.dir, "err", err)
			}
		},
		DataCorruption: func(info lsm.DataCorruptionInfo) {
			e.corruptions.Add(1)
			e.log.Error("the store found corrupt data; restore the directory from a backup", "dir", e.dir, "what", info.String())
		},
		CompactionEnd: func(info lsm.CompactionInfo) {
			switch {
			case info.Err == nil:
				e.compactionErr.Store(nil)
			case !errors.Is(info.Err, lsm.ErrCancelledCompaction):
				e.compactionErr.Store(&info.Err)
			}
		},
		WriteStallBegin: func(info lsm.WriteStallBeginInfo) {
			e.stalls.Add(1)
			e.stalling.Store(true)
			e.stallStart.Store(time.Now().UnixNano())
			e.log.Warn("writes wait for the disk", "dir", e.dir, "why", info.Reason)
		},
		WriteStallEnd: func() {
			e.stalling.Store(false)
			e.stallNanos.Add(time.Now().UnixNano() - e.stallStart.Load())
		},
	}
}

// logger passes Pebble's messages on. Fatalf returns: what it would end the
// process for is kept from Pebble (see disk.go), and should another reason
// arise the engine stops taking writes.
type logger struct{ e *Engine }

func (l logger) Infof(format string, args ...any) {
	if l.e.log.Enabled(context.Background(), slog.LevelDebug) {
		l.e.log.Debug("pebble: " + fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) {
	l.e.log.Error("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Fatalf(format string, args ...any) {
	l.e.fail("running", l.e.dir, fmt.Errorf(format, args...))
}

// isFull says whether an error means that the disk has no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

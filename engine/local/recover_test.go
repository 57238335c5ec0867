package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/journal"
)

// recoverable is a store as kill -9 leaves it, with so many bytes of journal that
// a start must replay: rows of 100 bytes over all slots, as many to a commit.
func recoverable(t testing.TB, dir string, bytes int64, perCommit int) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "live")
	e := opened(t, func(o *Options) {
		o.Dir, o.FS, o.Fsync, o.Memory, o.SegmentBytes, o.JournalBytes = live, nil, journal.No, 4<<30, 0, 1<<40
	})
	var key [24]byte
	value := make([]byte, 100)
	for i := uint64(0); e.appended.Load() < bytes; i++ {
		commit(t, e, func(b *engine.Batch) {
			for k := range uint64(perCommit) {
				n := (i*uint64(perCommit) + k) * 0x9e3779b97f4a7c15
				binary.BigEndian.PutUint16(key[:], uint16(n>>48)&0x3fff)
				key[2] = 1
				binary.BigEndian.PutUint64(key[16:], n)
				binary.BigEndian.PutUint64(value, n)
				b.Put(key[:], value)
			}
			b.Add([]byte("rows"), int64(perCommit))
		})
	}
	must(t, os.CopyFS(dir, os.DirFS(live)))
	must(t, e.Close())
}

// Opening begins no compaction, which it would have to wait for; later the store
// compacts by itself.
func TestOpenDoesNotCompact(t *testing.T) {
	t.Parallel()
	fs := newStage(vfs.NewCrashableMem())
	options := func(o *Options) { o.Dir, o.FS, o.tableBytes = shipDir, fs, 2<<10 }
	e := opened(t, options)
	c := e.store.compactions
	c.mu.Lock()
	c.released = false // let them pile up
	c.mu.Unlock()
	for i := range 12 {
		for row := range 50 {
			commit(t, e, func(b *engine.Batch) { b.Put(rowKey(row), fmt.Appendf(nil, "%0100d", i)) })
		}
		must(t, e.Round())
	}
	must(t, e.Close())
	var tables atomic.Int64
	fs.on(func(c change) error {
		if c.kind == "create" && strings.HasSuffix(c.path, ".sst") && strings.Contains(c.path, "/"+storeDir+"/") {
			tables.Add(1)
		}
		return nil
	})
	o := Options{Logger: quiet}
	options(&o)
	told := 0
	o.Progress = func(done, total int64) {
		if told++; tables.Load() > 0 {
			t.Errorf("%d tables were written while the store was opened", tables.Load())
		}
	}
	e, err := Open(o)
	must(t, err)
	if told == 0 {
		t.Error("no progress was told")
	}
	await(t, "compaction", func() bool { return tables.Load() > 0 })
	must(t, e.Close())
}

// How long a start takes with a journal of 256 MiB. REDOUBT_JOURNAL_BYTES says
// another size.
func BenchmarkRecover(b *testing.B) {
	for _, perCommit := range []int{1, 32} {
		b.Run(fmt.Sprintf("rows=%d", perCommit), func(b *testing.B) {
			bytes := int64(scale(b, "REDOUBT_JOURNAL_BYTES", 256<<20))
			kept := filepath.Join(b.TempDir(), "kept")
			recoverable(b, kept, bytes, perCommit)
			b.SetBytes(bytes)
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(b.TempDir(), "store")
				must(b, os.CopyFS(dir, os.DirFS(kept)))
				b.StartTimer()
				e, err := Open(Options{Dir: dir, Memory: 4 << 30, JournalBytes: 1 << 40, Logger: quiet})
				b.StopTimer()
				must(b, err)
				must(b, errors.Join(e.Close(), os.RemoveAll(dir)))
				b.StartTimer()
			}
		})
	}
}

package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// A checkpoint taken while commits go on is a whole state, has all that was
// acknowledged before it, and opens as a store of its own.
func TestCheckpoint(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) (string, vfs.FS){
		"Memory": func(*testing.T) (string, vfs.FS) { return "/data", vfs.NewMem() },
		"Disk":   func(t *testing.T) (string, vfs.FS) { return t.TempDir(), vfs.Default },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, fs := place(t)
			l := &ledger{}
			e := mustOpen(t, Options{Dir: filepath.Join(root, "store"), FS: fs, Memory: minMemory})
			defer e.Close()
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for range 400 {
						select {
						case <-stop:
							return
						default:
							if err := l.commit(e, w, 500); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			for i := range 4 {
				await(t, "some commits", func() bool { return l.acknowledged(e)[0] > 20*i })
				acked := l.acknowledged(e)
				dir := filepath.Join(root, "backups", fmt.Sprint(i))
				if err := e.Checkpoint(dir); err != nil {
					t.Fatal(err)
				}
				if err := e.Checkpoint(dir); err == nil {
					t.Error("a checkpoint over another")
				}
				c := mustOpen(t, Options{Dir: dir, FS: fs, Memory: minMemory})
				at := l.check(t, c, acked)
				own := &ledger{}
				own.restart(at)
				if err := own.commit(c, 0, 10); err != nil {
					t.Error(err)
				}
				own.check(t, c, own.next)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			close(stop)
			wg.Wait()
			l.check(t, e, l.next)
		})
	}
}

func TestReservedKeys(t *testing.T) {
	t.Parallel()
	e := mustOpen(t, Options{Dir: "/store", FS: vfs.NewMem()})
	defer e.Close()
	v, _ := e.Begin()
	defer v.Close()
	var b engine.Batch
	b.Put([]byte{0xff, 0xff, 0xff, 0xfe}, []byte("last row"))
	b.Add([]byte("n"), 7)
	if _, err := v.Commit(&b); err != nil {
		t.Fatal(err)
	}
	if _, found, err := v.Get(append(counterPrefix[:5:5], 'n'), nil); found || err != nil {
		t.Errorf("a counter is found as a row: %v %v", found, err)
	}
	b.Reset()
	b.Put([]byte("a"), nil)
	b.Put(append(counterPrefix[:5:5], 'n'), []byte("forged"))
	committed := e.Committed()
	if _, err := v.Commit(&b); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("a reserved key was taken: %v", err)
	}
	if _, found, _ := v.Get([]byte("a"), nil); found || e.Committed() != committed {
		t.Error("a refused commit left something")
	}
}

func TestCorruption(t *testing.T) {
	t.Parallel()
	fs, l := vfs.NewMem(), &ledger{}
	e := mustOpen(t, Options{Dir: "/store", FS: fs, Memory: minMemory})
	for i := range 300 {
		if err := l.commit(e, i%writers, 3000); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(e.db.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			f, err := fs.OpenReadWrite("/store/"+name, vfs.WriteCategoryUnspecified)
			if err == nil {
				_, err = f.WriteAt(bytes.Repeat([]byte{0x55}, 64), 100)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	e, err = Open(Options{Dir: "/store", FS: fs, Memory: minMemory, Logger: quiet})
	if errors.Is(err, engine.ErrCorrupt) {
		return
	}
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	defer e.Close()
	v, _ := e.Begin()
	it := v.Iter(nil, nil, false)
	for it.Next() {
	}
	if err := it.Close(); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("reading a corrupt table: %v", err)
	}
}

func TestSumMerger(t *testing.T) {
	t.Parallel()
	enc := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	m, err := sumMerger.Merge(nil, enc(5))
	if err = errors.Join(err, m.MergeNewer(enc(-12)), m.MergeOlder(enc(1))); err != nil {
		t.Fatal(err)
	}
	if sum, _, _ := m.Finish(true); !bytes.Equal(sum, enc(-6)) {
		t.Errorf("sum %x", sum)
	}
	if err := m.MergeNewer([]byte("short")); !lsm.IsCorruptionError(err) {
		t.Errorf("a short operand: %v", err)
	}
}

func TestStatsDetail(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	e := mustOpen(t, Options{Dir: "/store", FS: vfs.NewMem(), Memory: minMemory, Fsync: Always})
	defer e.Close()
	for i := range 50 {
		if err := l.commit(e, i%writers, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	s := e.Stats()
	if s.MemoryBytes == 0 || s.DiskBytes == 0 || s.Syncs == 0 {
		t.Errorf("figures are missing: %+v", s)
	}
}

func BenchmarkGet(b *testing.B) {
	e, err := Open(Options{Dir: filepath.Join(b.TempDir(), "store"), Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	v, _ := e.Begin()
	var batch engine.Batch
	for i := range 100_000 {
		batch.Put(fmt.Appendf(nil, "key%08d", i), make([]byte, 128))
	}
	if _, err := v.Commit(&batch); err != nil {
		b.Fatal(err)
	}
	key, dst := []byte("key00000000"), []byte(nil)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		key = fmt.Appendf(key[:3], "%08d", i*7919%100_000)
		if dst, _, err = v.Get(key, dst[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommit writes batches of rows of 128 bytes, each waited for or not.
func BenchmarkCommit(b *testing.B) {
	for _, fsync := range []FsyncPolicy{Always, EverySec, No} {
		for _, rows := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%v/rows=%d", fsync, rows), func(b *testing.B) {
				e, err := Open(Options{Dir: filepath.Join(b.TempDir(), "store"), Fsync: fsync, Memory: 256 << 20, Logger: quiet})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				v, _ := e.Begin()
				woken := make(chan struct{}, 1)
				e.OnDurable(func() {
					select {
					case woken <- struct{}{}:
					default:
					}
				})
				var batch engine.Batch
				key, value := []byte("key00000000"), make([]byte, 128)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					batch.Reset()
					for r := range rows {
						key = fmt.Appendf(key[:3], "%08d", (i*rows+r)*7919%1_000_000)
						batch.Put(key, value)
					}
					batch.Add([]byte("rows"), int64(rows))
					ticket, err := v.Commit(&batch)
					if err != nil {
						b.Fatal(err)
					}
					for e.Durable() < ticket {
						<-woken
					}
				}
			})
		}
	}
}

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// quota is a file system of a bounded size: what is written or allocated counts, and
// what is removed counts no more.
type quota struct {
	vfs.FS
	silent bool  // it does not tell how much is free
	err    error // what it says when it is full

	mu    sync.Mutex
	limit int64
	size  map[string]int64 // by path; a link counts for itself
}

func newQuota(fs vfs.FS, limit int64) *quota {
	return &quota{FS: fs, limit: limit, err: syscall.ENOSPC, size: make(map[string]int64)}
}

func (q *quota) used() (n int64) {
	for _, size := range q.size {
		n += size
	}
	return n
}

// resize sets a new limit.
func (q *quota) resize(limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = limit
}

// brim leaves so many bytes.
func (q *quota) brim(left int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = q.used() + left
}

// grow has a file end at a place at least.
func (q *quota) grow(name string, end int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if more := end - q.size[name]; more > 0 {
		if q.used()+more > q.limit {
			return fmt.Errorf("quota: %w", q.err)
		}
		q.size[name] = end
	}
	return nil
}

func (q *quota) forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.size, name)
}

func (q *quota) GetDiskUsage(string) (vfs.DiskUsage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.silent {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	used := q.used()
	return vfs.DiskUsage{AvailBytes: uint64(max(q.limit-used, 0)), TotalBytes: uint64(q.limit), UsedBytes: uint64(used)}, nil
}

func (q *quota) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	q.forget(name)
	if err := q.grow(name, 64); err != nil {
		return nil, err
	}
	f, err := q.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &quotaFile{File: f, q: q, name: name}, nil
}

func (q *quota) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := q.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &quotaFile{File: f, q: q, name: name}, nil
}

func (q *quota) Remove(name string) error {
	err := q.FS.Remove(name)
	if err == nil {
		q.forget(name)
	}
	return err
}

func (q *quota) move(old, name string, keep bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size[name] = q.size[old]
	if keep {
		q.size[old] = 64
	} else {
		delete(q.size, old)
	}
}

func (q *quota) Rename(old, name string) error {
	err := q.FS.Rename(old, name)
	if err == nil {
		q.move(old, name, false)
	}
	return err
}

func (q *quota) Link(old, name string) error {
	err := q.FS.Link(old, name)
	if err == nil {
		q.move(old, name, true)
	}
	return err
}

type quotaFile struct {
	vfs.File
	q    *quota
	name string
	end  int64
}

func (f *quotaFile) Write(p []byte) (int, error) {
	if err := f.q.grow(f.name, f.end+int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.end += int64(n)
	return n, err
}

func (f *quotaFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.q.grow(f.name, at+int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f *quotaFile) Preallocate(at, length int64) error { return f.q.grow(f.name, at+length) }

// quotaStore opens a store on a file system of a size.
func quotaStore(t *testing.T, q *quota, policy journal.Policy, log io.Writer) *Engine {
	t.Helper()
	o := Options{FS: q, Dir: "store", Memory: 8 << 20, Fsync: policy, SegmentBytes: 256 << 10, Logger: quiet}
	if log != nil {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// putNoise commits a row that cannot be compressed, unless the store is full.
func putNoise(e *Engine, n int, rng *rand.Rand) error {
	if err := e.Full(); err != nil {
		return err
	}
	value := make([]byte, 4000)
	for i := 0; i < len(value); i += 8 {
		binary.LittleEndian.PutUint64(value[i:], rng.Uint64())
	}
	return commitRow(e, func(b *engine.Batch) { b.Put(quotaKey(n), value) })
}

func commitRow(e *Engine, fill func(b *engine.Batch)) error {
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer v.Close()
	var b engine.Batch
	fill(&b)
	_, err = v.Commit(&b)
	return err
}

func quotaKey(n int) []byte { return fmt.Appendf(nil, "%02d-key-%d", n%40, n) }

func has(t *testing.T, e *Engine, n int) bool {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	_, found, err := v.Get(quotaKey(n), nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A store that fills its disk refuses rows with cause and remedy, keeps what it took,
// through a kill too, and goes on by itself after deletes, after a range delete of all,
// and when there is space: where the file system tells what is free, and where only a
// quota's error does.
func TestQuota(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		silent bool
		err    error
		policy journal.Policy
	}{
		{"told", false, syscall.ENOSPC, journal.EverySec},
		{"not told", true, syscall.ENOSPC, journal.Always},
		{"EDQUOT", true, syscall.EDQUOT, journal.No},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(enginetest.Seed(t), 1))
			mem := vfs.NewCrashableMem()
			q := newQuota(mem, 12<<20)
			q.silent, q.err = c.silent, c.err
			e := quotaStore(t, q, c.policy, nil)
			next := 0
			here := make(map[int]bool)
			fill := func() {
				t.Helper()
				within(t, "filling", func() {
					for range 100_000 {
						err := putNoise(e, next, rng)
						if err != nil {
							if !errors.Is(err, engine.ErrReadOnly) || !strings.Contains(err.Error(), "delete keys") {
								t.Errorf("refused with %v", err)
							}
							return
						}
						here[next] = true
						next++
					}
					t.Error("the disk does not get full")
				})
			}
			compare := func(when string) {
				t.Helper()
				for n := range next {
					if has(t, e, n) != here[n] {
						t.Fatalf("%s: row %d is there: %v", when, n, !here[n])
					}
				}
			}
			recovers := func(why string) {
				t.Helper()
				await(t, "commits since "+why, func() bool { return putNoise(e, next, rng) == nil })
				here[next] = true
				next++
			}
			fill()
			if e.Err() != nil {
				t.Fatal(e.Err())
			}
			compare("when full")
			mem = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}) // as kill -9 leaves it
			within(t, "Close", func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
			q.FS = mem
			e = quotaStore(t, q, c.policy, nil)
			compare("after a kill")
			fill()
			for n := range next {
				if n%50 != 0 && here[n] {
					if err := commitRow(e, func(b *engine.Batch) { b.Delete(quotaKey(n)) }); err != nil {
						t.Fatalf("deleting row %d: %v", n, err)
					}
					delete(here, n)
				}
			}
			recovers("nearly all rows were deleted")
			compare("after deletes")
			fill()
			if err := commitRow(e, func(b *engine.Batch) { b.DeleteRange([]byte{0}, []byte{0xf0}) }); err != nil {
				t.Fatal(err)
			}
			clear(here)
			recovers("all rows were deleted")
			fill()
			q.resize(64 << 20)
			recovers("there is space")
			compare("at the end")
			within(t, "Close", func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// When another process takes all space, at each of many moments, nothing fails for
// good, reads and Close go on, and the store goes on by itself when space is given back.
func TestSpaceTakenByOthers(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range scale(t, "REDOUBT_FAULT_POINTS", 12) {
		mem := vfs.NewCrashableMem()
		q := newQuota(mem, 1<<30)
		q.silent = i%2 == 0
		e := quotaStore(t, q, journal.Policy(1+i%3), nil)
		n := 0
		for range rng.IntN(1000) {
			if err := putNoise(e, n, rng); err != nil {
				t.Fatal(err)
			}
			n++
		}
		q.brim(rng.Int64N(64 << 10))
		taken := n
		within(t, "commits", func() {
			for range 4000 {
				q.brim(0) // what the reserve gives up is taken, too
				if err := putNoise(e, taken, rng); err != nil {
					return
				}
				taken++
			}
		})
		if e.Err() != nil {
			t.Fatalf("%d: %v", i, e.Err())
		}
		if taken > 0 && !has(t, e, rng.IntN(taken)) {
			t.Fatalf("%d: a row is missing", i)
		}
		if i%3 == 0 { // it is closed on the full disk
			within(t, "Close", func() {
				if err := e.Close(); err != nil {
					t.Fatalf("%d: Close: %v", i, err)
				}
			})
			q.resize(1 << 30)
			e = quotaStore(t, q, journal.EverySec, nil)
		} else {
			q.resize(1 << 30)
		}
		await(t, "commits to go on", func() bool { return putNoise(e, taken, rng) == nil })
		for j := range taken + 1 {
			if !has(t, e, j) {
				t.Fatalf("%d: row %d of %d is missing", i, j, taken)
			}
		}
		if err := errors.Join(e.Round(), e.Close()); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// A full disk is told once, and a disk that gets full is warned of.
func TestFullDiskIsToldOnce(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	q := newQuota(vfs.NewMem(), 12<<20)
	e := quotaStore(t, q, journal.EverySec, &log)
	e.SetDiskWarning(50)
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 3))
	n := 0
	await(t, "the warning", func() bool { // tables are written and removed meanwhile: it takes as much as it takes
		n++
		_ = putNoise(e, n, rng)
		return strings.Contains(log.String(), "nearly full")
	})
	q.brim(0)
	await(t, "a full disk", func() bool { return e.Full() != nil })
	for range 4 {
		_ = e.Round()
		q.brim(0)
		e.checkSpace(time.Now())
	}
	if n := strings.Count(log.String(), "the disk is full"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	_ = e.Round()
	q.brim(0)
	e.checkSpace(time.Now().Add(2 * time.Minute))
	if n := strings.Count(log.String(), "the disk is full"); n != 2 {
		t.Errorf("after two minutes told %d times:\n%s", n, log.String())
	}
	stats := make(map[string]int64)
	for _, d := range e.Stats().Detail {
		stats[d.Name] = d.Value
	}
	if stats["disk_full"] != 1 || stats["disk_low"] != 1 || stats["disk_total_bytes"] == 0 {
		t.Errorf("figures: %v", stats)
	}
	q.resize(64 << 20)
	await(t, "space", func() bool { return e.Full() == nil && strings.Contains(log.String(), "writes go on") })
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

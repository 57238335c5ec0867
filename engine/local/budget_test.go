package local

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/race"
)

// bulk writes n rows of a kilobyte, in commits of eight, by views that wait.
func bulk(e *Engine, writer, n int, mark byte) error {
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer v.Close()
	var b engine.Batch
	for i := 0; i < n; i += 8 {
		b.Reset()
		for j := i; j < i+8; j++ {
			b.Put(bulkKey(writer, j), bytes.Repeat([]byte{mark}, 1000))
		}
		if _, err := v.Commit(&b); err != nil {
			return err
		}
	}
	return nil
}

func bulkKey(writer, i int) []byte {
	return fmt.Appendf([]byte{byte(i % 50), byte(writer)}, "row%06d", i)
}

// Rows keep to their share of the budget whatever is written and read: writers
// that may wait do, and go on.
func TestBudget(t *testing.T) {
	t.Parallel()
	e := opened(t, func(o *Options) { o.Memory = 8 << 20 })
	limit := e.rowLimit.Load()
	const writers = 3
	rows := 4000
	if race.Enabled {
		rows = 1600
	}
	var most atomic.Int64
	var congested atomic.Bool
	stop := make(chan struct{})
	var watch, work sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				most.Store(max(most.Load(), e.set().Bytes()))
				congested.CompareAndSwap(false, e.Congested())
			}
		}
	})
	for w := range writers {
		work.Go(func() {
			for _, mark := range "ab" {
				if err := bulk(e, w, rows, byte(mark)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 2 {
		rng := rand.New(rand.NewPCG(enginetest.Seed(t), uint64(w)))
		watch.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v, err := e.Begin(engine.ViewOptions{})
				if err == nil {
					_, _, err = v.Get(bulkKey(rng.IntN(writers), rng.IntN(rows)), nil)
					v.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	close(stop)
	watch.Wait()
	if m := most.Load(); m > limit+limit/5 {
		t.Errorf("rows took %d bytes, their share is %d", m, limit)
	}
	if !congested.Load() || e.waits.Load() == 0 {
		t.Errorf("congested %v, %d commits waited", congested.Load(), e.waits.Load())
	}
	await(t, "the congestion to end", func() bool { return !e.Congested() })
	v, _ := e.Begin(engine.ViewOptions{})
	for w := range writers {
		for i := range rows {
			if value, found, err := v.Get(bulkKey(w, i), nil); err != nil || !found || len(value) != 1000 || value[0] != 'b' {
				t.Fatalf("row %d of %d: %.10q, found %v, %v", i, w, value, found, err)
			}
		}
	}
	v.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// While rows cannot be written back, commits are refused once there is no room
// for them, whether they may wait or not, and are taken again later.
func TestCongestedByFailure(t *testing.T) {
	t.Parallel()
	fs := newStage(nil)
	e := opened(t, func(o *Options) {
		fs.FS = o.FS
		o.FS, o.Memory = fs, tight
	})
	fs.failOn(syscall.ENOSPC, "rounds", "create")
	var err error
	within(t, "a commit", func() { err = bulk(e, 0, 4000, 'a') })
	if !errors.Is(err, engine.ErrReadOnly) || !e.Congested() || e.Err() != nil {
		t.Errorf("refused with %v, congested %v, Err %v", err, e.Congested(), e.Err())
	}
	var b engine.Batch
	b.Put([]byte("one more"), nil)
	v, _ := e.Begin(engine.ViewOptions{NoWait: true})
	if _, err := v.Commit(&b); !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("a view that may not wait: %v", err)
	}
	before := e.roundErrors.Load()
	fs.heal()
	await(t, "commits to be taken again", func() bool { _, err := v.Commit(&b); return err == nil })
	v.Close()
	if n := e.roundErrors.Load() - before; n > 3 {
		t.Errorf("%d rounds failed meanwhile", n)
	}
	if err := errors.Join(bulk(e, 0, 400, 'b'), e.Close()); err != nil {
		t.Error(err)
	}
}

// A snapshot keeps what it shows in memory, but nobody from writing.
func TestSnapshotHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	e := opened(t, func(o *Options) { o.Memory = tight })
	limit := e.rowLimit.Load()
	const rows = 400
	if err := bulk(e, 0, rows, 'a'); err != nil {
		t.Fatal(err)
	}
	s, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	within(t, "writing beside a snapshot", func() {
		v, _ := e.Begin(engine.ViewOptions{})
		defer v.Close()
		for i := range rows { // tombstones, more than dirty rows may take
			var b engine.Batch
			b.Delete(bulkKey(0, i))
			for j := range 10 {
				b.Put(fmt.Appendf(nil, "%cother%d", i%7, i*10+j), nil)
				b.Delete(fmt.Appendf(nil, "%cother%d", i%7, i*10+j-40))
			}
			if _, err := v.Commit(&b); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range rows {
		if value, found, err := s.Get(bulkKey(0, i), nil); !found || err != nil || value[0] != 'a' {
			t.Fatalf("row %d of the snapshot: found %v, %v", i, found, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	await(t, "memory to be given back", func() bool {
		wake(e.evictor)
		return e.set().Bytes() < limit+limit/8
	})
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// What is kept for a snapshot is bounded: when too much is changed, reads from it fail.
func TestSnapshotIsRevoked(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(e *Engine, i int) error{
		"by small changes": func(e *Engine, i int) error { // what rows were takes more than what they are
			v, err := e.Begin(engine.ViewOptions{})
			if err != nil {
				return err
			}
			defer v.Close()
			var b engine.Batch
			for j := range 100 {
				b.Put(fmt.Appendf(nil, "%csmall%d", i%7, i*100+j), nil)
			}
			_, err = v.Commit(&b)
			return err
		},
		"by large rows": func(e *Engine, i int) error { return bulk(e, i%190, 64, 'b') },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := opened(t, func(o *Options) { o.Memory = 8 << 20 })
			const rows = 400
			if err := bulk(e, 200, rows, 'a'); err != nil {
				t.Fatal(err)
			}
			old, err := e.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			it := old.Iter(nil, nil, false)
			if !it.Next() {
				t.Fatal("the snapshot is empty")
			}
			most := int64(0)
			for i := range 2000 {
				if err := write(e, i); err != nil {
					t.Fatal(err)
				}
				if most = max(most, e.set().UndoBytes()); e.revoked.Load() > 0 {
					break
				}
			}
			await(t, "the snapshot to be revoked", func() bool { return e.revoked.Load() > 0 })
			if limit := e.undoLimit.Load(); most > 4*limit {
				t.Errorf("%d bytes were kept for the snapshot, the limit is %d", most, limit)
			}
			if _, _, err := old.Get(bulkKey(200, 0), nil); !errors.Is(err, engine.ErrSnapshotLost) {
				t.Errorf("a read from a snapshot that was revoked: %v", err)
			}
			if it.Next() {
				t.Error("a walk over a snapshot that was revoked goes on")
			}
			if err := it.Close(); !errors.Is(err, engine.ErrSnapshotLost) {
				t.Errorf("the end of that walk: %v", err)
			}
			if err := old.Close(); err != nil {
				t.Error(err)
			}
			fresh, err := e.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if value, found, err := fresh.Get(bulkKey(200, 0), nil); !found || err != nil || value[0] != 'a' {
				t.Errorf("a read from a new snapshot: found %v, %v", found, err)
			}
			if err := errors.Join(fresh.Close(), e.Close()); err != nil {
				t.Error(err)
			}
			if n := e.set().UndoBytes(); n != 0 {
				t.Errorf("%d bytes are kept for no snapshot", n)
			}
		})
	}
}

// Rows come back into memory by themselves while there is room, so that views
// that may not wait can read everything; with less room some must go.
func TestRefill(t *testing.T) {
	t.Parallel()
	var o Options
	e := opened(t, func(to *Options) { o = *to })
	const rows = 3000
	if err := errors.Join(bulk(e, 0, rows, 'a'), e.Round(), e.Close()); err != nil {
		t.Fatal(err)
	}
	e = opened(t, func(to *Options) { *to = o })
	warm := func() (n int) {
		v, _ := e.Begin(engine.ViewOptions{NoWait: true})
		defer v.Close()
		for i := range rows {
			if _, found, err := v.Get(bulkKey(0, i), nil); found && err == nil {
				n++
			}
		}
		return n
	}
	await(t, "all rows to be in memory", func() bool { return warm() == rows })
	// The parts behind the last row are found empty a moment later.
	await(t, "a walk that needs no store", func() bool {
		v, _ := e.Begin(engine.ViewOptions{NoWait: true})
		defer v.Close()
		it := v.Iter(nil, nil, false)
		for it.Next() {
		}
		return it.Close() == nil
	})
	e.SetMemory(4 << 20)
	wake(e.evictor)
	await(t, "rows to leave", func() bool { return e.set().Bytes() <= e.rowLimit.Load() })
	if n := warm(); n == rows || n == 0 {
		t.Errorf("%d of %d rows are in memory", n, rows)
	}
	e.SetMemory(16 << 20)
	await(t, "rows to come back", func() bool { return warm() == rows })
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// What others reserve is taken from the rows, down to a quarter of their share, and
// dirty rows, which cannot be evicted, keep to a half of what is left.
func TestRowLimits(t *testing.T) {
	t.Parallel()
	b := divide(256 << 20)
	for _, c := range []struct{ reserved, rows, dirty int64 }{
		{0, b.rows, b.dirty},
		{64 << 20, b.rows - 64<<20, b.dirty},
		{b.rows * 5 / 8, b.rows - b.rows*5/8, (b.rows - b.rows*5/8) / 2},
		{1 << 40, b.rows / 4, b.rows / 8},
	} {
		if rows, dirty := b.limits(c.reserved); rows != c.rows || dirty != c.dirty {
			t.Errorf("%d reserved: %d rows, %d dirty; want %d, %d", c.reserved, rows, dirty, c.rows, c.dirty)
		}
	}
}

// Rows leave as soon as others need their memory, and the system gets it back; they
// come back when it is free again.
func TestReserve(t *testing.T) {
	t.Parallel()
	e := opened(t, func(o *Options) { o.Memory = 32 << 20 })
	share := RowShare(32 << 20)
	rows := int(share / 1200)
	if err := errors.Join(bulk(e, 0, rows, 'a'), e.Round()); err != nil {
		t.Fatal(err)
	}
	full := e.set().Bytes()
	e.Reserve(share / 2)
	if e.rowLimit.Load() != share-share/2 {
		t.Errorf("the limit is %d of %d", e.rowLimit.Load(), share)
	}
	await(t, "rows to leave", func() bool { return e.set().Bytes() <= share/2 })
	await(t, "the system to get memory back", func() bool { return e.set().Mapped() <= share/2+share/8 })
	e.Reserve(0)
	await(t, "rows to come back", func() bool { return e.set().Bytes() > full*8/10 })
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

package local

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// coldStore is a store on a real disk whose rows are not resident but in the
// system's memory.
func coldStore(t *testing.T, n int) *Engine {
	t.Helper()
	e := opened(t, func(o *Options) { o.FS, o.Dir = vfs.Default, t.TempDir() })
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	var notes []note
	for i := range n {
		notes = append(notes, put(fmt.Sprintf("aa%04d", i), "v"))
	}
	mustPut(t, e, notes...)
	mustRound(t, e)
	e.rowLimit.Store(1) // else the keeper brings them back
	evictAll(e)
	if e.disk.noWait.never.Load() {
		t.Skip("the system cannot read without waiting")
	}
	return e
}

// A view that may not wait reads what the system has in memory, but not without
// bounds.
func TestNoWaitReads(t *testing.T) {
	t.Parallel()
	e := coldStore(t, 1000)
	get := func(v engine.View, i int) error {
		value, found, err := v.Get(fmt.Appendf(nil, "aa%04d", i), nil)
		if err == nil && (!found || string(value) != "v") {
			t.Errorf("row %d is %q, %v", i, value, found)
		}
		return err
	}
	v, _ := e.Begin(engine.ViewOptions{NoWait: true})
	if err := get(v, 7); e.disk.noWait.never.Load() {
		t.Skip("this file system cannot read without waiting")
	} else if err != nil {
		t.Fatal(err)
	}
	it := v.Iter([]byte("aa0100"), []byte("aa0110"), false)
	n := 0
	for it.Next() {
		n++
	}
	if err := it.Close(); err != nil || n != 10 {
		t.Errorf("a walk shows %d rows: %v", n, err)
	}
	var err error
	for n = 200; n < 1000 && err == nil; n++ {
		err = get(v, n)
	}
	if !errors.Is(err, engine.ErrCold) || n > 200+noWaitReads {
		t.Errorf("%d rows were read by a view that may not wait: %v", n-200, err)
	}
	v.Close()
	if e.disk.noWait.n.Load() != 0 {
		t.Error("a thread is still listed")
	}
}

// Where the system would have to wait for the disk the row is cold; those who may
// wait are not disturbed; and while it is so there are fewer and fewer tries.
func TestNoWaitReadsInVain(t *testing.T) {
	t.Parallel()
	e := coldStore(t, 1000)
	h := &e.disk.noWait
	tries := 0
	h.read = func(uintptr, []byte, int64) (int, error) { tries++; return 0, syscall.EAGAIN }
	key := func(i int) []byte { return fmt.Appendf(nil, "aa%04d", i) }
	for i := range 500 {
		v, _ := e.Begin(engine.ViewOptions{NoWait: true})
		if _, _, err := v.Get(key(i), nil); !errors.Is(err, engine.ErrCold) {
			t.Fatalf("row %d: %v", i, err)
		}
		it := v.Iter(key(i), key(i+5), false)
		if it.Next() {
			t.Error("a walk went where it would have to wait")
		}
		if err := it.Close(); !errors.Is(err, engine.ErrCold) {
			t.Errorf("a walk ended with %v", err)
		}
		v.Close()
	}
	if tries == 0 || tries > 20 {
		t.Errorf("%d tries", tries)
	}
	v, _ := e.Begin(engine.ViewOptions{})
	if _, found, err := v.Get(key(900), nil); err != nil || !found {
		t.Errorf("who may wait gets %v, %v", found, err)
	}
	v.Close()
	h.read = readCached
	read := 0
	for range 2 * mostSkipped {
		v, _ := e.Begin(engine.ViewOptions{NoWait: true})
		if _, _, err := v.Get(key(500+read), nil); err == nil {
			read++
		}
		if v.Close(); read == 100 {
			break
		}
	}
	if read < 100 && !h.never.Load() {
		t.Errorf("%d rows were read after the disk was quick again", read)
	}
	if h.n.Load() != 0 {
		t.Error("a thread is still listed")
	}
}

// A system that cannot do it is asked once.
func TestNoWaitReadsUnsupported(t *testing.T) {
	t.Parallel()
	e := coldStore(t, 10)
	e.disk.noWait.read = func(uintptr, []byte, int64) (int, error) { return 0, syscall.EOPNOTSUPP }
	for range 3 {
		v, _ := e.Begin(engine.ViewOptions{NoWait: true})
		if _, _, err := v.Get([]byte("aa0001"), nil); !errors.Is(err, engine.ErrCold) {
			t.Errorf("got %v", err)
		}
		v.Close()
	}
	if !e.disk.noWait.never.Load() {
		t.Error("it is tried again")
	}
}

// Walks use open iterators again, but never one from before a round.
func TestWalkers(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	want := map[string]string{}
	for i := range 20 {
		for j := range 10 {
			k := fmt.Sprintf("aa%d-%d", i, j)
			mustPut(t, e, put(k, "v"))
			want[k] = "v"
		}
		if i%2 == 1 {
			mustPut(t, e, del(fmt.Sprintf("aa%d-3", i-1)))
			delete(want, fmt.Sprintf("aa%d-3", i-1))
		}
		mustRound(t, e)
		evictAll(e)
		for range 3 {
			v, _ := e.Begin(engine.ViewOptions{})
			wantRows(t, fmt.Sprintf("round %d", i), v, want)
			a, b := v.Iter([]byte("aa"), nil, false), v.Iter([]byte("aa"), []byte("ab"), true) // at the same time
			for a.Next() && b.Next() {
			}
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Error(err)
			}
			v.Close()
		}
		w := &e.store.iterators
		w.mu.Lock()
		if n := len(w.free); n > mostPooled {
			t.Errorf("%d iterators are kept", n)
		}
		w.mu.Unlock()
	}
}

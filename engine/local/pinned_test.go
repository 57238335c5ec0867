package local

import (
	"errors"
	"fmt"
	"testing"

	"redoubt/engine"
)

// keepSome keeps the rows of some parts, whatever the units are.
func keepSome(key []byte) bool { return len(key) > 1 && key[1] == 'a' }

// Rows that are kept stay when others leave, and the walk over them needs no store;
// after a restart they come back when they are asked for.
func TestKeep(t *testing.T) {
	t.Parallel()
	change := func(o *Options) {
		o.Unit = func([]byte) int { return 3 }
		o.Pinned = func(key []byte) bool { return len(key) > 2 && key[2] == 'z' }
	}
	e := opened(t, change)
	fs := e.fs
	const n, others = 100, 1500
	var notes []note
	for i := range others {
		if notes = append(notes, put(fmt.Sprintf("aax%04d", i), "other")); i < n {
			notes = append(notes, put(fmt.Sprintf("aaz%04d", i), "count"))
		}
	}
	mustPut(t, e, notes...)
	mustRound(t, e)
	e.set().Evict(1 << 19)
	walk := func(unit string) error {
		v, _ := e.Begin(engine.ViewOptions{NoWait: true})
		defer v.Close()
		v.(*view).noWaitLeft = 0
		it := v.Iter([]byte("aa"+unit), []byte("aa"+unit+"\xff"), false)
		seen := 0
		for it.Next() {
			seen++
		}
		if err := it.Close(); err != nil {
			return err
		}
		if seen != n {
			t.Errorf("%d rows of unit %s", seen, unit)
		}
		return nil
	}
	rows := func() int64 { return e.set().Figures().Rows }
	if got := rows(); got != n {
		t.Errorf("%d rows are resident, %d are kept", got, n)
	}
	if err := walk("z"); err != nil {
		t.Errorf("kept rows: %v", err)
	}
	if err := walk("x"); !errors.Is(err, engine.ErrCold) {
		t.Errorf("other rows: %v", err)
	}
	if e.set().PinnedBytes() == 0 {
		t.Error("kept rows take no memory")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// The budget leaves no room to fill the part, but it does for these.
	e = opened(t, func(o *Options) { change(o); o.FS, o.Memory = fs, 1 })
	defer e.Close()
	await(t, "kept rows", func() bool { return walk("z") == nil })
	if got := rows(); got >= n+others {
		t.Errorf("all %d rows are resident", got)
	}
	// They can be taken like all others when there is nothing else.
	e.set().LimitPinned(1)
	evictAll(e)
	if got, kept := rows(), e.set().PinnedBytes(); got != 0 || kept != 0 {
		t.Errorf("%d rows are left, %d bytes of them kept", got, kept)
	}
}

package tikv

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/tikv"

	"redoubt/engine"
	"redoubt/internal/testtikv"
)

// safePoint is the moment up to which the cluster may have forgotten. It has the client
// of an engine know at once, which looks every ten seconds otherwise.
func safePoint(t *testing.T, e *Engine) engine.Stamp {
	t.Helper()
	text, err := e.store.GetSafePointKV().Get(tikv.GcSavedSafePoint)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.ParseUint(text, 10, 64)
	e.store.UpdateSPCache(n, time.Now())
	return engine.Stamp(n)
}

func stamp(t *testing.T, e *Engine) engine.Stamp {
	t.Helper()
	s, err := e.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is forgotten cannot be read, what is not can; and a store holds the others in
// the cluster back.
func TestForget(t *testing.T) {
	t.Parallel()
	c := testtikv.Start(t)
	open := func() *Engine {
		e := mustOpen(t, Options{PD: []string{c.PD()}, Prefix: testtikv.Prefix(t), Timeout: 20 * time.Second})
		t.Cleanup(func() { e.Close() })
		return e
	}
	one, other := open(), open()
	must(t, one, put("a", "1"))
	old, err := one.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	must(t, one, put("a", "2"))
	die(t, one, false, time.Hour, "b", "dead")
	young, err := one.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	oldest := one.Oldest()
	if err := one.Forget(oldest); err != nil {
		t.Fatal(err)
	}
	if got := safePoint(t, one); got != oldest {
		t.Errorf("the safe point is %d, want %d", got, oldest)
	}
	if a, b := read(t, old, "a"), read(t, young, "a"); a != "1" || b != "2" {
		t.Errorf("a = %s, later %s", a, b)
	}
	// The other store would go further, but may not.
	if err := other.Forget(stamp(t, other)); err != nil {
		t.Fatal(err)
	}
	if got := safePoint(t, other); got != oldest {
		t.Errorf("the safe point is %d, want %d", got, oldest)
	}
	if a := read(t, old, "a"); a != "1" {
		t.Errorf("a = %s", a)
	}
	locked := func() error {
		return with(one, func(v engine.SharedView) error { _, err := v.Commit(put("b", "2")); return err })
	}
	if err := locked(); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a locked row is written: %v", err)
	}
	old.Close()
	next := one.Oldest()
	if next <= oldest {
		t.Fatalf("Oldest is %d, then %d", oldest, next)
	}
	if err := one.Forget(next); err != nil {
		t.Fatal(err)
	}
	if got := safePoint(t, one); got != next || one.figures.safePoint.Load() != int64(next) {
		t.Errorf("the safe point is %d, want %d", got, next)
	}
	if a, b := read(t, young, "a"), read(t, young, "b"); a != "2" || b != "none" {
		t.Errorf("a = %s, b = %s", a, b)
	}
	if err := locked(); err != nil {
		t.Errorf("a lock from before the safe point is still there: %v", err)
	}
	young.Close()
	// It does not go back, and who reads too late is told.
	if err := one.Forget(oldest); err != nil {
		t.Fatal(err)
	}
	if got := safePoint(t, one); got != next {
		t.Errorf("the safe point is %d, want %d", got, next)
	}
	late, err := one.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	limit := one.Later(stamp(t, one), time.Second)
	one.store.UpdateSPCache(uint64(limit), time.Now())
	_, _, err = late.Get([]byte("a"), nil)
	if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "so old") {
		t.Errorf("a forgotten moment: %v", err)
	}
	it := late.Iter(nil, nil, false)
	for it.Next() {
	}
	if err := it.Close(); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a walk over a forgotten moment: %v", err)
	}
}

// Batches that TiKV would not take are refused, and nothing of them is written.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	e := newMock(t).open(t, Options{})
	defer e.Close()
	for name, b := range map[string]*engine.Batch{
		"row":      put("a", "1", "b", strings.Repeat("x", maxRow)),
		"key":      put("a", "1", strings.Repeat("k", maxRow), "x"),
		"both":     put("a", "1", strings.Repeat("k", maxRow/2), strings.Repeat("x", maxRow/2)),
		"commit":   many(maxCommit / (4 << 20)),
		"reserved": put("a", "1", "\xff\xff\xff\xffc", "x"),
	} {
		err := with(e, func(v engine.SharedView) error { _, err := v.Commit(b); return err })
		if err == nil || known(err) || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := put("a", "1")
	b.Check([]byte("\xff\xff\xff\xff"))
	if err := with(e, func(v engine.SharedView) error { _, err := v.Commit(b); return err }); err == nil {
		t.Error("a check of a reserved row")
	}
	with(e, func(v engine.SharedView) error {
		if got := read(t, v, "a"); got != "none" {
			t.Errorf("a = %s", got)
		}
		if got := read(t, v, "\xff\xff\xff\xffc"); got != "none" {
			t.Errorf("a reserved row is %q", got)
		}
		return nil
	})
}

// many is a batch of so many rows of 4 MiB.
func many(n int) *engine.Batch {
	b := put("a", "1")
	for i := range n {
		b.Put([]byte{'m', byte(i)}, make([]byte, 4<<20))
	}
	return b
}

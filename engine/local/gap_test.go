package local

import (
	"fmt"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// Gaps are noted from the first dead row on, so that all tests have them.
func init() { resident.GapSteps = 1 }

// end returns the first key of a walk, and how many rows it came by before.
func end(t *testing.T, e *Engine, lo, hi string, reverse bool) (key string, steps int) {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	it := v.Iter([]byte(lo), []byte(hi), reverse)
	if it.Next() {
		key = string(it.Key())
	}
	if i := it.(*iterator); i.store != nil {
		stats := i.store.Stats()
		steps = i.passed + stats.ForwardStepCount[lsm.InternalIterCall] + stats.ReverseStepCount[lsm.InternalIterCall]
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return key, steps
}

// A queue that is larger than memory costs the same however many were taken from it,
// from both ends, before and behind rounds; and what is put into the gap is seen.
func TestGapOfAQueue(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	const n = 3000
	key := func(i int) string { return fmt.Sprintf("aa%06d", i) }
	var notes []note
	for i := range n {
		notes = append(notes, put(key(i), "v"))
	}
	mustPut(t, e, notes...)
	mustRound(t, e)
	evictAll(e)
	most := 0
	take := func(want int, reverse bool) {
		t.Helper()
		got, steps := end(t, e, "aa", "ab", reverse)
		if got != key(want) {
			t.Fatalf("the next one is %s, not %s", got, key(want))
		}
		most = max(most, steps)
		mustPut(t, e, del(got))
	}
	for i := range n / 3 {
		take(i, false)
		take(n-1-i, true)
		if i%100 == 99 {
			mustRound(t, e)
			evictAll(e)
		}
	}
	if most > 20 {
		t.Errorf("a walk came by %d rows to find the first one", most)
	}
	// Rows are put where others were, some of them the same ones.
	for i := n / 6; i > 0; i -= 7 {
		mustPut(t, e, put(key(i), "again"))
		take(i, false)
		mustPut(t, e, put(key(i)+"b", "new"), put(key(i)+"c", "new"), del(key(i)+"b"))
		if got, _ := end(t, e, "aa", "ab", false); got != key(i)+"c" {
			t.Fatalf("the first one is %s, not %sc", got, key(i))
		}
		mustPut(t, e, del(key(i)+"c"))
	}
	if got, steps := end(t, e, "aa", "ab", false); got != key(n/3) || steps > 20 {
		t.Errorf("in the end the first one is %s, behind %d steps", got, steps)
	}
	if got, _ := end(t, e, key(5), key(n/4), true); got != "" {
		t.Errorf("%s is in the gap", got)
	}
}

// A snapshot from before shows what was there.
func TestGapAndSnapshot(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	want := map[string]string{}
	var dels []note
	for i := range 100 {
		k := fmt.Sprintf("aa%03d", i)
		mustPut(t, e, put(k, "v"))
		want[k] = "v"
		dels = append(dels, del(k))
	}
	mustRound(t, e)
	evictAll(e)
	s, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustPut(t, e, dels[:99]...)
	for range 2 {
		if got, _ := end(t, e, "aa", "ab", false); got != "aa099" {
			t.Errorf("the first one is %s", got)
		}
	}
	wantRows(t, "snapshot", s, want)
	v, _ := e.Begin(engine.ViewOptions{})
	defer v.Close()
	wantRows(t, "now", v, map[string]string{"aa099": "v"})
}

package local

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/local/resident"
	"redoubt/journal"
)

func mustPut(t testing.TB, e *Engine, notes ...note) {
	t.Helper()
	if err := newLedger().commit(e, true, notes); err != nil {
		t.Fatal(err)
	}
}

func mustRound(t testing.TB, e *Engine) {
	t.Helper()
	if err := e.Round(); err != nil {
		t.Fatal(err)
	}
}

// evictAll empties the memory of clean rows, which count up to three uses.
func evictAll(e *Engine) {
	for range 4 {
		e.set().Evict(1 << 40)
	}
}

func put(key, value string) note  { return note{kind: 'p', key: key, value: value} }
func del(key string) note         { return note{kind: 'd', key: key} }
func delRange(lo, hi string) note { return note{kind: 'r', key: lo, value: hi} }
func wantRows(t testing.TB, what string, r engine.Reader, rows map[string]string) {
	t.Helper()
	if err := (&world{rows: rows}).checkRows(r); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// A row that is created, written back and deleted meanwhile stays deleted.
func TestDeletedWhileWrittenBack(t *testing.T) {
	t.Parallel()
	fs := newStage(vfs.NewCrashableMem())
	open := func() *Engine { return opened(t, func(o *Options) { o.FS = fs }) }
	e := open()
	mustPut(t, e, put("aa1", "old"), put("aa2", "old"), put("aa3", "old"))
	var once sync.Once
	fs.on(func(c change) error {
		if c.kind == "link" { // the tables are written, and go to the store
			once.Do(func() { mustPut(t, e, del("aa1"), put("aa2", "new"), delRange("aa3", "aa4")) })
		}
		return nil
	})
	mustRound(t, e)
	fs.heal()
	mustRound(t, e)
	want := map[string]string{"aa2": "new"}
	for _, when := range []string{"in memory", "evicted", "opened again"} {
		v, _ := e.Begin(engine.ViewOptions{})
		wantRows(t, when, v, want)
		v.Close()
		if evictAll(e); when == "evicted" {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = open()
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A snapshot shows rows that were not in memory as they were, whatever was done
// to them since: changed, deleted, filled in, looked for in vain.
func TestSnapshotOfColdRows(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	want := map[string]string{}
	for i := range 24 {
		key := fmt.Sprintf("%s%02d", []string{"aa", "bb"}[i/12], i%12)
		want[key] = "old"
		mustPut(t, e, put(key, "old"))
	}
	mustRound(t, e)
	evictAll(e)
	s, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		wantRows(t, when, s, want)
	}
	mustPut(t, e, put("aa01", "new"), del("aa02"), put("aa021", "new"), delRange("aa05", "aa08"), put("bb01", "new"), del("bb02"))
	check("changed")
	mustRound(t, e)
	check("written back")
	v, _ := e.Begin(engine.ViewOptions{})
	for _, key := range []string{"aa02", "aa05", "aa06"} {
		if _, found, err := v.Get([]byte(key), nil); found || err != nil {
			t.Errorf("row %s: %v %v", key, found, err)
		}
	}
	check("looked for")
	mustPut(t, e, put("aa06", "again"))
	for next := 1; next != 0; {
		next = e.fillNext(next)
	}
	check("filled in")
	mustRound(t, e)
	evictAll(e)
	check("evicted")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	now := maps.Clone(want)
	for _, key := range []string{"aa02", "aa05", "aa07", "bb02"} {
		delete(now, key)
	}
	now["aa01"], now["aa021"], now["aa06"], now["bb01"] = "new", "new", "again", "new"
	wantRows(t, "now", v, now)
	evictAll(e)
	wantRows(t, "now, evicted", v, now)
	v.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A unit that was deleted as a whole may get rows again and lose them to the
// store, also before its deletion is forgotten.
func TestUnitDeletedAndFilledAgain(t *testing.T) {
	t.Parallel()
	set := resident.New(func([]byte) int { return 4 }, true)
	defer set.Close()
	for seq, n := range []note{put("aaaa1", "old"), delRange("aaaa", "aaab"), put("aaaa2", "new")} {
		if err := set.Apply(toBatch([]note{n}), uint64(seq+1)); err != nil {
			t.Fatal(err)
		}
	}
	no := resident.Part([]byte("aa"))
	if !set.Take(no) {
		t.Fatal("nothing to write back")
	}
	set.Finish(no) // as if it had been written
	set.Evict(1 << 40)
	state := func() resident.State {
		_, state, _ := set.Get([]byte("aaaa2"), engine.Hash([]byte("aaaa2")), nil)
		return state
	}
	for _, when := range []string{"evicted", "deletion forgotten"} {
		if s := state(); s != resident.Unknown {
			t.Errorf("%s: the state of the row is %d, though only the store has it", when, s)
		}
		for more := true; more; _, more = set.Clear() {
		}
	}
	if n := set.Figures().PendingRanges; n != 0 {
		t.Errorf("%d deletions are pending", n)
	}
}

// A checkpoint on a real disk shares files with the store; both live on.
func TestCheckpointOnDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	v := newVoyage(t, nil, journal.EverySec, enginetest.Seed(t))
	place := filepath.Join(root, "store")
	v.change = func(o *Options) { o.Dir, o.FS = place, vfs.Default }
	e := v.open()
	for i := range 3 {
		for range 60 {
			if err := v.ledger.commit(e, true, v.load.commit()); err != nil {
				t.Fatal(err)
			}
		}
		atLeast := e.Committed()
		place = filepath.Join(root, "backups", fmt.Sprint(i))
		if err := e.Checkpoint(place); err != nil {
			t.Fatal(err)
		}
		if err := e.Checkpoint(place); err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("a checkpoint over another: %v", err)
		}
		c := v.open()
		own := v.ledger.fork(v.ledger.mustCheck(t, c, atLeast))
		for range 20 {
			if err := own.commit(c, true, v.load.commit()); err != nil {
				t.Fatal(err)
			}
		}
		mustRound(t, c)
		own.mustCheck(t, c, own.written)
		v.close(c)
	}
	v.ledger.mustCheck(t, e, v.ledger.written)
	v.close(e)
	place = filepath.Join(root, "store")
	e = v.open()
	v.ledger.mustCheck(t, e, v.ledger.written)
	v.close(e)
}

// A checkpoint that fails leaves nothing behind and does no harm, even where
// Pebble would end the process.
func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.No, enginetest.Seed(t))
	e := v.open()
	for range 20 {
		if err := v.step(e); err != nil {
			t.Fatal(err)
		}
	}
	broken := copyDir + "/broken"
	n := 1
	for ; ; n++ { // each of its changes in turn
		left := n
		v.fs.on(func(c change) error {
			if strings.HasPrefix(c.path, broken) && c.kind != "remove" {
				if left--; left == 0 {
					return syscall.EIO
				}
			}
			return nil
		})
		err := e.Checkpoint(broken)
		v.fs.heal()
		if err == nil && left > 0 {
			break
		}
		if err == nil {
			// A link that fails is made up for by a copy.
			if err := v.fs.RemoveAll(broken); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, syscall.EIO) {
			t.Errorf("change %d: %v", n, err)
		}
		if _, err := v.fs.Stat(broken); err == nil {
			t.Fatalf("change %d: something is left", n)
		}
	}
	if n < 20 {
		t.Errorf("only %d changes", n)
	}
	v.heals(e)
}

// No row has the empty key, but a range may begin with it.
func TestEmptyKey(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	v, _ := e.Begin(engine.ViewOptions{})
	if err := newLedger().commit(e, true, []note{put("a", ""), put("", "")}); err == nil || e.Committed() != 0 {
		t.Errorf("a row with the empty key: %v", err)
	}
	for i, c := range []struct {
		notes []note
		want  map[string]string
	}{
		{[]note{put("\x00", "b"), put("z", "c")}, map[string]string{"\x00": "b", "z": "c"}},
		{[]note{delRange("", "y")}, map[string]string{"z": "c"}},
		{[]note{put("\x00", "d"), put("a", "e")}, map[string]string{"\x00": "d", "a": "e", "z": "c"}},
		{[]note{delRange("", "y"), put("\x00", "f")}, map[string]string{"\x00": "f", "z": "c"}},
		{[]note{delRange("", "zz")}, nil},
	} {
		mustPut(t, e, c.notes...)
		wantRows(t, fmt.Sprint("commit ", i), v, c.want)
		mustRound(t, e)
		evictAll(e)
		wantRows(t, fmt.Sprint("round ", i), v, c.want)
	}
	if _, found, err := v.Get(nil, nil); found || err != nil {
		t.Errorf("the empty key: %v %v", found, err)
	}
	v.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestReservedKeys(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	v, _ := e.Begin(engine.ViewOptions{})
	defer v.Close()
	counter := append(append([]byte{}, counterPrefix...), 'n')
	mustPut(t, e, put("\xff\xff\xff\xfe", "last row"), note{kind: 'c', key: "n", delta: 7}, delRange("a", "\xff\xff\xff\xff\xff"), put("\xff\xff\xff\xfe", "last row"))
	mustRound(t, e)
	for _, key := range [][]byte{counter, checkpointKey} {
		if _, found, err := v.Get(key, nil); found || err != nil {
			t.Errorf("%x is found as a row: %v %v", key, found, err)
		}
	}
	wantRows(t, "beside them", v, map[string]string{"\xff\xff\xff\xfe": "last row"})
	var b engine.Batch
	b.Put([]byte("a"), nil)
	b.Put(counter, []byte("forged"))
	committed := e.Committed()
	if _, err := v.Commit(&b); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("a reserved key was taken: %v", err)
	}
	if _, found, _ := v.Get([]byte("a"), nil); found || e.Committed() != committed {
		t.Error("a refused commit left something")
	}
	if n, err := e.Counter([]byte("n")); n != 7 || err != nil {
		t.Errorf("the counter is %d, %v", n, err)
	}
}

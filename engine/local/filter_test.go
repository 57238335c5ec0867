package local

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// ready waits until the filter of the store's keys is.
func ready(t testing.TB, e *Engine) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, _, ready := e.set().FilterFigures(); ready == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the filter does not get ready")
		}
	}
}

// Rows that do not exist are known not to, though their unit is not complete: in a
// store that began empty, after a restart, and after a crash. Rows that do exist
// are cold.
func TestUnheardRowsAreNotCold(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	open := func(fs vfs.FS) *Engine { return opened(t, func(o *Options) { o.FS = fs }) }
	e := open(fs)
	const n = 3000
	key := func(i int) string { return fmt.Sprintf("aa%d", i) }
	var notes []note
	for i := range n {
		notes = append(notes, put(key(i), "v"))
	}
	mustPut(t, e, notes...)
	mustRound(t, e)
	look := func(when string, from, to int) {
		t.Helper()
		evictAll(e)
		v, err := e.Begin(engine.ViewOptions{NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		for i := from; i < to; i++ {
			if _, found, err := v.Get([]byte(key(i)), nil); !found && !errors.Is(err, engine.ErrCold) {
				t.Fatalf("%s: row %s does not exist: %v", when, key(i), err)
			}
		}
		cold := 0
		for i := range n {
			switch _, found, err := v.Get([]byte(fmt.Sprintf("aa none %d", i)), nil); {
			case errors.Is(err, engine.ErrCold):
				cold++
			case err != nil || found:
				t.Fatalf("%s: a row that nobody wrote: %v", when, err)
			}
		}
		if cold > n/20 {
			t.Errorf("%s: %d of %d rows that do not exist are cold", when, cold, n)
		}
	}
	look("at first", 0, n)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(fs)
	ready(t, e)
	look("opened again", 0, n)
	notes = notes[:0]
	for i := range 500 {
		notes = append(notes, del(key(i)), put(key(n+i), "new"))
	}
	mustPut(t, e, notes...)
	look("changed", 500, n+500)
	mustRound(t, e)
	look("written back", 500, n+500)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(crashed)
	ready(t, e)
	look("after a crash", 500, n+500)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A commit that creates rows in an incomplete unit does not ask the store, and what
// it creates, deletes and creates again is there.
func TestCreatedUnheard(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	want := map[string]string{"aa1": "v", "aa2": "v"}
	mustPut(t, e, put("aa1", "v"), put("aa2", "v"))
	mustRound(t, e)
	evictAll(e)
	before := e.coldReads.Load()
	mustPut(t, e, put("aa3", "v"), put("aa4", "v"), del("aa5"))
	mustPut(t, e, del("aa3"), put("aa4", "w"))
	want["aa4"] = "w"
	for _, step := range []func(){func() {}, func() { mustRound(t, e) }, func() { evictAll(e) }} {
		step()
		v, _ := e.Begin(engine.ViewOptions{})
		for _, k := range []string{"aa3", "aa4", "aa5"} {
			_, found, err := v.Get([]byte(k), nil)
			if _, should := want[k]; err != nil || found != should {
				t.Errorf("row %s: %v, %v", k, found, err)
			}
		}
		wantRows(t, "walked", v, want)
		v.Close()
	}
	if n := e.coldReads.Load() - before; n > 12 { // the walks, and the rows that were evicted
		t.Errorf("%d cold reads", n)
	}
}

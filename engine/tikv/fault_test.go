package tikv

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/testtikv"
)

const (
	faultTimeout = time.Second
	// patience is how late an answer may be on a busy machine.
	patience = 4 * time.Second
)

func faulty(t *testing.T) (*testtikv.Cluster, *Engine) {
	t.Helper()
	c := testtikv.Start(t, testtikv.Linked())
	e := mustOpen(t, Options{PD: []string{c.PD()}, Prefix: testtikv.Prefix(t), Timeout: faultTimeout})
	t.Cleanup(func() { e.Close() })
	must(t, e, put("a", "1"))
	return c, e
}

func put(rows ...string) *engine.Batch {
	b := new(engine.Batch)
	for i := 0; i < len(rows); i += 2 {
		b.Put([]byte(rows[i]), []byte(rows[i+1]))
	}
	return b
}

// all is everything that asks the cluster.
var all = map[string]func(e *Engine) error{
	"Get": func(e *Engine) error {
		return with(e, func(v engine.SharedView) error { _, _, err := v.Get([]byte("a"), nil); return err })
	},
	"PointRead": func(e *Engine) error {
		return withOptions(e, engine.ViewOptions{PointRead: true}, func(v engine.SharedView) error { _, _, err := v.Get([]byte("a"), nil); return err })
	},
	"Version": func(e *Engine) error {
		return with(e, func(v engine.SharedView) error { _, err := v.Version([]byte("a")); return err })
	},
	"GetMany": func(e *Engine) error {
		return with(e, func(v engine.SharedView) error {
			return v.GetMany([][]byte{[]byte("a"), []byte("b")}, func(int, []byte, bool) error { return nil })
		})
	},
	"Iter": func(e *Engine) error {
		return with(e, func(v engine.SharedView) error {
			it := v.Iter(nil, nil, false)
			for it.Next() {
			}
			return it.Close()
		})
	},
	"Commit": func(e *Engine) error {
		return with(e, func(v engine.SharedView) error { _, err := v.Commit(put("b", "1")); return err })
	},
	"DeleteRange": func(e *Engine) error {
		return with(e, func(v engine.SharedView) error {
			var b engine.Batch
			b.DeleteRange([]byte("x"), []byte("z"))
			b.Put([]byte("x"), nil)
			_, err := v.Commit(&b)
			return err
		})
	},
	"Snapshot": func(e *Engine) error {
		s, err := e.Snapshot()
		if err != nil {
			return err
		}
		defer s.Close()
		_, _, err = s.Get([]byte("a"), nil)
		return err
	},
}

// needPD are those that ask PD in any case.
var needPD = map[string]func(e *Engine) error{
	"Stamp":  func(e *Engine) error { _, err := e.Stamp(); return err },
	"NextID": func(e *Engine) error { _, err := e.NextID(); return err },
}

func with(e *Engine, f func(engine.SharedView) error) error {
	return withOptions(e, engine.ViewOptions{}, f)
}

func withOptions(e *Engine, o engine.ViewOptions, f func(engine.SharedView) error) error {
	v, err := e.Begin(o)
	if err != nil {
		return err
	}
	defer v.Close()
	return f(v.(engine.SharedView))
}

// expect has every call answer in time with one of the errors, all at once.
func expect(t *testing.T, e *Engine, calls map[string]func(*Engine) error, want ...error) {
	t.Helper()
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			begin := time.Now()
			err := call(e)
			ok := false
			for _, w := range want {
				ok = ok || errors.Is(err, w)
			}
			if !ok {
				t.Errorf("%s: %v, want one of %v", name, err, want)
			}
			if d := time.Since(begin); d > faultTimeout+patience {
				t.Errorf("%s took %v", name, d)
			}
		})
	}
	wg.Wait()
}

// recovers waits until everything works again.
func recovers(t *testing.T, e *Engine) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for name, call := range all {
		for {
			err := call(e)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not recover: %v", name, err)
			}
		}
	}
	if n := e.viewLimit.Taken(); n != 0 {
		t.Errorf("%d viewLimit are taken by nobody", n)
	}
	if len(e.reading.at) != 0 {
		t.Errorf("readers are left: %v", e.reading.at)
	}
}

// A store that cannot be reached: everything fails in time, and works again when it is
// back. A commit may have been under way.
func TestStoreIsCutOff(t *testing.T) {
	t.Parallel()
	c, e := faulty(t)
	for range 2 {
		c.StoreLink().Cut()
		expect(t, e, all, engine.ErrUnavailable, engine.ErrUnknownOutcome)
		c.StoreLink().Mend()
		recovers(t, e)
	}
}

func TestStoreIsKilled(t *testing.T) {
	t.Parallel()
	c, e := faulty(t)
	for i := range 20 {
		must(t, e, put(fmt.Sprint("k", i), fmt.Sprint(i)))
	}
	c.KillStore()
	expect(t, e, all, engine.ErrUnavailable, engine.ErrUnknownOutcome)
	c.StartStore()
	recovers(t, e)
	for i := range 20 {
		if err := with(e, func(v engine.SharedView) error {
			value, _, err := v.Get(fmt.Append(nil, "k", i), nil)
			if string(value) != fmt.Sprint(i) {
				t.Errorf("k%d = %q", i, value)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// Requests arrive and their answers are lost: nobody knows of a commit, and says so.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	c, e := faulty(t)
	unknown := 0
	for i := range 5 {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v.Get([]byte("a"), nil)
		c.StoreLink().Mute()
		begin := time.Now()
		_, err = v.Commit(put("a", fmt.Sprint("lost", i), "b", "x"))
		v.Close()
		if err == nil || time.Since(begin) > faultTimeout+patience {
			t.Errorf("Commit = %v, after %v", err, time.Since(begin))
		}
		if errors.Is(err, engine.ErrUnknownOutcome) {
			unknown++
		} else if !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("Commit = %v", err)
		}
		c.StoreLink().Mend()
		recovers(t, e)
		if errors.Is(err, engine.ErrUnavailable) {
			if err := with(e, func(v engine.SharedView) error {
				if value, _, _ := v.Get([]byte("a"), nil); string(value) == fmt.Sprint("lost", i) {
					t.Error("a commit that is said to have come to nothing was written")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
	if unknown == 0 {
		t.Error("no outcome was unknown")
	}
}

func TestPDIsCutOff(t *testing.T) {
	t.Parallel()
	c, e := faulty(t)
	if err := all["PointRead"](e); err != nil {
		t.Fatal(err)
	}
	c.PDLink().Cut()
	calls := map[string]func(*Engine) error{}
	for name, call := range all {
		if name != "PointRead" {
			calls[name] = call
		}
	}
	for name, call := range needPD {
		calls[name] = call
	}
	expect(t, e, calls, engine.ErrUnavailable)
	// Time goes on, and a single read needs no timestamp.
	before := e.Now()
	if err := all["PointRead"](e); err != nil {
		t.Errorf("a read of one row without PD: %v", err)
	}
	if now := e.Now(); now.Before(before) || now.Sub(before) > time.Minute {
		t.Errorf("%v, then %v", before, now)
	}
	c.PDLink().Mend()
	recovers(t, e)
}

// A slow store: who finds no place waits, in time, and what is under way does not grow.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	c, e := faulty(t)
	e.SetMaxTransactions(4)
	c.StoreLink().Delay(300 * time.Millisecond)
	var done, refused atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range 64 {
		wg.Go(func() {
			err := all["Get"](e)
			switch {
			case err == nil:
				done.Add(1)
			case engine.Transient(err):
				refused.Add(1)
			default:
				t.Error(err)
			}
			if n := e.viewLimit.Taken(); n > 4 {
				t.Errorf("%d transactions at once", n)
			}
		})
	}
	wg.Wait()
	if d := time.Since(begin); done.Load() == 0 || refused.Load() == 0 || d > faultTimeout+patience {
		t.Errorf("%d done, %d refused, after %v", done.Load(), refused.Load(), d)
	}
	c.StoreLink().Mend()
	e.SetMaxTransactions(100)
	recovers(t, e)
}

// Open says what is wrong, in time.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	_, err := Open(Options{PD: []string{"127.0.0.1:1"}, Prefix: "p", OpenTimeout: time.Second, Timeout: time.Second})
	if !errors.Is(err, engine.ErrUnavailable) || time.Since(begin) > 20*time.Second {
		t.Errorf("no PD: %v, after %v", err, time.Since(begin))
	}
	t.Log(err)
}

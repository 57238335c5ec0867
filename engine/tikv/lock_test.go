package tikv

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/engine"
	"redoubt/internal/testtikv"
)

// die leaves locks of a transaction behind, as a process does that is killed between
// the two phases of a commit: an ordinary one, or one whose commit is done since all of
// its rows are locked (async).
func die(t *testing.T, e *Engine, async bool, ttl time.Duration, rows ...string) {
	t.Helper()
	txn, err := e.store.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(rows); i += 2 {
		if err := txn.Set(e.space.key([]byte(rows[i])), appendRow(nil, []byte(rows[i]), []byte(rows[i+1]), txn.StartTS())); err != nil {
			t.Fatal(err)
		}
	}
	c, err := transaction.TxnProbe{KVTxn: txn}.NewCommitter(1)
	if err != nil {
		t.Fatal(err)
	}
	if c.SetLockTTL(uint64(ttl.Milliseconds())); async {
		c.SetUseAsyncCommit()
		ts, err := e.fresh()
		if err != nil {
			t.Fatal(err)
		}
		c.SetMinCommitTS(ts + 1)
	}
	if err := c.PrewriteAllMutations(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, r engine.Reader, row string) string {
	t.Helper()
	value, found, err := r.Get([]byte(row), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return "none"
	}
	return string(value)
}

// What a dead process has left in the middle of a commit is undone, or finished, by
// whoever comes across it: by reads of all kinds and by writes.
func TestLocksOfTheDead(t *testing.T) {
	t.Parallel()
	testtikv.Shared(t)
	ways := map[string]func(t *testing.T, e *Engine) (a string){
		"Get": func(t *testing.T, e *Engine) (a string) {
			with(e, func(v engine.SharedView) error { a = read(t, v, "a"); return nil })
			return a
		},
		"PointRead": func(t *testing.T, e *Engine) (a string) {
			withOptions(e, engine.ViewOptions{PointRead: true}, func(v engine.SharedView) error { a = read(t, v, "a"); return nil })
			return a
		},
		"GetMany": func(t *testing.T, e *Engine) (a string) {
			with(e, func(v engine.SharedView) error {
				return v.GetMany([][]byte{[]byte("a"), []byte("b"), []byte("c")}, func(i int, value []byte, _ bool) error {
					if i == 0 {
						a = string(value)
					}
					return nil
				})
			})
			return a
		},
		"Iter":    func(t *testing.T, e *Engine) (a string) { return walked(t, e, false) },
		"Reverse": func(t *testing.T, e *Engine) (a string) { return walked(t, e, true) },
		"Edge": func(t *testing.T, e *Engine) (a string) {
			with(e, func(v engine.SharedView) error {
				row, n, _, err := v.Edge([]byte("a"), []byte("b"), false, nil)
				if err != nil {
					t.Error(err)
				}
				a = string(row[n:])
				return nil
			})
			return a
		},
		"Commit": func(t *testing.T, e *Engine) (a string) {
			for {
				err := with(e, func(v engine.SharedView) error {
					_, err := v.Commit(put("c", "3"))
					return err
				})
				if err == nil {
					break
				}
				if !errors.Is(err, engine.ErrConflict) {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
			}
			with(e, func(v engine.SharedView) error { a = read(t, v, "a"); return nil })
			return a
		},
	}
	for name, way := range ways {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/async=%v", name, async), func(t *testing.T) {
				t.Parallel()
				e := mustOpen(t, options(t))
				defer e.Close()
				must(t, e, put("a", "1", "b", "1", "c", "1"))
				die(t, e, async, 500*time.Millisecond, "a", "2", "b", "2", "c", "2")
				want := "1"
				if async {
					want = "2"
				}
				begin := time.Now()
				if got := way(t, e); got != want {
					t.Errorf("a = %s, want %s", got, want)
				}
				if d := time.Since(begin); d > 5*time.Second {
					t.Errorf("it took %v", d)
				}
			})
		}
	}
}

func walked(t *testing.T, e *Engine, reverse bool) (a string) {
	with(e, func(v engine.SharedView) error {
		it := v.Iter([]byte("a"), []byte("d"), reverse)
		n := 0
		for ; it.Next(); n++ {
			if string(it.Key()) == "a" {
				a = string(it.Value())
			}
		}
		if err := it.Close(); err != nil || n != 3 {
			t.Errorf("%d rows, %v", n, err)
		}
		return nil
	})
	return a
}

// A commit that meets the lock of a living transaction does not wait for it.
func TestLocksOfTheLiving(t *testing.T) {
	t.Parallel()
	e := mustOpen(t, options(t))
	defer e.Close()
	must(t, e, put("a", "1"))
	die(t, e, false, time.Minute, "a", "2")
	begin := time.Now()
	err := with(e, func(v engine.SharedView) error {
		if got := read(t, v, "a"); got != "1" {
			t.Errorf("a = %s", got)
		}
		_, err := v.Commit(put("a", "3"))
		return err
	})
	if d := time.Since(begin); !errors.Is(err, engine.ErrConflict) || d > 5*time.Second {
		t.Errorf("Commit = %v, after %v", err, d)
	}
}

// Rows in many regions, which are split while they are written.
func TestRegions(t *testing.T) {
	t.Parallel()
	c := testtikv.Start(t, testtikv.RegionSize(64<<10))
	e := mustOpen(t, Options{PD: []string{c.PD()}, Prefix: testtikv.Prefix(t), Timeout: 30 * time.Second})
	defer e.Close()
	const rows = 1500
	key := func(i int) []byte { return fmt.Appendf(nil, "k%05d", i) }
	value := func(i int) string { return fmt.Sprintf("%0500d", i) }
	for i := 0; i < rows; i += 50 {
		var b engine.Batch
		for j := i; j < i+50; j++ {
			b.Put(key(j), []byte(value(j)))
		}
		must(t, e, &b)
	}
	check := func() {
		t.Helper()
		with(e, func(v engine.SharedView) error {
			for _, reverse := range []bool{false, true} {
				it, n := v.Iter([]byte("k"), []byte("l"), reverse), 0
				for ; it.Next(); n++ {
					i := n
					if reverse {
						i = rows - 1 - n
					}
					if string(it.Key()) != string(key(i)) || string(it.Value()) != value(i) {
						t.Fatalf("row %d is %s", n, it.Key())
					}
				}
				if err := it.Close(); err != nil || n != rows {
					t.Errorf("%d rows, %v", n, err)
				}
			}
			var keys [][]byte
			for i := 0; i < rows; i += 10 {
				keys = append(keys, key(i))
			}
			return v.GetMany(keys, func(i int, got []byte, found bool) error {
				if !found || string(got) != value(i*10) {
					t.Errorf("row %d: %v %q", i*10, found, got)
				}
				return nil
			})
		})
	}
	check()
	// One transaction over all regions, again and again while they split.
	for range 3 {
		for {
			err := with(e, func(v engine.SharedView) error {
				var b engine.Batch
				for i := 0; i < rows; i += 25 {
					b.Put(key(i), []byte(value(i)))
					b.Check(key(i + 1))
				}
				read(t, v, string(key(0)))
				_, err := v.Commit(&b)
				return err
			})
			if err == nil {
				break
			}
			if !errors.Is(err, engine.ErrConflict) {
				t.Fatal(err)
			}
		}
		check()
	}
	var b engine.Batch
	b.DeleteRange([]byte("k"), []byte("l"))
	b.Put([]byte("k"), nil)
	must(t, e, &b)
	if row, n, found, err := edge(e, "k", "l", true); string(row) != "k" || n != 1 || !found || err != nil {
		t.Errorf("the last row is %q %v %v", row, found, err)
	}
	if sent := e.RPCs(); sent["Scan"] < 10 {
		t.Errorf("were there regions? %v", sent)
	}
}

func edge(e *Engine, lo, hi string, reverse bool) (row []byte, n int, found bool, err error) {
	err = with(e, func(v engine.SharedView) error {
		row, n, found, err = v.Edge([]byte(lo), []byte(hi), reverse, nil)
		return err
	})
	return row, n, found, err
}

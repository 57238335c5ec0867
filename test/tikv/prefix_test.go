package tikv_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/copier"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/internal/testtikv"
	"redoubt/keyspace"
)

// Stores side by side in one cluster do not see or touch each other.
func TestPrefixesSideBySide(t *testing.T) {
	t.Parallel()
	pd, base := testtikv.Shared(t), testtikv.Prefix(t)
	prefixes := []string{base + "a:", base + "ab:", base + "b", base + "1:", base + "\xfe"}
	var clients []*respclient.Client
	for i, prefix := range prefixes {
		s := testserver.Start(t, ontikv.At(pd, prefix, 20*time.Second))
		c, err := respclient.Dial(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
		send(t, c, lines(10+i, fmt.Sprintf("SET k#-%d v%d", i, i))...)
		send(t, c, "HSET h"+each(300, "f# v"), "SET dies v EX 1000")
	}
	for _, prefix := range []string{base, base + "a", base + "a:x", base + "ab::", base + "b:"} {
		if _, err := tikv.Open(tikv.Options{PD: []string{pd}, Prefix: prefix, Unused: keyspace.Unused()}); !errors.Is(err, tikv.ErrNested) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	holds := func(i, want int) {
		t.Helper()
		c := clients[i]
		if n := send(t, c, "DBSIZE")[0].Int(); n != int64(want) {
			t.Errorf("store %d: DBSIZE %d, want %d", i, n, want)
		}
		if n := send(t, c, "REDOUBT RECOUNT")[0].Int(); n != int64(want) {
			t.Errorf("store %d: RECOUNT %d, want %d", i, n, want)
		}
		var keys []string
		for cursor := "0"; ; {
			page := send(t, c, "SCAN "+cursor+" COUNT 100")[0]
			for _, k := range page.Elems[1].Elems {
				keys = append(keys, k.Str)
			}
			if cursor = page.Elems[0].Str; cursor == "0" {
				break
			}
		}
		slices.Sort(keys)
		if keys = slices.Compact(keys); len(keys) != want {
			t.Errorf("store %d: SCAN finds %d keys: %v", i, len(keys), keys)
		}
		for _, k := range keys {
			if strings.HasPrefix(k, "k") && !strings.HasSuffix(k, fmt.Sprintf("-%d", i)) {
				t.Errorf("store %d has %s", i, k)
			}
		}
	}
	for i := range prefixes {
		holds(i, 12+i)
	}
	for i, prefix := range prefixes {
		eng, err := tikv.Open(tikv.Options{PD: []string{pd}, Prefix: prefix, Reader: true, Timeout: 20 * time.Second, Unused: keyspace.Unused()})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := eng.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		r, err := copier.Run(t.Context(), copier.Source{Rows: snap, Name: prefix}, mem.New(), copier.Options{})
		if err = errors.Join(err, snap.Close(), eng.Close()); err != nil || r.Keys != int64(12+i) {
			t.Errorf("copy of store %d: %d keys, %v", i, r.Keys, err)
		}
	}
	send(t, clients[0], "FLUSHALL")
	holds(0, 0)
	send(t, clients[3], "FLUSHDB")
	holds(3, 0)
	for _, i := range []int{1, 2, 4} {
		holds(i, 12+i)
	}
}

// Of stores with nested prefixes that are opened at the same time one is, and the others
// say why not.
func TestNestedPrefixesAtOnce(t *testing.T) {
	t.Parallel()
	pd, base := testtikv.Shared(t), testtikv.Prefix(t)
	var opened atomic.Int64
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			eng, err := tikv.Open(tikv.Options{PD: []string{pd}, Prefix: base + "abcdef"[:n], Unused: keyspace.Unused()})
			switch {
			case err == nil:
				opened.Add(1)
				if err := eng.Close(); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, tikv.ErrNested):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n != 1 {
		t.Errorf("%d were opened", n)
	}
}

// Nested stores that were made by versions which did not register them are found, and
// one can be moved away if the other has no rows among its own.
func TestNestedStoresOfOldVersions(t *testing.T) {
	t.Parallel()
	pd := testtikv.Shared(t)
	for more, apart := range map[string]bool{"a": true, ":": false, "1:": false, "-2024": true, "Z:": true} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			outer := testtikv.Prefix(t)
			options := func(prefix string, reader bool) tikv.Options {
				return tikv.Options{PD: []string{pd}, Prefix: prefix, Timeout: 20 * time.Second, Unused: keyspace.Unused(), Reader: reader}
			}
			ctx, raw := within(t), dial(t, pd)
			for _, prefix := range []string{outer + more, outer} {
				o := options(prefix, false)
				o.Unused = nil // nobody looks
				s := testserver.Start(t, testserver.Options{Engine: "tikv", Open: func(testing.TB, *slog.Logger) (engine.Engine, error) { return tikv.Open(o) }})
				c, err := respclient.Dial(s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				send(t, c, lines(300, "SET k# v")...)
				c.Close()
				s.Kill() // nobody looks at its rows in the end
				txn, err := begin(raw)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(txn.Delete([]byte("\x00redoubt\x00p"+prefix)), txn.Commit(ctx)); err != nil {
					t.Fatal(err)
				}
			}
			refused := func(o tikv.Options, other string) {
				t.Helper()
				begun := time.Now()
				eng, err := tikv.Open(o)
				if err == nil {
					eng.Close()
				}
				if !errors.Is(err, tikv.ErrNested) || !strings.Contains(err.Error(), `"`+other) {
					t.Errorf("open %q: %v", o.Prefix, err)
				}
				t.Logf("found in %s: %v", time.Since(begun), err)
			}
			refused(options(outer, false), outer+more)
			refused(options(outer+more, false), outer)
			if !apart {
				refused(options(outer+more, true), outer)
				return
			}
			eng, err := tikv.Open(options(outer+more, true))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(eng.Drop(t.Context(), func(int64) {}), eng.Close()); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			s := testserver.Start(t, ontikv.At(pd, outer, 20*time.Second))
			t.Logf("opened in %s", time.Since(begun))
			c, err := respclient.Dial(s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if n := send(t, c, "REDOUBT RECOUNT")[0].Int(); n != 300 {
				t.Errorf("%d keys are left", n)
			}
		})
	}
}

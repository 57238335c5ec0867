package serial

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/partmem"
	"redoubt/internal/respclient"
	"redoubt/internal/testcql"
	"redoubt/internal/testserver"
	"redoubt/internal/testtikv"
)

// The same with several front ends of one store. What one of them does the others
// know only by the store: each key's meta row is what keeps their executions apart.

const fronts = 3

// fill makes the collections so large that each element is a row of its own.
func fill(t *testing.T, c *respclient.Client) {
	t.Helper()
	pad := strings.Repeat("x", 64)
	hash, zset := []string{"HSET", "large:h"}, []string{"ZADD", "large:z"}
	for i := range 600 {
		hash = append(hash, "pad"+strconv.Itoa(i), pad)
		zset = append(zset, strconv.Itoa(-i-1), "pad"+strconv.Itoa(i))
	}
	for _, words := range [][]string{hash, zset} {
		if v, err := c.Do(words...); err != nil || v.IsError() {
			t.Fatal(v, err)
		}
	}
}

// TestFronts checks several front ends in this process, where the race detector sees
// them.
func TestFronts(t *testing.T) {
	for i, c := range []struct {
		name   string
		at     layout
		faulty bool
		args   []string
	}{
		{name: "strings", at: plain}, {name: "mixed", at: mixed}, {name: "large", at: large, args: []string{"--io-threads", "3"}},
		{name: "strings with faults", at: plain, faulty: true}, {name: "mixed with faults", at: mixed, faulty: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", *seed)
			f := testserver.MemFronts(t, fronts, testserver.Options{Args: c.args})
			fill(t, f.Dial(0))
			rng := rand.New(rand.NewPCG(*seed, uint64(200+i)))
			total, unknown, none := 0, 0, 0
			for r := range *rounds {
				before := current(t, f.Addr(r), c.at)
				for i := range fronts {
					if c.faulty {
						f.Engine(i).Intercept(testserver.Faults(rng.Uint64()))
					}
				}
				ops, start := round(t, c.at, rng, func() {}, f.Addr(0), f.Addr(1), f.Addr(2))
				for i := range fronts {
					f.Engine(i).Intercept(nil)
				}
				// Whatever happens to a commit of this store has happened when it answers.
				now := int64(time.Since(start))
				check(t, before, current(t, f.Addr(r+1), c.at), ops, now)
				total += len(ops)
				for _, op := range ops {
					switch o := op.Output.(output); {
					case o.unknown:
						unknown++
					case o.none:
						none++
					}
				}
			}
			t.Logf("%d operations, %d of them with an unknown outcome, %d given up", total, unknown, none)
			if c.faulty && *rounds > 2 && unknown == 0 {
				t.Error("no outcome was unknown: the test tested less than it should")
			}
		})
	}
}

// TestFrontsOnPartitions checks front ends on a partitioned store in memory, which loses the
// answers of changes that are made, of others that are not, and of some that are made late.
func TestFrontsOnPartitions(t *testing.T) {
	t.Parallel()
	for i, at := range []layout{plain, mixed, large} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", *seed)
			table := partmem.New()
			var stores [fronts]*partmem.Store
			var addrs [fronts]string
			for i := range fronts {
				stores[i] = table.Open()
				o := testserver.Options{Beat: 100 * time.Millisecond, Open: func(_ testing.TB, log *slog.Logger) (engine.Engine, error) {
					return testserver.Partitioned(stores[i], log)
				}}
				addrs[i] = testserver.Start(t, o).Addr
			}
			c, err := respclient.Dial(addrs[0])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fill(t, c)
			rng := rand.New(rand.NewPCG(*seed, uint64(500+i)))
			for r := range *rounds {
				before := current(t, addrs[r%fronts], at)
				for i := range fronts {
					stores[i].SetFaults(partmem.Lossy(rng.Uint64()))
				}
				ops, start := round(t, at, rng, func() {}, addrs[:]...)
				for i := range fronts {
					stores[i].SetFaults(nil)
				}
				check(t, before, current(t, addrs[(r+1)%fronts], at), ops, int64(time.Since(start)))
			}
		})
	}
}

// TestFrontsOnTiKV checks front ends that are processes of their own, on a cluster
// with small regions, while front ends are killed, and the store.
func TestFrontsOnTiKV(t *testing.T) {
	var cluster *testtikv.Cluster
	pd := os.Getenv("REDOUBT_TIKV_PD")
	if pd == "" {
		cluster = testtikv.Start(t, testtikv.RegionSize(128<<10))
		pd = cluster.PD()
	}
	var restart func(down func())
	if cluster != nil {
		restart = func(down func()) {
			cluster.KillStore()
			down()
			cluster.StartStore()
		}
	}
	killFronts(t, testserver.TiKVFronts(t, fronts, program, pd, testtikv.Prefix(t)), 3**rounds, restart)
}

// TestFrontsOnCQL checks front ends that are processes of their own, on a Cassandra node,
// while front ends are killed.
func TestFrontsOnCQL(t *testing.T) {
	killFronts(t, testserver.CQLFronts(t, fronts, program, testcql.Host(t), testcql.Keyspace, testcql.Prefix(t)), 2**rounds, nil)
}

// killFronts checks front ends round by round, and kills one of them in each third round; in
// others restart, if it is not nil, kills the store and starts it again.
func killFronts(t *testing.T, f *testserver.Fronts, rounds int, restart func(down func())) {
	t.Logf("seed %d", *seed)
	fill(t, f.Dial(0))
	rng := rand.New(rand.NewPCG(*seed, 300))
	total, finished, unknown, none, kills, storeKills := 0, 0, 0, 0, 0, 0
	for r := range rounds {
		at := []layout{mixed, plain, large}[r%3]
		before := current(t, f.Addr(r), at)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { grow(f.Addr(rng.IntN(fronts)), r, stop) })
		victim := -1
		ops, start := round(t, at, rng, func() {
			<-time.After(time.Duration(20+rng.IntN(400)) * time.Millisecond)
			switch {
			case r%3 == 1:
				victim = rng.IntN(fronts)
				f.Kill(victim)
				kills++
			case r%3 == 2 && restart != nil:
				restart(func() { <-time.After(time.Duration(rng.IntN(500)) * time.Millisecond) })
				storeKills++
			}
		}, f.Addr(0), f.Addr(1), f.Addr(2))
		close(stop)
		wg.Wait()
		if victim >= 0 {
			f.Restart(victim)
		}
		verify(t, before, current(t, f.Addr(r+1), at), ops, start)
		total += len(ops)
		for _, op := range ops {
			switch o := op.Output.(output); {
			case o.unknown:
				unknown++
			case o.none:
				none++
			case !o.aborted:
				finished++
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d operations, %d finished, %d with an unknown outcome, %d given up; %d front ends killed, the store %d times",
		total, finished, unknown, none, kills, storeKills)
	if finished == 0 {
		t.Error("nothing was finished: the test tested nothing")
	}
}

// grow writes beside the keys of the test, and into its collections, so that regions
// are split.
func grow(addr string, round int, stop <-chan struct{}) {
	c, err := respclient.Dial(addr)
	if err != nil {
		return
	}
	defer c.Close()
	pad := strings.Repeat("y", 2000)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		for _, words := range [][]string{
			{"SET", fmt.Sprintf("k%d:%d", i%keys, round*1000+i), pad},
			{"HSET", "large:h", fmt.Sprintf("pad%d:%d", round, i), pad},
		} {
			if _, err := c.Do(words...); err != nil {
				return
			}
		}
	}
}

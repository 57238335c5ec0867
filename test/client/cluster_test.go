package client

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/sharedmem"
	"redoubt/internal/testserver"
)

// frontEnd is one of several servers that share a store.
type frontEnd struct{ *testserver.Server }

func startFrontEnd(t *testing.T, store *sharedmem.Store) *frontEnd {
	t.Helper()
	return &frontEnd{testserver.Start(t, testserver.Options{Store: store, Args: []string{"--cluster-enabled", "yes"}})}
}

// knows says how many front ends one sees.
func (f *frontEnd) knows(t *testing.T) int {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.Addr})
	defer c.Close()
	//lint:ignore SA1019 most clients ask for CLUSTER SLOTS
	slots, err := c.ClusterSlots(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(slots)
}

// calls is how many commands of a name a server has run.
func (f *frontEnd) calls(t *testing.T, name string) (n int64) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: f.Addr})
	defer c.Close()
	info, err := c.InfoMap(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscanf(info["Commandstats"]["cmdstat_"+name], "calls=%d,", &n)
	return n
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// A client that knows clusters finds the front ends of a store, divides its commands
// among them, and goes on when they come and go.
func TestClusterClient(t *testing.T) {
	t.Parallel()
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprint("resp", proto), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store := sharedmem.New()
			a, b := startFrontEnd(t, store), startFrontEnd(t, store)
			await(t, "both see both", func() bool { return a.knows(t) == 2 && b.knows(t) == 2 })
			c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.Addr}, Protocol: proto})
			defer c.Close()
			const keys = 200
			key := func(i int) string { return fmt.Sprint("key:", i) }
			for i := range keys {
				if err := c.Set(ctx, key(i), i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if x, y := a.calls(t, "set"), b.calls(t, "set"); x < keys/4 || y < keys/4 || x+y != keys {
				t.Errorf("of %d commands one front end had %d, the other %d", keys, x, y)
			}
			// Any front end has all keys, and no key is in the wrong place.
			direct := redis.NewClient(&redis.Options{Addr: b.Addr})
			defer direct.Close()
			for i := range keys {
				equal(t, key(i), strconv.Itoa(i))(c.Get(ctx, key(i)).Result())
				equal(t, key(i), strconv.Itoa(i))(direct.Get(ctx, key(i)).Result())
			}
			equal(t, "MGET over slots", []any{"1", "2", "3"})(direct.MGet(ctx, key(1), key(2), key(3)).Result())
			if err := c.Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Incr(ctx, "{n}1")
					p.Incr(ctx, "{n}2")
					return nil
				})
				return err
			}, "{n}1"); err != nil {
				t.Error(err)
			}
			masters := 0
			var mu sync.Mutex
			if err := c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error {
				mu.Lock()
				defer mu.Unlock()
				masters++
				return m.Ping(ctx).Err()
			}); err != nil || masters != 2 {
				t.Errorf("%d masters, %v", masters, err)
			}

			// One leaves; the client asks the other from then on.
			if err := a.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			await(t, "b is alone", func() bool { return b.knows(t) == 1 })
			c.ReloadState(ctx) // by itself it does so every ten seconds
			await(t, "the client knows", func() bool {
				//lint:ignore SA1019 most clients ask for CLUSTER SLOTS
				slots, err := c.ClusterSlots(ctx).Result()
				return err == nil && len(slots) == 1 && c.Get(ctx, key(0)).Err() == nil && c.Get(ctx, key(1)).Err() == nil
			})
			for i := range keys {
				equal(t, key(i), strconv.Itoa(i))(c.Get(ctx, key(i)).Result())
			}
			// And one comes.
			d := startFrontEnd(t, store)
			await(t, "b sees d", func() bool { return b.knows(t) == 2 })
			await(t, "the client uses it", func() bool {
				c.ReloadState(ctx)
				if err := c.Set(ctx, "another", "v", 0).Err(); err != nil {
					t.Fatal(err)
				}
				for i := range 20 {
					equal(t, key(i), strconv.Itoa(i))(c.Get(ctx, key(i)).Result())
				}
				return d.calls(t, "get") > 0
			})
		})
	}
}

// redis-cli finds the cluster in order, and the same from each of its nodes.
func TestClusterOfRedisCLI(t *testing.T) {
	t.Parallel()
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("needs redis-cli")
	}
	store := sharedmem.New()
	list := []*frontEnd{startFrontEnd(t, store), startFrontEnd(t, store), startFrontEnd(t, store)}
	for _, f := range list {
		await(t, "all see all", func() bool { return f.knows(t) == len(list) })
	}
	for _, f := range list {
		out, err := exec.Command(cli, "--cluster", "check", f.Addr).CombinedOutput()
		text := string(out)
		if err != nil || strings.Count(text, "master\n") != len(list) ||
			!strings.Contains(text, "All nodes agree about slots configuration") || !strings.Contains(text, "All 16384 slots covered") {
			t.Errorf("%v: %s", err, text)
		}
	}
}

// What a front end announces can be changed while it runs.
func TestClusterAnnounces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := sharedmem.New()
	a, b := startFrontEnd(t, store), startFrontEnd(t, store)
	client := redis.NewClient(&redis.Options{Addr: a.Addr})
	defer client.Close()
	for _, set := range [][2]string{
		{"cluster-announce-ip", "10.1.2.3"}, {"cluster-announce-port", "7001"}, {"cluster-announce-hostname", "a.example"}, {"cluster-announce-bus-port", "17001"},
	} {
		if err := client.ConfigSet(ctx, set[0], set[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []*frontEnd{a, b} {
		await(t, "the other address", func() bool {
			c := redis.NewClient(&redis.Options{Addr: f.Addr})
			defer c.Close()
			nodes, err := c.ClusterNodes(ctx).Result()
			return err == nil && strings.Contains(nodes, " 10.1.2.3:7001@17001,a.example ")
		})
	}
}

// A server with a store of its own is a cluster of one, if it is told so.
func TestClusterOfOne(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--cluster-enabled", "yes"}})
	ctx := context.Background()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}})
	defer c.Close()
	masters := 0
	err := c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error {
		masters++
		return m.Ping(ctx).Err()
	})
	if err != nil || masters != 1 {
		t.Errorf("%d masters, %v", masters, err)
	}
	for i := range 20 {
		if err := c.Set(ctx, fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.DBSize(ctx).Result(); n != 20 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

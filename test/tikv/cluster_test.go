// Package tikv_test tests what tests on TiKV stand on: the cluster itself; and what
// front ends do when parts of it are slow, unreachable or killed.
package tikv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/internal/testtikv"
)

func TestMain(m *testing.M) { testtikv.Main(m) }

func dial(t *testing.T, pd string) *txnkv.Client {
	t.Helper()
	c, err := txnkv.NewClient([]string{pd})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// within fails the test if it takes so long that something hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func begin(c *txnkv.Client) (*transaction.KVTxn, error) {
	txn, err := c.Begin()
	if err == nil {
		txn.SetEnable1PC(true)
		txn.SetEnableAsyncCommit(true)
	}
	return txn, err
}

func set(ctx context.Context, c *txnkv.Client, value string, keys ...string) error {
	txn, err := begin(c)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := txn.Set([]byte(k), []byte(value)); err != nil {
			return err
		}
	}
	if err := txn.Commit(ctx); err != nil {
		return fmt.Errorf("transaction %d: %w", txn.StartTS(), err)
	}
	return nil
}

func get(ctx context.Context, c *txnkv.Client, key string) (string, error) {
	txn, err := begin(c)
	if err != nil {
		return "", err
	}
	v, err := txn.Get(ctx, []byte(key))
	if tikverr.IsErrNotFound(err) {
		return "", nil
	}
	return string(v.Value), err
}

func mustGet(t *testing.T, ctx context.Context, c *txnkv.Client, key, want string) {
	t.Helper()
	if v, err := get(ctx, c, key); err != nil || v != want {
		t.Errorf("%s is %q, %v; want %q", key, v, err, want)
	}
}

// Many add one to the same row in one phase: a store whose reads and commits
// are not in order loses some of that.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	pd, key, ctx := testtikv.Shared(t), []byte(testtikv.Prefix(t)+"n"), within(t)
	const workers, each = 8, 50
	var all sync.WaitGroup
	for range workers {
		c := dial(t, pd)
		all.Go(func() {
			for n := 0; n < each; {
				switch err := add(ctx, c, key); {
				case err == nil:
					n++
				case !tikverr.IsErrWriteConflict(err):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	v, err := get(ctx, dial(t, pd), string(key))
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
	if n := binary.BigEndian.Uint64([]byte(v)); n != workers*each {
		t.Errorf("%d updates gave %d", workers*each, n)
	}
}

func add(ctx context.Context, c *txnkv.Client, key []byte) error {
	txn, err := begin(c)
	if err != nil {
		return err
	}
	var n uint64
	switch v, err := txn.Get(ctx, key); {
	case err == nil:
		n = binary.BigEndian.Uint64(v.Value)
	case !tikverr.IsErrNotFound(err):
		return err
	}
	if err := txn.Set(key, binary.BigEndian.AppendUint64(nil, n+1)); err != nil {
		return err
	}
	return txn.Commit(ctx)
}

// What was acknowledged is there after kill -9, also if it lies in two regions
// and was no more than locked.
func TestKilledStoreForgetsNothing(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t)
	ctx, c := within(t), dial(t, cluster.PD())
	const workers = 4
	last := make([]int, workers)
	stop := make(chan struct{})
	written := make(chan struct{}, 1<<16)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// Regions of a new store end at n and t.
				if err := set(ctx, c, fmt.Sprint(i), fmt.Sprintf("p%d", w), fmt.Sprintf("t%d", w)); err != nil {
					t.Logf("write %d of %d: %v", i, w, err)
					continue
				}
				last[w] = i
				select {
				case written <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 3 {
		for range 50 {
			<-written
		}
		cluster.KillStore()
		cluster.StartStore()
	}
	close(stop)
	all.Wait()
	for w := range workers {
		p, err1 := get(ctx, c, fmt.Sprintf("p%d", w))
		q, err2 := get(ctx, c, fmt.Sprintf("t%d", w))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		var n int
		fmt.Sscan(p, &n)
		if p != q || n < last[w] {
			t.Errorf("the rows of one transaction are %s and %s; %d was acknowledged", p, q, last[w])
		}
	}
}

func TestPDComesBack(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t)
	ctx, c := within(t), dial(t, cluster.PD())
	if err := set(ctx, c, "1", "r", "t"); err != nil {
		t.Fatal(err)
	}
	cluster.KillPD()
	cluster.StartPD()
	mustGet(t, ctx, c, "r", "1")
	if err := set(ctx, c, "2", "r", "t"); err != nil {
		t.Fatal(err)
	}
	// A client that knows no region asks PD for all.
	fresh := dial(t, cluster.PD())
	mustGet(t, ctx, fresh, "r", "2")
	mustGet(t, ctx, fresh, "t", "2")
}

func TestPauses(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t)
	ctx, c := within(t), dial(t, cluster.PD())
	for _, p := range []struct {
		name          string
		pause, resume func()
	}{
		{"store", cluster.PauseStore, cluster.ResumeStore},
		{"PD", cluster.PausePD, cluster.ResumePD},
	} {
		p.pause()
		done := make(chan error, 1)
		go func() { done <- set(ctx, c, p.name, "r", "t") }()
		select {
		case err := <-done:
			t.Errorf("a write while %s was paused: %v", p.name, err)
		case <-time.After(100 * time.Millisecond):
		}
		p.resume()
		if err := <-done; err != nil {
			t.Errorf("after %s was paused: %v", p.name, err)
		}
		mustGet(t, ctx, c, "t", p.name)
	}
}

func TestRegionsSplit(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t, testtikv.RegionSize(128<<10))
	ctx, c := within(t), dial(t, cluster.PD())
	key := func(i int) string { return fmt.Sprintf("r%04d", i) }
	const rows = 400
	value := string(make([]byte, 4<<10))
	for i := range rows {
		if err := set(ctx, c, value+key(i), key(i)); err != nil {
			t.Fatal(err)
		}
	}
	for regions := 0; regions < 4; time.Sleep(50 * time.Millisecond) {
		//lint:ignore SA1019 the test cluster's PD does not have BatchScanRegions
		list, err := c.GetPDClient().ScanRegions(ctx, nil, nil, 100)
		if err != nil {
			t.Fatal(err)
		}
		regions = len(list) - 4 // five at first, the rows in one of them
	}
	for i := range rows {
		mustGet(t, ctx, c, key(i), value+key(i))
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t, testtikv.Linked())
	ctx, c := within(t), dial(t, cluster.PD())
	if err := set(ctx, c, "1", "r"); err != nil {
		t.Fatal(err)
	}

	const delay = 50 * time.Millisecond
	cluster.StoreLink().Delay(delay)
	begin := time.Now()
	mustGet(t, ctx, c, "r", "1")
	if d := time.Since(begin); d < 2*delay {
		t.Errorf("a read took %v on a link with a delay of %v", d, delay)
	}
	cluster.StoreLink().Mend()

	cluster.StoreLink().Cut()
	short, cancel := context.WithTimeout(ctx, time.Second)
	if v, err := get(short, c, "r"); err == nil {
		t.Errorf("read %q over a link that is cut", v)
	}
	cancel()
	cluster.StoreLink().Mend()
	mustGet(t, ctx, c, "r", "1")

	cluster.StoreLink().Mute()
	done := make(chan error, 1)
	go func() { done <- set(ctx, c, "2", "r") }()
	// The answer of the first try is lost, the write is not.
	other := dial(t, cluster.PD())
	select {
	case err := <-done:
		t.Errorf("a write without an answer ended: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	cluster.StoreLink().Mend()
	if err := <-done; err != nil && !errors.Is(err, tikverr.ErrResultUndetermined) {
		t.Error(err)
	}
	mustGet(t, ctx, other, "r", "2")
}

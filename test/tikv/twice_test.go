package tikv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/internal/testtikv"
)

// twice sends requests that change something a second time, as is done when the first
// answer was lost, and lets others come between.
type twice struct {
	tikv.Client
	between func()
}

func (c *twice) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	switch req.Type {
	case tikvrpc.CmdPrewrite, tikvrpc.CmdCommit, tikvrpc.CmdBatchRollback, tikvrpc.CmdResolveLock:
		if err == nil {
			c.between()
			resp, err = c.Client.SendRequest(ctx, addr, req, timeout)
		}
	}
	return resp, err
}

// A store answers a request that comes again as it did the first time, whatever has
// become of the rows meanwhile: TiKV does, and unistore only with some help.
func TestRequestsComeTwice(t *testing.T) {
	t.Parallel()
	pd, prefix, ctx := testtikv.Shared(t), testtikv.Prefix(t), within(t)
	other := dial(t, pd)
	for _, c := range []struct {
		name         string
		onePC, async bool
	}{{"two phases", false, false}, {"asynchronous", false, true}, {"one phase", true, true}} {
		for _, locked := range []bool{false, true} { // the primary is no more than locked
			for _, news := range []string{"", "written", "locked"} {
				t.Run(fmt.Sprintf("%s, lock %v, then %s", c.name, locked, news), func(t *testing.T) {
					client := dial(t, pd)
					net := client.GetTiKVClient()
					for i := range 3 {
						key := func(name string) string { return fmt.Sprintf("%s%s-%d%s", prefix, t.Name(), i, name) }
						txn, err := client.Begin()
						if err != nil {
							t.Fatal(err)
						}
						txn.SetEnable1PC(c.onePC)
						txn.SetEnableAsyncCommit(c.async)
						if !locked {
							must(t, txn.Set([]byte(key("a")), fmt.Append(nil, i)))
						} else {
							must(t, txn.LockKeys(ctx, kv.NewLockCtx(0, kv.LockNoWait, time.Now()), []byte(key("a"))))
						}
						must(t, txn.Set([]byte(key("b")), fmt.Append(nil, i)))
						must(t, txn.LockKeys(ctx, kv.NewLockCtx(0, kv.LockNoWait, time.Now()), []byte(key("c"))))
						client.SetTiKVClient(&twice{net, func() { interfere(ctx, other, news, key("a"), key("c")) }})
						if err := txn.Commit(ctx); err != nil {
							t.Fatalf("commit %d: %v", i, err)
						}
						mustGet(t, ctx, client, key("b"), fmt.Sprint(i))
					}
				})
			}
		}
	}
}

// interfere writes rows, or has them locked while a request comes. It meets the locks
// of an unfinished commit, and then gives up.
func interfere(ctx context.Context, c *txnkv.Client, how string, keys ...string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	switch how {
	case "written":
		set(ctx, c, "other", keys...)
	case "locked":
		txn, err := c.Begin()
		if err != nil {
			return
		}
		for _, k := range keys {
			if err := txn.Set([]byte(k), []byte("other")); err != nil {
				return
			}
		}
		if committer, err := (transaction.TxnProbe{KVTxn: txn}).NewCommitter(1); err == nil {
			committer.PrewriteAllMutations(ctx)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package tikv_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/internal/testtikv"
)

// A store that was killed knows of each row when it was written: by that it finds
// conflicts. Many commits at once make what it writes as one.
func TestKilledStoreKnowsWhen(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t)
	ctx, c, prefix := within(t), dial(t, cluster.PD()), testtikv.Prefix(t)
	type moments struct{ start, commit uint64 }
	var mu sync.Mutex
	written := map[string]moments{}
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			for i := range 8 {
				key := fmt.Sprintf("%s%d-%d", prefix, w, i)
				txn, err := begin(c)
				if err != nil {
					t.Error(err)
					return
				}
				if err = txn.Set([]byte(key), []byte("x")); err == nil {
					err = txn.Commit(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				written[key] = moments{txn.StartTS(), transaction.TxnProbe{KVTxn: txn}.GetCommitTS()}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	cluster.KillStore()
	cluster.StartStore()
	bo := tikv.NewBackofferWithVars(ctx, 30_000, nil)
	wrong := 0
	for key, want := range written {
		var got *kvrpcpb.MvccGetByKeyResponse
		for got == nil || got.RegionError != nil { // the regions may have changed
			region, err := c.GetRegionCache().LocateKey(bo, []byte(key))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.SendReq(bo, tikvrpc.NewRequest(tikvrpc.CmdMvccGetByKey, &kvrpcpb.MvccGetByKeyRequest{Key: []byte(key)}), region.Region, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			got = resp.Resp.(*kvrpcpb.MvccGetByKeyResponse)
		}
		if w := got.GetInfo().GetWrites(); len(w) != 1 || w[0].StartTs != want.start || w[0].CommitTs != want.commit {
			wrong++
		}
	}
	if wrong > 0 || len(written) == 0 {
		t.Errorf("of %d rows %d have not their timestamps", len(written), wrong)
	}
}

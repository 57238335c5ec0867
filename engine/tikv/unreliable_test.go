package tikv

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// unreliable is a network between an engine and its cluster: requests of commits, and
// of those who look after other's commits, are lost, delayed or executed without an
// answer, at once or only when somebody has asked again.
type unreliable struct {
	tikv.Client
	mu                              sync.Mutex
	rng                             *rand.Rand
	calm                            atomic.Bool
	pending                         sync.WaitGroup // executed later
	lost, dropped, late, slow, sent atomic.Int64
}

func (u *unreliable) roll(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rng.IntN(n)
}

func (u *unreliable) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	switch req.Type {
	case tikvrpc.CmdPrewrite, tikvrpc.CmdCommit, tikvrpc.CmdCheckTxnStatus, tikvrpc.CmdCheckSecondaryLocks, tikvrpc.CmdResolveLock, tikvrpc.CmdBatchRollback:
	default:
		return u.Client.SendRequest(ctx, addr, req, timeout)
	}
	if u.calm.Load() || ctx.Value(backgroundKey{}) != nil {
		return u.Client.SendRequest(ctx, addr, req, timeout)
	}
	u.sent.Add(1)
	switch n := u.roll(100); {
	case n < 5:
		u.lost.Add(1)
		u.Client.SendRequest(ctx, addr, req, timeout)
		return nil, errLostAnswer
	case n < 7:
		u.dropped.Add(1)
		return nil, errLostAnswer
	case n < 9:
		again := copied(req)
		after := time.Duration(u.roll(400)) * time.Millisecond
		u.late.Add(1)
		u.pending.Go(func() {
			time.Sleep(after)
			u.Client.SendRequest(context.WithoutCancel(ctx), addr, again, timeout)
		})
		return nil, errLostAnswer
	case n < 20:
		u.slow.Add(1)
		resp, err := u.Client.SendRequest(ctx, addr, req, timeout)
		time.Sleep(time.Duration(u.roll(20)) * time.Millisecond)
		return resp, err
	}
	return u.Client.SendRequest(ctx, addr, req, timeout)
}

// copied is a request that the client does not change any more.
func copied(req *tikvrpc.Request) *tikvrpc.Request {
	r := *req
	switch p := req.Req.(type) {
	case *kvrpcpb.PrewriteRequest:
		q := *p
		r.Req = &q
	case *kvrpcpb.CommitRequest:
		q := *p
		r.Req = &q
	case *kvrpcpb.CheckTxnStatusRequest:
		q := *p
		r.Req = &q
	case *kvrpcpb.CheckSecondaryLocksRequest:
		q := *p
		r.Req = &q
	case *kvrpcpb.ResolveLockRequest:
		q := *p
		r.Req = &q
	case *kvrpcpb.BatchRollbackRequest:
		q := *p
		r.Req = &q
	}
	return &r
}

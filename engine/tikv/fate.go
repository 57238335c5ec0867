package tikv

import (
	"context"
	"sync"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// fate is what the requests of one commit tell about it. The client notes lost answers
// itself, but forgets them where it sends a request again: to a region that was split
// meanwhile, after another part of the commit was refused, or when the answer to the
// second attempt is an error, which may be the work of the first. And it takes the
// answer that a command is stale for one that says no, as its authors know.
type fate struct {
	mu     sync.Mutex
	lost   bool // a request that may have committed it has no answer
	failed bool // it came to nothing, before any answer was lost
}

type fateKey struct{}

func withFate(ctx context.Context, f *fate) context.Context {
	return context.WithValue(ctx, fateKey{}, f)
}

// note is told how a request of the context's commit ended.
func note(ctx context.Context, req *tikvrpc.Request, resp *tikvrpc.Response, err error) {
	f, ok := ctx.Value(fateKey{}).(*fate)
	if !ok || !decides(req) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed: // the rest is called off
	case err != nil || maybe(resp):
		f.lost = true
	case !f.lost && refuses(resp):
		f.failed = true
	}
}

// unknown says that the commit may have happened although the client has an error.
func (f *fate) unknown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// decides says that a request may commit, alone or together with others. The first
// phase of an ordinary commit does not.
func decides(req *tikvrpc.Request) bool {
	switch req.Type {
	case tikvrpc.CmdPrewrite:
		p := req.Prewrite()
		return p.GetTryOnePc() || p.GetUseAsyncCommit()
	case tikvrpc.CmdCommit:
		return true
	}
	return false
}

// refuses says that a region has not taken its part of the first phase, and so the
// commit cannot happen. The client does not ask again: see Engine.commit.
func refuses(resp *tikvrpc.Response) bool {
	p, ok := resp.Resp.(*kvrpcpb.PrewriteResponse)
	return ok && p.GetRegionError() == nil && len(p.GetErrors()) > 0
}

// maybe says that an answer leaves open whether the request was executed.
func maybe(resp *tikvrpc.Response) bool {
	if resp == nil || resp.Resp == nil {
		return true
	}
	wrong, err := resp.GetRegionError()
	return err != nil || wrong != nil && !rejected(wrong)
}

// rejected says that a region did not execute a request. What is not listed here may
// have been executed, or may still be: commands that were proposed are stale when the
// leader has changed, and have no region when the replica was removed.
func rejected(e *errorpb.Error) bool {
	return e.NotLeader != nil || e.KeyNotInRegion != nil || e.EpochNotMatch != nil || e.ServerIsBusy != nil ||
		e.StoreNotMatch != nil || e.RaftEntryTooLarge != nil || e.MaxTimestampNotSynced != nil || e.ReadIndexNotReady != nil ||
		e.ProposalInMergingMode != nil || e.DataIsNotReady != nil || e.RegionNotInitialized != nil || e.DiskFull != nil ||
		e.RecoveryInProgress != nil || e.FlashbackInProgress != nil || e.FlashbackNotPrepared != nil || e.IsWitness != nil ||
		e.MismatchPeerId != nil || e.BucketVersionNotMatch != nil
}

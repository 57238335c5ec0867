package tikv

import (
	"context"
	"sync"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// commitOutcome records whether the requests of one commit leave its outcome open. The client
// notes lost answers itself, but forgets them when it retries a request: to a region that
// was split meanwhile, after another part of the commit was refused, or when the answer
// to the second attempt is an error, which the first attempt may have caused. The client
// also takes a StaleCommand answer for a refusal, a known issue.
type commitOutcome struct {
	mu     sync.Mutex
	lost   bool // a request that may have committed has no clear answer
	failed bool // the commit was refused before any answer was lost
}

type outcomeKey struct{}

func withOutcome(ctx context.Context, f *commitOutcome) context.Context {
	return context.WithValue(ctx, outcomeKey{}, f)
}

// note records in the outcome of the context's commit how a request ended.
func note(ctx context.Context, req *tikvrpc.Request, resp *tikvrpc.Response, err error) {
	f, ok := ctx.Value(outcomeKey{}).(*commitOutcome)
	if !ok || !decides(req) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed: // later answers cannot matter
	case err != nil || maybe(resp):
		f.lost = true
	case !f.lost && refuses(resp):
		f.failed = true
	}
}

// unknown reports whether the commit may have happened although the client has an error.
func (f *commitOutcome) unknown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// decides reports whether a request may commit, alone or together with others. The first
// phase of an ordinary two-phase commit does not.
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

// refuses reports whether a region has refused its part of the first phase, so that the
// commit cannot happen. The client does not retry: see Engine.commit.
func refuses(resp *tikvrpc.Response) bool {
	p, ok := resp.Resp.(*kvrpcpb.PrewriteResponse)
	return ok && p.GetRegionError() == nil && len(p.GetErrors()) > 0
}

// maybe reports whether an answer leaves open if the request was executed.
func maybe(resp *tikvrpc.Response) bool {
	if resp == nil || resp.Resp == nil {
		return true
	}
	wrong, err := resp.GetRegionError()
	return err != nil || wrong != nil && !rejected(wrong)
}

// rejected reports whether a region certainly did not execute a request. After any other
// error it may have been executed, or may still be: proposed commands get StaleCommand
// when the leader has changed, and RegionNotFound when the replica was removed.
func rejected(e *errorpb.Error) bool {
	return e.NotLeader != nil || e.KeyNotInRegion != nil || e.EpochNotMatch != nil || e.ServerIsBusy != nil ||
		e.StoreNotMatch != nil || e.RaftEntryTooLarge != nil || e.MaxTimestampNotSynced != nil || e.ReadIndexNotReady != nil ||
		e.ProposalInMergingMode != nil || e.DataIsNotReady != nil || e.RegionNotInitialized != nil || e.DiskFull != nil ||
		e.RecoveryInProgress != nil || e.FlashbackInProgress != nil || e.FlashbackNotPrepared != nil || e.IsWitness != nil ||
		e.MismatchPeerId != nil || e.BucketVersionNotMatch != nil
}

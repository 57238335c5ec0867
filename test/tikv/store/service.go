package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/pd"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv"
	"go.uber.org/zap"
)

// A transaction that commits in one phase or asynchronously gets its commit
// timestamp from the stores: later than every read that they have answered.
// Between the choice of the timestamp and the write there must be no such read.
// TiKV has locks in memory for that. Unistore has none: a reader whose
// timestamp is the greater one could read the old row in that moment, and its
// own write would find no conflict, so an update would be lost.
//
// moments does what TiKV does. A request says what it is about before it runs:
// reads raise the greatest timestamp and wait for the prewrites that are under
// way on their keys, prewrites take their timestamp once they are announced.
type moments struct {
	pd.Client // of unistore, which asks for a timestamp in each such prewrite

	mu       sync.Mutex
	greatest uint64
	under    map[*prewrite]struct{}
}

type prewrite struct {
	keys [][]byte
	done chan struct{}
}

// GetTS is the timestamp after all that was read. It is not raised for the next
// prewrite: it would get ahead of PD, whose timestamps new readers have.
func (m *moments) GetTS(context.Context) (physical, logical int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ts := m.greatest + 1
	return int64(ts >> 18), int64(ts & (1<<18 - 1)), nil
}

// seen raises the greatest timestamp. The last one of all means "the newest".
func (m *moments) seen(all ...uint64) {
	for _, ts := range all {
		if ts+1 != 0 {
			m.greatest = max(m.greatest, ts)
		}
	}
}

// announce is called for each request in the order in which they come. The
// request may run when wait returns; then end is to be called.
func (m *moments) announce(request any) (wait, end func()) {
	wait, end = func() {}, func() {}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := request.(type) {
	case *kvrpcpb.PrewriteRequest:
		m.seen(r.StartVersion, r.ForUpdateTs, r.MinCommitTs-1) // one above what PD has given out
		if !r.UseAsyncCommit && !r.TryOnePc {
			return
		}
		p := &prewrite{done: make(chan struct{})}
		for _, mu := range r.Mutations {
			p.keys = append(p.keys, mu.Key)
		}
		m.under[p] = struct{}{}
		end = func() {
			m.mu.Lock()
			delete(m.under, p)
			m.mu.Unlock()
			close(p.done)
		}
	case *kvrpcpb.PessimisticLockRequest: // takes the same latches as a prewrite
		m.seen(r.ForUpdateTs)
	case *kvrpcpb.GetRequest:
		m.seen(r.Version)
		wait = m.on(func(key []byte) bool { return bytes.Equal(key, r.Key) })
	case *kvrpcpb.BatchGetRequest:
		m.seen(r.Version)
		wait = m.on(func(key []byte) bool {
			return slices.ContainsFunc(r.Keys, func(k []byte) bool { return bytes.Equal(k, key) })
		})
	case *kvrpcpb.ScanRequest:
		m.seen(r.Version)
		from, to := r.StartKey, r.EndKey
		if r.Reverse {
			from, to = to, from
		}
		wait = m.on(func(key []byte) bool {
			return bytes.Compare(key, from) >= 0 && (len(to) == 0 || bytes.Compare(key, to) < 0)
		})
	case *kvrpcpb.ScanLockRequest:
		m.seen(r.MaxVersion)
		wait = m.on(func([]byte) bool { return true })
	}
	return
}

// on waits for the prewrites of now that have such a key.
func (m *moments) on(match func(key []byte) bool) func() {
	var list []chan struct{}
	for p := range m.under {
		if slices.ContainsFunc(p.keys, match) {
			list = append(list, p.done)
		}
	}
	return func() {
		for _, done := range list {
			<-done
		}
	}
}

// service is unistore's server with moments, for requests by themselves and in
// batches, as client-go sends them.
type service struct {
	*tikv.Server
	moments *moments
	memory  *memory
	regions tikv.RegionManager
}

// prewrite has regions grow by what is committed in one phase, too: unistore
// counts only what it commits in two, and would not split them.
func (s *service) prewrite(ctx context.Context, r *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	reply, err := s.Server.KvPrewrite(ctx, r)
	if err == nil && reply.OnePcCommitTs > 0 {
		if region, wrong := s.regions.GetRegionFromCtx(r.Context); wrong == nil {
			for _, m := range r.Mutations {
				atomic.AddInt64(region.Diff(), int64(len(m.Key)+len(m.Value)))
			}
		}
	}
	return reply, err
}

// KvScan turns a scan backwards into one forwards: unistore's own shows the
// newest rows, whatever timestamp it is asked for.
func (s *service) KvScan(ctx context.Context, r *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	if !r.Reverse {
		return s.Server.KvScan(ctx, r)
	}
	forwards := *r
	forwards.Reverse, forwards.Limit = false, math.MaxUint32
	forwards.StartKey, forwards.EndKey = r.EndKey, r.StartKey
	region, wrong := s.regions.GetRegionFromCtx(r.Context)
	if wrong != nil {
		return &kvrpcpb.ScanResponse{RegionError: wrong}, nil
	}
	if bytes.Compare(forwards.StartKey, region.RawStart()) < 0 {
		forwards.StartKey = region.RawStart()
	}
	reply, err := s.Server.KvScan(ctx, &forwards)
	if err != nil {
		return nil, err
	}
	slices.Reverse(reply.Pairs)
	reply.Pairs = reply.Pairs[:min(len(reply.Pairs), int(r.Limit))]
	return reply, nil
}

// single handles a request outside of batches; it is a grpc interceptor.
func (s *service) single(ctx context.Context, request any, next func(context.Context, any) (any, error)) (any, error) {
	wait, end := s.moments.announce(request)
	defer end()
	wait()
	return next(ctx, request)
}

// BatchCommands runs each request of a stream in a goroutine of its own.
func (s *service) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	var mu sync.Mutex // of Send
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		for i, r := range in.Requests {
			id := in.RequestIds[i]
			wait, end := s.moments.announce(inner(r))
			go func() {
				wait()
				reply, err := s.handle(stream.Context(), r)
				end()
				if err != nil { // the client will have no answer and times out
					log.Error("request failed", zap.Error(err))
					return
				}
				mu.Lock()
				defer mu.Unlock()
				out := &tikvpb.BatchCommandsResponse{RequestIds: []uint64{id}, Responses: []*tikvpb.BatchCommandsResponse_Response{reply}}
				if err := stream.Send(out); err != nil {
					log.Debug("the client has gone", zap.Error(err))
				}
			}()
		}
	}
}

// inner is the request for announce.
func inner(r *tikvpb.BatchCommandsRequest_Request) any {
	switch c := r.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		return c.Prewrite
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		return c.PessimisticLock
	case *tikvpb.BatchCommandsRequest_Request_Get:
		return c.Get
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		return c.BatchGet
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		return c.Scan
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		return c.ScanLock
	}
	return nil
}

// handle runs one request of a batch.
func (s *service) handle(ctx context.Context, r *tikvpb.BatchCommandsRequest_Request) (*tikvpb.BatchCommandsResponse_Response, error) {
	out := new(tikvpb.BatchCommandsResponse_Response)
	var err error
	switch c := r.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		v := new(tikvpb.BatchCommandsResponse_Response_Get)
		v.Get, err = s.KvGet(ctx, c.Get)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		v := new(tikvpb.BatchCommandsResponse_Response_BatchGet)
		v.BatchGet, err = s.KvBatchGet(ctx, c.BatchGet)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		v := new(tikvpb.BatchCommandsResponse_Response_Scan)
		v.Scan, err = s.KvScan(ctx, c.Scan)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		v := new(tikvpb.BatchCommandsResponse_Response_Prewrite)
		v.Prewrite, err = s.KvPrewrite(ctx, c.Prewrite)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		v := new(tikvpb.BatchCommandsResponse_Response_Commit)
		v.Commit, err = s.KvCommit(ctx, c.Commit)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_Cleanup:
		v := new(tikvpb.BatchCommandsResponse_Response_Cleanup)
		v.Cleanup, err = s.KvCleanup(ctx, c.Cleanup)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		v := new(tikvpb.BatchCommandsResponse_Response_BatchRollback)
		v.BatchRollback, err = s.KvBatchRollback(ctx, c.BatchRollback)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		v := new(tikvpb.BatchCommandsResponse_Response_ScanLock)
		v.ScanLock, err = s.KvScanLock(ctx, c.ScanLock)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		v := new(tikvpb.BatchCommandsResponse_Response_ResolveLock)
		v.ResolveLock, err = s.KvResolveLock(ctx, c.ResolveLock)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		v := new(tikvpb.BatchCommandsResponse_Response_PessimisticLock)
		v.PessimisticLock, err = s.KvPessimisticLock(ctx, c.PessimisticLock)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		v := new(tikvpb.BatchCommandsResponse_Response_PessimisticRollback)
		v.PessimisticRollback, err = s.KVPessimisticRollback(ctx, c.PessimisticRollback)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		v := new(tikvpb.BatchCommandsResponse_Response_TxnHeartBeat)
		v.TxnHeartBeat, err = s.KvTxnHeartBeat(ctx, c.TxnHeartBeat)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		v := new(tikvpb.BatchCommandsResponse_Response_CheckTxnStatus)
		v.CheckTxnStatus, err = s.KvCheckTxnStatus(ctx, c.CheckTxnStatus)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks: // unistore's own batches lack it
		v := new(tikvpb.BatchCommandsResponse_Response_CheckSecondaryLocks)
		v.CheckSecondaryLocks, err = s.KvCheckSecondaryLocks(ctx, c.CheckSecondaryLocks)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_GC:
		v := new(tikvpb.BatchCommandsResponse_Response_GC)
		v.GC, err = s.KvGC(ctx, c.GC)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_DeleteRange:
		v := new(tikvpb.BatchCommandsResponse_Response_DeleteRange)
		v.DeleteRange, err = s.KvDeleteRange(ctx, c.DeleteRange)
		out.Cmd = v
	case *tikvpb.BatchCommandsRequest_Request_Empty:
		out.Cmd = &tikvpb.BatchCommandsResponse_Response_Empty{Empty: &tikvpb.BatchCommandsEmptyResponse{TestId: c.Empty.TestId}}
	default:
		return nil, fmt.Errorf("unistore knows no %T", c)
	}
	return out, err
}

package tikv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"redoubt/engine"
)

// between lets a test answer the requests of commits, in place of the cluster or after
// it.
func between(e *Engine, answer func(ctx context.Context, req *tikvrpc.Request, send func() (*tikvrpc.Response, error)) (*tikvrpc.Response, error)) {
	inner := e.store.GetTiKVClient().(*watchedClient)
	e.store.SetTiKVClient(&watchedClient{&answering{inner.Client, answer}, e})
}

type answering struct {
	tikv.Client
	answer func(context.Context, *tikvrpc.Request, func() (*tikvrpc.Response, error)) (*tikvrpc.Response, error)
}

func (a *answering) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	send := func() (*tikvrpc.Response, error) { return a.Client.SendRequest(ctx, addr, req, timeout) }
	if ctx.Value(backgroundKey{}) != nil {
		return send()
	}
	return a.answer(ctx, req, send)
}

var errLostAnswer = errors.New("the answer is lost")

// healthy has the stores of a mock answer the client, which asks them how they are when
// an answer is lost.
func (m *mock) healthy(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	go g.Serve(ln)
	t.Cleanup(g.Stop)
	for _, s := range m.cluster.GetAllStores() {
		m.cluster.UpdateStoreAddr(s.Id, ln.Addr().String())
	}
}

// prewritten is an answer to the first phase.
func prewritten(errs ...*kvrpcpb.KeyError) *tikvrpc.Response {
	return &tikvrpc.Response{Resp: &kvrpcpb.PrewriteResponse{Errors: errs}}
}

func conflictWith(req *tikvrpc.Request, other uint64, reason kvrpcpb.WriteConflict_Reason) *tikvrpc.Response {
	start := req.Prewrite().StartVersion
	return prewritten(&kvrpcpb.KeyError{Conflict: &kvrpcpb.WriteConflict{
		StartTs: start, ConflictTs: start + other, ConflictCommitTs: start + other + 1, Key: req.Prewrite().Mutations[0].Key, Reason: reason,
	}})
}

// A commit is in conflict only if it certainly did not happen: not if an answer was lost
// of a request that may have done it, whatever is answered to the next one. TiKV itself
// remembers what it has done and mostly says so, but nothing is to depend on that.
func TestConflictIsCertain(t *testing.T) {
	t.Parallel()
	const other, itself = 1, 0
	stale := &tikvrpc.Response{Resp: &kvrpcpb.PrewriteResponse{RegionError: &errorpb.Error{StaleCommand: &errorpb.StaleCommand{}}}}
	optimistic := kvrpcpb.WriteConflict_Optimistic
	type round struct {
		m    *mock
		n    int // of this commit's requests
		ctx  context.Context
		req  *tikvrpc.Request
		send func() (*tikvrpc.Response, error)
	}
	split := func(m *mock, at string) {
		ids := m.cluster.AllocIDs(2)
		m.cluster.Split(m.cluster.GetAllRegions()[0].Meta.Id, ids[0], []byte(at), ids[1:], ids[1])
	}
	for _, c := range []struct {
		name  string
		rows  int  // k000 and so on
		two   bool // an ordinary commit of two phases
		from  string
		reply func(r *round) (*tikvrpc.Response, error)
		want  error
	}{
		{"conflict", 2, false, "", func(r *round) (*tikvrpc.Response, error) {
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrConflict},
		{"rolled back by another process", 2, false, "", func(r *round) (*tikvrpc.Response, error) {
			return conflictWith(r.req, itself, kvrpcpb.WriteConflict_SelfRolledBack), nil
		}, engine.ErrConflict},
		{"conflict with itself", 2, false, "", func(r *round) (*tikvrpc.Response, error) {
			return conflictWith(r.req, itself, optimistic), nil
		}, engine.ErrUnknownOutcome},
		{"lost, then conflict", 2, false, "", func(r *round) (*tikvrpc.Response, error) {
			if r.n == 0 {
				return nil, errLostAnswer
			}
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrUnknownOutcome},
		{"lost, region split, then conflict", 4, false, "", func(r *round) (*tikvrpc.Response, error) {
			switch {
			case r.n == 0:
				split(r.m, "test:k002")
				return nil, errLostAnswer
			case len(r.req.Prewrite().Mutations) == 4:
				return r.send() // the region is another by now
			}
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrUnknownOutcome},
		{"many rows, lost, region split, then conflict", 300, false, "", func(r *round) (*tikvrpc.Response, error) {
			switch {
			case r.n == 0:
				split(r.m, "test:k002")
				return nil, errLostAnswer
			case len(r.req.Prewrite().Mutations) == 300:
				return r.send()
			}
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrUnknownOutcome},
		{"stale, then conflict", 2, false, "", func(r *round) (*tikvrpc.Response, error) {
			if r.n == 0 {
				return stale, nil
			}
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrUnknownOutcome},
		{"conflict of one region, the other called off", 4, false, "test:k002", func(r *round) (*tikvrpc.Response, error) {
			if string(r.req.Prewrite().Mutations[0].Key) == "test:k000" {
				<-r.ctx.Done()
				return nil, context.Canceled
			}
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrConflict},
		{"first phase lost, then conflict", 2, true, "", func(r *round) (*tikvrpc.Response, error) {
			if r.n == 0 {
				return nil, errLostAnswer
			}
			return conflictWith(r.req, other, optimistic), nil
		}, engine.ErrConflict},
		{"second phase lost, then locks of another", 2, true, "", func(r *round) (*tikvrpc.Response, error) {
			switch resp, err := r.send(); {
			case r.req.Type != tikvrpc.CmdCommit:
				return resp, err
			case r.n == 1:
				return nil, errLostAnswer
			}
			return &tikvrpc.Response{Resp: &kvrpcpb.CommitResponse{Error: &kvrpcpb.KeyError{Retryable: "replaced by another transaction"}}}, nil
		}, engine.ErrUnknownOutcome},
		{"second phase lost, then refused", 2, true, "", func(r *round) (*tikvrpc.Response, error) {
			switch resp, err := r.send(); {
			case r.req.Type != tikvrpc.CmdCommit:
				return resp, err
			case r.n == 1:
				return nil, errLostAnswer
			}
			return &tikvrpc.Response{Resp: &kvrpcpb.CommitResponse{Error: &kvrpcpb.KeyError{Abort: "whatever"}}}, nil
		}, engine.ErrUnknownOutcome},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var splits []string
			if c.from != "" {
				splits = append(splits, c.from)
			}
			m := newMock(t, splits...)
			m.healthy(t)
			e := m.open(t, Options{})
			defer e.Close()
			e.onePC = !c.two
			var mu sync.Mutex
			n := 0
			between(e, func(ctx context.Context, req *tikvrpc.Request, send func() (*tikvrpc.Response, error)) (*tikvrpc.Response, error) {
				if req.Type != tikvrpc.CmdPrewrite && req.Type != tikvrpc.CmdCommit {
					return send()
				}
				mu.Lock()
				at := n
				n++
				mu.Unlock()
				return c.reply(&round{m, at, ctx, req, send})
			})
			var b engine.Batch
			for i := range c.rows {
				b.Put(fmt.Appendf(nil, "k%03d", i), []byte("v"))
			}
			err := with(e, func(v engine.SharedView) error { _, err := v.Commit(&b); return err })
			if !errors.Is(err, c.want) {
				t.Errorf("Commit = %v, want %v", err, c.want)
			}
		})
	}
}

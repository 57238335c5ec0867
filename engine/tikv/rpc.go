package tikv

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"
)

// rpcs counts requests by kind. Requests of background work are one kind of their own.
type rpcs struct{ counts sync.Map } // name to *atomic.Int64

func (r *rpcs) add(ctx context.Context, name string) {
	if ctx.Value(backgroundKey{}) != nil {
		name = backgroundKind
	}
	n, ok := r.counts.Load(name)
	if !ok {
		n, _ = r.counts.LoadOrStore(name, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}

// RPCs returns how many requests of each kind were sent so far: Get, BatchGet, Scan,
// Prewrite, Commit and so on as TiKV calls them, TSO for timestamps, and Background
// for all requests of background work.
func (e *Engine) RPCs() map[string]int64 {
	all := make(map[string]int64)
	e.rpcs.counts.Range(func(name, n any) bool {
		all[name.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	return all
}

const (
	tsoKind        = "TSO"
	backgroundKind = "Background"
)

type backgroundKey struct{}

// background marks a context as that of background work.
func background(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// watch wraps the client's connections to PD and TiKV with those of this file.
func (r *rpcs) watch(e *Engine) {
	e.store.SetOracle(&watchedOracle{e.store.GetOracle(), e})
	e.store.SetTiKVClient(&watchedClient{e.store.GetTiKVClient(), e})
}

// watchedOracle counts requests for timestamps and passes timestamps to the clock.
type watchedOracle struct {
	oracle.Oracle
	e *Engine
}

func (o *watchedOracle) GetTimestamp(ctx context.Context, opt *oracle.Option) (uint64, error) {
	o.e.rpcs.add(ctx, tsoKind)
	ts, err := o.Oracle.GetTimestamp(ctx, opt)
	if err == nil {
		o.e.clock.observe(ts, time.Now())
	}
	return ts, err
}

// watchedClient counts requests, retries prewrites that meet stale locks, and notes the
// answers to commits (outcome.go).
type watchedClient struct {
	tikv.Client
	e *Engine
}

func (c *watchedClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	c.e.rpcs.add(ctx, req.Type.String())
	resp, err := c.Client.SendRequest(ctx, addr, req, timeout)
	if req.Type == tikvrpc.CmdPrewrite {
		for n := 0; n < maxResolves && err == nil && c.resolved(ctx, req, resp); n++ {
			c.e.rpcs.add(ctx, req.Type.String())
			resp, err = c.Client.SendRequest(ctx, addr, req, timeout)
		}
	}
	note(ctx, req, resp, err)
	return resp, err
}

// maxResolves is how often a prewrite is sent again after its locks were resolved.
const maxResolves = 4

// resolved reports whether a prewrite met only locks of transactions that have ended, and
// has resolved those locks. Locks of running transactions are left to the caller: the
// commit conflicts with them anyhow, and a retry is better than to wait as the client
// does, a tenth of a second at least.
func (c *watchedClient) resolved(ctx context.Context, req *tikvrpc.Request, resp *tikvrpc.Response) bool {
	answer, ok := resp.Resp.(*kvrpcpb.PrewriteResponse)
	if !ok || answer.GetRegionError() != nil || len(answer.GetErrors()) == 0 {
		return false
	}
	start := req.Prewrite().GetStartVersion()
	var locks []*txnlock.Lock
	for _, e := range answer.GetErrors() {
		info := e.GetLocked()
		if info == nil || len(info.GetSharedLockInfos()) > 0 || info.GetLockVersion() >= start {
			return false
		}
		locks = append(locks, txnlock.NewLock(info))
	}
	c.e.figures.locks.Add(1)
	bo := tikv.NewBackofferWithVars(ctx, maxBackoff, vars)
	ttl, err := c.e.store.GetLockResolver().ResolveLocks(bo, start, locks)
	return err == nil && ttl <= 0
}

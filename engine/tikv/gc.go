package tikv

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/tikv"

	"redoubt/engine"
)

// readers holds the moments that open views and snapshots show.
type readers struct {
	mu   sync.Mutex
	next uint64
	at   map[uint64]uint64 // token to timestamp
}

// expect notes a reader that is about to request its timestamp, which is above floor.
func (r *readers) expect(floor uint64) (token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = make(map[uint64]uint64)
	}
	r.next++
	r.at[r.next] = floor
	return r.next
}

// fix notes the moment of a reader.
func (r *readers) fix(token, ts uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[token] = ts
}

func (r *readers) leave(token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, token)
}

// oldest is the oldest moment that an open reader shows, or now.
func (r *readers) oldest(now func() uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	ts := now() // under the lock: a reader that comes later shows a later moment
	for _, at := range r.at {
		ts = min(ts, at)
	}
	return ts
}

// Oldest implements engine.Shared. For "now" it takes the newest timestamp that this
// process has seen, about a second old at most while PD can be reached.
func (e *Engine) Oldest() engine.Stamp { return engine.Stamp(e.reading.oldest(e.clock.newest)) }

const (
	gcTimeout = 10 * time.Minute
	// holdFor is for how many seconds PD keeps a store's safe point that is not renewed.
	holdFor = 600
	// gcWorker is the name by which PD knows the cluster's garbage collector, and
	// tidbServers the prefix of etcd keys where TiDB's servers, if any, are registered.
	gcWorker    = "gc_worker"
	tidbServers = "/tidb/server/info/"
)

// Forget implements engine.Shared.
//
// TiKV has one safe point for the whole cluster: it may drop versions that only readers of
// earlier moments see. TiDB advances the safe point if there is a TiDB, else any of the
// stores in the cluster, no further than each of them allows. Forget first tells PD what
// this store still needs. Then, without TiDB, it advances the safe point as far as PD
// allows: it stores the moment where all clients look before they trust what they have
// read, resolves locks from before it, and lets TiKV drop what is older.
func (e *Engine) Forget(s engine.Stamp) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	ctx, cancel := context.WithTimeout(background(e.ctx), gcTimeout)
	defer cancel()
	if err := e.forget(ctx, uint64(s)); err != nil {
		return fmt.Errorf("TiKV's safe point: %w (%s)", engine.ErrUnavailable, brief(err))
	}
	return nil
}

func (e *Engine) forget(ctx context.Context, want uint64) error {
	pd := e.store.GetPDClient()
	if _, err := pd.UpdateServiceGCSafePoint(ctx, "redoubt-"+e.opt.Prefix, holdFor, want); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	servers, err := e.store.GetSafePointKV().GetWithPrefix(tidbServers)
	if err != nil {
		return err
	}
	if len(servers) > 0 {
		return nil
	}
	allowed, err := pd.UpdateServiceGCSafePoint(ctx, gcWorker, math.MaxInt64, want)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if want = min(want, allowed); want == 0 {
		return nil
	}
	points := e.store.GetSafePointKV()
	text, err := points.Get(tikv.GcSavedSafePoint)
	if err != nil {
		return err
	}
	if old, _ := strconv.ParseUint(text, 10, 64); old >= want {
		return nil
	}
	if err := points.Put(tikv.GcSavedSafePoint, strconv.FormatUint(want, 10)); err != nil {
		return err
	}
	if _, err := e.store.GC(ctx, want); err != nil {
		return fmt.Errorf("resolve locks: %w", err)
	}
	e.figures.safePoint.Store(int64(want))
	return nil
}

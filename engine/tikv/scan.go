package tikv

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
)

// Scans ask TiKV for pages of rows, one request each. The client's own scanner is not used:
// it has no deadlines, no pages of one row, and fetches nothing ahead.

// scanner reads pages of rows as of a moment.
type scanner struct {
	e       *Engine
	snap    *txnsnapshot.KVSnapshot
	ts      uint64
	timeout time.Duration // of each request, if not 0
	seed    uint32
	lo, hi  []byte // bounds that are long keys; see long.go
}

func (e *Engine) scanner(snap *txnsnapshot.KVSnapshot, ts uint64) *scanner {
	return &scanner{e: e, snap: snap, ts: ts, seed: uint32(ts)}
}

type row struct {
	key, value []byte
	version    uint64
}

// page holds the rows of one request, and the range lo to hi that is left to be read. The
// walk is done when lo is not below hi.
type page struct {
	rows   []row
	lo, hi []byte
	size   int  // bytes
	long   bool // the request returned long rows
}

// page fetches up to limit rows of one region, from the beginning of the range or from its
// end if reverse, and more if the page would end inside of a long group. A page may be
// empty although the next region has rows.
func (s *scanner) page(ctx context.Context, lo, hi []byte, reverse bool, limit int) (page, error) {
	p, last, err := s.fetch(ctx, lo, hi, reverse, limit)
	if err == nil && p.long {
		err = s.completeGroup(ctx, &p, last, reverse, limit)
	}
	return p, err
}

// fetch fetches up to limit rows of one region. last is the last stored key that was
// returned, in the order of the walk.
func (s *scanner) fetch(ctx context.Context, lo, hi []byte, reverse bool, limit int) (p page, last []byte, err error) {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	bo := tikv.NewBackofferWithVars(ctx, maxBackoff, vars)
	for {
		p, pairs, err := s.ask(bo, lo, hi, reverse, limit)
		if err != nil {
			return page{}, nil, s.e.readError(ctx, "scan", err)
		}
		if pairs == nil {
			continue
		}
		if err := s.fill(ctx, &p, pairs); err != nil {
			return page{}, nil, err
		}
		if len(pairs) > 0 {
			last = keyOf(pairs[len(pairs)-1])
		}
		return p, last, nil
	}
}

// ask sends one request. If pairs is nil the caller must call ask again.
func (s *scanner) ask(bo *tikv.Backoffer, lo, hi []byte, reverse bool, limit int) (p page, pairs []*kvrpcpb.KvPair, err error) {
	regions := s.e.store.GetRegionCache()
	locate := regions.LocateKey
	at := lo
	if reverse {
		locate, at = regions.LocateEndKey, hi
	}
	loc, err := locate(bo, at)
	if err != nil {
		return p, nil, err
	}
	from, to := lo, hi // the part of the range that is in the region
	if bytes.Compare(loc.StartKey, from) > 0 {
		from = loc.StartKey
	}
	if len(loc.EndKey) > 0 && bytes.Compare(loc.EndKey, to) < 0 {
		to = loc.EndKey
	}
	scan := &kvrpcpb.ScanRequest{StartKey: lo, EndKey: to, Limit: uint32(limit), Version: s.ts}
	replicas := kv.ReplicaReadLeader
	if s.e.replicas.Load() {
		replicas = kv.ReplicaReadMixed
	}
	if reverse {
		scan.StartKey, scan.EndKey, scan.Reverse = hi, from, true
	}
	req := tikvrpc.NewReplicaReadRequest(tikvrpc.CmdScan, scan, replicas, &s.seed)
	resp, err := s.e.store.SendReq(bo, req, loc.Region, tikv.ReadTimeoutMedium)
	if err != nil {
		return p, nil, err
	}
	if again, err := regionError(bo, resp); again || err != nil {
		return p, nil, err
	}
	if resp.Resp == nil {
		return p, nil, tikverr.ErrBodyMissing
	}
	answer := resp.Resp.(*kvrpcpb.ScanResponse)
	if err := s.e.store.CheckVisibility(s.ts); err != nil {
		return p, nil, err
	}
	if e := answer.GetError(); e != nil {
		return p, nil, s.resolve(bo, e)
	}
	pairs = answer.GetPairs()
	p.lo, p.hi = lo, hi
	switch full := len(pairs) >= limit; {
	case reverse && full:
		p.hi = keyOf(pairs[len(pairs)-1])
	case reverse:
		p.hi = from
	case full:
		p.lo = kv.NextKey(keyOf(pairs[len(pairs)-1]))
	default:
		p.lo = to
	}
	if pairs == nil {
		pairs = []*kvrpcpb.KvPair{}
	}
	return p, pairs, nil
}

// regionError reports whether the answer is a region error, so that the request must be
// sent again. It has slept before that if necessary.
func regionError(bo *tikv.Backoffer, resp *tikvrpc.Response) (again bool, err error) {
	e, err := resp.GetRegionError()
	if e == nil || err != nil {
		return false, err
	}
	if moved(e) {
		return true, nil
	}
	return true, bo.Backoff(tikv.BoRegionMiss(), errors.New(e.String()))
}

// moved reports whether the region was split or merged, and the answer has the new regions.
func moved(e *errorpb.Error) bool {
	return e.GetEpochNotMatch() != nil && len(e.GetEpochNotMatch().GetCurrentRegions()) > 0
}

// resolve removes the lock of a transaction that has ended, or sleeps for a while if the
// transaction is still running.
func (s *scanner) resolve(bo *tikv.Backoffer, e *kvrpcpb.KeyError) error {
	lock, err := txnlock.ExtractLockFromKeyErr(e)
	if err != nil {
		return err
	}
	ttl, err := s.e.store.GetLockResolver().ResolveLocks(bo, s.ts, []*txnlock.Lock{lock})
	if err != nil || ttl <= 0 {
		return err
	}
	return bo.BackoffWithMaxSleepTxnLockFast(int(ttl), errors.New("a row is locked"))
}

// keyOf is a pair's key, taken from its lock if the pair has none.
func keyOf(p *kvrpcpb.KvPair) []byte {
	if p.GetError() != nil && len(p.Key) == 0 {
		return p.GetError().GetLocked().GetKey()
	}
	return p.Key
}

// fill adds the rows of the pairs to a page. A locked row is read by a request of its own,
// which waits for the lock or resolves it.
func (s *scanner) fill(ctx context.Context, p *page, pairs []*kvrpcpb.KvPair) error {
	p.rows = make([]row, 0, len(pairs))
	for _, pair := range pairs {
		key, stored := s.e.space.row(keyOf(pair)), pair.Value
		if pair.GetError() != nil {
			var err error
			if stored, err = s.e.getAny(ctx, s.snap, keyOf(pair)); err != nil {
				return err
			}
			if stored == nil {
				continue
			}
		}
		if isLong(key) {
			p.long = true
			if err := s.long(p, key, stored); err != nil {
				return err
			}
			continue
		}
		value, version, err := split(key, stored)
		if err != nil {
			return err
		}
		p.rows = append(p.rows, row{key, value, version})
		p.size += len(key) + len(stored)
	}
	return nil
}

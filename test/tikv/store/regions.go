package main

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/pingcap/badger"
	"github.com/pingcap/badger/y"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv"
	"github.com/tikv/pd/client/clients/router"
	"go.uber.org/zap"
)

// report tells PD of all regions every second. Unistore does so only when it
// starts or splits one, so a PD that was killed would not know the youngest
// regions, nor who leads any.
func (s *store) report() {
	for range time.Tick(time.Second) {
		all, ok := s.regions()
		if !ok {
			return
		}
		for _, r := range all {
			s.pdc.ReportRegion(&pdpb.RegionHeartbeatRequest{Region: r, Leader: r.Peers[0], ApproximateSize: 1})
		}
	}
}

// outbid raises the versions of all regions, before anybody uses them. PD takes no news
// of a range from a region whose version is below that of one it knows there, and it may
// know some that this store does not have: a store that was killed has been seen not to
// remember the last split that it had told PD of. Then nobody would find those keys.
func (s *store) outbid() error {
	const more = 1000
	all, _ := s.regions()
	return s.bundle.DB.Update(func(txn *badger.Txn) error {
		ts := atomic.AddUint64(&s.bundle.StateTS, 1)
		for _, r := range all {
			key := tikv.InternalRegionMetaKey(r.Id)
			item, err := txn.Get(key)
			if err != nil {
				return err
			}
			old, err := item.Value()
			if err != nil {
				return err
			}
			r.RegionEpoch.Version += more
			meta, err := r.Marshal()
			if err != nil {
				return err
			}
			if err := txn.SetEntry(&badger.Entry{Key: y.KeyWithTs(key, ts), Value: append(bytes.Clone(old[:8]), meta...)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitPD returns when PD knows every region as it is: from then on clients
// find their way at once. It returns false if the store was closed before.
func (s *store) awaitPD() bool {
	told := time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) {
		all, ok := s.regions()
		if !ok {
			return false
		}
		known := len(all) > 0
		for _, r := range all {
			got, err := s.known(r)
			if known = err == nil && got != nil && got.Leader != nil && got.Meta.Id == r.Id && got.Meta.RegionEpoch.Version == r.RegionEpoch.Version; known {
				continue
			}
			if time.Since(told) > 10*time.Second {
				told = time.Now()
				log.Warn("PD does not know a region", zap.Stringer("region", r), zap.Any("it knows", got), zap.Error(err))
			}
			break
		}
		if known {
			return true
		}
	}
}

func (s *store) known(r *metapb.Region) (*router.Region, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.pdc.GetRegion(ctx, r.StartKey)
}

// regions reads the rows in which unistore keeps its regions: eight bytes of
// size, then the region. It returns false when the store is closed.
func (s *store) regions() ([]*metapb.Region, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	var all []*metapb.Region
	err := s.bundle.DB.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Seek(tikv.InternalRegionMetaPrefix); it.ValidForPrefix(tikv.InternalRegionMetaPrefix); it.Next() {
			v, err := it.Item().Value()
			if err != nil {
				return err
			}
			r := new(metapb.Region)
			if err := r.Unmarshal(v[8:]); err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		log.Error("cannot read the regions", zap.Error(err))
		return nil, true
	}
	return all, true
}

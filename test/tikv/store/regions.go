package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/pingcap/badger"
	"github.com/pingcap/badger/y"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// placement is a connection to PD for this program's own questions. Unistore's client may
// stand still for ever: it takes a lock for reading twice, and a writer may come between.
type placement struct {
	pdpb.PDClient
	header *pdpb.RequestHeader
}

func connectPD(cluster uint64) (*placement, error) {
	conn, err := grpc.NewClient(*pdAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &placement{pdpb.NewPDClient(conn), &pdpb.RequestHeader{ClusterId: cluster}}, nil
}

// report tells PD of all regions every second. Unistore does so only when it
// starts or splits one, so a PD that was killed would not know the youngest
// regions, nor who leads any.
func (s *store) report() {
	for tick := time.Tick(time.Second); ; <-tick {
		all, ok := s.regions()
		if !ok {
			return
		}
		if err := s.placement.tell(all); err != nil {
			log.Info("PD was not told of the regions", zap.Error(err))
		}
	}
}

func (p *placement) tell(all []*metapb.Region) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := p.RegionHeartbeat(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := stream.Send(&pdpb.RegionHeartbeatRequest{Header: p.header, Region: r, Leader: r.Peers[0], ApproximateSize: 1}); err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for { // what PD would like to have done, which unistore cannot do
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// knows says whether PD knows a region as it is.
func (p *placement) knows(r *metapb.Region) (*pdpb.GetRegionResponse, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	got, err := p.GetRegion(ctx, &pdpb.GetRegionRequest{Header: p.header, RegionKey: r.StartKey})
	return got, err == nil && got.GetLeader() != nil && got.GetRegion().GetId() == r.Id && got.Region.RegionEpoch.GetVersion() == r.RegionEpoch.Version
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
			var got *pdpb.GetRegionResponse
			if got, known = s.placement.knows(r); known {
				continue
			}
			if time.Since(told) > 10*time.Second {
				told = time.Now()
				log.Warn("PD does not know a region", zap.Stringer("region", r), zap.Stringer("it knows", got))
			}
			break
		}
		if known {
			return true
		}
	}
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

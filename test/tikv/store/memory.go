package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pingcap/badger"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv/mvcc"
)

// What TiKV remembers of a transaction unistore forgets in part. It answers a
// request that comes again, since its answer was lost, as if it had come for the
// first time: a commit with "lock not found", a prewrite with a conflict of the
// transaction with itself; and to undo a transaction that is committed, or to
// prewrite one that was undone, succeeds if its primary, or the row, was only
// locked. This file looks at the rows that are left of a transaction first.
//
// memory keeps requests about one transaction apart, whatever their regions.
type memory struct {
	db      *badger.DB
	locks   lockReader
	stripes [256]sync.Mutex
}

type lockReader interface {
	Get(key, buf []byte) []byte
}

// alone keeps other requests about a transaction away until it is called.
func (m *memory) alone(startTS uint64) (done func()) {
	mu := &m.stripes[(startTS^startTS>>18)%uint64(len(m.stripes))]
	mu.Lock()
	return mu.Unlock
}

// status reads the note on a key: the commit of a mere lock, or that the
// transaction was undone.
func status(txn *badger.Txn, key []byte, startTS uint64) (commitTS uint64, undone bool, err error) {
	item, err := txn.Get(mvcc.EncodeExtraTxnStatusKey(key, startTS))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	commitTS = mvcc.DBUserMeta(item.UserMeta()).CommitTS()
	return commitTS, commitTS == 0, nil
}

// fate is what has become of a transaction's part in a key.
func (m *memory) fate(key []byte, startTS uint64) (commitTS uint64, undone bool, err error) {
	err = m.db.View(func(txn *badger.Txn) error {
		commitTS, undone, err = status(txn, key, startTS)
		if err != nil || commitTS > 0 || undone {
			return err
		}
		opts := badger.DefaultIteratorOptions
		opts.AllVersions = true
		it := txn.NewIterator(opts)
		defer it.Close()
		for it.Seek(key); it.Valid() && bytes.Equal(it.Item().Key(), key); it.Next() {
			switch meta := mvcc.DBUserMeta(it.Item().UserMeta()); {
			case meta.StartTS() == startTS:
				commitTS = meta.CommitTS()
				return nil
			case meta.CommitTS() < startTS:
				return nil
			}
		}
		return nil
	})
	return commitTS, undone, err
}

// lock is that of a transaction on a key, if there is one.
func (m *memory) lock(key []byte, startTS uint64) *mvcc.Lock {
	b := m.locks.Get(key, nil)
	if len(b) == 0 {
		return nil
	}
	if l := mvcc.DecodeLock(b); l.StartTS == startTS {
		return &l
	}
	return nil
}

// KvPrewrite answers for what was prewritten, committed or undone before.
func (s *service) KvPrewrite(ctx context.Context, r *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	defer s.memory.alone(r.StartVersion)()
	onePC := r.TryOnePc // unistore changes the request
	committed := func(ts uint64) *kvrpcpb.PrewriteResponse {
		reply := new(kvrpcpb.PrewriteResponse)
		switch {
		case onePC:
			reply.OnePcCommitTs = ts
		case r.UseAsyncCommit:
			reply.MinCommitTs = ts
		}
		return reply
	}
	var ts uint64
	var undone []byte
	err := s.memory.db.View(func(txn *badger.Txn) error {
		for _, m := range r.Mutations {
			commitTS, gone, err := status(txn, m.Key, r.StartVersion)
			if err != nil {
				return err
			}
			if ts = max(ts, commitTS); gone {
				undone = m.Key
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case ts > 0:
		return committed(ts), nil
	case undone != nil:
		return &kvrpcpb.PrewriteResponse{Errors: []*kvrpcpb.KeyError{{Conflict: &kvrpcpb.WriteConflict{
			StartTs: r.StartVersion, ConflictTs: r.StartVersion, ConflictCommitTs: r.StartVersion,
			Key: undone, Primary: r.PrimaryLock, Reason: kvrpcpb.WriteConflict_SelfRolledBack,
		}}}}, nil
	}
	reply, err := s.prewrite(ctx, r)
	if err != nil || reply.RegionError != nil {
		return reply, err
	}
	for _, e := range reply.Errors {
		if e.Conflict == nil {
			continue
		}
		commitTS, _, err := s.memory.fate(e.Conflict.Key, r.StartVersion)
		if err != nil {
			return nil, err
		}
		if commitTS > 0 {
			return committed(commitTS), nil
		}
	}
	if len(reply.Errors) == 0 && r.UseAsyncCommit && !onePC && reply.MinCommitTs == 0 { // locked before
		for _, m := range r.Mutations {
			if l := s.memory.lock(m.Key, r.StartVersion); l != nil && l.UseAsyncCommit {
				reply.MinCommitTs = max(reply.MinCommitTs, l.MinCommitTS)
			}
		}
	}
	return reply, nil
}

// KvCommit commits what is not committed yet.
func (s *service) KvCommit(ctx context.Context, r *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	defer s.memory.alone(r.StartVersion)()
	keys := slices.Clone(r.Keys)
	reply, err := s.Server.KvCommit(ctx, r)
	if err != nil || reply.Error == nil || reply.Error.Retryable == "" {
		return reply, err
	}
	var rest [][]byte
	for _, key := range keys {
		commitTS, _, err := s.memory.fate(key, r.StartVersion)
		if err != nil {
			return nil, err
		}
		if commitTS == 0 {
			rest = append(rest, key)
		}
	}
	switch len(rest) {
	case 0:
		return new(kvrpcpb.CommitResponse), nil
	case len(keys):
		return reply, nil
	}
	r.Keys = rest
	return s.Server.KvCommit(ctx, r)
}

// committedKey says whether one of the keys has a commit of a transaction.
func (s *service) committedKey(keys [][]byte, startTS uint64) (*kvrpcpb.KeyError, error) {
	for _, key := range keys {
		commitTS, _, err := s.memory.fate(key, startTS)
		if err != nil {
			return nil, err
		}
		if commitTS > 0 {
			return &kvrpcpb.KeyError{Abort: "txn already committed"}, nil
		}
	}
	return nil, nil
}

// KvBatchRollback undoes nothing that is committed.
func (s *service) KvBatchRollback(ctx context.Context, r *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	defer s.memory.alone(r.StartVersion)()
	if wrong, err := s.committedKey(r.Keys, r.StartVersion); wrong != nil || err != nil {
		return &kvrpcpb.BatchRollbackResponse{Error: wrong}, err
	}
	return s.Server.KvBatchRollback(ctx, r)
}

// KvCleanup undoes nothing that is committed.
func (s *service) KvCleanup(ctx context.Context, r *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, error) {
	defer s.memory.alone(r.StartVersion)()
	if wrong, err := s.committedKey([][]byte{r.Key}, r.StartVersion); wrong != nil || err != nil {
		return &kvrpcpb.CleanupResponse{Error: wrong}, err
	}
	return s.Server.KvCleanup(ctx, r)
}

// KvCheckTxnStatus and KvCheckSecondaryLocks may undo a transaction.
func (s *service) KvCheckTxnStatus(ctx context.Context, r *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	defer s.memory.alone(r.LockTs)()
	return s.Server.KvCheckTxnStatus(ctx, r)
}

func (s *service) KvCheckSecondaryLocks(ctx context.Context, r *kvrpcpb.CheckSecondaryLocksRequest) (*kvrpcpb.CheckSecondaryLocksResponse, error) {
	defer s.memory.alone(r.StartVersion)()
	return s.Server.KvCheckSecondaryLocks(ctx, r)
}

// oldRead is how many milliseconds a read may be behind the newest timestamp and
// still be unistore's own. A key of which a table of Badger has several versions
// is read as the newest of them, whatever version is asked for, if its place in
// the table's index is taken by another key. Those that are written by the time
// that a table is there are no news to young readers.
const oldRead = 20

func (s *service) old(version uint64) bool {
	if version+1 == 0 {
		return false
	}
	s.moments.mu.Lock()
	defer s.moments.mu.Unlock()
	return version>>18+oldRead < s.moments.greatest>>18
}

// one reads a key as a scan does, which knows versions.
func (s *service) one(ctx context.Context, c *kvrpcpb.Context, key []byte, version uint64) (*kvrpcpb.ScanResponse, error) {
	return s.Server.KvScan(ctx, &kvrpcpb.ScanRequest{
		Context: c, StartKey: key, EndKey: append(bytes.Clone(key), 0), Limit: 1, Version: version,
	})
}

// KvGet reads what an old reader may see.
func (s *service) KvGet(ctx context.Context, r *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	if !s.old(r.Version) {
		return s.Server.KvGet(ctx, r)
	}
	found, err := s.one(ctx, r.Context, r.Key, r.Version)
	if err != nil {
		return nil, err
	}
	reply := &kvrpcpb.GetResponse{RegionError: found.RegionError, Error: found.Error}
	for _, p := range found.Pairs {
		reply.Value, reply.Error = p.Value, p.Error
	}
	return reply, nil
}

// KvBatchGet reads what an old reader may see.
func (s *service) KvBatchGet(ctx context.Context, r *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	if !s.old(r.Version) {
		return s.Server.KvBatchGet(ctx, r)
	}
	reply := new(kvrpcpb.BatchGetResponse)
	for _, key := range r.Keys {
		found, err := s.one(ctx, r.Context, key, r.Version)
		if err != nil {
			return nil, err
		}
		if found.RegionError != nil || found.Error != nil {
			return &kvrpcpb.BatchGetResponse{RegionError: found.RegionError, Error: found.Error}, nil
		}
		reply.Pairs = append(reply.Pairs, found.Pairs...)
	}
	return reply, nil
}

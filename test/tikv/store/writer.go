package main

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pingcap/badger"
	"github.com/pingcap/badger/y"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv/mvcc"
)

// Unistore has its locks in memory only. In TiKV a lock is as durable as any
// row, and more than the waiting of others hangs on it: an async commit is
// answered when all its rows are locked, and the rows besides the primary of
// any transaction are locks until somebody commits them. A unistore that is
// killed forgets such writes although they were acknowledged.
//
// So this writer puts every lock under lockPrefix as well, in one Badger
// transaction with the rows of the same batch, and loadLocks reads them when
// the store starts.

// lockPrefix lies where unistore keeps its own rows, past all keys of clients.
var lockPrefix = append(bytes.Clone(tikv.InternalKeyPrefix), "lock"...)

func lockRow(key []byte) []byte { return append(bytes.Clone(lockPrefix), key...) }

// loadLocks fills the locks in memory from the rows on disk.
func loadLocks(b *mvcc.DBBundle) error {
	return b.DB.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Seek(lockPrefix); it.ValidForPrefix(lockPrefix); it.Next() {
			v, err := it.Item().Value()
			if err != nil {
				return err
			}
			b.LockStore.Put(it.Item().Key()[len(lockPrefix):], v)
		}
		return nil
	})
}

// writer implements mvcc.DBWriter. One goroutine writes the batches of all
// requests that wait, since the locks in memory may have only one writer.
// Unistore's own writer is kept for DeleteRange, which knows no locks.
type writer struct {
	mvcc.DBWriter
	bundle *mvcc.DBBundle
	queue  chan *batch
	quit   chan struct{}
	ended  chan struct{}
}

func newWriter(b *mvcc.DBBundle) *writer {
	return &writer{tikv.NewDBWriter(b), b, make(chan *batch, 1024), make(chan struct{}), make(chan struct{})}
}

func (w *writer) Open() {
	w.DBWriter.Open()
	go w.run()
}

// Close is called when no request runs any more.
func (w *writer) Close() {
	close(w.quit)
	<-w.ended
	w.DBWriter.Close()
}

func (w *writer) NewWriteBatch(startTS, commitTS uint64, _ *kvrpcpb.Context) mvcc.WriteBatch {
	return &batch{startTS: startTS, commitTS: commitTS, done: make(chan error, 1)}
}

func (w *writer) Write(wb mvcc.WriteBatch) error {
	b := wb.(*batch)
	if len(b.rows) == 0 && len(b.locks) == 0 {
		return nil
	}
	w.queue <- b
	err := <-b.done
	b.rows, b.locks = nil, nil // unistore may go on with the same batch
	return err
}

func (w *writer) run() {
	defer close(w.ended)
	var group []*batch
	for {
		group = group[:0]
		select {
		case <-w.quit:
			return
		case b := <-w.queue:
			group = append(group, b)
		}
		for range len(w.queue) {
			group = append(group, <-w.queue)
		}
		for i, err := range w.persist(group) {
			if err == nil {
				w.apply(group[i])
			}
			group[i].done <- err
		}
	}
}

// persist writes a group, each batch in a Badger transaction of its own, which it
// writes together: when Badger replays its log, all rows of one transaction get the
// timestamps of the last of them. Those of a batch are the same anyhow. No key is in
// the group twice: its requests hold latches.
func (w *writer) persist(group []*batch) []error {
	errs := make([]error, len(group))
	var all sync.WaitGroup
	for i, b := range group[1:] {
		all.Add(1)
		go func() {
			defer all.Done()
			errs[i+1] = w.one(b)
		}()
	}
	errs[0] = w.one(group[0])
	all.Wait()
	return errs
}

func (w *writer) one(b *batch) error {
	version := atomic.AddUint64(&w.bundle.StateTS, 1)
	return w.bundle.DB.Update(func(txn *badger.Txn) error {
		for _, e := range b.rows {
			if err := txn.SetEntry(e); err != nil {
				return err
			}
		}
		for _, l := range b.locks {
			if n := len(l.key) + len(l.value); n > w.bundle.LockStore.MaxEntrySize() {
				return fmt.Errorf("a lock of %d bytes is too big for unistore", n)
			}
			e := &badger.Entry{Key: y.KeyWithTs(lockRow(l.key), version), Value: l.value}
			if l.value == nil {
				if len(w.bundle.LockStore.Get(l.key, nil)) == 0 {
					continue // committed in one phase
				}
				e.SetDelete()
			}
			if err := txn.SetEntry(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply changes the locks in memory, after the rows: whoever reads must see the
// lock or what was committed under it.
func (w *writer) apply(b *batch) {
	for _, l := range b.locks {
		if l.value == nil {
			w.bundle.LockStore.Delete(l.key)
		} else {
			w.bundle.LockStore.Put(l.key, l.value)
		}
	}
}

// batch implements mvcc.WriteBatch.
type batch struct {
	startTS, commitTS uint64
	rows              []*badger.Entry
	locks             []lockChange
	done              chan error
}

type lockChange struct{ key, value []byte } // no value: the lock goes

func (b *batch) lock(key []byte, l *mvcc.Lock) {
	b.locks = append(b.locks, lockChange{bytes.Clone(key), l.MarshalBinary()})
}

func (b *batch) unlock(key []byte) {
	b.locks = append(b.locks, lockChange{key: bytes.Clone(key)})
}

func (b *batch) row(key []byte, version uint64, value []byte, commitTS uint64) {
	b.rows = append(b.rows, &badger.Entry{
		Key: y.KeyWithTs(key, version), Value: value, UserMeta: mvcc.NewDBUserMeta(b.startTS, commitTS),
	})
}

func (b *batch) Prewrite(key []byte, l *mvcc.Lock)        { b.lock(key, l) }
func (b *batch) PessimisticLock(key []byte, l *mvcc.Lock) { b.lock(key, l) }
func (b *batch) PessimisticRollback(key []byte)           { b.unlock(key) }

// Commit writes what the lock holds. A mere lock leaves the transaction's fate, in
// a row of its own. Unistore does so on the primary only; but who finds neither
// lock nor fate on another row takes an asynchronous commit for one that failed.
func (b *batch) Commit(key []byte, l *mvcc.Lock) {
	switch {
	case l.Op == uint8(kvrpcpb.Op_PessimisticLock):
	case l.Op != uint8(kvrpcpb.Op_Lock):
		b.row(key, b.commitTS, l.Value, b.commitTS)
	default:
		b.row(mvcc.EncodeExtraTxnStatusKey(key, b.startTS), b.startTS, nil, b.commitTS)
	}
	b.unlock(key)
}

func (b *batch) Rollback(key []byte, unlock bool) {
	b.row(mvcc.EncodeExtraTxnStatusKey(key, b.startTS), b.startTS, nil, 0)
	if unlock {
		b.unlock(key)
	}
}

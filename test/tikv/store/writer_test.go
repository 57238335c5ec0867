package main

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/pingcap/badger"
	"github.com/pingcap/badger/y"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/lockstore"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv/mvcc"
)

// bench is a store's data in a directory of its own, without servers.
type bench struct {
	*mvcc.DBBundle
	w   *writer
	mem *memory
}

// lay opens the data of a directory, as main's open does.
func lay(t *testing.T, dir string) *bench {
	t.Helper()
	db, err := openDB(dir, new(tikv.SafePoint))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{DBBundle: &mvcc.DBBundle{DB: db, LockStore: lockstore.NewMemStore(1 << 20), StateTS: 1}}
	if err := loadLocks(b.DBBundle); err != nil {
		t.Fatal(err)
	}
	b.w, b.mem = newWriter(b.DBBundle), &memory{db: db, locks: b.LockStore}
	b.w.Open()
	return b
}

func (b *bench) close(t *testing.T) {
	t.Helper()
	b.w.Close()
	if err := b.DB.Close(); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) write(t *testing.T, startTS, commitTS uint64, fill func(mvcc.WriteBatch)) {
	t.Helper()
	batch := b.w.NewWriteBatch(startTS, commitTS, nil)
	fill(batch)
	if err := b.w.Write(batch); err != nil {
		t.Fatal(err)
	}
}

// row is the newest value that was committed at ts or before.
func (b *bench) row(t *testing.T, key string, ts uint64) (value string, found bool) {
	t.Helper()
	err := b.DB.View(func(txn *badger.Txn) error {
		txn.SetReadTS(ts)
		item, err := txn.Get([]byte(key))
		if err == badger.ErrKeyNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		v, err := item.ValueCopy(nil)
		value, found = string(v), true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value, found
}

func lockOf(startTS uint64, op kvrpcpb.Op, value string) *mvcc.Lock {
	return &mvcc.Lock{LockHdr: mvcc.LockHdr{StartTS: startTS, Op: uint8(op), PrimaryLen: 1}, Primary: []byte("a"), Value: []byte(value)}
}

// A lock that was acknowledged is there after a restart, and one that was committed or
// undone is not: rows that a killed store would forget make tests of ours fail.
func TestLocksSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := lay(t, dir)
	b.write(t, 10, 0, func(w mvcc.WriteBatch) {
		for _, key := range []string{"a", "b", "c"} {
			w.Prewrite([]byte(key), lockOf(10, kvrpcpb.Op_Put, "of "+key))
		}
	})
	b.write(t, 10, 20, func(w mvcc.WriteBatch) { w.Commit([]byte("b"), lockOf(10, kvrpcpb.Op_Put, "of b")) })
	b.write(t, 10, 0, func(w mvcc.WriteBatch) { w.Rollback([]byte("c"), true) })
	b.close(t)

	b = lay(t, dir)
	defer b.close(t)
	if l := b.mem.lock([]byte("a"), 10); l == nil || string(l.Value) != "of a" || string(l.Primary) != "a" {
		t.Errorf("the lock on a is %v", l)
	}
	if l := b.mem.lock([]byte("a"), 11); l != nil {
		t.Errorf("another transaction has the lock on a: %v", l)
	}
	for _, key := range []string{"b", "c"} {
		if l := b.mem.lock([]byte(key), 10); l != nil {
			t.Errorf("the lock on %s is back: %v", key, l)
		}
	}
	if v, found := b.row(t, "b", 20); v != "of b" || !found {
		t.Errorf("b is %q, %v", v, found)
	}
	if v, found := b.row(t, "b", 19); found {
		t.Errorf("b is %q before its commit", v)
	}
	for _, key := range []string{"a", "c"} {
		if v, found := b.row(t, key, 1000); found {
			t.Errorf("%s is %q, and was never committed", key, v)
		}
	}
}

// What has become of a transaction is known of every row, also of one that was only locked.
func TestFates(t *testing.T) {
	t.Parallel()
	b := lay(t, t.TempDir())
	defer b.close(t)
	b.write(t, 10, 20, func(w mvcc.WriteBatch) {
		w.Commit([]byte("put"), lockOf(10, kvrpcpb.Op_Put, "x"))
		w.Commit([]byte("locked"), lockOf(10, kvrpcpb.Op_Lock, ""))
		w.Commit([]byte("pessimistic"), lockOf(10, kvrpcpb.Op_PessimisticLock, ""))
	})
	b.write(t, 10, 0, func(w mvcc.WriteBatch) { w.Rollback([]byte("undone"), false) })
	b.write(t, 30, 40, func(w mvcc.WriteBatch) { w.Commit([]byte("put"), lockOf(30, kvrpcpb.Op_Put, "y")) })
	for _, test := range []struct {
		key     string
		startTS uint64
		commit  uint64
		undone  bool
	}{
		{"put", 10, 20, false}, {"put", 30, 40, false}, {"put", 25, 0, false},
		{"locked", 10, 20, false}, {"locked", 11, 0, false},
		{"pessimistic", 10, 0, false}, {"undone", 10, 0, true}, {"undone", 30, 0, false}, {"nothing", 10, 0, false},
	} {
		commit, undone, err := b.mem.fate([]byte(test.key), test.startTS)
		if commit != test.commit || undone != test.undone || err != nil {
			t.Errorf("%s of %d: %d, %v, %v", test.key, test.startTS, commit, undone, err)
		}
	}
	if v, _ := b.row(t, "put", 39); v != "x" {
		t.Errorf("put is %q before the second commit", v)
	}
}

// Batches of many requests at once are all written, and one that cannot be hurts no other.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	b := lay(t, t.TempDir())
	defer b.close(t)
	const many = 200
	var all sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		all.Go(func() {
			batch := b.w.NewWriteBatch(10, 0, nil)
			value := fmt.Sprint(i)
			if i%50 == 49 {
				value = string(bytes.Repeat([]byte("x"), b.LockStore.MaxEntrySize()))
			}
			batch.Prewrite(fmt.Appendf(nil, "k%d", i), lockOf(10, kvrpcpb.Op_Put, value))
			errs[i] = b.w.Write(batch)
		})
	}
	all.Wait()
	for i, err := range errs {
		l := b.mem.lock(fmt.Appendf(nil, "k%d", i), 10)
		if tooLarge := i%50 == 49; tooLarge != (err != nil) || tooLarge != (l == nil) {
			t.Errorf("batch %d: %v, its lock is there: %v", i, err, l != nil)
		}
	}
}

// The rows of locks lie behind all keys of clients.
func TestLockRows(t *testing.T) {
	t.Parallel()
	b := lay(t, t.TempDir())
	defer b.close(t)
	b.write(t, 10, 0, func(w mvcc.WriteBatch) { w.Prewrite([]byte("a"), lockOf(10, kvrpcpb.Op_Put, "x")) })
	err := b.DB.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if key := it.Item().Key(); bytes.Compare(key, []byte("\xf0")) < 0 {
				t.Errorf("a client could meet the row %q", y.SafeCopy(nil, key))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

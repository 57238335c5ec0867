package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"

	"redoubt/engine"
	"redoubt/engine/semaphore"
)

// view implements engine.SharedView: a transaction that begins with its first read, or
// with its commit if it reads nothing.
//
// The client's snapshot caches what was read or prefetched, also that a row does not
// exist, so that no row is requested twice.
type view struct {
	engine.Uncounted
	e        *Engine
	o        engine.ViewOptions
	settled  bool // a commit was tried
	closed   bool
	placed   bool // the view holds a place of its viewLimit
	deadline time.Time
	token    uint64 // of Engine.reading; 0 if there is none

	ctx    context.Context // until the deadline; nil before the first read
	cancel context.CancelFunc
	ts     uint64
	began  time.Time // when ts was requested
	one    []byte    // the row that a PointRead view has read
	snap   *txnsnapshot.KVSnapshot
	txn    *transaction.KVTxn // nil for a PointRead view
}

var _ engine.SharedView = (*view)(nil)

var (
	errPointRead = errors.New("a view with PointRead reads one row and commits nothing")
	errClosed    = errors.New("the view is closed")
)

// enter takes a place of the viewLimit and starts the view's context.
func (v *view) enter() error {
	switch {
	case v.closed:
		return errClosed
	case v.e.closed.Load():
		return engine.ErrClosed
	case v.ctx == nil:
		parent := v.e.ctx
		if v.o.Background {
			parent = background(parent)
		}
		v.ctx, v.cancel = context.WithDeadline(parent, v.deadline)
	}
	if v.placed {
		return nil
	}
	waited, err := v.viewLimit().Enter(v.ctx)
	if waited {
		v.e.figures.waits.Add(1)
	}
	switch {
	case err == nil:
		v.placed = true
		return nil
	case v.e.closed.Load():
		return engine.ErrClosed
	}
	return fmt.Errorf("tikv-max-transactions are under way: %w", engine.ErrOverloaded)
}

// viewLimit returns the limit that applies to the view.
func (v *view) viewLimit() *semaphore.Semaphore {
	if v.o.Background {
		return &v.e.background
	}
	return &v.e.viewLimit
}

// begin fixes the moment of the view.
func (v *view) begin() error {
	if v.snap != nil {
		return nil
	}
	if err := v.enter(); err != nil {
		return err
	}
	if v.token == 0 {
		v.token = v.e.reading.expect(v.e.clock.newest())
	}
	v.began = time.Now()
	ts, err := v.e.timestamp(v.ctx)
	if err != nil {
		return err
	}
	v.e.reading.fix(v.token, ts)
	v.ts, v.snap = ts, v.e.snapshotAt(ts)
	v.txn, err = v.e.transaction(v.snap, ts)
	return err
}

// transaction begins a transaction of the client at the moment of a snapshot.
func (e *Engine) transaction(snap *txnsnapshot.KVSnapshot, ts uint64) (*transaction.KVTxn, error) {
	txn, err := transaction.NewTiKVTxn(e.store, snap, ts, &transaction.TxnOptions{TxnScope: globalScope})
	if err == nil {
		txn.GetUnionStore().SetEntrySizeLimit(maxRow, maxCommit)
	}
	return txn, err
}

const (
	maxRow    = 6 << 20   // TiKV's log accepts entries of 8 MiB by default
	maxCommit = 100 << 20 // TiDB's limit
)

// snapshotAt returns the client's snapshot of a moment.
func (e *Engine) snapshotAt(ts uint64) *txnsnapshot.KVSnapshot {
	snap := e.store.GetSnapshot(ts)
	snap.SetVars(vars)
	if e.replicas.Load() {
		snap.SetReplicaRead(kv.ReplicaReadMixed)
	}
	return snap
}

// ready prepares a read of the given rows, or of a range if there are none.
func (v *view) ready(rows ...[]byte) error {
	if v.o.NoWait {
		return fmt.Errorf("the rows are not on this machine: %w", engine.ErrCold)
	}
	if v.closed {
		return errClosed
	}
	if !v.o.PointRead {
		return v.begin()
	}
	if len(rows) != 1 || v.one != nil && !bytes.Equal(v.one, rows[0]) {
		return errPointRead
	}
	if v.one != nil {
		return nil
	}
	if err := v.enter(); err != nil {
		return err
	}
	v.one, v.snap = append([]byte{}, rows[0]...), v.e.snapshotAt(math.MaxUint64)
	return nil
}

// stored returns the stored value of a row, nil if it does not exist.
func (v *view) stored(row []byte) ([]byte, error) {
	if err := v.ready(row); err != nil {
		return nil, err
	}
	return v.e.get(v.ctx, v.snap, row)
}

// get reads the stored value of a row, nil if it does not exist.
func (e *Engine) get(ctx context.Context, snap *txnsnapshot.KVSnapshot, row []byte) ([]byte, error) {
	if isReserved(row) {
		return nil, nil
	}
	return e.getAny(ctx, snap, e.space.key(row))
}

// getAny is get for any stored key.
func (e *Engine) getAny(ctx context.Context, snap *txnsnapshot.KVSnapshot, key []byte) ([]byte, error) {
	entry, err := snap.Get(ctx, key)
	if tikverr.IsErrNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, e.readError(ctx, "get", err)
	}
	return entry.Value, nil
}

// Get implements engine.Reader.
func (v *view) Get(row, dst []byte) ([]byte, bool, error) {
	stored, err := v.stored(row)
	return take(row, stored, dst, err)
}

// take appends the value of a row to dst.
func take(row, stored, dst []byte, err error) ([]byte, bool, error) {
	if err != nil || stored == nil {
		return dst, false, err
	}
	value, _, err := valueOf(row, stored)
	if err != nil {
		return dst, false, err
	}
	return append(dst, value...), true, nil
}

// Version implements engine.SharedView.
func (v *view) Version(row []byte) (uint64, error) {
	stored, err := v.stored(row)
	if err != nil || stored == nil {
		return 0, err
	}
	_, version, err := valueOf(row, stored)
	return version, err
}

// GetMany implements engine.Reader.
func (v *view) GetMany(rows [][]byte, visit func(int, []byte, bool) error) error {
	if len(rows) == 0 {
		return nil
	}
	if err := v.ready(rows...); err != nil {
		return err
	}
	return v.e.getMany(v.ctx, v.snap, rows, visit)
}

func (e *Engine) getMany(ctx context.Context, snap *txnsnapshot.KVSnapshot, rows [][]byte, visit func(int, []byte, bool) error) error {
	if len(rows) == 1 {
		stored, err := e.get(ctx, snap, rows[0])
		if err != nil {
			return err
		}
		return show(0, rows[0], stored, visit)
	}
	keys := e.space.keys(rows)
	found, err := snap.BatchGet(ctx, keys)
	if err != nil {
		return e.readError(ctx, "batch get", err)
	}
	for i, key := range keys {
		stored := found[string(key)].Value
		if isReserved(rows[i]) {
			stored = nil
		}
		if err := show(i, rows[i], stored, visit); err != nil {
			return err
		}
	}
	return nil
}

func show(i int, row, stored []byte, visit func(int, []byte, bool) error) error {
	if stored == nil {
		return visit(i, nil, false)
	}
	value, _, err := valueOf(row, stored)
	if err != nil {
		return err
	}
	return visit(i, value, true)
}

// Prefetch reads the rows all at once; the client's snapshot caches them.
func (v *view) Prefetch(rows [][]byte) (cold int) {
	switch {
	case v.o.NoWait:
		return len(rows)
	case v.o.PointRead || len(rows) == 0 || v.ready(rows...) != nil:
		return 0 // the read returns the error
	}
	if err := v.e.getMany(v.ctx, v.snap, rows, func(int, []byte, bool) error { return nil }); err != nil {
		v.e.log.Debug("rows were not fetched ahead", "err", brief(err))
	}
	return 0
}

// Iter implements engine.Reader. It fixes the moment of the view.
func (v *view) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := v.ready(); err != nil {
		return &iterator{err: err}
	}
	return newIterator(v.ctx, v.e.scanner(v.snap, v.ts), lo, hi, reverse)
}

// Edge implements engine.Reader: one request for one row.
func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	if err := v.ready(); err != nil {
		return b, 0, false, err
	}
	return v.e.scanner(v.snap, v.ts).edge(v.ctx, lo, hi, reverse, b)
}

// edge implements Edge of engine.Reader for views and snapshots.
func (s *scanner) edge(ctx context.Context, lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	from, to := s.within(lo, hi)
	for p := (page{lo: from, hi: to}); bytes.Compare(p.lo, p.hi) < 0; {
		if p, err = s.page(ctx, p.lo, p.hi, reverse, 1); err != nil {
			return b, 0, false, err
		}
		if len(p.rows) > 0 {
			r := &p.rows[0]
			return append(append(b, r.key...), r.value...), len(r.key), true, nil
		}
	}
	return b, 0, false, nil
}

// Stamp implements engine.SharedView.
func (v *view) Stamp() (engine.Stamp, error) {
	if v.o.PointRead {
		return 0, nil
	}
	if err := v.begin(); err != nil {
		return 0, err
	}
	return engine.Stamp(v.ts), nil
}

// Validate implements engine.SharedView: a view shows one moment.
func (v *view) Validate() error { return nil }

// Close implements engine.View.
func (v *view) Close() {
	if v.closed {
		return
	}
	v.closed = true
	if v.cancel != nil {
		v.cancel()
	}
	if v.token != 0 {
		v.e.reading.leave(v.token)
	}
	if v.placed {
		v.viewLimit().Leave()
	}
}

// snapshot implements engine.Snapshot. It may live long, so it does not cache what it
// reads, and each call has a timeout of its own.
type snapshot struct {
	engine.Uncounted
	e     *Engine
	ts    uint64
	token uint64
}

func (s *snapshot) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.e.ctx, s.e.opt.Timeout)
}

func (s *snapshot) Get(row, dst []byte) ([]byte, bool, error) {
	ctx, cancel := s.call()
	defer cancel()
	stored, err := s.e.get(ctx, s.e.snapshotAt(s.ts), row)
	return take(row, stored, dst, err)
}

func (s *snapshot) GetMany(rows [][]byte, visit func(int, []byte, bool) error) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := s.call()
	defer cancel()
	return s.e.getMany(ctx, s.e.snapshotAt(s.ts), rows, visit)
}

func (s *snapshot) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return newIterator(s.e.ctx, s.scanner(), lo, hi, reverse)
}

func (s *snapshot) scanner() *scanner {
	sc := s.e.scanner(s.e.snapshotAt(s.ts), s.ts)
	sc.timeout = s.e.opt.Timeout
	return sc
}

// Edge implements engine.Reader: one request for one row.
func (s *snapshot) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return s.scanner().edge(s.e.ctx, lo, hi, reverse, b)
}

func (s *snapshot) Close() error {
	s.e.reading.leave(s.token)
	return nil
}

package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/engine"
)

// Commit implements engine.View. The ticket is taken before the commit, so that a
// commit that a reader sees has a ticket and is durable.
func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	switch {
	case v.o.PointRead:
		return 0, errPointRead
	case v.settled:
		return 0, errors.New("a second commit on one view")
	case v.closed:
		return 0, errClosed
	case v.e.closed.Load():
		return 0, engine.ErrClosed
	}
	v.settled = true
	if b.Len() == 0 && (v.snap == nil || !checks(b)) { // no checks, or no read for them to be about
		if b.Empty() {
			return 0, nil
		}
		v.e.counters.Add(b)
		v.e.figures.commits.Add(1)
		return engine.Ticket(v.e.seq.Add(1)), nil
	}
	if err := v.begin(); err != nil {
		return 0, err
	}
	if err := v.gather(b); err != nil {
		return 0, err
	}
	ticket := engine.Ticket(v.e.seq.Add(1))
	before := v.o.CommitBefore
	if b.Len() == 0 { // checks only: nothing takes effect
		before = nil
	}
	if err := v.e.commit(v.ctx, v.txn, v.began, before); err != nil {
		return 0, err
	}
	v.e.counters.Add(b)
	v.e.figures.commits.Add(1)
	if b.Empty() {
		return 0, nil
	}
	return ticket, nil
}

func checks(b *engine.Batch) bool {
	for range b.Checks() {
		return true
	}
	return false
}

// gather adds the writes and checks of the batch to the transaction.
func (v *view) gather(b *engine.Batch) error {
	for lo, hi := range b.Ranges() {
		if err := v.deleteRange(lo, hi); err != nil {
			return err
		}
	}
	var buf []byte
	for op := range b.Ops() {
		key, err := v.e.writable(op.Key)
		if err != nil {
			return err
		}
		if op.Delete {
			err = v.txn.Delete(key)
		} else {
			buf = appendRow(buf[:0], op.Key, op.Value, v.ts)
			if size := len(key) + len(buf); size > maxRow {
				return fmt.Errorf("a name with its value, or an element, takes %d bytes, more than the %d of a row in TiKV", size, maxRow)
			}
			err = v.txn.Set(key, buf) // Set copies buf
		}
		if errors.As(err, new(*tikverr.ErrTxnTooLarge)) {
			return fmt.Errorf("more than %d bytes at once are too much for a transaction in TiKV", maxCommit)
		}
		if err != nil {
			return fmt.Errorf("row % x: %w", cut(op.Key), v.e.commitError(v.ctx, err))
		}
	}
	var locks [][]byte
	for row := range b.Checks() {
		key, err := v.e.writable(row)
		if err != nil {
			return err
		}
		locks = append(locks, key)
	}
	if len(locks) == 0 {
		return nil
	}
	// An optimistic transaction only notes the keys: its commit locks those that it does
	// not write, and so conflicts with changes of them.
	return v.txn.LockKeys(v.ctx, kv.NewLockCtx(0, kv.LockNoWait, time.Now()), locks...)
}

// maxRangeRows is how many rows one range delete may delete.
const maxRangeRows = 100_000

// writable returns the key under which a row is stored, or an error if the row is
// reserved.
func (e *Engine) writable(row []byte) ([]byte, error) {
	if isReserved(row) {
		return nil, fmt.Errorf("row % x is reserved", cut(row))
	}
	return e.space.key(row), nil
}

// deleteRange deletes the rows of a range as the view shows it.
func (v *view) deleteRange(lo, hi []byte) error {
	s := v.e.scanner(v.snap, v.ts)
	from, to := s.within(lo, hi)
	n := 0
	for p := (page{lo: from, hi: to}); bytes.Compare(p.lo, p.hi) < 0; {
		var err error
		if p, err = s.page(v.ctx, p.lo, p.hi, false, maxPage); err != nil {
			return err
		}
		if n += len(p.rows); n > maxRangeRows {
			return fmt.Errorf("a range of more than %d rows is too long to be deleted at once", maxRangeRows)
		}
		for i := range p.rows {
			if err := v.txn.Delete(v.e.space.key(p.rows[i].key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshAge is the age up to which a view commits without another timestamp. When TiKV
// chooses the moment of a commit, the client asks PD for the time once more, so that the
// commit comes after all that ended before it. A fresh view needs no such request, since
// its own timestamp was requested after its command had come; an old one does, so that
// it comes after what ended meanwhile: point reads leave no trace of their moment by
// which TiKV could tell. See docs/adr/0017.
const freshAge = 100 * time.Millisecond

// commit commits a transaction that began at the given time. before, if not nil, returns
// the moment before which the commit must take effect (ViewOptions.CommitBefore).
func (e *Engine) commit(ctx context.Context, txn *transaction.KVTxn, began time.Time, before func() engine.Stamp) error {
	txn.SetVars(vars)
	txn.SetEnable1PC(e.onePC)
	txn.SetEnableAsyncCommit(e.onePC)
	txn.SetCausalConsistency(time.Since(began) < freshAge)
	// rpc.go resolves locks of other transactions.
	txn.SetPrewriteEncounterLockPolicy(transaction.NoResolvePolicy)
	if before != nil {
		txn.SetSchemaLeaseChecker(lease(before))
	}
	f := new(commitOutcome)
	err := e.commitError(ctx, txn.Commit(withOutcome(ctx, f)))
	if err != nil && !errors.Is(err, engine.ErrUnknownOutcome) && f.unknown() {
		err = fmt.Errorf("TiKV: %w (%s)", engine.ErrUnknownOutcome, brief(err))
	}
	switch {
	case errors.Is(err, engine.ErrConflict):
		e.figures.conflicts.Add(1)
	case errors.Is(err, engine.ErrUnknownOutcome):
		e.figures.unknown.Add(1)
	case engine.Transient(err):
		e.figures.unavailable.Add(1)
	}
	return err
}

// lease returns the moment at which it ends: a commit that would take effect then or
// later fails. TiDB uses the same hook of the client for the version of a schema.
type lease func() engine.Stamp

var errLate = errors.New("the commit would take effect too late")

// CheckBySchemaVer is called by the client with the moment of the commit. If TiKV
// chooses that moment, the client passes the present time instead, and the moment is at
// most safeWindow later. The two cases look the same, so both get the window.
func (l lease) CheckBySchemaVer(ts uint64, _ transaction.SchemaVer) (*transaction.RelatedSchemaChange, error) {
	if ts+oracle.ComposeTS(safeWindow.Milliseconds(), 0) >= uint64(l()) {
		return nil, errLate
	}
	return nil, nil
}

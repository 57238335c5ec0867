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

// Commit implements engine.View. The ticket is taken before the commit: as soon as
// anybody sees it, it is safe.
func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	switch {
	case v.lone:
		return 0, errLone
	case v.settled:
		return 0, errors.New("a second commit on one view")
	case v.closed:
		return 0, errClosed
	case v.e.closed.Load():
		return 0, engine.ErrClosed
	}
	v.settled = true
	if b.Len() == 0 && (v.snap == nil || !checks(b)) { // nobody can have changed what was not read
		if b.Empty() {
			return 0, nil
		}
		v.e.counters.add(b)
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
	if err := v.e.commit(v.ctx, v.txn, v.began, v.before); err != nil {
		return 0, err
	}
	v.e.counters.add(b)
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

// gather puts the batch into the transaction.
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
			err = v.txn.Set(key, buf) // it makes a copy
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
	// An optimistic transaction only notes them: the commit locks what it does not
	// write, and so meets who has changed it.
	return v.txn.LockKeys(v.ctx, kv.NewLockCtx(0, kv.LockNoWait, time.Now()), locks...)
}

// maxRangeRows are of a range delete, in one transaction.
const maxRangeRows = 100_000

// writable is where a row is stored that a commit may touch.
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

// young is how long a view is that has just begun. When TiKV chooses the moment of a
// commit, the client asks PD for the time once more, so that it comes after all that ended
// before. It does anyhow, since a view asks for its moment after its command has come. But
// what ended since then may come after it, and should not if that is long: single reads
// leave no trace of their moment by which TiKV could tell. See docs/adr/0017.
const young = 100 * time.Millisecond

// commit commits a transaction that began at some time, before a moment if there is one.
func (e *Engine) commit(ctx context.Context, txn *transaction.KVTxn, began time.Time, before func() engine.Stamp) error {
	txn.SetVars(vars)
	txn.SetEnable1PC(e.onePC)
	txn.SetEnableAsyncCommit(e.onePC)
	txn.SetCausalConsistency(time.Since(began) < young)
	// Locks of others are dealt with in rpc.go.
	txn.SetPrewriteEncounterLockPolicy(transaction.NoResolvePolicy)
	if before != nil {
		txn.SetSchemaLeaseChecker(lease(before))
	}
	f := new(fate)
	err := e.commitError(ctx, txn.Commit(withFate(ctx, f)))
	if err != nil && !errors.Is(err, engine.ErrUnknownOutcome) && f.unknown() {
		err = fmt.Errorf("TiKV: %w (%s)", engine.ErrUnknownOutcome, brief(err))
	}
	switch {
	case errors.Is(err, engine.ErrConflict):
		e.figures.conflicts.Add(1)
	case errors.Is(err, engine.ErrUnknownOutcome):
		e.figures.unknown.Add(1)
	case errors.Is(err, engine.ErrUnavailable):
		e.figures.unavailable.Add(1)
	}
	return err
}

// lease ends at a moment: what takes effect then or later is refused. TiDB uses the
// hook in the same way, with the version of a schema.
type lease func() engine.Stamp

var errLate = errors.New("the commit would take effect too late")

// CheckBySchemaVer is called before a commit is sent whose moment TiKV chooses, with
// the present time, and the moment is then at most safeWindow later; else it is called
// with the moment itself. One cannot tell which, so both get the window.
func (l lease) CheckBySchemaVer(ts uint64, _ transaction.SchemaVer) (*transaction.RelatedSchemaChange, error) {
	if ts+oracle.ComposeTS(safeWindow.Milliseconds(), 0) >= uint64(l()) {
		return nil, errLate
	}
	return nil, nil
}

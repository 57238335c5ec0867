package tikv

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/engine"
	"redoubt/engine/sums"
)

// The rows of counters: prefix ff ff ff ff 'c' and the process's number, 8 bytes; number 0
// is the common row. The value: the sums, then the version, as in any row, which tells the
// row's age.

const counterRows = reserved + "c"

func (e *Engine) counterKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(e.space.key([]byte(counterRows)), id)
}

// UpdateCounters implements sums.Table.
func (e *Engine) UpdateCounters(ctx context.Context, f func(tx sums.Tx, rows map[uint64]sums.Row) error) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := e.tryCounters(ctx, f)
		if !errors.Is(err, engine.ErrConflict) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

func (e *Engine) tryCounters(ctx context.Context, f func(tx sums.Tx, rows map[uint64]sums.Row) error) error {
	ts, err := e.timestamp(ctx)
	if err != nil {
		return err
	}
	snap := e.snapshotAt(ts)
	txn, err := e.transaction(snap, ts)
	if err != nil {
		return err
	}
	rows, from := make(map[uint64]sums.Row), e.counterKey(0)
	it := iterate(ctx, e.scanner(snap, ts), from, append(e.space.key([]byte(counterRows)), 0xff), false)
	for it.Next() {
		if len(it.Key()) != len(counterRows)+8 {
			continue
		}
		s, err := sums.Decode(it.Value())
		if err != nil {
			it.Close()
			return err
		}
		rows[binary.BigEndian.Uint64(it.Key()[len(counterRows):])] = sums.Row{Sums: s, At: oracle.GetTimeFromTS(it.version())}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if err := f(counterTx{e, txn}, rows); err != nil {
		return err
	}
	if txn.Len() == 0 {
		return nil
	}
	return e.commit(ctx, txn, time.Now(), nil) // the catalog's lease does not apply
}

// counterTx implements sums.Tx.
type counterTx struct {
	e *Engine
	*transaction.KVTxn
}

func (t counterTx) Now() time.Time                 { return oracle.GetTimeFromTS(t.StartTS()) }
func (t counterTx) DeleteCounters(id uint64) error { return t.Delete(t.e.counterKey(id)) }
func (t counterTx) PutCounters(id uint64, s sums.Sums) error {
	return t.Set(t.e.counterKey(id), appendValue(nil, s.Encode(), t.StartTS()))
}

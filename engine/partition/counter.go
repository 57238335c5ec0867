package partition

import (
	"context"
	"encoding/binary"
	"time"

	"redoubt/engine"
	"redoubt/engine/sums"
)

// The rows of counters: ff ff ff ff 'c' and the process's number, 8 bytes, 0 for the common
// row. The value: the time in milliseconds at which it was stored, 8 bytes, and the sums.

const counterRows = ownRows + "c"

func counterKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte(counterRows), id) }

// UpdateCounters implements sums.Table.
func (e *Engine) UpdateCounters(_ context.Context, f func(tx sums.Tx, rows map[uint64]sums.Row) error) error {
	return e.transact(func(v *view, b *engine.Batch) error {
		// The common row comes first: it is written by who merges another row into it, so
		// whatever the walk finds is valid if it is unchanged.
		if _, _, err := v.Get(counterKey(sums.Left), nil); err != nil {
			return err
		}
		rows := make(map[uint64]sums.Row)
		it := v.Iter(counterKey(sums.Left), []byte(counterRows+"\xff\xff\xff\xff\xff\xff\xff\xff\xff"), false)
		for it.Next() {
			if len(it.Key()) != len(counterRows)+8 || len(it.Value()) < 8 {
				continue
			}
			s, err := sums.Decode(it.Value()[8:])
			if err != nil {
				it.Close()
				return err
			}
			at := time.UnixMilli(int64(binary.BigEndian.Uint64(it.Value())))
			rows[binary.BigEndian.Uint64(it.Key()[len(counterRows):])] = sums.Row{Sums: s, At: at}
		}
		if err := it.Close(); err != nil {
			return err
		}
		return f(counterTx{e, b}, rows)
	})
}

// counterTx implements sums.Tx.
type counterTx struct {
	e *Engine
	b *engine.Batch
}

func (t counterTx) Now() time.Time { return t.e.Now() }

func (t counterTx) DeleteCounters(id uint64) error {
	t.b.Delete(counterKey(id))
	return nil
}

func (t counterTx) PutCounters(id uint64, s sums.Sums) error {
	t.b.Put(counterKey(id), append(binary.BigEndian.AppendUint64(nil, uint64(t.e.Now().UnixMilli())), s.Encode()...))
	return nil
}

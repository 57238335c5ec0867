package tikv

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/engine"
	"redoubt/engine/sums"
)

// Counters are sums that every process adds to, usually with each commit. One row that
// all processes wrote would make every commit a conflict, so counters are not exact:
//
//   - Each process sums up its commits in memory and stores its sums every second in a
//     row of its own. The value of a counter is the process's own sum and what it last
//     read in the rows of other processes.
//   - A process that closes the store merges its row into the common row of the processes
//     that have left, in one transaction. A process that was killed leaves its row behind,
//     without the commits of its last second; the next process that opens the store
//     merges that row.
//   - A living process that was taken for dead finds its row gone. It subtracts the sums
//     of that row from its own, since they are in the common row.
//
// The rows: prefix ff ff ff ff 'c' and the process's number, 8 bytes; number 0 is the
// common row. The value: for each counter the length of its key, its key, and its sum,
// length and sum as varints; then the version, as in any row, which tells the row's age.

const (
	counterRows = reserved + "c"
	leftID      = 0
	// takenForDead is the age of a row from which on its process counts as dead, and
	// storeEvery how often a living process stores its row if nothing changes.
	takenForDead = time.Minute
	storeEvery   = 15 * time.Second
	// leaveTries is how often leave is retried when its outcome is unknown.
	leaveTries = 5
)

type counters struct {
	id uint64

	mu     sync.Mutex
	own    sums.Sums // this process's commits that are not in the common row
	others sums.Sums // sums of the rows of all other processes and of the common row

	// Used without the lock, by one goroutine at a time: keepCounters, later Close.
	stored   sums.Sums // what this process's row says; nil if there is none
	storedAt time.Time
}

func (c *counters) init(id uint64) { c.id, c.own, c.others = id, sums.Sums{}, sums.Sums{} }

// add adds the counters of a committed batch.
func (c *counters) add(b *engine.Batch) {
	first := true
	for key, delta := range b.Counters() {
		if first {
			first = false
			c.mu.Lock()
			defer c.mu.Unlock()
		}
		c.own[string(key)] += delta
	}
}

func (c *counters) sum(key []byte) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own[string(key)] + c.others[string(key)]
}

func (e *Engine) counterKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(e.space.key([]byte(counterRows)), id)
}

// counterRow is the row of a process, or the common row.
type counterRow struct {
	sums sums.Sums
	at   time.Time // when the row was stored, in the store's time
}

// counterTxn calls f with all rows of counters as of a moment, and commits what f
// writes, if anything. It retries on conflict until ctx ends.
func (e *Engine) counterTxn(ctx context.Context, f func(t *transaction.KVTxn, rows map[uint64]counterRow) error) error {
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

func (e *Engine) tryCounters(ctx context.Context, f func(t *transaction.KVTxn, rows map[uint64]counterRow) error) error {
	ts, err := e.timestamp(ctx)
	if err != nil {
		return err
	}
	snap := e.snapshotAt(ts)
	txn, err := e.transaction(snap, ts)
	if err != nil {
		return err
	}
	rows, from := make(map[uint64]counterRow), e.counterKey(0)
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
		rows[binary.BigEndian.Uint64(it.Key()[len(counterRows):])] = counterRow{s, oracle.GetTimeFromTS(it.version())}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if err := f(txn, rows); err != nil {
		return err
	}
	if txn.Len() == 0 {
		return nil
	}
	return e.commit(ctx, txn, time.Now(), nil) // the catalog's lease does not apply
}

// putCounters writes a row of counters in the transaction.
func (e *Engine) putCounters(t *transaction.KVTxn, id uint64, s sums.Sums) error {
	return t.Set(e.counterKey(id), appendValue(nil, s.Encode(), t.StartTS()))
}

// adopt reads the sums when the store is opened, and merges the rows of dead processes
// into the common row.
func (c *counters) adopt(ctx context.Context, e *Engine) error {
	return e.counterTxn(ctx, func(t *transaction.KVTxn, rows map[uint64]counterRow) error {
		left, dead := sums.Sums{}.Plus(rows[leftID].sums, 1), 0
		now := oracle.GetTimeFromTS(t.StartTS())
		for id, r := range rows {
			if id != leftID && now.Sub(r.at) > takenForDead {
				left.Plus(r.sums, 1)
				dead++
				if err := t.Delete(e.counterKey(id)); err != nil {
					return err
				}
			}
		}
		c.learn(rows) // merging a row changes no sum
		if dead == 0 {
			return nil
		}
		return e.putCounters(t, leftID, left)
	})
}

// learn notes the sums of other processes, and whether this process's row still exists.
func (c *counters) learn(rows map[uint64]counterRow) {
	others := sums.Sums{}
	for id, r := range rows {
		if id != c.id {
			others.Plus(r.sums, 1)
		}
	}
	mine, there := rows[c.id]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = others
	if !there && c.stored != nil { // taken for dead
		c.own.Plus(c.stored, -1)
		c.stored = nil
	}
	if there {
		c.stored = mine.sums
	}
}

// exchange stores this process's sums if they have changed, or were last stored longer
// than storeEvery ago, and reads the sums of other processes.
func (c *counters) exchange(ctx context.Context, e *Engine) error {
	var mine sums.Sums
	err := e.counterTxn(ctx, func(t *transaction.KVTxn, rows map[uint64]counterRow) error {
		c.learn(rows)
		c.mu.Lock()
		mine = sums.Sums{}.Plus(c.own, 1)
		c.mu.Unlock()
		if maps.Equal(mine, c.stored) && time.Since(c.storedAt) < storeEvery || len(mine) == 0 && c.stored == nil {
			mine = nil
			return nil
		}
		return e.putCounters(t, c.id, mine)
	})
	if err == nil && mine != nil {
		c.stored, c.storedAt = mine, time.Now()
	}
	return err
}

// leave merges this process's sums into the common row. It stores them in the process's
// row first: should an answer be lost, a missing row tells that it was merged.
func (c *counters) leave(ctx context.Context, e *Engine) error {
	for try := 0; ; try++ {
		err := c.exchange(ctx, e)
		if err == nil && c.stored == nil {
			return nil
		}
		if err == nil {
			err = e.counterTxn(ctx, func(t *transaction.KVTxn, rows map[uint64]counterRow) error {
				mine, there := rows[c.id]
				if !there {
					return nil
				}
				if err := t.Delete(e.counterKey(c.id)); err != nil {
					return err
				}
				return e.putCounters(t, leftID, sums.Sums{}.Plus(rows[leftID].sums, 1).Plus(mine.sums, 1))
			})
		}
		if try == leaveTries || !errors.Is(err, engine.ErrUnknownOutcome) {
			return err
		}
	}
}

// keepCounters exchanges the counters periodically.
func (e *Engine) keepCounters() {
	e.periodically("counters were not exchanged", func(ctx context.Context) error { return e.counters.exchange(ctx, e) })
}

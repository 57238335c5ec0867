package tikv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/engine"
)

// Counters are sums that every process adds to, as a rule with each commit. One row
// that all of them wrote would make every commit a conflict, so they are not exact:
//
//   - Each process adds up what it has committed, in memory, and stores its sums every
//     second in a row of its own. A sum is its own part and what the rows of the others
//     said last.
//   - Who leaves adds its row to the row of those who have left, and deletes it, in one
//     transaction. A process that was killed leaves its row behind, without what it had
//     committed in its last second; whoever opens the store later does the same with it.
//   - A process that was taken for dead, and was not, finds its row gone. What was in it
//     is in the row of those who have left, and is not its own part any more.
//
// The rows: prefix ff ff ff ff 'c' and the process's number, 8 bytes; 0 is the row of
// those who have left. The value: for each counter its key's length, its key, and its
// sum, as varints; then the version, as in any row, which tells how old the row is.

const (
	counterRows = reserved + "c"
	leftID      = 0
	// takenForDead is how old the row of a living process never gets, and storeEvery how
	// often it is stored if nothing changes.
	takenForDead = time.Minute
	storeEvery   = 15 * time.Second
	// leaveTries is how often a process that leaves does not know the outcome.
	leaveTries = 5
)

type sums map[string]int64

type counters struct {
	id uint64

	mu     sync.Mutex
	own    sums // what this process has committed and is not in the row of those who have left
	others sums // what the rows of all others say

	// Only who stores uses these: one goroutine, and Close behind it.
	stored   sums // what this process's row says; nil if there is none
	storedAt time.Time
}

func (c *counters) init(id uint64) { c.id, c.own, c.others = id, sums{}, sums{} }

// add adds what a batch was committed with.
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

// plus adds sums, some times over.
func (s sums) plus(o sums, times int64) sums {
	for key, n := range o {
		if s[key] += n * times; s[key] == 0 {
			delete(s, key)
		}
	}
	return s
}

func (s sums) encode() []byte {
	b := []byte{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = binary.AppendVarint(append(b, key...), s[key])
	}
	return b
}

func decodeSums(b []byte) (sums, error) {
	s := sums{}
	for len(b) > 0 {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, fmt.Errorf("a row of counters does not decode: %w", engine.ErrCorrupt)
		}
		key := string(b[n : n+int(size)])
		b = b[n+int(size):]
		value, n := binary.Varint(b)
		if n <= 0 {
			return nil, fmt.Errorf("a row of counters does not decode: %w", engine.ErrCorrupt)
		}
		s[key], b = value, b[n:]
	}
	return s, nil
}

func (e *Engine) counterKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(e.space.key([]byte(counterRows)), id)
}

// counterRow is what a process, or those who have left, have stored.
type counterRow struct {
	sums sums
	at   time.Time // when, in the store's time
}

// counterTxn calls f with all rows of counters as of a moment, and commits what it
// writes, if anything. It is done again on conflict, until ctx ends.
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
		s, err := decodeSums(it.Value())
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
	return e.commit(ctx, txn, time.Now(), nil) // nobody orders them
}

// put stores a row of counters with the transaction.
func (e *Engine) putCounters(t *transaction.KVTxn, id uint64, s sums) error {
	return t.Set(e.counterKey(id), appendValue(nil, s.encode(), t.StartTS()))
}

// adopt is what a process does first: it learns the sums, and puts the rows of dead
// ones to those who have left.
func (c *counters) adopt(ctx context.Context, e *Engine) error {
	return e.counterTxn(ctx, func(t *transaction.KVTxn, rows map[uint64]counterRow) error {
		left, dead := sums{}.plus(rows[leftID].sums, 1), 0
		now := oracle.GetTimeFromTS(t.StartTS())
		for id, r := range rows {
			if id != leftID && now.Sub(r.at) > takenForDead {
				left.plus(r.sums, 1)
				dead++
				if err := t.Delete(e.counterKey(id)); err != nil {
					return err
				}
			}
		}
		c.learn(rows) // moving a row changes no sum
		if dead == 0 {
			return nil
		}
		return e.putCounters(t, leftID, left)
	})
}

// learn notes what the others have stored, and what has become of the own row.
func (c *counters) learn(rows map[uint64]counterRow) {
	others := sums{}
	for id, r := range rows {
		if id != c.id {
			others.plus(r.sums, 1)
		}
	}
	mine, there := rows[c.id]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = others
	if !there && c.stored != nil { // taken for dead
		c.own.plus(c.stored, -1)
		c.stored = nil
	}
	if there {
		c.stored = mine.sums
	}
}

// exchange stores the own sums if they have changed, or have not been stored for a
// while, and learns those of the others.
func (c *counters) exchange(ctx context.Context, e *Engine) error {
	var mine sums
	err := e.counterTxn(ctx, func(t *transaction.KVTxn, rows map[uint64]counterRow) error {
		c.learn(rows)
		c.mu.Lock()
		mine = sums{}.plus(c.own, 1)
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

// leave adds the own sums to those of who have left. The own row is stored first:
// that it is gone tells, should an answer be lost, that it was added.
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
				return e.putCounters(t, leftID, sums{}.plus(rows[leftID].sums, 1).plus(mine.sums, 1))
			})
		}
		if try == leaveTries || !errors.Is(err, engine.ErrUnknownOutcome) {
			return err
		}
	}
}

// keepCounters exchanges them every second.
func (e *Engine) keepCounters() {
	tick := time.NewTicker(e.opt.every)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(behind(e.ctx), e.opt.Timeout)
		if err := e.counters.exchange(ctx, e); err != nil {
			e.log.Debug("counters were not exchanged", "err", err)
		}
		cancel()
	}
}

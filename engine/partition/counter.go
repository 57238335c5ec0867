package partition

import (
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"redoubt/engine"
	"redoubt/engine/sums"
)

// Counters are sums that every process adds to, usually with each commit. They are not
// exact, since one row that all processes write would make every commit a conflict: each
// process stores its sums every second in a row of its own. A process that leaves merges its
// row into the common row; the row of one that was killed is merged by the next process that
// opens the store. A living process that finds its row gone was taken for dead: what that row
// said is in the common row, and it subtracts that from its own sums.
//
// The rows: ff ff ff ff 'c' and the process's number, 8 bytes, 0 for the common row. The
// value: the time in milliseconds at which it was stored, 8 bytes, and the sums.

const (
	counterRows = ownRows + "c"
	leftID      = 0
	// takenForDead is the age of a row from which on its process counts as dead, and
	// storeEvery how often a living process stores its row if nothing changes.
	takenForDead = time.Minute
	storeEvery   = 15 * time.Second
)

type counters struct {
	id uint64

	mu     sync.Mutex
	own    sums.Sums // commits of this process that are not in the common row
	others sums.Sums // of all other processes, and of the common row

	// Used by one goroutine at a time: keepCounters, later Close.
	stored   sums.Sums // what the row of this process says; nil if there is none
	storedAt time.Time
}

type counterRow struct {
	sums sums.Sums
	at   time.Time
}

func (c *counters) init(id uint64) { c.id, c.own, c.others = id, sums.Sums{}, sums.Sums{} }

// add adds the counters of a committed batch.
func (c *counters) add(b *engine.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, delta := range b.Counters() {
		c.own[string(key)] += delta
	}
}

func (c *counters) sum(key []byte) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own[string(key)] + c.others[string(key)]
}

func counterKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte(counterRows), id) }

// counterTxn calls f with all rows of counters, and commits what f writes.
func (e *Engine) counterTxn(f func(b *engine.Batch, rows map[uint64]counterRow) error) error {
	return e.transact(func(v *view, b *engine.Batch) error {
		// The common row comes first: it is written by who merges another row into it, so
		// whatever the walk finds is valid if it is unchanged.
		if _, _, err := v.Get(counterKey(leftID), nil); err != nil {
			return err
		}
		rows := make(map[uint64]counterRow)
		it := v.Iter(counterKey(leftID), []byte(counterRows+"\xff\xff\xff\xff\xff\xff\xff\xff\xff"), false)
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
			rows[binary.BigEndian.Uint64(it.Key()[len(counterRows):])] = counterRow{s, at}
		}
		if err := it.Close(); err != nil {
			return err
		}
		return f(b, rows)
	})
}

func (e *Engine) putCounters(b *engine.Batch, id uint64, s sums.Sums) {
	b.Put(counterKey(id), append(binary.BigEndian.AppendUint64(nil, uint64(e.Now().UnixMilli())), s.Encode()...))
}

// adopt reads the sums when the store is opened, and merges the rows of dead processes.
func (c *counters) adopt(e *Engine) error {
	return e.counterTxn(func(b *engine.Batch, rows map[uint64]counterRow) error {
		left, dead := sums.Sums{}.Plus(rows[leftID].sums, 1), false
		for id, r := range rows {
			if id != leftID && e.Now().Sub(r.at) > takenForDead {
				left.Plus(r.sums, 1)
				b.Delete(counterKey(id))
				dead = true
			}
		}
		c.learn(rows) // merging a row changes no sum
		if dead {
			e.putCounters(b, leftID, left)
		}
		return nil
	})
}

// learn notes the sums of other processes, and whether the row of this one still exists.
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

// exchange stores the sums of this process if they have changed, or were last stored long
// ago, and reads those of the others.
func (c *counters) exchange(e *Engine) error {
	var mine sums.Sums
	err := e.counterTxn(func(b *engine.Batch, rows map[uint64]counterRow) error {
		c.learn(rows)
		c.mu.Lock()
		mine = sums.Sums{}.Plus(c.own, 1)
		c.mu.Unlock()
		if maps.Equal(mine, c.stored) && time.Since(c.storedAt) < storeEvery || len(mine) == 0 && c.stored == nil {
			mine = nil
			return nil
		}
		e.putCounters(b, c.id, mine)
		return nil
	})
	if err == nil && mine != nil {
		c.stored, c.storedAt = mine, time.Now()
	}
	return err
}

// leave merges the sums of this process into the common row. They are stored in the row of
// the process first: if that is gone, it was merged.
func (c *counters) leave(e *Engine) error {
	if err := c.exchange(e); err != nil || c.stored == nil {
		return err
	}
	return e.counterTxn(func(b *engine.Batch, rows map[uint64]counterRow) error {
		mine, there := rows[c.id]
		if there {
			b.Delete(counterKey(c.id))
			e.putCounters(b, leftID, sums.Sums{}.Plus(rows[leftID].sums, 1).Plus(mine.sums, 1))
		}
		return nil
	})
}

func (e *Engine) keepCounters() {
	e.periodically(e.opt.every, "counters were not exchanged", func(context.Context) error { return e.counters.exchange(e) })
}

package sums

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"redoubt/engine"
)

// Counters are the counters of one process. Every process adds to them, usually with each
// commit. One row that all processes wrote would make every commit a conflict, so counters
// are not exact:
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
type Counters struct {
	table Table
	id    uint64

	mu     sync.Mutex
	own    Sums // this process's commits that are not in the common row
	others Sums // sums of the rows of all other processes and of the common row

	// Used without the lock, by one goroutine at a time.
	stored   Sums // what this process's row says; nil if there is none
	storedAt time.Time
}

// Table has the rows of counters: one for each process, by its number, and the common row,
// Left.
type Table interface {
	// UpdateCounters calls f with all rows of counters as of one moment, and commits what f
	// writes, if anything. It retries on conflict until ctx ends.
	UpdateCounters(ctx context.Context, f func(tx Tx, rows map[uint64]Row) error) error
}

// Tx writes rows of counters.
type Tx interface {
	Now() time.Time // of the store
	PutCounters(id uint64, s Sums) error
	DeleteCounters(id uint64) error
}

// Row is a row of counters.
type Row struct {
	Sums Sums
	At   time.Time // when the row was stored, in the store's time
}

const (
	// Left is the number of the common row of the processes that have left.
	Left = 0
	// TakenForDead is the age of a row from which on its process counts as dead, and
	// storeEvery how often a living process stores its row if nothing changes.
	TakenForDead = time.Minute
	storeEvery   = 15 * time.Second
	// leaveTries is how often Leave is retried when its outcome is unknown.
	leaveTries = 5
)

// Open makes the counters of the process with a number, and reads the sums of the others. It
// merges the rows of dead processes into the common row.
func Open(ctx context.Context, table Table, id uint64) (*Counters, error) {
	c := &Counters{table: table, id: id, own: Sums{}, others: Sums{}}
	return c, table.UpdateCounters(ctx, func(tx Tx, rows map[uint64]Row) error {
		left, dead := Sums{}.Plus(rows[Left].Sums, 1), false
		for id, r := range rows {
			if id != Left && tx.Now().Sub(r.At) > TakenForDead {
				left.Plus(r.Sums, 1)
				dead = true
				if err := tx.DeleteCounters(id); err != nil {
					return err
				}
			}
		}
		c.learn(rows) // merging a row changes no sum
		if !dead {
			return nil
		}
		return tx.PutCounters(Left, left)
	})
}

// ID returns the number of the process.
func (c *Counters) ID() uint64 { return c.id }

// Add adds the counters of a committed batch.
func (c *Counters) Add(b *engine.Batch) {
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

// Sum returns what this process has added, and what the others had stored when they were
// last read.
func (c *Counters) Sum(key []byte) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own[string(key)] + c.others[string(key)]
}

// learn notes the sums of other processes, and whether this process's row still exists.
func (c *Counters) learn(rows map[uint64]Row) {
	others := Sums{}
	for id, r := range rows {
		if id != c.id {
			others.Plus(r.Sums, 1)
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
		c.stored = mine.Sums
	}
}

// Exchange stores this process's sums if they have changed, or were last stored longer
// than storeEvery ago, and reads the sums of other processes.
func (c *Counters) Exchange(ctx context.Context) error {
	var mine Sums
	err := c.table.UpdateCounters(ctx, func(tx Tx, rows map[uint64]Row) error {
		c.learn(rows)
		c.mu.Lock()
		mine = Sums{}.Plus(c.own, 1)
		c.mu.Unlock()
		if maps.Equal(mine, c.stored) && time.Since(c.storedAt) < storeEvery || len(mine) == 0 && c.stored == nil {
			mine = nil
			return nil
		}
		return tx.PutCounters(c.id, mine)
	})
	if err == nil && mine != nil {
		c.stored, c.storedAt = mine, time.Now()
	}
	return err
}

// Leave merges this process's sums into the common row. It stores them in the process's
// row first: should an answer be lost, a missing row tells that it was merged.
func (c *Counters) Leave(ctx context.Context) error {
	for try := 0; ; try++ {
		err := c.Exchange(ctx)
		if err == nil && c.stored == nil {
			return nil
		}
		if err == nil {
			err = c.table.UpdateCounters(ctx, func(tx Tx, rows map[uint64]Row) error {
				mine, there := rows[c.id]
				if !there {
					return nil
				}
				if err := tx.DeleteCounters(c.id); err != nil {
					return err
				}
				return tx.PutCounters(Left, Sums{}.Plus(rows[Left].Sums, 1).Plus(mine.Sums, 1))
			})
		}
		if try == leaveTries || !errors.Is(err, engine.ErrUnknownOutcome) {
			return err
		}
	}
}

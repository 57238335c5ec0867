package pebble

// Counters.
//
// A counter is a row under a reserved prefix whose value is a signed 64-bit
// integer, big-endian. A commit adds to it with a Pebble merge in its own
// batch, so it costs no read and is as atomic and durable as the rows; Pebble
// sums the operands when it flushes and compacts.
//
// All counters are read into memory at opening: there are few (one for each
// database), and from then on commits keep them exact, so a read is a map
// lookup and needs no care about what a lazy load might miss.
//
// Keys from reserved on (four ff bytes and more) belong to the engine: rows
// there are refused by Commit, never found by Get and Iter, and a range delete
// ends before them. The layout of rows (design.md, section 3) has none there.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	lsm "github.com/cockroachdb/pebble/v2"
)

var (
	reserved      = []byte{0xff, 0xff, 0xff, 0xff}
	counterPrefix = []byte{0xff, 0xff, 0xff, 0xff, 'c'}
	counterEnd    = []byte{0xff, 0xff, 0xff, 0xff, 'd'}
)

func isReserved(key []byte) bool {
	return len(key) >= len(reserved) && key[0] == 0xff && bytes.HasPrefix(key, reserved)
}

// sumMerger is recorded in the store by its name: never change what it does.
var sumMerger = &lsm.Merger{
	Name: "redoubt.sum.1",
	Merge: func(key, value []byte) (lsm.ValueMerger, error) {
		s := new(sum)
		return s, s.add(value)
	},
}

type sum int64

func (s *sum) add(value []byte) error {
	if len(value) != 8 {
		return fmt.Errorf("%w: a counter of %d bytes", lsm.ErrCorruption, len(value))
	}
	*s += sum(binary.BigEndian.Uint64(value))
	return nil
}

func (s *sum) MergeNewer(value []byte) error { return s.add(value) }
func (s *sum) MergeOlder(value []byte) error { return s.add(value) }

func (s *sum) Finish(bool) ([]byte, io.Closer, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(*s)), nil, nil
}

// counters is the memory of all counters.
type counters struct {
	mu  sync.RWMutex
	sum map[string]*atomic.Int64
}

func (c *counters) load(db *lsm.DB) error {
	c.sum = map[string]*atomic.Int64{}
	it, err := db.NewIter(&lsm.IterOptions{LowerBound: counterPrefix, UpperBound: counterEnd})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		var s sum
		if err == nil {
			err = s.add(value)
		}
		if err != nil {
			_ = it.Close()
			return err
		}
		c.add(it.Key()[len(counterPrefix):], int64(s))
	}
	return it.Close()
}

func (c *counters) add(key []byte, delta int64) {
	c.mu.RLock()
	v := c.sum[string(key)]
	c.mu.RUnlock()
	if v == nil {
		c.mu.Lock()
		if v = c.sum[string(key)]; v == nil {
			v = new(atomic.Int64)
			c.sum[string(key)] = v
		}
		c.mu.Unlock()
	}
	v.Add(delta)
}

func (c *counters) get(key []byte) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v := c.sum[string(key)]; v != nil {
		return v.Load()
	}
	return 0
}

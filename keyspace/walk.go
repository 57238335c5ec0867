package keyspace

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"redoubt/engine"
)

// Walking over keys goes slot by slot, since a slot's meta rows of one keyspace
// are one contiguous range, and inside a slot in the order of the keys.
//
// A SCAN cursor is slot:14 | token:48. Token 0 means the start of the slot;
// else it is a hash of the last key that was examined, and the scan goes on
// behind that key. A cache of recent positions maps the cursor back to its key.
// If the cache does not have the cursor, the slot is walked from its start
// until a key with that hash comes; if that key is gone meanwhile, the slot
// is scanned again from its start. So a key that stays is returned even after a
// restart, and some may be returned twice, as Redis's guarantee allows.
// Rejected: scanning a slot in the order of the hash needs no cache but reads
// the whole slot for each page.

// Walk visits the live keys of the selected database in order, from a slot on
// and behind a key, until visit returns false. The bytes are valid during the
// call only, and visit must not write. Expired keys are visited with a zero
// Meta.
func (t *Tx) Walk(slot uint16, after []byte, visit func(slot uint16, key []byte, m Meta) bool) {
	t.walk(slot, after, Slots, math.MaxInt, visit)
}

// walk is Walk up to the slot end, and opens up to opens iterators. At that limit it
// returns the slot to go on from; else Slots.
//
// An iterator skips rows that are not keys of this database as long as few of them
// follow each other; else a new iterator is opened where the next key can be at the
// earliest. So a plain database is walked with a single iterator, and one with few
// keys among many others costs at most one per slot.
func (t *Tx) walk(slot uint16, after []byte, end, opens int, visit func(slot uint16, key []byte, m Meta) bool) (next int) {
	ks := t.ks()
	lo := appendMetaKey(nil, slot, ks, after)
	if after != nil {
		lo = append(lo, 0)
	}
	alive := func(slot uint16, key []byte, m Meta) bool {
		if m.dead(t.Now) {
			m = Meta{}
		}
		return visit(slot, key, m)
	}
	hi := sysKey(0)
	if end < Slots {
		hi = []byte{byte(end >> 8), byte(end)}
	}
	for next = int(slot); next < end && t.err == nil; opens-- {
		if opens == 0 {
			return next
		}
		it := t.IterRows(lo, hi, false)
		next = t.walkRun(it, ks, alive)
		t.CloseRows(it)
		lo = appendMetaKey(lo[:0], uint16(next), ks, nil)
	}
	return Slots
}

// walkRun visits the keys of a keyspace that an iterator passes, dead ones too,
// until many other rows follow each other. It returns the slot to go on from, Slots
// if there is none.
func (t *Tx) walkRun(it engine.Iterator, ks uint32, visit func(slot uint16, key []byte, m Meta) bool) (next int) {
	near := t.Local()
	for others := 0; it.Next(); {
		row := it.Key()
		if len(row) < metaKeyHead {
			t.Fail(fmt.Errorf("%w: row % x", engine.ErrCorrupt, row))
			return Slots
		}
		slot := binary.BigEndian.Uint16(row)
		of := binary.BigEndian.Uint32(row[3:])
		if row[2] != kindMeta || of != ks {
			if next = int(slot); row[2] > kindMeta || of > ks {
				next++
			}
			others++
			if !near {
				others += len(it.Value()) / largeRow
			}
			if others >= maxOthers && (near || others >= maxOthersFar) {
				return next
			}
			continue
		}
		others = 0
		m, err := decodeMeta(it.Value())
		if err != nil {
			t.Fail(fmt.Errorf("key %.64q: %w", row[metaKeyHead:], err))
			return Slots
		}
		if !visit(slot, row[metaKeyHead:], m) {
			return Slots
		}
	}
	return Slots
}

const (
	// maxOthers is how many other rows an iterator skips in sequence: about the cost
	// of opening another iterator.
	maxOthers = 8
	// maxOthersFar is maxOthers on a remote store, where opening an iterator is a round
	// trip that brings a page of rows, and further pages are prefetched: two pages.
	maxOthersFar = 512
	// largeRow is the size from which on another row on a remote store counts as several.
	largeRow = 1 << 10
)

const tokenBits = 48

// token returns the hash of a key in a cursor. It must not change over restarts: a cursor
// may outlive the process.
func token(key []byte) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(1, h>>(64-tokenBits))
}

// Scan examines about count keys from a cursor on and returns the next cursor,
// 0 when the scan is complete. It visits live keys only. If this database has few
// keys among those of others, a call may visit none.
func (t *Tx) Scan(cursor uint64, count int, visit func(key []byte, m Meta)) uint64 {
	if cursor>>tokenBits >= Slots {
		return 0
	}
	slot, tok := uint16(cursor>>tokenBits), cursor&(1<<tokenBits-1)
	var after []byte
	if tok != 0 {
		after = t.resume(cursor, slot, tok)
	}
	cursor = 0
	opens := scanOpensFar
	if t.Local() {
		opens = max(scanOpens, count)
	}
	next := t.walk(slot, after, Slots, opens, func(slot uint16, key []byte, m Meta) bool {
		if m.Exists() {
			visit(key, m)
		}
		if count--; count > 0 {
			return true
		}
		cursor = uint64(slot)<<tokenBits | token(key)
		t.Space.cursors.put(t.ks(), cursor, key)
		return false
	})
	if next < Slots {
		cursor = uint64(next) << tokenBits
	}
	return cursor
}

// scanOpens is how many iterators one call of Scan opens before it returns fewer
// keys than asked for: about a millisecond's work. scanOpensFar is the same on a
// remote store.
const (
	scanOpens    = 1000
	scanOpensFar = 16
)

// resume returns the key behind which a cursor stands; nil if it is gone.
func (t *Tx) resume(cursor uint64, slot uint16, tok uint64) (after []byte) {
	if key, ok := t.Space.cursors.get(t.ks(), cursor); ok {
		return key
	}
	lo := appendMetaKey(nil, slot, t.ks(), nil)
	it := t.IterRows(lo, successor(lo), false)
	defer t.CloseRows(it)
	for it.Next() {
		if key := it.Key()[metaKeyHead:]; token(key) == tok {
			return append([]byte{}, key...)
		}
	}
	return nil
}

// cursorCache has the keys of the newest cursors that Scan returned.
type cursorCache struct {
	mu   sync.Mutex
	keys map[position][]byte
	ring [4096]position
	next int
}

type position struct {
	ks     uint32
	cursor uint64
}

// maxCachedKey is the length up to which a key is cached: for a longer one the
// slot is walked. It bounds the cache to some megabytes.
const maxCachedKey = 1024

func (c *cursorCache) put(ks uint32, cursor uint64, key []byte) {
	if len(key) > maxCachedKey {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = make(map[position][]byte)
	}
	p := position{ks, cursor}
	if _, known := c.keys[p]; !known {
		delete(c.keys, c.ring[c.next])
		c.ring[c.next] = p
		c.next = (c.next + 1) % len(c.ring)
	}
	c.keys[p] = append([]byte{}, key...)
}

func (c *cursorCache) get(ks uint32, cursor uint64) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, ok := c.keys[position{ks, cursor}]
	return key, ok
}

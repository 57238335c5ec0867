package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"redoubt/engine"
)

// Clearing: unreachable rows are deleted in the background, in steps that are bounded in
// the rows that they write and in the iterators that they open. There are two sorts:
//
//   - the keys of a keyspace number that no database has since a flush;
//   - the rows of deleted values, on engines without a cheap range delete. Each
//     such value has a garbage row.
//
// Such rows are written by no command, so no latch is needed; two processes of a shared
// store that clear the same rows conflict, and one of them succeeds.

// Clearing is the progress of background clearing; the zero value starts at the
// beginning, as after a restart. After a step that was not committed, begin with a
// zero Clearing: else rows that are still there would be skipped.
type Clearing struct {
	ks    uint32 // the keyspace that is being cleared, or 0
	from  []byte // rows of ks before this key are gone
	group int
	// Cleared counts rows, for INFO.
	Cleared int64
}

// clearOpensFar is how many iterators one step opens on a remote store. Elsewhere the
// limit is that of rows.
const clearOpensFar = 16

func (t *Tx) clearOpens(limit int) int {
	if t.Local() {
		return limit
	}
	return clearOpensFar
}

// Clear clears about limit rows; it reports whether there may be more.
func (t *Tx) Clear(c *Clearing, limit int) (more bool) {
	return t.ClearDead(c, limit) || t.err == nil && t.clearGarbage(c, limit)
}

// ClearDead is Clear for flushed databases alone.
func (t *Tx) ClearDead(c *Clearing, limit int) (more bool) {
	if c.ks == 0 {
		c.ks, c.from = t.firstDead(), nil
	}
	return c.ks != 0 && t.clearKeyspace(c, limit)
}

// firstDead returns the number of a flushed keyspace, or 0 if there is none that may be
// cleared now.
func (t *Tx) firstDead() (ks uint32) {
	lo := sysKey(sysDead)
	it := t.IterRows(lo, successor(lo), false)
	for ks == 0 && it.Next() {
		if len(it.Key()) != 6 {
			break
		}
		if n := binary.BigEndian.Uint32(it.Key()[2:]); !t.Space.protected(n) {
			ks = n
		}
	}
	t.CloseRows(it)
	if ks != 0 && !t.Space.store.catalogSettled(t) {
		return 0
	}
	return ks
}

// Dead reports whether there is a flushed keyspace.
func (s *Space) Dead(r engine.Reader) (bool, error) {
	lo := sysKey(sysDead)
	it := r.Iter(lo, successor(lo), false)
	some := it.Next()
	if err := it.Close(); err != nil {
		return false, fmt.Errorf("look for flushed databases: %w", err)
	}
	return some, nil
}

// clearKeyspace clears up to limit keys of c.ks. It iterates over them as walk does.
func (t *Tx) clearKeyspace(c *Clearing, limit int) bool {
	type key struct {
		slot uint16
		name []byte
		meta Meta
	}
	if c.from == nil {
		c.from = appendMetaKey(nil, 0, c.ks, nil)
	}
	var list []key // a batch must not change under an iterator
	next := 0
	for opens := t.clearOpens(limit); next < Slots && len(list) < limit && opens > 0 && t.err == nil; opens-- {
		it := t.IterRows(c.from, sysKey(0), false)
		next = t.walkRun(it, c.ks, func(slot uint16, name []byte, m Meta) bool {
			m.Body = append([]byte(nil), m.Body[:min(len(m.Body), refSize+FieldTimesSize)]...)
			list = append(list, key{slot, append([]byte(nil), name...), m})
			return len(list) < limit
		})
		t.CloseRows(it)
		c.from = appendMetaKey(c.from[:0], uint16(next), c.ks, nil)
	}
	for _, k := range list {
		t.clearKey(k.slot, c.ks, k.name, k.meta)
	}
	if t.err != nil {
		return false
	}
	c.Cleared += int64(len(list))
	switch {
	case len(list) == limit:
		last := list[limit-1]
		c.from = append(appendMetaKey(c.from[:0], last.slot, c.ks, last.name), 0)
	case next >= Slots:
		t.Rows.Batch.Delete(appendSysKey32(nil, sysDead, c.ks))
		c.ks, c.from = 0, nil
	}
	return true
}

// clearKey deletes a key of a flushed keyspace, and its value.
func (t *Tx) clearKey(slot uint16, ks uint32, key []byte, m Meta) {
	if !t.writable() {
		return
	}
	b := t.Rows.Batch
	if m.External() {
		t.dropRows(m.Ref())
	}
	t.count(sysKeys, ks, -1)
	t.moveExpiry(slot, ks, key, m, Meta{})
	b.Delete(appendMetaKey(nil, slot, ks, key))
}

// clearGarbage clears rows of deleted values, group by group.
func (t *Tx) clearGarbage(c *Clearing, limit int) bool {
	if t.Space.eng.Capabilities().CheapRangeDelete {
		return false
	}
	for opens := t.clearOpens(limit); c.group < Groups && limit > 0 && opens > 0 && t.err == nil; opens-- {
		list, err := listGarbage(&t.Rows, c.group, limit)
		if err != nil {
			t.Fail(err)
			return false
		}
		more := len(list) == limit
		if len(list) == 0 {
			limit-- // an empty read has a cost, too
		}
		for _, r := range list {
			if limit <= 0 || opens <= 0 {
				more = true
				break
			}
			n, next := t.ClearValue(r, nil, limit)
			c.Cleared += int64(n)
			limit -= max(1, n)
			opens -= 3
			more = more || next != nil
		}
		if !more {
			c.group++
		}
	}
	if c.group < Groups {
		return t.err == nil
	}
	c.group = 0
	return false
}

// Garbage lists up to limit deleted values of a group of slots that are not cleared
// yet.
func (s *Space) Garbage(r engine.Reader, group, limit int) ([]Ref, error) {
	return listGarbage(r, group, limit)
}

func listGarbage(r interface {
	Iter(lo, hi []byte, reverse bool) engine.Iterator
}, group, limit int) (list []Ref, err error) {
	lo, hi := garbageRange(group)
	it := r.Iter(lo, hi, false)
	for err == nil && len(list) < limit && it.Next() {
		if !isGarbage(it.Key()) {
			err = fmt.Errorf("%w: row % x", engine.ErrCorrupt, it.Key())
			break
		}
		list = append(list, decodeGarbageKey(it.Key()))
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return nil, fmt.Errorf("read garbage rows: %w", err)
	}
	return list, nil
}

// ClearValue deletes up to limit rows of a value that Garbage listed, from the key from
// on, nil at first. next is the key to go on from once this step is committed: a read
// from the beginning would scan the tombstones of all deleted rows. next is nil if no rows
// are left; the garbage row is then deleted, too.
func (t *Tx) ClearValue(r Ref, from []byte, limit int) (n int, next []byte) {
	kind := SubRow
	if from != nil {
		kind = Kind(from[2])
	}
	var list [][]byte // a batch must not change under an iterator
	for ; kind <= RankRow && len(list) < limit; kind++ {
		lo := AppendRowKey(nil, r, kind)
		hi := successor(lo)
		if from != nil {
			lo, from = from, nil
		}
		it := t.IterRows(lo, hi, false)
		for len(list) < limit && it.Next() {
			list = append(list, append([]byte(nil), it.Key()...))
		}
		t.CloseRows(it)
	}
	if !t.writable() {
		return 0, nil
	}
	for _, row := range list {
		t.Rows.Batch.Delete(row)
	}
	if len(list) == limit {
		return limit, append(list[limit-1], 0)
	}
	t.Rows.Batch.Delete(appendGarbageKey(nil, r.Home, r.ID))
	return len(list), nil
}

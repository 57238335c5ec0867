package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"redoubt/engine"
)

// Background work on rows, cut into steps that the executor runs as ordinary
// executions between those of the clients.
//
//   - Expiry: the expire rows of a group of slots are ordered by time. Due lists
//     the keys that are past theirs; the executor latches them and calls Expire.
//   - Clearing: the keys of a flushed database and the rows of deleted values
//     that are still there. Nobody can reach them, so no latch is needed.

// Due is a key whose time has come.
type Due struct {
	Key []byte
	ks  uint32
	at  int64
}

// Groups is the number of groups of slots that the sweeper looks at.
const Groups = Slots / expireGroup

// Due lists up to limit keys of a group whose time is not after now; fewer mean
// that there are no more. r must show the present state: a snapshot that was
// taken before the call may lack a row that was already announced.
//
// The group stays due until a later call finds nothing: what was listed and is
// not removed, since the commit failed or the clock went back, comes again.
func (s *Space) Due(r engine.Reader, group int, now int64, limit int) (list []Due, err error) {
	if s.due[group].Load() > now {
		return nil, nil
	}
	s.due[group].Store(math.MaxInt64) // before reading: see noteDue
	slot := uint16(group * expireGroup)
	lo := []byte{byte(slot >> 8), byte(slot), kindExpire}
	it := r.Iter(lo, successor(lo), false)
	for err == nil && len(list) < limit && it.Next() {
		var row expireRow
		if row, err = decodeExpireKey(it.Key()); err != nil {
			break
		}
		if len(list) == 0 {
			s.noteDue(slot, row.at)
		}
		if row.at > now {
			break
		}
		list = append(list, Due{append([]byte(nil), row.key...), row.ks, row.at})
	}
	if err = errors.Join(err, it.Close()); err != nil {
		s.noteDue(slot, 0)
		return nil, fmt.Errorf("read expire rows: %w", err)
	}
	return list, nil
}

// Expire removes a key that Due listed, if it is still past its time. Its
// latch is held. It says true when the key lives on but fields of it are past
// theirs: the database is then selected, and the caller removes them.
func (t *Tx) Expire(d Due) (fields bool) {
	slot := SlotOf(d.Key)
	t.rowk = appendMetaKey(t.rowk[:0], slot, d.ks, d.Key)
	v, found := t.GetRow(t.rowk)
	if t.err != nil {
		return false
	}
	if found {
		m, err := decodeMeta(v)
		if err != nil {
			t.Fail(fmt.Errorf("key %.64q: %w", d.Key, err))
			return false
		}
		at := m.due()
		if at == d.at && m.dead(t.Now) {
			t.removeFrom(d.ks, d.Key, m)
			return false
		}
		if at == d.at {
			return at <= t.Now && t.selectSpace(d.ks)
		}
	}
	// The row belongs to no key: it cannot happen while commits are atomic,
	// and would make the sweeper look at it for ever.
	t.Rows.Batch.Delete(appendExpireKey(nil, slot, d.at, d.ks, d.Key))
	return false
}

// removeFrom is expire for a key of any keyspace, perhaps of no database.
func (t *Tx) removeFrom(ks uint32, key []byte, m Meta) {
	if t.selectSpace(ks) {
		t.expire(key, m)
	} else {
		t.clearKey(SlotOf(key), ks, key, m)
	}
}

// selectSpace selects the database that has a keyspace number, if one has.
func (t *Tx) selectSpace(ks uint32) bool {
	for db := range t.Space.dbs {
		if t.ksOf(db) == ks {
			t.DB = db
			return true
		}
	}
	return false
}

// clearKey deletes what belongs to a key of a dead keyspace.
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

// Clearing is background clearing in progress; its zero value starts at the
// beginning. What it forgets at a restart it finds again. After a step that was
// not committed it must begin anew, or it would pass over what is still there.
type Clearing struct {
	ks   uint32
	slot int
	// Cleared counts rows, for INFO.
	Cleared int64
}

// Clear does one step of clearing of about limit rows; it says whether there
// may be more to do.
func (t *Tx) Clear(c *Clearing, limit int) (more bool) {
	if c.ks == 0 {
		lo := sysKey(sysDead)
		it := t.IterRows(lo, successor(lo), false)
		if it.Next() && len(it.Key()) == 6 {
			c.ks, c.slot = binary.BigEndian.Uint32(it.Key()[2:]), 0
		}
		t.CloseRows(it)
	}
	if c.ks != 0 {
		return t.clearKeyspace(c, limit)
	}
	return t.clearGarbage(c, limit)
}

func (t *Tx) clearKeyspace(c *Clearing, limit int) bool {
	type key struct {
		name []byte
		meta Meta
	}
	for c.slot < Slots && limit > 0 && t.err == nil {
		lo := appendMetaKey(nil, uint16(c.slot), c.ks, nil)
		hi := successor(lo)
		var list []key // a batch must not change under an iterator
		it := t.IterRows(lo, hi, false)
		for len(list) < limit && it.Next() {
			m, err := decodeMeta(it.Value())
			if err != nil {
				t.Fail(fmt.Errorf("flushed key %.64q: %w", it.Key()[metaKeyHead:], err))
				break
			}
			m.Body = append([]byte(nil), m.Body[:min(len(m.Body), refSize+FieldTimesSize)]...)
			list = append(list, key{append([]byte(nil), it.Key()[metaKeyHead:]...), m})
		}
		t.CloseRows(it)
		for _, k := range list {
			t.clearKey(uint16(c.slot), c.ks, k.name, k.meta)
		}
		c.Cleared += int64(len(list))
		if len(list) == limit || t.err != nil {
			return t.err == nil // there may be more in this slot
		}
		limit -= max(1, len(list))
		c.slot++
		if len(list) == 0 {
			c.slot = max(c.slot, t.nextSlot(hi))
		}
	}
	if c.slot >= Slots && t.err == nil {
		t.Rows.Batch.Delete(appendSysKey32(nil, sysDead, c.ks))
		c.ks, c.slot = 0, 0
	}
	return t.err == nil
}

// nextSlot returns the slot of the first row at or above key.
func (t *Tx) nextSlot(key []byte) int {
	it := t.IterRows(key, sysKey(0), false)
	defer t.CloseRows(it)
	if it.Next() {
		return int(binary.BigEndian.Uint16(it.Key()))
	}
	return Slots
}

// clearGarbage clears rows of deleted values, on engines without a cheap range
// delete. Garbage rows are found by walking the slots.
func (t *Tx) clearGarbage(c *Clearing, limit int) bool {
	if t.Space.eng.Capabilities().CheapRangeDelete {
		return false
	}
	for ; c.slot < Slots && limit > 0 && t.err == nil; c.slot++ {
		lo := []byte{byte(c.slot >> 8), byte(c.slot), kindGarbage}
		it := t.IterRows(lo, successor(lo), false)
		var row []byte
		if it.Next() {
			row = append(row, it.Key()...)
		}
		t.CloseRows(it)
		if row == nil {
			limit--
			c.slot = max(c.slot, t.nextSlot(lo)-1)
			continue
		}
		n := t.clearValue(row, limit)
		c.Cleared += int64(n)
		if limit -= n; limit > 0 {
			t.Rows.Batch.Delete(row)
		}
		c.slot-- // stay until the slot has no garbage
	}
	if c.slot < Slots {
		return true
	}
	c.slot = 0
	return false
}

// clearValue deletes up to limit rows of the value that a garbage row names.
func (t *Tx) clearValue(garbage []byte, limit int) int {
	var list [][]byte // a batch must not change under an iterator
	for kind := byte(kindSub); kind <= kindRank; kind++ {
		lo := append([]byte(nil), garbage...)
		lo[2] = kind
		it := t.IterRows(lo, successor(lo), false)
		for len(list) < limit && it.Next() {
			list = append(list, append([]byte(nil), it.Key()...))
		}
		t.CloseRows(it)
	}
	for _, row := range list {
		t.Rows.Batch.Delete(row)
	}
	return len(list)
}

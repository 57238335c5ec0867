package keyspace

import (
	"errors"
	"fmt"
	"math"

	"redoubt/engine"
)

// Expiry, in steps that run as ordinary executions between those of clients: the
// expire rows of a group of slots are ordered by time. Due lists the keys that have
// expired; background work latches them and calls Expire.

// Due is a key that has expired, or may have expired fields.
type Due struct {
	Key []byte
	ks  uint32
	at  int64
}

// Groups is the number of groups of slots.
const Groups = Slots / expireGroup

// Due lists up to limit keys of a group whose time is not after now; fewer mean
// that there are no more. r must show the present state: a snapshot from before
// the call may lack a row that noteDue has announced.
//
// The group stays due until a later call finds nothing: a listed key that is not
// removed, because the commit failed or the clock went back, is listed again.
func (s *Space) Due(r engine.Reader, group int, now int64, limit int) (list []Due, err error) {
	if !s.take(group, now) {
		return nil, nil
	}
	return s.DueTaken(r, group, now, limit)
}

// take reports whether a group may have keys that are due, and then marks it as read. The
// read must come after that: see noteDue.
func (s *Space) take(group int, now int64) bool {
	if s.due[group].Load() > now {
		return false
	}
	s.due[group].Store(math.MaxInt64)
	return true
}

// TakeDue lists the groups that may have keys whose time is not after now. The caller
// reads them by DueTaken, at a moment after this call, or calls Unknown.
func (s *Space) TakeDue(now int64) (groups []int) {
	for group := range s.due {
		if s.take(group, now) {
			groups = append(groups, group)
		}
	}
	return groups
}

// DueTaken is Due for a group that TakeDue has listed.
func (s *Space) DueTaken(r engine.Reader, group int, now int64, limit int) (list []Due, err error) {
	slot := uint16(group * expireGroup)
	lo := []byte{byte(slot >> 8), byte(slot), kindExpire}
	hi := successor(lo)
	lo = s.store.appendSweep(lo, group, now)
	it := r.Iter(lo, hi, false)
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
	if len(list) == 0 {
		s.store.swept(group, now)
	}
	return list, nil
}

// Unknown marks a group as due, so that the next sweep reads it: other processes may
// have stored expire rows.
func (s *Space) Unknown(group int) { s.noteDue(uint16(group*expireGroup), 0) }

// Row appends the key of the row that Expire reads first.
func (d Due) Row(b []byte) []byte { return appendMetaKey(b, SlotOf(d.Key), d.ks, d.Key) }

// Expire removes a key that Due listed, if it is still expired. The latch of the key
// is held. fields is true if the key lives on but has expired fields: its database is
// then selected, and the caller removes the fields.
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
	// The expire row belongs to no key. That cannot happen while commits are atomic; but
	// the sweep would find the row again for ever.
	t.Rows.Batch.Delete(appendExpireKey(nil, slot, d.at, d.ks, d.Key))
	return false
}

// removeFrom is expire for a key of any keyspace number, even one that no database has.
func (t *Tx) removeFrom(ks uint32, key []byte, m Meta) {
	if t.selectSpace(ks) {
		t.expire(key, m)
	} else {
		t.clearKey(SlotOf(key), ks, key, m)
	}
}

// selectSpace selects the database that has a keyspace number, and reports whether there
// is one.
func (t *Tx) selectSpace(ks uint32) bool {
	for db := range t.Space.dbs {
		if t.ksOf(db) == ks {
			t.DB = db
			return true
		}
	}
	return false
}

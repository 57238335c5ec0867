package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"redoubt/engine"
)

// Expiry, cut into steps that the executor runs as ordinary executions between
// those of the clients: the expire rows of a group of slots are ordered by time.
// Due lists the keys that are past theirs; the executor latches them and calls
// Expire.

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
	if !s.take(group, now) {
		return nil, nil
	}
	return s.DueTaken(r, group, now, limit)
}

// take says whether a group may have keys that are due. The group is then noted as
// read, which must come before the moment that is read: see noteDue.
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
	if s.shared != nil {
		lo = binary.BigEndian.AppendUint64(lo, uint64(s.swept[group].from(now)))
	}
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
	if s.shared != nil && len(list) == 0 {
		s.swept[group].clean(now)
	}
	return list, nil
}

// swept is until when a group has no expire rows any more, on a shared store.
// Deleted rows stay there for minutes, as long as somebody may read an older
// state: to find the first row, all of them would be passed over.
type swept struct {
	until atomic.Int64
	whole atomic.Int64 // when the group was last read from its beginning
}

// Rows of a time that has passed may still be stored, by a transaction that takes
// long, but not for sweptMargin. And since one never knows, each group is read
// from its beginning now and then.
const (
	sweptMargin = 60_000  // milliseconds
	sweptWhole  = 600_000 // milliseconds
)

// from is the time from which on the group is to be read.
func (s *swept) from(now int64) int64 {
	if at := s.whole.Load(); at == 0 || now-at > sweptWhole || now < at {
		s.until.Store(0)
		s.whole.Store(now)
	}
	return max(0, s.until.Load()-sweptMargin)
}

// clean notes that a read found no row up to a time.
func (s *swept) clean(now int64) { s.until.Store(now) }

// Unknown has a group read at the next opportunity: other processes may have
// stored expire rows.
func (s *Space) Unknown(group int) { s.noteDue(uint16(group*expireGroup), 0) }

// Row appends the key of the row that Expire reads first.
func (d Due) Row(b []byte) []byte { return appendMetaKey(b, SlotOf(d.Key), d.ks, d.Key) }

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

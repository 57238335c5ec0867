package hash

import "redoubt/keyspace"

// purgeStep is how many fields that are past their time a command removes from a
// large hash before it does its own work: enough that a hash that is written to
// gets rid of them, few enough not to be noticed.
const purgeStep = 32

// expire removes fields that are past their time, up to a limit or so, and
// returns how many.
func (h *Hash) expire(limit int) int {
	if !h.stale() {
		return 0
	}
	n := h.form.purge(h.tx.Now, limit)
	h.dirty = true
	if n > 0 {
		h.tx.Note(keyspace.HashEv, "hexpired", h.key)
	}
	return n
}

// ExpireFields removes fields of a hash that are past their time, up to a limit or
// so, and returns how many. It is what the sweeper calls for a key of which
// keyspace.Tx.Expire said that it has such fields; the next time at which some
// are due is stored with the key. When there may be more, that time has passed.
func ExpireFields(tx *keyspace.Tx, key []byte, limit int) int {
	m := tx.Find(key)
	if !m.Timed() {
		return 0
	}
	h, err := Of(tx, key, m)
	if err != nil {
		return 0
	}
	defer h.Release()
	n := h.expire(limit)
	if h.Save() {
		tx.Note(keyspace.Generic, "del", key)
	}
	return n
}

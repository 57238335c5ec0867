package hash

import "redoubt/keyspace"

// purgeStep is the number of expired fields that a command removes from a large hash
// before its own work: enough that a hash that is written to gets rid of them, few
// enough not to be noticed.
const purgeStep = 32

// expire removes about limit expired fields, and returns how many.
func (h *Hash) expire(limit int) int {
	if !h.stale() {
		return 0
	}
	n := h.form.purge(h.tx.Past(), limit, h.died)
	h.dirty = true
	if n > 0 {
		h.tx.Note(keyspace.HashEv, "hexpired", h.key)
	}
	return n
}

// ExpireFields removes about limit expired fields of a hash, and returns how many.
// The sweeper calls it for a key if keyspace.Tx.Expire reported such fields; the next
// time at which fields are due is stored with the key, and stays in the past if there
// may be more.
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

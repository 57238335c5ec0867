package keyspace

// WalkSlot visits the live keys of the selected database in one slot, in their order,
// until visit returns false. The bytes are valid during the call only, and visit must
// not write.
func (t *Tx) WalkSlot(slot uint16, visit func(key []byte) bool) {
	t.walk(slot, nil, int(slot)+1, 1, func(_ uint16, key []byte, m Meta) bool {
		return !m.Exists() || visit(key)
	})
}

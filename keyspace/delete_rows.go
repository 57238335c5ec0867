package keyspace

// DeleteRows deletes a type's own rows with lo <= key < hi by a range delete, if that is
// cheap for the engine. Else it does nothing and reports false: the caller deletes the
// rows one by one.
func (t *Tx) DeleteRows(lo, hi []byte) bool {
	if !t.Space.eng.Capabilities().CheapRangeDelete {
		return false
	}
	t.DeleteRange(lo, hi)
	return true
}

// DeleteRange deletes a type's own rows with lo <= key < hi by a range delete, whatever that
// costs the engine.
func (t *Tx) DeleteRange(lo, hi []byte) {
	if t.writable() {
		t.Rows.Batch.DeleteRange(lo, hi)
		t.guardWrite(lo)
	}
}

// Local reports whether a row can be read without a network round trip: if so, a few rows
// are read as cheaply one by one as by an iterator.
func (t *Tx) Local() bool { return !t.Space.eng.Capabilities().Remote }

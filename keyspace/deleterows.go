package keyspace

// DeleteRows deletes the rows of a type's own with lo <= key < hi in one go, where
// the engine has a cheap way to. Else it does nothing and says false, and they are
// to be deleted one by one.
func (t *Tx) DeleteRows(lo, hi []byte) bool {
	if !t.Space.eng.Capabilities().CheapRangeDelete {
		return false
	}
	t.DeleteRange(lo, hi)
	return true
}

// DeleteRange deletes the rows of a type's own with lo <= key < hi in one go, also
// where that costs as much as to delete them one by one.
func (t *Tx) DeleteRange(lo, hi []byte) {
	if t.writable() {
		t.Rows.Batch.DeleteRange(lo, hi)
		t.guardWrite(lo)
	}
}

// Near says whether a row can be read without a round trip to another machine: if
// so some rows are read as cheaply one by one as by an iterator.
func (t *Tx) Near() bool { return !t.Space.eng.Capabilities().Remote }

package keyspace

// pageBytes is how much of a value Duplicate holds at a time besides the batch.
const pageBytes = 256 << 10

// Duplicate returns a Meta equal to m that can be stored under another key of
// the selected database. The rows of an external value are copied under a new
// id: as a part of the batch, or aside if they are many.
//
// Rows are copied page by page, since a batch must not change under an open
// iterator.
func (t *Tx) Duplicate(key []byte, m Meta) Meta {
	if !m.External() || t.err != nil || !t.writable() {
		return m
	}
	from := m.Ref()
	if t.Heavy(from.Size) {
		return m
	}
	to := t.NewRef(key, from.Size)
	size := int64(0)
	for kind := byte(kindSub); kind <= kindRank; kind++ {
		lo := appendPart(nil, from.Home, kind, from.ID)
		hi := successor(lo)
		target := appendPart(nil, to.Home, kind, to.ID)
		for more := true; more && t.err == nil; {
			var page []byte
			var ends []int // the end of each key and of each value in page
			it := t.IterRows(lo, hi, false)
			for more = false; it.Next(); {
				page = append(page, it.Key()[partHead:]...)
				ends = append(ends, len(page))
				page = append(page, it.Value()...)
				ends = append(ends, len(page))
				if more = len(page) >= pageBytes; more {
					lo = append(append(lo[:0], it.Key()...), 0)
					break
				}
			}
			t.CloseRows(it)
			at := 0
			for i := 0; i < len(ends) && t.err == nil; i += 2 {
				target = append(target[:partHead], page[at:ends[i]]...)
				t.PutRow(target, page[ends[i]:ends[i+1]])
				at = ends[i+1]
			}
			// The size counts elements in some types: look at the bytes too.
			size += int64(len(page))
			t.Heavy(size)
		}
	}
	m.Body = append(AppendRef(make([]byte, 0, len(m.Body)), to), m.Body[refSize:]...)
	return m
}

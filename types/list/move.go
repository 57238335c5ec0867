package list

// Moving elements to other indexes, for LINSERT and LREM.

// gone is the new index of an element that is removed.
const gone = -1 << 63

// move gives the elements [from, to) new indexes in the order that they have: if
// back is true all of them are moved towards the end, else all towards the front.
// place tells the new index of one, and is asked once for each: for the last one
// first if back is true. So no element is written over before it was read. What is
// left at an index that nothing moved to is the caller's matter.
func (r *rows) move(from, to int64, back bool, place func(i int64) int64) {
	if from >= to || r.tx.Heavy(r.work(to-from)) {
		return
	}
	var page []byte
	var ends []int
	for from < to && r.tx.Err() == nil {
		page, ends = page[:0], ends[:0]
		r.walk(from, to, back, func(e []byte) bool {
			page = append(page, e...)
			ends = append(ends, len(page))
			return len(page)+rowWork*len(ends) < pageBytes
		})
		at := 0
		for n, end := range ends {
			i := from + int64(n)
			if back {
				i = to - 1 - int64(n)
			}
			if p := place(i); p != gone {
				r.tx.PutRow(r.row(p), page[at:end])
			}
			at = end
		}
		if back {
			to -= int64(len(ends))
		} else {
			from += int64(len(ends))
		}
	}
}

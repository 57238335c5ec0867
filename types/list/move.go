package list

// Moving elements to other indexes, for LINSERT and LREM.

// gone is the new index of an element that is removed.
const gone = -1 << 63

// move moves the elements [from, to) to new indexes and keeps their order: towards
// the end if back is true, else towards the front. place returns the new index of an
// element and is called once for each, the last one first if back is true. So no
// element is overwritten before it is read. Rows at indexes that no element moved to
// are left to the caller.
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

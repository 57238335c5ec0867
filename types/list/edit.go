package list

import (
	"bytes"
	"encoding/binary"
	"slices"

	"redoubt/types/pack"
)

// Push adds an element at an end.
func (l *List) Push(left bool, e []byte) {
	l.one[0] = e
	l.PushAll(left, l.one[:])
	l.one[0] = nil
}

// PushAll adds elements at an end, one after the other.
func (l *List) PushAll(left bool, elems [][]byte) {
	add := int64(0)
	for _, e := range elems {
		add += int64(len(e))
	}
	if l.tx.Heavy(add + rowWork*int64(len(elems))) {
		return
	}
	l.dirty = true
	l.grow(add, int64(len(elems)))
	l.form.push(left, elems)
}

// Append adds an element at the end of a list that Create made. Elements beyond the
// packed form are written to rows at once, not held in memory.
func (l *List) Append(e []byte) {
	if l.form == &l.packed && !l.packed.fitsEntry(e, l.limit) {
		l.unfold()
	}
	l.one[0] = e
	l.form.push(false, l.one[:])
	l.one[0] = nil
}

// grow unfolds a packed list that has no room for count more elements of add bytes.
func (l *List) grow(add, count int64) {
	if l.form == &l.packed && !l.packed.fits(add, count, l.limit) {
		l.unfold()
	}
}

// unfold moves the elements of a packed list to rows.
func (l *List) unfold() {
	p, r := l.packed, &l.rows
	l.form, l.packed.buf = r, nil
	r.ref, r.head, r.bytes = l.tx.NewRef(l.key, 0), 0, 0
	if n := p.size(); n > 0 {
		p.walk(0, n, false, func(e []byte) bool {
			l.tx.PutRow(r.row(r.ref.Size), e)
			r.grew(e)
			return true
		})
	}
}

// fold packs a list in rows that has become small enough.
func (l *List) fold() {
	r := &l.rows
	n := r.ref.Size
	if l.form != r || n == 0 || n > maxCount || !l.limit.mayFold(n) {
		return
	}
	if r.bytes == unknown {
		r.count()
	}
	if !l.limit.folds(r.bytes, n) || r.bytes > pack.MaxBytes || l.tx.Err() != nil {
		return
	}
	b := pack.Buf(l.tx.Own(nil, int(r.bytes)+16))
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	r.walk(0, n, false, func(e []byte) bool {
		b = pack.AppendEntry(b, e)
		return len(b) <= pack.MaxBytes
	})
	if len(b) > pack.MaxBytes || l.tx.Err() != nil {
		return
	}
	if old := l.old; !old.External() || old.Ref().ID != r.ref.ID {
		r.clear(0, n) // rows that this execution made by unfolding: Save does not delete them
	}
	l.form, l.packed.buf, l.packed.own = &l.packed, b, true
}

// maxCount is the most entries of a packed list.
const maxCount = 1<<16 - 1

// Pop removes n elements at an end, which must exist, and passes each to visit, the
// outermost first.
func (l *List) Pop(left bool, n int64, visit func(e []byte)) {
	if n == 1 {
		i := l.Len() - 1
		if left {
			i = 0
		}
		e, _ := l.Index(i)
		visit(e)
		l.drop(left, 1, entrySize(e))
		return
	}
	from := l.Len() - n
	if left {
		from = 0
	}
	bytes := int64(0)
	l.Walk(from, from+n, !left, func(e []byte) bool {
		bytes += entrySize(e)
		visit(e)
		return true
	})
	l.drop(left, n, bytes)
}

// drop removes n elements at an end; bytes is the sum of their entrySize, or unknown.
func (l *List) drop(left bool, n, bytes int64) {
	if n == 0 || l.tx.Err() != nil {
		return
	}
	l.dirty, l.shrunk = true, true
	l.form.drop(left, n, bytes)
}

// Trim removes front elements at the front and end elements at the end; the list must
// have so many.
func (l *List) Trim(front, end int64) {
	if front+end < l.Len() && l.tx.Heavy(l.form.dropWork(front+end)) {
		return
	}
	l.drop(true, front, unknown)
	l.drop(false, end, unknown)
}

// Set replaces an element; negative indexes count from the end. It returns false if
// there is no such element.
func (l *List) Set(i int64, e []byte) bool {
	if i < 0 {
		i += l.Len()
	}
	if i < 0 || i >= l.Len() {
		return false
	}
	l.dirty, l.shrunk = true, true
	l.grow(int64(len(e)), 1)
	l.form.set(i, e)
	return true
}

// Insert puts an element before or after the first one that equals pivot. It returns
// false if no element does.
func (l *List) Insert(after bool, pivot, e []byte) bool {
	at := int64(-1)
	l.Find(pivot, false, 0, func(i int64) bool {
		at = i
		return false
	})
	if at < 0 || l.tx.Err() != nil {
		return false
	}
	if after {
		at++
	}
	l.dirty = true
	l.grow(int64(len(e)), 1)
	l.form.insert(at, e)
	return true
}

// Find visits the indexes of the elements that equal e until visit returns false,
// from the end if reverse, and compares at most most elements; 0 means all.
func (l *List) Find(e []byte, reverse bool, most int64, visit func(i int64) bool) {
	n := l.Len()
	from, to := int64(0), n
	if most > 0 && most < n {
		if reverse {
			from = n - most
		} else {
			to = most
		}
	}
	i, step := from, int64(1)
	if reverse {
		i, step = to-1, -1
	}
	l.Walk(from, to, reverse, func(x []byte) bool {
		if bytes.Equal(x, e) && !visit(i) {
			return false
		}
		i += step
		return true
	})
}

// Remove removes up to |most| elements that equal e, from the front, or from the end
// if most is negative; 0 means all. It returns how many.
func (l *List) Remove(most int64, e []byte) int64 {
	var at []int64
	reverse := most < 0
	l.Find(e, reverse, 0, func(i int64) bool {
		at = append(at, i)
		n := int64(len(at))
		return n != most && -n != most && l.tx.Take(16)
	})
	if len(at) == 0 || l.tx.Err() != nil {
		return 0
	}
	if reverse {
		slices.Reverse(at)
	}
	l.dirty, l.shrunk = true, true
	l.form.remove(at, e)
	return int64(len(at))
}

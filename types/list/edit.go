package list

import (
	"bytes"
	"encoding/binary"
	"slices"

	"redoubt/types/pack"
)

// Push adds elements at an end, one after the other.
func (l *List) Push(left bool, elems ...[]byte) {
	add := int64(0)
	for _, e := range elems {
		add += int64(len(e))
	}
	if l.tx.Heavy(add + rowWork*int64(len(elems))) {
		return
	}
	l.dirty = true
	if l.grow(add, int64(len(elems))); l.unfolded {
		l.rows.push(left, elems)
	} else {
		l.packed.push(left, elems)
	}
}

// grow unfolds a packed list that is about to get elements of so many bytes which
// would make it too large. As in Redis the elements count with their plain length.
func (l *List) grow(add, count int64) {
	if l.unfolded {
		return
	}
	b := l.packed.buf
	// An entry takes its bytes and at most three for its length.
	fits := int64(len(b)+b.First())+add+3*count <= pack.MaxBytes
	count += int64(b.Len())
	if fits && l.limit.exceeded(packedBound(b)+add, count) {
		fits = !l.limit.exceeded(packedSize(b)+add, count)
	}
	if !fits {
		l.unfold()
	}
}

// unfold turns a packed list into rows.
func (l *List) unfold() {
	p := l.packed
	l.unfolded, l.packed.buf = true, nil
	l.rows.ref, l.rows.head, l.rows.size = l.tx.NewRef(l.key, 0), 0, 0
	if n := int64(p.buf.Len()); n > 0 {
		p.walk(0, n, false, func(e []byte) bool {
			l.tx.PutRow(l.rows.row(l.rows.ref.Size), e)
			l.rows.grew(e)
			return true
		})
	}
}

// shrink packs a list in rows again that has become small enough.
func (l *List) shrink() {
	r := &l.rows
	n := r.ref.Size
	if !l.unfolded || n == 0 || n > maxCount || !l.limit.mayFold(n) {
		return
	}
	if r.size == unknown {
		r.count()
	}
	if !l.limit.folds(r.size, n) || r.size > pack.MaxBytes || l.tx.Err() != nil {
		return
	}
	b := pack.Buf(l.tx.Own(nil, int(r.size)+16))
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	r.walk(0, n, false, func(e []byte) bool {
		b = pack.AppendEntry(b, e)
		return len(b) <= pack.MaxBytes
	})
	if len(b) > pack.MaxBytes || l.tx.Err() != nil {
		return
	}
	if old := l.old; !old.External() || old.Ref().ID != r.ref.ID {
		r.clear(0, n) // unfolded by this execution: Save would not know of them
	}
	l.unfolded, l.packed.buf, l.packed.own = false, b, true
}

// maxCount is how many entries a packed list can have.
const maxCount = 1<<16 - 1

// Pop removes n elements at an end, which must be there, and hands each to visit,
// the outermost first.
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
	size := int64(0)
	l.Walk(from, from+n, !left, func(e []byte) bool {
		size += entrySize(e)
		visit(e)
		return true
	})
	l.drop(left, n, size)
}

// drop removes n elements at an end; size is what entrySize of them comes to, or
// unknown.
func (l *List) drop(left bool, n, size int64) {
	if n == 0 || l.tx.Err() != nil {
		return
	}
	l.dirty, l.shrunk = true, true
	switch {
	case !l.unfolded:
		l.packed.drop(left, n)
	case n == l.Len() && n > lookMax:
		// The whole value goes: Save has its rows cleared in one go.
		l.rows.ref.Size, l.kept = 0, true
	default:
		l.rows.drop(left, n, size)
	}
}

// Trim removes so many elements at the front and at the end, of those that are
// there.
func (l *List) Trim(front, end int64) {
	if l.unfolded && front+end < l.Len() && l.tx.Heavy(rowWork*(front+end)) {
		return
	}
	l.drop(true, front, unknown)
	l.drop(false, end, unknown)
}

// Set replaces an element; negative indexes count from the end. It says false if
// there is none.
func (l *List) Set(i int64, e []byte) bool {
	if i < 0 {
		i += l.Len()
	}
	if i < 0 || i >= l.Len() {
		return false
	}
	l.dirty, l.shrunk = true, true
	if l.grow(int64(len(e)), 1); l.unfolded {
		l.rows.set(i, e)
	} else {
		l.packed.set(i, e)
	}
	return true
}

// Insert puts an element before or behind the first one that equals pivot. It says
// false if there is no such element.
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
	if l.grow(int64(len(e)), 1); l.unfolded {
		l.rows.insert(at, e)
	} else {
		l.packed.insert(at, e)
	}
	return true
}

// Find visits the indexes of the elements that equal e until visit says false,
// from the end if reverse, and looks at no more than most elements; 0 means all.
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

// Remove removes the elements that equal e, at most so many of them from the
// front, or from the end if most is negative; 0 means all. It returns how many.
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
	switch {
	case !l.unfolded:
		l.packed.remove(at, e)
	case int64(len(at)) == l.Len():
		l.drop(true, l.Len(), 0)
	default:
		l.rows.remove(at, e)
	}
	return int64(len(at))
}

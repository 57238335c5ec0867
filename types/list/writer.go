package list

import (
	"redoubt/keyspace"
	"redoubt/types/pack"
)

// Writer makes a new list out of elements that come in order, without holding them
// once they are too many to be packed.
type Writer struct{ l List }

// NewWriter begins a list for the key. setting is list-max-listpack-size.
func NewWriter(tx *keyspace.Tx, key []byte, setting int64) *Writer {
	l, _ := Of(tx, key, keyspace.Meta{}, setting) // no key, no wrong type
	return &Writer{l}
}

// Add appends an element.
func (w *Writer) Add(e []byte) {
	l := &w.l
	if l.dirty = true; !l.unfolded {
		b := l.packed.buf
		size := packedBound(b) + entrySize(e)
		count := int64(b.Len()) + 1
		if len(b)+pack.Size(e)+2 > pack.MaxBytes || count > maxCount ||
			l.limit.exceeded(size, count) && l.limit.exceeded(packedSize(b)+entrySize(e), count) {
			l.unfold()
		}
	}
	if l.unfolded {
		l.rows.push(false, [][]byte{e})
	} else {
		l.packed.push(false, [][]byte{e})
	}
}

// Store makes the list the key's value, if it has elements. old is what Find
// returned for the key, of whatever type; expire is the new time of death.
func (w *Writer) Store(old keyspace.Meta, expire int64) {
	if w.l.Len() > 0 {
		w.l.old, w.l.expire = old, expire
		w.l.Save()
	}
}

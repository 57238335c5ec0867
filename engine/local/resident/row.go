package resident

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"redoubt/engine/local/arena"
)

// A row in the arena, in the byte order of the machine:
//
//	offset  size
//	     0     8  seq: the commit that wrote the row; 0 if it was read from the store
//	     8     4  length of the value
//	    12     4  length of the key
//	    16     4  its place in the part's list of dirty rows
//	    20     4  flags and heat; in a set without a store the upper 24 bits are its mark (sample.go)
//	    24        the key, then the value
//
// Only the flags word is changed under a shared lock (heat, by readers), hence
// atomically. A row is allocated anew when its size falls into another class of
// the arena, so the class follows from the lengths.
type row []byte

const rowHead = 24

const (
	// dirty: not in the store as it stands. Its place in the list counts.
	dirty = 1 << iota
	// dead: the row is deleted, or known not to exist.
	dead
	// stored: the store may have some version of it.
	stored
	// loaded: read from the store and not changed since.
	loaded
	// secondList: the row is in the second of the two lists of dirty rows.
	secondList
	// heatUnit: the lower of two bits that count uses of the row.
	heatUnit
	heatHigh
	// pinned: see pinned.go.
	pinned

	heatMask = heatUnit | heatHigh
)

func (r row) seq() uint64         { return binary.NativeEndian.Uint64(r) }
func (r row) setSeq(n uint64)     { binary.NativeEndian.PutUint64(r, n) }
func (r row) valueLen() int       { return int(binary.NativeEndian.Uint32(r[8:])) }
func (r row) keyLen() int         { return int(binary.NativeEndian.Uint32(r[12:])) }
func (r row) place() uint32       { return binary.NativeEndian.Uint32(r[16:]) }
func (r row) setPlace(n uint32)   { binary.NativeEndian.PutUint32(r[16:], n) }
func (r row) flags() *uint32      { return (*uint32)(unsafe.Pointer(&r[20])) }
func (r row) is(flag uint32) bool { return atomic.LoadUint32(r.flags())&flag != 0 }
func (r row) key() []byte         { n := r.keyLen(); return r[rowHead : rowHead+n : rowHead+n] }

func (r row) value() []byte {
	at := rowHead + r.keyLen()
	return r[at : at+r.valueLen()]
}

func (r row) size() int { return rowHead + r.keyLen() + r.valueLen() }

// set and unset are for writers, which hold the lock exclusively.
func (r row) set(flag uint32)   { atomic.StoreUint32(r.flags(), atomic.LoadUint32(r.flags())|flag) }
func (r row) unset(flag uint32) { atomic.StoreUint32(r.flags(), atomic.LoadUint32(r.flags())&^flag) }

// touch counts a use. Readers race here; a lost count does no harm.
func (r row) touch() {
	if f := atomic.LoadUint32(r.flags()); f&heatMask != heatMask {
		atomic.CompareAndSwapUint32(r.flags(), f, f+heatUnit)
	}
}

// cool takes one use away and reports whether there was one.
func (r row) cool() bool {
	f := atomic.LoadUint32(r.flags())
	if f&heatMask == 0 {
		return false
	}
	atomic.StoreUint32(r.flags(), f-heatUnit)
	return true
}

// fill writes a whole row.
func (r row) fill(key, value []byte, seq uint64, flags uint32) {
	r.setSeq(seq)
	binary.NativeEndian.PutUint32(r[8:], uint32(len(value)))
	binary.NativeEndian.PutUint32(r[12:], uint32(len(key)))
	r.setPlace(0)
	atomic.StoreUint32(r.flags(), flags)
	copy(r[rowHead+copy(r[rowHead:], key):], value)
}

// setValue replaces the value; the row has room for it.
func (r row) setValue(value []byte) {
	binary.NativeEndian.PutUint32(r[8:], uint32(len(value)))
	copy(r[rowHead+r.keyLen():], value)
}

// list is which of the two lists of dirty rows a dirty row is in.
func (r row) list() int {
	if r.is(secondList) {
		return 1
	}
	return 0
}

func (r row) hasKey(key []byte) bool {
	return r.keyLen() == len(key) && bytes.Equal(r[rowHead:rowHead+len(key)], key)
}

// row returns the row at a ref. The slice may reach beyond the row's own bytes.
func (s *Set) row(ref arena.Ref) row {
	r := row(s.arena.From(ref))
	if n := r.size(); n > len(r) { // the row is larger than a chunk
		r = row(s.arena.Bytes(ref, n))
	}
	return r
}

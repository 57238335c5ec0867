package rdb

import (
	"bytes"
	"fmt"
	"hash/maphash"
)

// unique finds duplicate elements. It is a hash table of the elements' offsets in the
// payload, and reads an element again when another has the same hash. So it takes 16 to 32
// bytes for each element that was read, whatever its length.
type unique struct {
	hash []uint32
	at   []int // -1 is a free place
	n    int
	load func(at int) []byte
}

// seed keeps the author of a payload from choosing elements whose hashes collide.
var seed = maphash.MakeSeed()

func newUnique(load func(at int) []byte) *unique { return &unique{load: load} }

// add notes the element at an offset, or returns an error if it is a duplicate. A nil
// unique finds nothing.
func (u *unique) add(at int, element []byte) error {
	if u == nil {
		return nil
	}
	if 4*u.n >= 3*len(u.at) {
		u.grow()
	}
	h := uint32(maphash.Bytes(seed, element))
	mask := uint32(len(u.at) - 1)
	i := h & mask
	for ; u.at[i] >= 0; i = (i + 1) & mask {
		if u.hash[i] == h && bytes.Equal(u.load(u.at[i]), element) {
			return fmt.Errorf("%w: an element comes twice", ErrFormat)
		}
	}
	u.hash[i], u.at[i] = h, at
	u.n++
	return nil
}

func (u *unique) grow() {
	hash, at := u.hash, u.at
	size := max(16, 2*len(at))
	u.hash, u.at = make([]uint32, size), make([]int, size)
	for i := range u.at {
		u.at[i] = -1
	}
	mask := uint32(size - 1)
	for k, old := range at {
		if old < 0 {
			continue
		}
		i := hash[k] & mask
		for u.at[i] >= 0 {
			i = (i + 1) & mask
		}
		u.hash[i], u.at[i] = hash[k], old
	}
}

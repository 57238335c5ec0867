package mem

import "bytes"

// table is a hash table of rows with open addressing, linear probing, and deletion by
// backward shift.
type table struct {
	slots []slot
	used  int
}

type slot struct {
	hash uint64
	row  *row
}

// place is the first slot to probe for a hash. It uses the low bits; the top byte has
// chosen the shard.
func (t *table) place(hash uint64) int { return int(hash) & (len(t.slots) - 1) }

func (t *table) find(hash uint64, key []byte) *row {
	if len(t.slots) == 0 {
		return nil
	}
	for i := t.place(hash); ; i = (i + 1) & (len(t.slots) - 1) {
		s := &t.slots[i]
		if s.row == nil {
			return nil
		}
		if s.hash == hash && bytes.Equal(s.row.key, key) {
			return s.row
		}
	}
}

// likely returns the row that find would most probably return, without reading the row.
func (t *table) likely(hash uint64) *row {
	if len(t.slots) == 0 {
		return nil
	}
	for i := t.place(hash); ; i = (i + 1) & (len(t.slots) - 1) {
		if s := &t.slots[i]; s.row == nil || s.hash == hash {
			return s.row
		}
	}
}

func (t *table) insert(hash uint64, r *row) {
	if t.used*4 >= len(t.slots)*3 {
		old := t.slots
		t.slots = make([]slot, max(16, 2*len(old)))
		for _, s := range old {
			if s.row != nil {
				t.put(s)
			}
		}
	}
	t.put(slot{hash, r})
	t.used++
}

func (t *table) put(s slot) {
	i := t.place(s.hash)
	for t.slots[i].row != nil {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = s
}

func (t *table) remove(hash uint64, r *row) {
	mask := len(t.slots) - 1
	i := t.place(hash)
	for t.slots[i].row != r {
		if t.slots[i].row == nil {
			return
		}
		i = (i + 1) & mask
	}
	for next := (i + 1) & mask; t.slots[next].row != nil; next = (next + 1) & mask {
		if home := t.place(t.slots[next].hash); (next-home)&mask >= (next-i)&mask {
			t.slots[i], i = t.slots[next], next
		}
	}
	t.slots[i] = slot{}
	t.used--
}

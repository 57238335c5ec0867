package keyspace

import (
	"fmt"
	"math"
)

// Choosing a key by chance, without a count of keys per slot.
//
// A small database is walked, and every key is equally likely. In a larger one
// a slot is drawn, and then one of about as many numbers as the fullest slots
// have keys: if the slot has a key of that number, this is it, else both are
// drawn again. That makes keys equally likely whatever the slots' sizes, as
// long as hashing spreads them. Where it does not (hash tags), the first slot
// with keys behind a random one is taken; and in a slot with very many keys one
// goes down byte by byte: see descend.

const (
	// smallDatabase is how many keys are looked at to choose one.
	smallDatabase = 512
	// randomTries is how often a slot, or a byte, is drawn.
	randomTries = 128
)

// Random returns some live key of the selected database, or nil if there is
// none. intn returns a random number below its argument.
func (t *Tx) Random(intn func(n int) int) []byte {
	size := t.Size()
	if size <= 0 || t.err != nil {
		return nil
	}
	if size <= smallDatabase {
		var list [][]byte
		t.Walk(0, nil, func(_ uint16, key []byte, m Meta) bool {
			if m.Exists() {
				list = append(list, append([]byte{}, key...))
			}
			return true
		})
		return choose(list, intn)
	}
	mean := float64(size) / Slots
	fullest := int(mean+4*math.Sqrt(mean)) + 2
	for try := 0; try < randomTries && t.err == nil; try++ {
		lo := appendMetaKey(nil, uint16(intn(Slots)), t.ks(), nil)
		list, more := t.liveKeys(lo, successor(lo))
		if more {
			if key := t.descend(lo, size, intn); key != nil {
				return key
			}
			continue
		}
		if n := intn(max(fullest, len(list))); n < len(list) {
			return list[n]
		}
	}
	for _, from := range []int{intn(Slots), 0} {
		var live []byte
		var at uint16
		t.Walk(uint16(from), nil, func(slot uint16, key []byte, m Meta) bool {
			if m.Exists() {
				live, at = append([]byte{}, key...), slot
			}
			return live == nil
		})
		if live == nil {
			continue
		}
		if key := t.descend(appendMetaKey(nil, at, t.ks(), nil), size, intn); key != nil {
			return key
		}
		return live
	}
	return nil
}

func choose(list [][]byte, intn func(int) int) []byte {
	if len(list) == 0 {
		return nil
	}
	return list[intn(len(list))]
}

// liveKeys lists the live keys with meta rows in a range; more says that the
// range has more rows than it looks at.
func (t *Tx) liveKeys(lo, hi []byte) (list [][]byte, more bool) {
	it := t.IterRows(lo, hi, false)
	defer t.CloseRows(it)
	for seen := 0; it.Next(); seen++ {
		if seen == smallDatabase {
			return list, true
		}
		m, err := decodeMeta(it.Value())
		if err != nil {
			t.Fail(fmt.Errorf("key %.64q: %w", it.Key()[metaKeyHead:], err))
			return nil, false
		}
		if !m.dead(t.Now) {
			list = append(list, append([]byte{}, it.Key()[metaKeyHead:]...))
		}
	}
	return list, false
}

// descend chooses a key among the meta rows that begin with a prefix, nil if it
// finds none. size is about how many keys there can be.
//
// It goes down to a few keys by drawing bytes, and takes one of these. How
// likely it was to come there is known, so keys that are reached easily are
// refused in proportion: what is left is fair unless names are very uneven.
func (t *Tx) descend(prefix []byte, size int64, intn func(int) int) (key []byte) {
	const fine = 1 << 30
	for try := 0; try < randomTries && t.err == nil; try++ {
		list, weight := t.leaf(prefix, intn)
		if len(list) == 0 {
			continue
		}
		key = choose(list, intn)
		if float64(len(list))*weight/float64(2*size) > float64(intn(fine))/fine {
			return key
		}
	}
	return key
}

// leaf lengthens a prefix by random bytes until few rows begin with it, and
// returns their keys and one over the probability of coming there. There are
// none when a byte was drawn that no key has.
func (t *Tx) leaf(prefix []byte, intn func(int) int) (list [][]byte, weight float64) {
	weight = 1
	for depth := int64(1); ; depth++ {
		list, more := t.liveKeys(prefix, successor(prefix))
		if !more {
			return list, weight
		}
		if t.Heavy(depth * smallDatabase * 64) { // names such as x, xx, xxx, ...
			return nil, 0
		}
		if len(list) > 0 && len(list[0]) == len(prefix)-metaKeyHead {
			// The key that ends here is one of many: it gets a small chance.
			if intn(smallDatabase) == 0 {
				return list[:1], weight * smallDatabase
			}
			weight *= smallDatabase / (smallDatabase - 1.0)
		}
		first, ok := t.edge(append(prefix[:len(prefix):len(prefix)], 0), successor(prefix), false)
		last, _ := t.edge(prefix, successor(prefix), true)
		if !ok || t.err != nil {
			return nil, 0
		}
		n := len(prefix)
		for n < len(first) && n < len(last) && first[n] == last[n] {
			n++
		}
		if n >= len(first) { // the first key ends where the others go on
			prefix = first
			continue
		}
		choices := int(last[n]-first[n]) + 1
		weight *= float64(choices)
		prefix = append(first[:n:n], first[n]+byte(intn(choices)))
	}
}

// edge returns the key of the first or the last row of a range.
func (t *Tx) edge(lo, hi []byte, last bool) ([]byte, bool) {
	it := t.IterRows(lo, hi, last)
	defer t.CloseRows(it)
	if !it.Next() {
		return nil, false
	}
	return append([]byte{}, it.Key()...), true
}

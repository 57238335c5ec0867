package keyspace

import (
	"fmt"
	"math"
)

// Choosing a random key, without a count of keys per slot.
//
// A small database is walked, and every key is equally likely. In a larger one
// this is rejection sampling: a slot is drawn, and then an index below about the
// size of the fullest slots; if the slot has no key of that index, both are drawn
// again. That makes keys equally likely whatever the slots' sizes, as long as
// hashing spreads them. If it does not (hash tags), the first slot with keys behind
// a random one is taken; and a slot with very many keys is sampled byte by byte:
// see descend.
//
// On a remote store, where each slot is a round trip, a run of slots is drawn instead
// that has some dozens of keys and is read at once: few draws are rejected then.

const (
	// smallDatabase is how many keys are read at most to choose one of them.
	smallDatabase = 512
	// randomTries is how often a slot, or a byte, is drawn; randomTriesFar is the
	// same on a remote store.
	randomTries    = 128
	randomTriesFar = 8
	// runOfKeys is about how many keys a run of slots has, and runOpens how many
	// iterators are opened to read it: rows of other databases may lie between.
	runOfKeys = 64
	runOpens  = 4
)

func (t *Tx) randomTries() int {
	if t.Local() {
		return randomTries
	}
	return randomTriesFar
}

// Random returns some live key of the selected database, or nil if there is
// none. intn returns a random number below its argument.
func (t *Tx) Random(intn func(n int) int) []byte {
	size := t.Size()
	if !t.Space.store.exact() {
		size = max(1, size)
	}
	if size <= 0 || t.err != nil {
		return nil
	}
	if !t.Local() {
		if key := t.randomRun(size, intn); key != nil || t.err != nil {
			return key
		}
		return t.randomBehind(size, intn)
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
	return t.randomBehind(size, intn)
}

// randomRun chooses a key of a random run of slots, nil if it finds none. All runs
// but the last have the same number of slots, and are equally likely; the index of
// a key is drawn below about the size of the fullest run. So keys are equally likely,
// as with single slots.
func (t *Tx) randomRun(size int64, intn func(int) int) []byte {
	slots := int(max(1, min(Slots, runOfKeys*Slots/size)))
	mean := float64(size) * float64(slots) / Slots
	fullest := int(mean+4*math.Sqrt(mean)) + 2
	for try := 0; try < randomTriesFar && t.err == nil; try++ {
		first := slots * intn((Slots+slots-1)/slots)
		list, whole := t.liveIn(first, first+slots)
		if !whole {
			return nil
		}
		if slots >= Slots {
			return choose(list, intn)
		}
		if n := intn(max(fullest, len(list))); n < len(list) {
			return list[n]
		}
	}
	return nil
}

// liveIn lists the live keys of a run of slots. whole is false if they are too many,
// or too many rows of other databases lie between.
func (t *Tx) liveIn(first, end int) (list [][]byte, whole bool) {
	seen := 0
	whole = true
	next := t.walk(uint16(first), nil, min(end, Slots), runOpens, func(_ uint16, key []byte, m Meta) bool {
		if seen++; seen > smallDatabase {
			whole = false
			return false
		}
		if m.Exists() {
			list = append(list, append([]byte{}, key...))
		}
		return true
	})
	return list, whole && next == Slots
}

// randomBehind chooses a key of the first slot with keys behind a random one.
func (t *Tx) randomBehind(size int64, intn func(int) int) []byte {
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

// liveKeys lists the live keys with meta rows in a range; more is true if the
// range has more than smallDatabase rows.
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
// It narrows the range to a few keys by drawing bytes, and takes one of these. The
// probability of each path is known, so keys on likely paths are rejected in
// proportion: the result is fair unless names are very uneven.
func (t *Tx) descend(prefix []byte, size int64, intn func(int) int) (key []byte) {
	const fine = 1 << 30
	for try := t.randomTries(); try > 0 && t.err == nil; try-- {
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
// returns their keys and the reciprocal of the probability of that prefix. The
// list is empty if a byte was drawn that no key has.
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
	held := t.Held()
	defer t.Release(held)
	key, _, found := t.EdgeRow(lo, hi, last)
	return append([]byte{}, key...), found
}

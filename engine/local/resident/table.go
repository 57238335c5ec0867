package resident

import (
	"sync/atomic"
	"unsafe"

	"redoubt/engine/local/arena"
	"redoubt/internal/race"
)

// table is a hash table of rows by the hash of their key. It holds no keys and no pointers to
// rows: a slot is a word, 24 bits of the hash (the tag) above the 40 bits of the ref; 0 is
// empty. The part's lock guards the table, except for likely.
//
// It is extendible hashing: a directory, indexed by the highest bits of the hash,
// of buckets, each a small table with linear probing in which tags are spread in
// their order. A bucket grows by half or a third, to waste little, up to maxSlots
// and then splits, so whatever the size of the part no insert moves more than
// that many slots. A split needs the next bit of the hash: the tag is made of
// the bits behind the first four, so that only the first splits of a table have to
// look at the rows. What the tag then has in common with those of its bucket says
// nothing any more; in a part of a hundred million rows eleven bits are left of it.
//
// Slots are in the arena, beside the rows. One that was freed may still be read by
// likely, which is harmless.
type table struct {
	set   *Set
	one   atomic.Pointer[bucket] // the only bucket while there is one
	dir   atomic.Pointer[directory]
	rows  int
	slots int // of all buckets
}

type directory struct {
	depth   uint8 // 1 << depth entries; neighbours may share a bucket
	buckets []atomic.Pointer[bucket]
}

type bucket struct {
	slots []uint64
	ref   arena.Ref // of slots
	used  int
	depth uint8 // how many of the highest bits its rows share
}

const (
	refBits  = 40
	refMask  = 1<<refBits - 1
	tagBits  = 64 - refBits
	minSlots = 8
	maxSlots = 1024
	// beforeTag is how many of the highest bits of the hash are not in the tag.
	beforeTag = 4
)

func tagOf(hash uint64) uint64    { return hash << beforeTag &^ refMask }
func refOf(slot uint64) arena.Ref { return arena.Ref(slot & refMask) }

// home is where a slot, or a tag, should be: by those bits of the tag that the rows
// of the bucket do not share.
func (b *bucket) home(slot uint64) int {
	own := slot &^ refMask << max(0, int(b.depth)-beforeTag)
	return int((own >> refBits) * uint64(len(b.slots)) >> tagBits)
}
func (d *directory) at(hash uint64) int { return int(hash >> (64 - d.depth)) }

func (b *bucket) next(i int) int {
	if i++; i == len(b.slots) {
		return 0
	}
	return i
}

// distance is how far place i is behind place from.
func (b *bucket) distance(from, i int) int {
	if i < from {
		i += len(b.slots)
	}
	return i - from
}

// larger is the next size of a bucket: 8, 12, 16, 24, 32... and smaller the one
// before.
func larger(n int) int {
	if n&(n-1) == 0 {
		return n / 2 * 3
	}
	return n / 3 * 4
}

func smaller(n int) int {
	if n&(n-1) == 0 {
		return n / 4 * 3
	}
	return n / 3 * 2
}

func (t *table) bucket(hash uint64) *bucket {
	if d := t.dir.Load(); d != nil {
		return d.buckets[d.at(hash)].Load()
	}
	return t.one.Load()
}

func (t *table) newBucket(n int, depth uint8) (*bucket, error) {
	ref, err := t.set.arena.Alloc(8 * n)
	if err != nil {
		return nil, err
	}
	slots := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(t.set.arena.Bytes(ref, 8*n)))), n)
	clear(slots)
	t.slots += n
	return &bucket{slots: slots, ref: ref, depth: depth}, nil
}

func (t *table) freeBucket(b *bucket) {
	t.slots -= len(b.slots)
	t.set.arena.Free(b.ref, 8*len(b.slots))
}

// find returns the row of a key; 0 if there is none.
func (s *Set) find(p *part, hash uint64, key []byte) arena.Ref {
	b := p.tab.bucket(hash)
	if b == nil {
		return 0
	}
	tag := tagOf(hash)
	for i := b.home(tag); b.slots[i] != 0; i = b.next(i) {
		if slot := b.slots[i]; slot&^refMask == tag && s.row(refOf(slot)).hasKey(key) {
			return refOf(slot)
		}
	}
	return 0
}

// likely returns the row that find would probably return, or 0. It may be called at any time
// without the lock; the row may have been removed meanwhile.
func (t *table) likely(hash uint64) arena.Ref {
	if race.Enabled {
		return 0 // slots are read while they are written
	}
	b := t.bucket(hash)
	if b == nil {
		return 0
	}
	tag := tagOf(hash)
	i := b.home(tag)
	for range maxSlots {
		slot := atomic.LoadUint64(&b.slots[i])
		if slot == 0 {
			return 0
		}
		if slot&^refMask == tag {
			return refOf(slot)
		}
		i = b.next(i)
	}
	return 0
}

// insert adds a row that is not in the table. It fails only for lack of memory.
func (t *table) insert(hash uint64, ref arena.Ref) (err error) {
	b := t.bucket(hash)
	for b == nil || b.used >= len(b.slots)-len(b.slots)/8 {
		switch {
		case b == nil:
			if b, err = t.newBucket(minSlots, 0); err == nil {
				t.place(hash, b)
			}
		case len(b.slots) < maxSlots:
			err = t.resize(hash, b, larger(len(b.slots)))
		default:
			err = t.split(hash, b)
		}
		if err != nil {
			return err
		}
		b = t.bucket(hash)
	}
	b.add(tagOf(hash) | uint64(ref))
	t.rows++
	return nil
}

func (b *bucket) add(slot uint64) {
	i := b.home(slot)
	for b.slots[i] != 0 {
		i = b.next(i)
	}
	b.slots[i] = slot
	b.used++
}

// place enters a bucket into the directory for the hashes that share the bits of hash.
func (t *table) place(hash uint64, b *bucket) {
	d := t.dir.Load()
	if d == nil {
		t.one.Store(b)
		return
	}
	n := 1 << (d.depth - b.depth)
	from := d.at(hash) &^ (n - 1)
	for i := from; i < from+n; i++ {
		d.buckets[i].Store(b)
	}
}

func (t *table) resize(hash uint64, b *bucket, n int) error {
	to, err := t.newBucket(n, b.depth)
	if err != nil {
		return err
	}
	for _, slot := range b.slots {
		if slot != 0 {
			to.add(slot)
		}
	}
	t.place(hash, to)
	t.freeBucket(b)
	return nil
}

// split parts a full bucket in two by the next bit of the hash.
func (t *table) split(hash uint64, b *bucket) error {
	var halves [2]*bucket
	for i := range halves {
		var err error
		if halves[i], err = t.newBucket(maxSlots, b.depth+1); err != nil {
			if i == 1 {
				t.freeBucket(halves[0])
			}
			return err
		}
	}
	d := t.dir.Load()
	if d == nil {
		d = &directory{buckets: make([]atomic.Pointer[bucket], 1)}
		d.buckets[0].Store(b)
	}
	if d.depth == b.depth {
		wider := &directory{depth: d.depth + 1, buckets: make([]atomic.Pointer[bucket], 2*len(d.buckets))}
		for i := range wider.buckets {
			wider.buckets[i].Store(d.buckets[i/2].Load())
		}
		d = wider
	}
	bit := 63 - b.depth
	for _, slot := range b.slots {
		switch {
		case slot == 0:
		case b.depth >= beforeTag:
			halves[slot>>(bit+beforeTag)&1].add(slot)
		default:
			halves[t.set.hashOf(refOf(slot))>>bit&1].add(slot)
		}
	}
	t.dir.Store(d)
	t.one.Store(nil)
	t.place(hash&^(1<<bit), halves[0])
	t.place(hash|1<<bit, halves[1])
	t.freeBucket(b)
	return nil
}

// replace notes that a row has moved.
func (t *table) replace(hash uint64, old, to arena.Ref) {
	b := t.bucket(hash)
	tag := tagOf(hash)
	for i := b.home(tag); b.slots[i] != 0; i = b.next(i) {
		if b.slots[i] == tag|uint64(old) {
			b.slots[i] = tag | uint64(to)
			return
		}
	}
}

// remove removes a row.
func (t *table) remove(hash uint64, ref arena.Ref) {
	b := t.bucket(hash)
	slot := tagOf(hash) | uint64(ref)
	i := b.home(slot)
	for b.slots[i] != slot {
		i = b.next(i)
	}
	// The slots behind that are not at their home because of it move back.
	for j := b.next(i); b.slots[j] != 0; j = b.next(j) {
		if b.distance(b.home(b.slots[j]), j) >= b.distance(i, j) {
			b.slots[i], i = b.slots[j], j
		}
	}
	b.slots[i] = 0
	b.used--
	if t.rows--; t.rows == 0 {
		t.drop()
	} else if len(b.slots) > minSlots && b.used < len(b.slots)/2 {
		_ = t.resize(hash, b, smaller(len(b.slots))) // without memory it stays as it is
	}
}

// drop empties the table, which has no rows.
func (t *table) drop() {
	if d := t.dir.Load(); d != nil {
		for i := 0; i < len(d.buckets); {
			b := d.buckets[i].Load()
			i += 1 << (d.depth - b.depth)
			t.freeBucket(b)
		}
	} else {
		t.freeBucket(t.one.Load())
	}
	t.dir.Store(nil)
	t.one.Store(nil)
}

// walk visits the rows of the bucket at a cursor, and returns the cursor of the next bucket; 0
// behind the last. A walk from 0 to 0 visits every row that stays; some rows may be visited
// twice when buckets split meanwhile.
func (t *table) walk(cursor uint64, visit func(arena.Ref)) (next uint64) {
	b := t.bucket(cursor)
	if b == nil {
		return 0
	}
	for _, slot := range b.slots {
		if slot != 0 {
			visit(refOf(slot))
		}
	}
	if b.depth == 0 {
		return 0
	}
	step := uint64(1) << (64 - b.depth)
	return cursor&^(step-1) + step // past the last it comes to 0
}

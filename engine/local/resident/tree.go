package resident

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"redoubt/engine/local/arena"
)

// tree is a B+tree of refs in the order of their rows' keys. It changes only when a row is added
// or removed; a single row is found by the table.
//
// Leaves keep their lists in the arena (leaf.go), so that ten million rows are some hundred
// thousand objects to the garbage collector. Keys are read from the rows; a separator between
// two nodes is a copy, as short as it may be, since its row may be removed.
//
// Dead rows stay until the store has their deletion, and a queue leaves many of them at its
// beginning. So nodes count the live rows, and readers of the latest state skip dead ones.
type tree struct {
	set  *Set
	root *node
	n    int
}

// node is a leaf if it has no kids; else kid i holds the keys from seps[i-1] on,
// below seps[i].
type node struct {
	refs  []arena.Ref
	kids  []*node
	seps  [][]byte
	lives []int  // the live of each kid
	live  int    // rows below that are not dead
	alive uint64 // of a leaf: bit i says that row i is not dead
	// Of a leaf whose rows, or another node whose separators, are all of one unit;
	// see makeHints.
	hinted bool
	prefix []byte
	hints  []uint64
	mem    arena.Ref // where the lists of a leaf are, and how many entries they
	room   int       // have room for
}

const fanout = 64 // the most refs of a leaf, and kids of another node; node.alive has as many bits

func (t *tree) key(ref arena.Ref) []byte { return t.set.row(ref).key() }

// search returns where key is in a leaf, or would be.
func (t *tree) search(n *node, key []byte) (int, bool) {
	lo, hi := 0, len(n.refs)
	if n.hinted {
		at, h := n.searchHints(key)
		if lo = at; lo == len(n.hints) || n.hints[lo] != h {
			return lo, false
		}
		for hi = lo + 1; hi < len(n.hints) && n.hints[hi] == h; hi++ {
		}
	}
	i, found := slices.BinarySearchFunc(n.refs[lo:hi], key, func(r arena.Ref, key []byte) int { return bytes.Compare(t.key(r), key) })
	return lo + i, found
}

// find is search for a row that is in the leaf, by its ref.
func (t *tree) find(n *node, key []byte, ref arena.Ref) int {
	if n.hinted {
		i, _ := n.searchHints(key)
		for ; i < len(n.refs); i++ { // the row itself need not be read
			if n.refs[i] == ref {
				return i
			}
		}
	}
	i, _ := t.search(n, key)
	return i
}

// A node has hints if all its rows, or separators, are of one unit: it then has the next eight
// bytes of their keys at hand, so that a search mostly looks at one of them or none.
// These are the score of a sorted set's element, the hash of a member, the index of
// a list's. Without them each step of a search is a miss of the processor's cache.
//
// Where two hints differ, the keys differ in the same direction.

// hint is the beginning of what follows a unit's prefix, as a number that sorts as
// the bytes do.
func hint(rest []byte) uint64 {
	if len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest)
	}
	var b [8]byte
	copy(b[:], rest)
	return binary.BigEndian.Uint64(b[:])
}

// searchHints returns the first place in a node with hints whose hint is not below that of
// a key, and the latter. For a key of another unit the place is at an end, where
// no hint is equal to what it returns, or none counts.
func (n *node) searchHints(key []byte) (at int, h uint64) {
	if !bytes.HasPrefix(key, n.prefix) {
		if bytes.Compare(key, n.prefix) < 0 {
			return 0, ^n.hints[0]
		}
		return len(n.hints), 0
	}
	h = hint(key[len(n.prefix):])
	hints := n.hints
	for size := len(hints); size > 0; {
		half := size >> 1
		if hints[at+half] < h {
			at += half + 1
			size -= half + 1
		} else {
			size = half
		}
	}
	return at, h
}

// dropHints is called when a node gets a row of another unit.
func (n *node) dropHints() { n.hinted, n.prefix, n.hints = false, nil, n.hints[:0] }

// makeHints gives a node hints if all its keys are of one unit.
func (t *tree) makeHints(n *node) {
	was := n.prefix
	n.dropHints()
	var key func(i int) []byte
	size := len(n.refs)
	if key = func(i int) []byte { return t.key(n.refs[i]) }; n.kids != nil {
		size = len(n.seps)
		key = func(i int) []byte { return n.seps[i] }
	}
	if size == 0 {
		return
	}
	// They are in order: if the first and the last are of one unit, all are.
	first, last := key(0), key(size-1)
	prefix := t.set.prefix(first)
	if len(prefix) < t.set.unit(first) || string(t.set.prefix(last)) != string(prefix) {
		return
	}
	if n.hinted, n.prefix = true, was; string(was) != string(prefix) {
		n.prefix = bytes.Clone(prefix)
	}
	for i := range size {
		n.hints = append(n.hints, hint(key(i)[len(prefix):]))
	}
}

// place puts a ref into a leaf that has room.
func (t *tree) place(n *node, i int, key []byte, ref arena.Ref, alive int) {
	if len(n.refs) == n.room {
		t.reserve(n, len(n.refs)+1, len(n.refs))
	}
	n.refs = slices.Insert(n.refs, i, ref)
	n.alive = n.alive&before(i) | uint64(alive)<<i | n.alive&^before(i)<<1
	switch {
	case len(n.refs) == 1:
		t.makeHints(n)
	case n.hinted && string(t.set.prefix(key)) == string(n.prefix):
		n.hints = slices.Insert(n.hints, i, hint(key[len(n.prefix):]))
	default:
		n.dropHints()
	}
}

// kid returns which kid a key belongs to.
func (n *node) kid(key []byte) int {
	if !n.hinted {
		i, found := slices.BinarySearchFunc(n.seps, key, bytes.Compare)
		if found {
			i++
		}
		return i
	}
	i, h := n.searchHints(key)
	for i < len(n.hints) && n.hints[i] == h && bytes.Compare(n.seps[i], key) <= 0 {
		i++
	}
	return i
}

// before returns a word with the lowest i bits set.
func before(i int) uint64 { return 1<<i - 1 }

// alive is 1 for a row that lives, 0 for a dead one.
func (t *tree) alive(ref arena.Ref) int {
	if t.set.row(ref).is(dead) {
		return 0
	}
	return 1
}

// recount counts the rows that live below a node whose kids are counted.
func (n *node) recount() {
	n.live = bits.OnesCount64(n.alive)
	for i, kid := range n.kids {
		n.lives[i] = kid.live
		n.live += kid.live
	}
}

// insert adds a row that is not in the tree.
func (t *tree) insert(key []byte, ref arena.Ref) {
	if t.root == nil {
		t.root = new(node)
	}
	t.n++
	if sep, right := t.add(t.root, key, ref, t.alive(ref)); right != nil {
		left := t.root
		t.root = &node{kids: []*node{left, right}, seps: [][]byte{sep}, lives: []int{left.live, right.live}, live: left.live + right.live}
		t.makeHints(t.root)
	}
}

// count notes that a row has died or lives again: delta is -1 or 1.
func (t *tree) count(key []byte, ref arena.Ref, delta int) {
	for n := t.root; ; {
		if n.live += delta; n.kids == nil {
			n.alive ^= 1 << t.find(n, key, ref)
			return
		}
		k := n.kid(key)
		n.lives[k] += delta
		n = n.kids[k]
	}
}

// add inserts below a node. If the node had to be split, it returns the new one
// to its right, and what separates the two.
func (t *tree) add(n *node, key []byte, ref arena.Ref, alive int) (sep []byte, right *node) {
	n.live += alive
	if n.kids == nil {
		i, _ := t.search(n, key)
		if len(n.refs) < fanout {
			t.place(n, i, key, ref, alive)
			return nil, nil
		}
		return t.splitLeaf(n, i, key, ref, alive)
	}
	k := n.kid(key)
	n.lives[k] += alive
	sep, kid := t.add(n.kids[k], key, ref, alive)
	if kid == nil {
		return nil, nil
	}
	n.seps = slices.Insert(n.seps, k, sep)
	n.kids = slices.Insert(n.kids, k+1, kid)
	n.lives[k] = n.kids[k].live
	n.lives = slices.Insert(n.lives, k+1, kid.live)
	if n.hinted && bytes.HasPrefix(sep, n.prefix) && string(t.set.prefix(sep)) == string(n.prefix) {
		n.hints = slices.Insert(n.hints, k, hint(sep[len(n.prefix):]))
	} else {
		n.dropHints()
	}
	if len(n.kids) <= fanout {
		return nil, nil
	}
	at := len(n.kids) / 2
	if k+1 == fanout {
		at = fanout
	}
	right = &node{kids: slices.Clone(n.kids[at:]), seps: slices.Clone(n.seps[at:]), lives: slices.Clone(n.lives[at:])}
	sep = n.seps[at-1]
	clear(n.kids[at:])
	clear(n.seps[at-1:])
	n.kids, n.seps, n.lives = n.kids[:at], n.seps[:at-1], n.lives[:at]
	t.makeHints(n)
	t.makeHints(right)
	right.recount()
	n.live -= right.live
	return sep, right
}

// splitLeaf adds a row to a full leaf, at a place, and makes two leaves of it.
// Ascending or descending keys, as of a queue, leave full leaves behind.
func (t *tree) splitLeaf(n *node, i int, key []byte, ref arena.Ref, alive int) (sep []byte, right *node) {
	at := fanout / 2
	if i == 0 || i == fanout {
		at = i
	}
	// The rows themselves are not read: each would be a cache miss.
	right = &node{alive: n.alive >> at, hinted: n.hinted, prefix: n.prefix}
	n.alive &= before(at)
	t.reserve(right, fanout-at+1, 0)
	right.refs = append(right.refs, n.refs[at:]...)
	if n.hinted {
		right.hints = append(right.hints, n.hints[at:]...)
	}
	if at < fanout {
		t.reserve(n, at+1, at)
	}
	if i > at || at == fanout {
		t.place(right, i-at, key, ref, alive)
	} else {
		t.place(n, i, key, ref, alive)
	}
	right.recount()
	n.live -= right.live
	return separator(t.key(n.refs[len(n.refs)-1]), t.key(right.refs[0])), right
}

// separator returns the shortest key above a and not above b.
func separator(a, b []byte) []byte {
	i := 0
	for i < len(a) && a[i] == b[i] { // b is longer or differs: it is above a
		i++
	}
	return bytes.Clone(b[:i+1])
}

// remove removes a row, whose bytes can still be read.
func (t *tree) remove(key []byte, ref arena.Ref) {
	t.cut(t.root, key, ref, t.alive(ref))
	t.n--
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.n == 0 {
		t.drop()
	}
}

func (t *tree) cut(n *node, key []byte, ref arena.Ref, alive int) {
	n.live -= alive
	if n.kids == nil {
		i := t.find(n, key, ref)
		n.refs = slices.Delete(n.refs, i, i+1)
		n.alive = n.alive&before(i) | n.alive>>1&^before(i)
		if n.hinted {
			n.hints = slices.Delete(n.hints, i, i+1)
		}
		if n.room-len(n.refs) > 2*leafStep && len(n.refs) > 0 {
			t.reserve(n, len(n.refs)+1, len(n.refs))
		}
		return
	}
	k := n.kid(key)
	n.lives[k] -= alive
	kid := n.kids[k]
	t.cut(kid, key, ref, alive)
	// Two small neighbours become one. An empty node goes, and leaves its parent empty
	// if it was the last one there: that is then for the parent's parent to see.
	size := kid.size()
	if size > fanout/2 {
		return
	}
	if k+1 < len(n.kids) && size+n.kids[k+1].size() <= fanout/2 {
		t.join(n, k)
	} else if k > 0 && n.kids[k-1].size()+size <= fanout/2 {
		t.join(n, k-1)
	} else if size == 0 {
		t.free(kid)
		n.without(k, max(0, k-1))
	}
}

// without removes a kid and a separator from a node.
func (n *node) without(kid, sep int) {
	n.kids = slices.Delete(n.kids, kid, kid+1)
	n.lives = slices.Delete(n.lives, kid, kid+1)
	if len(n.seps) > 0 {
		n.seps = slices.Delete(n.seps, sep, sep+1)
	}
	switch {
	case len(n.seps) == 0:
		n.dropHints()
	case n.hinted:
		n.hints = slices.Delete(n.hints, sep, sep+1)
	}
}

func (n *node) size() int { return len(n.refs) + len(n.kids) }

// join makes kids k and k+1 one.
func (t *tree) join(n *node, k int) {
	a, b := n.kids[k], n.kids[k+1]
	a.live += b.live
	a.alive |= b.alive << len(a.refs)
	if size := len(a.refs) + len(b.refs); size > a.room {
		t.reserve(a, size, len(a.refs))
	}
	if a.kids == nil && a.hinted && b.hinted && bytes.Equal(a.prefix, b.prefix) {
		a.refs, a.hints = append(a.refs, b.refs...), append(a.hints, b.hints...)
	} else {
		a.refs = append(a.refs, b.refs...)
		if len(b.kids) > 0 {
			if len(a.kids) > 0 {
				a.seps = append(a.seps, n.seps[k])
			}
			a.kids = append(a.kids, b.kids...)
			a.seps = append(a.seps, b.seps...)
			a.lives = append(a.lives, b.lives...)
		}
		t.makeHints(a)
	}
	t.free(b)
	n.lives[k] = a.live
	n.without(k+1, k)
}

// replace notes that the row of a key has moved from one ref to another. The key
// can be read at both.
func (t *tree) replace(key []byte, from, to arena.Ref) {
	n := t.root
	for n.kids != nil {
		n = n.kids[n.kid(key)]
	}
	n.refs[t.find(n, key, from)] = to
}

// ascend visits the rows from lo on until visit returns false.
func (t *tree) ascend(lo []byte, visit func(arena.Ref) bool) {
	if t.root != nil {
		t.up(t.root, lo, visit)
	}
}

func (t *tree) up(n *node, lo []byte, visit func(arena.Ref) bool) bool {
	if n.kids == nil {
		i := 0
		if lo != nil {
			i, _ = t.search(n, lo)
		}
		for _, ref := range n.refs[i:] {
			if !visit(ref) {
				return false
			}
		}
		return true
	}
	k := 0
	if lo != nil {
		k = n.kid(lo)
	}
	for ; k < len(n.kids); k++ {
		if !t.up(n.kids[k], lo, visit) {
			return false
		}
		lo = nil
	}
	return true
}

// start returns where a walk begins among the refs or the kids of a node, and its direction. It
// goes up from bound on or, if reverse, down from the last row below bound. A nil bound is the
// beginning, or the end.
func (t *tree) start(n *node, bound []byte, reverse bool) (i, step int) {
	step = 1
	switch {
	case bound == nil && reverse:
		i = n.size() - 1
	case bound == nil:
	case n.kids != nil:
		i = n.kid(bound)
	default:
		if i, _ = t.search(n, bound); reverse {
			i--
		}
	}
	if reverse {
		step = -1
	}
	return i, step
}

// collect appends the refs of up to limit rows below a node to refs, in the order of the walk
// that start describes; only of rows that are not dead, if living.
func (t *tree) collect(n *node, bound []byte, reverse, living bool, limit int, refs []arena.Ref) []arena.Ref {
	if n == nil || living && n.live == 0 {
		return refs
	}
	i, step := t.start(n, bound, reverse)
	if n.kids != nil {
		for ; i >= 0 && i < len(n.kids) && len(refs) < limit; i += step {
			if !living || n.lives[i] > 0 {
				refs = t.collect(n.kids[i], bound, reverse, living, limit, refs)
			}
			bound = nil
		}
		return refs
	}
	if !reverse && (!living || n.live == len(n.refs)) {
		return append(refs, n.refs[i:min(len(n.refs), i+limit-len(refs))]...)
	}
	rest := n.alive // a bit for each row that is still to come
	if !living {
		rest = before(len(n.refs))
	}
	if reverse {
		rest &= before(i + 1)
	} else {
		rest &^= before(i)
	}
	for rest != 0 && len(refs) < limit {
		at := bits.TrailingZeros64(rest)
		if reverse {
			at = bits.Len64(rest) - 1
		}
		rest &^= 1 << at
		refs = append(refs, n.refs[at])
	}
	return refs
}

// edge returns the first live row of the walk that start describes; 0 if there is none.
func (t *tree) edge(bound []byte, reverse bool) arena.Ref {
	var one [1]arena.Ref
	if refs := t.collect(t.root, bound, reverse, true, 1, one[:0]); len(refs) > 0 {
		return refs[0]
	}
	return 0
}

// rank returns the number of live rows with a smaller key.
func (t *tree) rank(key []byte) (n int) {
	node := t.root
	if node == nil {
		return 0
	}
	for node.kids != nil {
		k := node.kid(key)
		for _, live := range node.lives[:k] {
			n += live
		}
		node = node.kids[k]
	}
	i, _ := t.search(node, key)
	return n + bits.OnesCount64(node.alive&before(i))
}

// nth returns the live row whose rank is n; 0 if there is none.
func (t *tree) nth(n int) arena.Ref {
	node := t.root
	if node == nil || n < 0 || n >= node.live {
		return 0
	}
	for node.kids != nil {
		k := 0
		for ; k < len(node.lives)-1 && n >= node.lives[k]; k++ {
			n -= node.lives[k]
		}
		node = node.kids[k]
	}
	rest := node.alive
	for ; n > 0; n-- {
		rest &= rest - 1
	}
	return node.refs[bits.TrailingZeros64(rest)]
}

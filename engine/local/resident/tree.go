package resident

import (
	"bytes"
	"encoding/binary"
	"slices"

	"redoubt/engine/local/arena"
)

// tree is a B+tree of refs in the order of their rows' keys. Only a new and a
// removed row touch it; finding one goes by the table.
//
// Leaves are slices without pointers, so that ten million rows are some hundred
// thousand objects to the collector. Keys are read from the rows; what separates
// two nodes is a copy, as short as it may be, since rows come and go.
//
// Dead rows stay until the store has heard of them, and a queue leaves many of
// them at its beginning: nodes count the rows that live, so that readers of the
// latest state pass over what is dead.
type tree struct {
	set  *Set
	root *node
	n    int
}

// node is a leaf if it has no kids; else kid i holds the keys from seps[i-1] on,
// below seps[i].
type node struct {
	refs []arena.Ref
	kids []*node
	seps [][]byte
	live int // rows below that are not dead
	// Of a leaf whose rows are all of one unit; see dress.
	dressed bool
	prefix  []byte
	hints   []uint64
}

const fanout = 64 // the most refs of a leaf, and kids of another node

func (t *tree) key(ref arena.Ref) []byte { return t.set.row(ref).key() }

// search returns where key is in a leaf, or would be.
func (t *tree) search(n *node, key []byte) (int, bool) {
	lo, hi := 0, len(n.refs)
	if n.dressed {
		if !bytes.HasPrefix(key, n.prefix) {
			if bytes.Compare(key, n.prefix) < 0 {
				return 0, false
			}
			return hi, false
		}
		h := hint(key[len(n.prefix):])
		var found bool
		if lo, found = slices.BinarySearch(n.hints, h); !found {
			return lo, false
		}
		for hi = lo + 1; hi < len(n.hints) && n.hints[hi] == h; hi++ {
		}
	}
	i, found := slices.BinarySearchFunc(n.refs[lo:hi], key, func(r arena.Ref, key []byte) int { return bytes.Compare(t.key(r), key) })
	return lo + i, found
}

// A leaf is dressed if all its rows are of one unit: it then has the next eight
// bytes of their keys at hand, so that a search mostly looks at one row or none.
// These are the score of a sorted set's element, the hash of a member, the index of
// a list's. Without them each step of a search is a miss of the processor's cache.

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

// dress dresses a leaf if it can be.
func (t *tree) dress(n *node) {
	n.dressed, n.prefix, n.hints = false, nil, nil
	if len(n.refs) == 0 {
		return
	}
	first, last := t.key(n.refs[0]), t.key(n.refs[len(n.refs)-1])
	prefix := t.set.prefix(first)
	if string(t.set.prefix(last)) != string(prefix) {
		return
	}
	n.dressed, n.prefix, n.hints = true, bytes.Clone(prefix), make([]uint64, 0, cap(n.refs))
	for _, ref := range n.refs {
		n.hints = append(n.hints, hint(t.key(ref)[len(prefix):]))
	}
}

// place puts a ref into a leaf that has room.
func (t *tree) place(n *node, i int, key []byte, ref arena.Ref) {
	n.refs = slices.Insert(roomy(n.refs), i, ref)
	switch {
	case len(n.refs) == 1:
		t.dress(n)
	case n.dressed && string(t.set.prefix(key)) == string(n.prefix):
		n.hints = slices.Insert(roomy(n.hints), i, hint(key[len(n.prefix):]))
	default:
		n.dressed, n.prefix, n.hints = false, nil, nil
	}
}

// kid returns which kid a key belongs to.
func (n *node) kid(key []byte) int {
	i, found := slices.BinarySearchFunc(n.seps, key, bytes.Compare)
	if found {
		i++
	}
	return i
}

// alive is 1 for a row that lives, 0 for a dead one.
func (t *tree) alive(ref arena.Ref) int {
	if t.set.row(ref).is(dead) {
		return 0
	}
	return 1
}

// recount counts the rows that live below a node whose kids are counted.
func (t *tree) recount(n *node) {
	n.live = 0
	for _, ref := range n.refs {
		n.live += t.alive(ref)
	}
	for _, kid := range n.kids {
		n.live += kid.live
	}
}

// insert adds a row that is not there.
func (t *tree) insert(key []byte, ref arena.Ref) {
	if t.root == nil {
		t.root = new(node)
	}
	t.n++
	if sep, right := t.add(t.root, key, ref, t.alive(ref)); right != nil {
		t.root = &node{kids: []*node{t.root, right}, seps: [][]byte{sep}, live: t.root.live + right.live}
	}
}

// count notes that a row has died or lives again: delta is -1 or 1.
func (t *tree) count(key []byte, delta int) {
	for n := t.root; ; n = n.kids[n.kid(key)] {
		if n.live += delta; n.kids == nil {
			return
		}
	}
}

// add inserts below a node. If the node had to be split, it returns the new one
// to its right, and what separates the two.
func (t *tree) add(n *node, key []byte, ref arena.Ref, alive int) (sep []byte, right *node) {
	n.live += alive
	if n.kids == nil {
		i, _ := t.search(n, key)
		if len(n.refs) < fanout {
			t.place(n, i, key, ref)
			return nil, nil
		}
		// Ascending keys, as of a queue, leave full leaves behind.
		at := fanout / 2
		if i == fanout {
			at = fanout
		}
		right = &node{refs: slices.Clone(n.refs[at:])}
		n.refs = slices.Clone(n.refs[:at])
		t.dress(n)
		t.dress(right)
		if i > at || at == fanout {
			t.place(right, i-at, key, ref)
		} else {
			t.place(n, i, key, ref)
		}
		t.recount(right)
		n.live -= right.live
		return separator(t.key(n.refs[len(n.refs)-1]), t.key(right.refs[0])), right
	}
	k := n.kid(key)
	sep, kid := t.add(n.kids[k], key, ref, alive)
	if kid == nil {
		return nil, nil
	}
	n.seps = slices.Insert(n.seps, k, sep)
	n.kids = slices.Insert(n.kids, k+1, kid)
	if len(n.kids) <= fanout {
		return nil, nil
	}
	at := len(n.kids) / 2
	if k+1 == fanout {
		at = fanout
	}
	right = &node{kids: slices.Clone(n.kids[at:]), seps: slices.Clone(n.seps[at:])}
	sep = n.seps[at-1]
	clear(n.kids[at:])
	clear(n.seps[at-1:])
	n.kids, n.seps = n.kids[:at], n.seps[:at-1]
	t.recount(right)
	n.live -= right.live
	return sep, right
}

// roomy returns a list with room for one more: leaves grow in small steps, as
// there are many.
func roomy[T any](list []T) []T {
	if len(list) < cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)+max(2, min(len(list), 12))), list...)
}

// separator returns the shortest key above a and not above b.
func separator(a, b []byte) []byte {
	i := 0
	for i < len(a) && a[i] == b[i] { // b is longer or differs: it is above a
		i++
	}
	return bytes.Clone(b[:i+1])
}

// remove takes a row out; its bytes are still there.
func (t *tree) remove(key []byte, ref arena.Ref) {
	t.cut(t.root, key, t.alive(ref))
	t.n--
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.n == 0 {
		t.root = nil
	}
}

func (t *tree) cut(n *node, key []byte, alive int) {
	n.live -= alive
	if n.kids == nil {
		i, _ := t.search(n, key)
		n.refs = slices.Delete(n.refs, i, i+1)
		if n.dressed {
			n.hints = slices.Delete(n.hints, i, i+1)
		}
		return
	}
	k := n.kid(key)
	t.cut(n.kids[k], key, alive)
	// Two small neighbours become one, so an empty node never stays.
	if k+1 < len(n.kids) && n.kids[k].size()+n.kids[k+1].size() <= fanout/2 {
		t.join(n, k)
	} else if k > 0 && n.kids[k-1].size()+n.kids[k].size() <= fanout/2 {
		t.join(n, k-1)
	} else if n.kids[k].size() == 0 && len(n.kids) > 1 {
		n.kids = slices.Delete(n.kids, k, k+1)
		n.seps = slices.Delete(n.seps, max(0, k-1), max(0, k-1)+1)
	}
}

func (n *node) size() int { return len(n.refs) + len(n.kids) }

// join makes kids k and k+1 one.
func (t *tree) join(n *node, k int) {
	a, b := n.kids[k], n.kids[k+1]
	a.live += b.live
	a.refs = append(a.refs, b.refs...)
	t.dress(a)
	if len(b.kids) > 0 {
		if len(a.kids) > 0 {
			a.seps = append(a.seps, n.seps[k])
		}
		a.kids = append(a.kids, b.kids...)
		a.seps = append(a.seps, b.seps...)
	}
	n.kids = slices.Delete(n.kids, k+1, k+2)
	n.seps = slices.Delete(n.seps, k, k+1)
}

// replace notes that the row of a key has moved to ref, where its key can be
// read by now. It still can at the old place.
func (t *tree) replace(key []byte, ref arena.Ref) {
	n := t.root
	for n.kids != nil {
		n = n.kids[n.kid(key)]
	}
	i, _ := t.search(n, key)
	n.refs[i] = ref
}

// ascend visits the rows from lo on until visit says false.
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

// above appends the refs of up to limit rows from lo on to refs. If living, it may
// leave out rows that are dead.
func (t *tree) above(lo []byte, living bool, limit int, refs []arena.Ref) []arena.Ref {
	if t.root != nil {
		refs = t.root.above(t, lo, living, limit, refs)
	}
	return refs
}

func (n *node) above(t *tree, lo []byte, living bool, limit int, refs []arena.Ref) []arena.Ref {
	if living && n.live == 0 {
		return refs
	}
	if n.kids == nil {
		i := 0
		if lo != nil {
			i, _ = t.search(n, lo)
		}
		return append(refs, n.refs[i:min(len(n.refs), i+limit-len(refs))]...)
	}
	k := 0
	if lo != nil {
		k = n.kid(lo)
	}
	for ; k < len(n.kids) && len(refs) < limit; k++ {
		refs = n.kids[k].above(t, lo, living, limit, refs)
		lo = nil
	}
	return refs
}

// below is above for the rows below hi, from the last one on; nil: all.
func (t *tree) below(hi []byte, living bool, limit int, refs []arena.Ref) []arena.Ref {
	if t.root != nil {
		refs = t.root.below(t, hi, living, limit, refs)
	}
	return refs
}

func (n *node) below(t *tree, hi []byte, living bool, limit int, refs []arena.Ref) []arena.Ref {
	if living && n.live == 0 {
		return refs
	}
	if n.kids == nil {
		i := len(n.refs)
		if hi != nil {
			i, _ = t.search(n, hi)
		}
		for i--; i >= 0 && len(refs) < limit; i-- {
			refs = append(refs, n.refs[i])
		}
		return refs
	}
	k := len(n.kids) - 1
	if hi != nil {
		k = n.kid(hi)
	}
	for ; k >= 0 && len(refs) < limit; k-- {
		refs = n.kids[k].below(t, hi, living, limit, refs)
		hi = nil
	}
	return refs
}

// rank is how many rows live below a key.
func (t *tree) rank(key []byte) (n int) {
	node := t.root
	if node == nil {
		return 0
	}
	for node.kids != nil {
		k := node.kid(key)
		for _, kid := range node.kids[:k] {
			n += kid.live
		}
		node = node.kids[k]
	}
	i, _ := t.search(node, key)
	if node.live == len(node.refs) {
		return n + i
	}
	for _, ref := range node.refs[:i] {
		n += t.alive(ref)
	}
	return n
}

// nth returns the row that has so many living ones below it; 0 if there is none.
func (t *tree) nth(n int) arena.Ref {
	node := t.root
	if node == nil || n < 0 || n >= node.live {
		return 0
	}
	for node.kids != nil {
		for _, kid := range node.kids {
			if node = kid; n < kid.live {
				break
			}
			n -= kid.live
		}
	}
	for _, ref := range node.refs {
		if n -= t.alive(ref); n < 0 {
			return ref
		}
	}
	return 0
}

package resident

import (
	"bytes"
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
}

const fanout = 64 // the most refs of a leaf, and kids of another node

func (t *tree) key(ref arena.Ref) []byte { return t.set.row(ref).key() }

// search returns where key is in a leaf, or would be.
func (t *tree) search(refs []arena.Ref, key []byte) (int, bool) {
	return slices.BinarySearchFunc(refs, key, func(r arena.Ref, key []byte) int { return bytes.Compare(t.key(r), key) })
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
		i, _ := t.search(n.refs, key)
		if len(n.refs) < fanout {
			n.refs = slices.Insert(roomy(n.refs), i, ref)
			return nil, nil
		}
		// Ascending keys, as of a queue, leave full leaves behind.
		at := fanout / 2
		if i == fanout {
			at = fanout
		}
		right = &node{refs: slices.Clone(n.refs[at:])}
		n.refs = slices.Clone(n.refs[:at])
		if i > at || at == fanout {
			right.refs = slices.Insert(roomy(right.refs), i-at, ref)
		} else {
			n.refs = slices.Insert(roomy(n.refs), i, ref)
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

// roomy returns the refs with room for one more: leaves grow in small steps, as
// there are many.
func roomy(refs []arena.Ref) []arena.Ref {
	if len(refs) < cap(refs) {
		return refs
	}
	return append(make([]arena.Ref, 0, len(refs)+max(2, min(len(refs), 12))), refs...)
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
		i, _ := t.search(n.refs, key)
		n.refs = slices.Delete(n.refs, i, i+1)
		return
	}
	k := n.kid(key)
	t.cut(n.kids[k], key, alive)
	// Two small neighbours become one, so an empty node never stays.
	if k+1 < len(n.kids) && n.kids[k].size()+n.kids[k+1].size() <= fanout/2 {
		n.join(k)
	} else if k > 0 && n.kids[k-1].size()+n.kids[k].size() <= fanout/2 {
		n.join(k - 1)
	} else if n.kids[k].size() == 0 && len(n.kids) > 1 {
		n.kids = slices.Delete(n.kids, k, k+1)
		n.seps = slices.Delete(n.seps, max(0, k-1), max(0, k-1)+1)
	}
}

func (n *node) size() int { return len(n.refs) + len(n.kids) }

// join makes kids k and k+1 one.
func (n *node) join(k int) {
	a, b := n.kids[k], n.kids[k+1]
	a.live += b.live
	a.refs = append(a.refs, b.refs...)
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
	i, _ := t.search(n.refs, key)
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
			i, _ = t.search(n.refs, lo)
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
			i, _ = t.search(n.refs, lo)
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
			i, _ = t.search(n.refs, hi)
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
	i, _ := t.search(node.refs, key)
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

package resident

import (
	"unsafe"

	"redoubt/engine/local/arena"
)

// The lists of a leaf, its refs and then its hints, lie in the arena. On the Go heap the order
// of some million rows would be as much work for the garbage collector as everything else
// together, and outside of the budget.

// leafStep is the number of entries by which the lists of a leaf grow.
const leafStep = 8

const entrySize = 16 // a ref and a hint

// reserve allocates the lists of a leaf for room entries, and keeps the first keep
// entries.
func (t *tree) reserve(n *node, room, keep int) {
	room = (room + leafStep - 1) / leafStep * leafStep
	old, refs, hints := *n, n.refs[:keep], n.hints[:min(keep, len(n.hints))]
	n.mem, n.room = 0, room
	var list []uint64
	if ref, err := t.set.arena.Alloc(room * entrySize); err == nil {
		n.mem = ref
		list = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(t.set.arena.Bytes(ref, room*entrySize)))), 2*room)
	} else {
		list = make([]uint64, 2*room) // on the Go heap
	}
	n.refs = append(unsafe.Slice((*arena.Ref)(unsafe.SliceData(list)), room)[:0], refs...)
	n.hints = append(list[room:room:2*room], hints...)
	t.free(&old)
}

// free frees the lists of a leaf.
func (t *tree) free(n *node) {
	if n.mem != 0 {
		t.set.arena.Free(n.mem, n.room*entrySize)
	}
	n.mem, n.room, n.refs, n.hints = 0, 0, nil, nil
}

// drop empties the tree.
func (t *tree) drop() {
	if t.root != nil {
		t.freeAll(t.root)
	}
	t.root, t.n = nil, 0
}

func (t *tree) freeAll(n *node) {
	t.free(n)
	for _, kid := range n.kids {
		t.freeAll(kid)
	}
}

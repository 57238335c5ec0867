package resident

import (
	"encoding/binary"
	"testing"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

// treeKey is a row's key in a part of one unit.
func treeKey(part uint16, n int) []byte {
	k := append(binary.BigEndian.AppendUint16(nil, part), 2)
	return binary.BigEndian.AppendUint32(k, uint32(n))
}

// Rows side by side go, as those of a collection do that is evicted, while their
// neighbours stay: whole nodes of the order become empty.
func TestEmptyNodes(t *testing.T) {
	t.Parallel()
	const part, rows, run = 7, 3 * fanout * fanout, fanout * fanout
	for _, from := range []int{0, run, 2 * run} {
		for _, back := range []bool{false, true} {
			s := newSet(t, true)
			apply(t, s, 1, func(b *engine.Batch) {
				for i := range rows {
					b.Put(treeKey(part, i), nil)
				}
			})
			p := s.parts[part].Load()
			remove := func(seq uint64, i int) {
				apply(t, s, seq, func(b *engine.Batch) { b.Delete(treeKey(part, i)) })
			}
			for i := range run {
				n := from + i
				if back {
					n = from + run - 1 - i
				}
				remove(uint64(2+i), n)
				if i%fanout == 0 || i > run-fanout {
					noEmptyNode(t, p.tree.root)
					p.tree.ascend(PartKey(part), func(arena.Ref) bool { return false })
				}
			}
			check(t, s)
		}
	}
}

// noEmptyNode looks for nodes without rows.
func noEmptyNode(t *testing.T, n *node) {
	t.Helper()
	if n.size() == 0 {
		t.Fatal("an empty node is left in the order")
	}
	for _, kid := range n.kids {
		noEmptyNode(t, kid)
	}
}

// Runs of rows come and go at random.
func TestRunsComeAndGo(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	const part, span = 7, 4 * fanout * fanout
	s := newSet(t, true)
	there := make([]bool, span)
	for round := range 150 {
		at, n := rng.IntN(span), 1+rng.IntN(fanout*fanout)
		put := rng.IntN(2) == 0
		apply(t, s, uint64(1+round), func(b *engine.Batch) {
			for i := at; i < min(at+n, span); i++ {
				if there[i] = put; put {
					b.Put(treeKey(part, i), nil)
				} else {
					b.Delete(treeKey(part, i))
				}
			}
		})
		p := s.parts[part].Load()
		if p.tree.root != nil {
			noEmptyNode(t, p.tree.root)
		}
		i := rng.IntN(span)
		p.tree.ascend(treeKey(part, i), func(r arena.Ref) bool {
			for i < span && !there[i] {
				i++
			}
			if i == span || string(s.row(r).key()) != string(treeKey(part, i)) {
				t.Errorf("% x comes where %d was expected", s.row(r).key(), i)
			}
			i++
			return !t.Failed()
		})
	}
	check(t, s)
}

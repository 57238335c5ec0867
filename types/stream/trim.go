package stream

import "math"

// Trim describes what to remove from the start of a stream.
type Trim struct {
	// ByID: remove the entries below MinID; otherwise those beyond MaxLen.
	ByID   bool
	MinID  ID
	MaxLen int64
	// Approx: remove whole nodes only.
	Approx bool
	// Limit is the most entries to remove, 0 for any number. It is checked before
	// each node.
	Limit int64
}

// whole reports whether a node is removed whole from a stream of this length.
func (t *Trim) whole(n node, length int64) bool {
	if t.ByID {
		return n.last.Less(t.MinID)
	}
	return length-int64(n.live) >= t.MaxLen
}

// Trim removes entries from the start, and returns how many. Its cost is proportional to
// the entries removed, or less where many whole nodes are.
func (s *Stream) Trim(t Trim) (removed int64) {
	if s.ref.Size == 0 && s.Nodes() == 0 || s.idle(&t) {
		return 0
	}
	length, nodes := s.ref.Size, int64(0)
	var part, kept node
	s.eachNode(func(n node) bool {
		live := int64(n.live)
		kept = n
		switch {
		case !t.ByID && length <= t.MaxLen || t.Limit > 0 && removed+live > t.Limit:
			return false
		case t.whole(n, length):
			removed, length, nodes = removed+live, length-live, nodes+1
			kept = node{}
			return true
		case !t.Approx:
			part = n
		}
		return false
	})
	if s.tx.Err() != nil {
		return 0
	}
	if nodes > 0 {
		s.removeNodes(nodes, removed, kept)
	}
	if !part.id.IsZero() {
		removed += s.removeFrom(part, &t)
	}
	s.changed = s.changed || nodes > 0 || removed > 0
	return removed
}

// idle reports whether, by the meta row alone, nothing is to be removed: the usual case
// in a stream that is trimmed with each entry added.
func (s *Stream) idle(t *Trim) bool {
	switch {
	case s.nodes == 0:
		return false // the only node is in the meta row
	case t.ByID:
		// A first node whose entries were deleted one by one may have to go.
		return s.headLive > 0 && !s.First.Less(t.MinID)
	}
	return s.ref.Size <= t.MaxLen || t.Approx && s.ref.Size-int64(s.headLive) < t.MaxLen
}

// removeNodes removes the first nodes, which have so many live entries. kept is the node
// after them, if there is one.
func (s *Stream) removeNodes(nodes, entries int64, kept node) {
	first, head := s.First, s.head
	if entries > rangeMin && s.tx.Heavy(nodes*rowWork) || entries <= rangeMin && s.tx.Heavy(entries*rowWork) {
		return
	}
	end := appendID([]byte{rowEntry}, kept.id)
	nodeEnd := appendID([]byte{rowNode}, kept.id)
	if kept.id.IsZero() {
		end, nodeEnd = []byte{rowEntry + 1}, []byte{rowNode + 1}
	}
	s.dropRange(appendID([]byte{rowEntry}, first), end, entries)
	rows := min(nodes, s.nodes)
	s.dropRange(appendID([]byte{rowNode}, head), nodeEnd, rows)
	s.nodes -= rows
	if nodes > rows {
		s.tail = node{}
	}
	s.head, s.headLive = ID{}, 0
	if s.nodes > 0 {
		s.head, s.headLive = kept.id, kept.live
	}
	s.ref.Size -= entries
	s.findFirst(kept.id)
}

// removeFrom removes entries from the first node, n.
func (s *Stream) removeFrom(n node, t *Trim) (removed int64) {
	excess := int64(math.MaxInt64)
	if !t.ByID {
		excess = s.ref.Size - t.MaxLen
	}
	var ids []ID
	next := ID{}
	s.Each(n.id, n.last, false, func(id ID, _ Entry) bool {
		if next = id; int64(len(ids)) == excess || t.ByID && !id.Less(t.MinID) {
			return false
		}
		ids = append(ids, id)
		next = ID{}
		return true
	})
	if s.tx.Err() != nil || len(ids) == 0 {
		return 0
	}
	for _, id := range ids {
		s.tx.DeleteRow(s.idRow(rowEntry, id))
	}
	removed = int64(len(ids))
	s.ref.Size -= removed
	n.live, n.deleted = n.live-uint32(removed), n.deleted+uint32(removed)
	if n.id == s.tail.id {
		s.tail = n
	} else {
		s.headLive = n.live
		s.putNode(&n)
	}
	if next.IsZero() {
		s.findFirst(ids[len(ids)-1])
	} else {
		s.First = next
	}
	return removed
}

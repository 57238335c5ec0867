package resident

import "redoubt/engine/local/arena"

// Eviction takes rows out of pages all over the arena, while new rows, when they are
// of other sizes than the old ones, need pages of their own. So the arena comes to
// map more memory than the rows need. Compact moves the rows of the emptiest pages, so
// that these pages can be used for other sizes, or be given back.

// Compact moves up to bytes bytes and returns how many rows it moved.
func (s *Set) Compact(bytes int64) (rows int) {
	if s.arena.Sparse(int(bytes)) == 0 {
		return 0
	}
	defer s.arena.Sparse(0)
	var room []arena.Ref
	for no := range s.parts {
		p := s.parts[no].Load()
		if p == nil {
			continue
		}
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var n int
			n, cursor = s.compactBucket(p, cursor, &room)
			rows += n
		}
		p.mu.Lock()
		if p.tree.root != nil {
			p.tree.compact(p.tree.root)
		}
		p.mu.Unlock()
	}
	return rows
}

// compactBucket moves the rows of a bucket, and its slots.
func (s *Set) compactBucket(p *part, cursor uint64, room *[]arena.Ref) (rows int, next uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.tab.bucket(cursor); b != nil && s.arena.InSparse(b.ref) {
		_ = p.tab.resize(cursor, b, len(b.slots)) // without free memory the slots stay
	}
	refs := (*room)[:0]
	next = p.tab.walk(cursor, func(ref arena.Ref) {
		if s.arena.InSparse(ref) {
			refs = append(refs, ref)
		}
	})
	*room = refs
	for _, ref := range refs {
		r := s.row(ref)
		n := r.size()
		to, err := s.arena.Alloc(n)
		if err != nil {
			break
		}
		s.move(p, ref, to, r[:n], row(s.arena.Bytes(to, n)), s.hashOf(ref))
		s.arena.Free(ref, n)
		rows++
	}
	return rows, next
}

// compact moves the lists of leaves that lie in sparse pages.
func (t *tree) compact(n *node) {
	if n.mem != 0 && t.set.arena.InSparse(n.mem) {
		t.reserve(n, n.room, len(n.refs))
	}
	for _, kid := range n.kids {
		t.compact(kid)
	}
}

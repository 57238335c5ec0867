package stream

// The lag of a group. To count the entries after an ID would be a walk, so a group
// counts them as it reads. If the count was lost, it is restored at the few IDs for
// which it is known. Entries that were deleted singly (not by trimming) make the count
// of IDs before them unknown.

// NotCounted stands for a number of entries that is not known.
const NotCounted = -1

// counted is the number of entries ever added up to an ID, or NotCounted.
func (s *Stream) counted(id ID) int64 {
	if s.Added == 0 {
		return 0
	}
	switch c := id.Compare(s.Last); {
	case c == 0, c < 0 && s.ref.Size == 0:
		return s.Added
	case c > 0:
		return NotCounted
	}
	if s.MaxDeleted.IsZero() || s.MaxDeleted.Less(s.First) {
		switch c := id.Compare(s.First); {
		case c < 0:
			return s.Added - s.ref.Size
		case c == 0:
			return s.Added - s.ref.Size + 1
		}
	}
	return NotCounted
}

// holesFrom reports whether there may be deleted entries at or after an ID, among the
// remaining ones.
func (s *Stream) holesFrom(id ID) bool {
	if s.ref.Size == 0 || s.MaxDeleted.IsZero() || s.MaxDeleted.Less(s.First) {
		return false
	}
	return !s.MaxDeleted.Less(id)
}

// Lag is the number of entries that the group has not read yet. ok is false if that
// is unknown.
func (g *Group) Lag() (int64, bool) {
	s := g.s
	switch {
	case s.Added == 0:
		return 0, true
	case g.EntriesRead != NotCounted && !s.holesFrom(g.Last):
		return s.Added - g.EntriesRead, true
	}
	n := s.counted(g.Last)
	return s.Added - n, n != NotCounted
}

// advance moves the group's position and count to an entry that it reads.
func (g *Group) advance(id ID) {
	if !g.Last.Less(id) {
		return
	}
	switch {
	case g.EntriesRead != NotCounted && !g.s.holesFrom(id):
		g.EntriesRead++
	case g.s.Added > 0:
		g.EntriesRead = g.s.counted(id)
	}
	g.Last, g.changed = id, true
}

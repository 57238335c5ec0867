package stream

// How far a group has read. Counting the entries behind an ID would mean to walk
// them, so they are counted while they are read, and where the count was lost it
// is found again at the few IDs for which it is known. Entries that were deleted
// by themselves spoil the count for IDs before them.

// NotCounted stands for a number of entries that is not known.
const NotCounted = -1

// counted is how many of all entries ever added were up to an ID, or NotCounted.
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

// holesFrom says whether there may be deleted entries behind or at an ID, among
// those that are left.
func (s *Stream) holesFrom(id ID) bool {
	if s.ref.Size == 0 || s.MaxDeleted.IsZero() || s.MaxDeleted.Less(s.First) {
		return false
	}
	return !s.MaxDeleted.Less(id)
}

// Lag is how many entries the group has not read yet. It says false if that is
// not known.
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

// advance notes that the group has read up to an ID.
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

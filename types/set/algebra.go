package set

import (
	"bytes"
	"cmp"
	"slices"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/member"
)

// Intersection, union and difference of sets, one member at a time and without a
// copy of the result: lookups in the other sets decide on each member. So a result
// may be visited twice, to count the members and then to write the reply.

// Group are sets that were read together.
type Group struct {
	tx   *keyspace.Tx
	sets []*Set
}

// ReadAll reads the sets at some keys. Each key counts as a hit or a miss.
func ReadAll(tx *keyspace.Tx, keys [][]byte) (*Group, error) {
	g := &Group{tx: tx, sets: make([]*Set, 0, len(keys))}
	for _, key := range keys {
		s, err := Read(tx, key)
		if err != nil {
			return nil, err
		}
		g.sets = append(g.sets, s)
	}
	return g, nil
}

// Weight is the cost of a walk over all sets, in the unit of keyspace.Tx.Heavy.
func (g *Group) Weight() (sum int64) {
	for _, s := range g.sets {
		sum += s.Weight()
	}
	return sum
}

// bySize returns the sets, the smallest first, without repetitions of that one.
func (g *Group) bySize() []*Set {
	list := slices.Clone(g.sets)
	slices.SortStableFunc(list, func(a, b *Set) int { return bySizeDown(b, a) })
	first := list[0]
	return append(list[:1], slices.DeleteFunc(list[1:], first.same)...)
}

func (s *Set) same(t *Set) bool { return bytes.Equal(s.key, t.key) }

// within returns a function that reports whether the set has a member. For often calls
// of it, the members of a packed set may be put into a map.
func (s *Set) within(often int64) func(member []byte) bool {
	if s.enc != keyspace.Packed || often*s.Len() < manyLooks {
		return s.Has
	}
	members := make(map[string]struct{}, s.Len())
	s.Each(func(m []byte) bool {
		members[string(m)] = struct{}{}
		return true
	})
	return func(m []byte) bool {
		_, ok := members[string(m)]
		return ok
	}
}

// manyLooks is the number of comparisons above which a map is cheaper.
const manyLooks = 1 << 14

// anyOf returns a function that reports whether any of the sets has a member; see within.
func anyOf(sets []*Set, often int64) func(member []byte) bool {
	ask := make([]func([]byte) bool, len(sets))
	for i, s := range sets {
		ask[i] = s.within(often)
	}
	return func(m []byte) bool {
		for _, has := range ask {
			if has(m) {
				return true
			}
		}
		return false
	}
}

// Inter visits the members that are in all sets, until visit returns false: it walks
// over the smallest set and looks its members up in the others.
func (g *Group) Inter(visit func(member []byte) bool) {
	list := g.bySize()
	first, others := list[0], list[1:]
	if first.Len() == 0 || g.tx.Heavy(first.Weight()*int64(1+len(others))) {
		return
	}
	first.eachAhead(others, func(m []byte) bool {
		for _, s := range others {
			if !s.Has(m) {
				return g.tx.Err() == nil
			}
		}
		return g.tx.Err() == nil && visit(m)
	})
}

// eachAhead is Each for a visitor that looks the members up in other sets: where that is
// worth while, members are collected in pages, whose rows in the others are prefetched.
func (s *Set) eachAhead(others []*Set, visit func(member []byte) bool) {
	large := func(t *Set) bool { return !t.Small() }
	if !slices.ContainsFunc(others, large) || !s.tx.WorthPrefetching(int(min(s.Len(), prefetchPage))) {
		if s.Small() || !s.tx.Writable {
			s.Each(visit)
		} else { // what is stored may be much
			member.Merge([]*member.Cursor{s.Members(0)}, func(m []byte, _ []*member.Cursor) bool { return visit(m) })
		}
		return
	}
	var held []byte
	page := make([][]byte, 0, prefetchPage)
	more := true
	flush := func() {
		for _, t := range others {
			t.Prefetch(page)
		}
		for _, m := range page {
			if more = more && visit(m); !more {
				break
			}
		}
		held, page = held[:0], page[:0]
	}
	s.Each(func(m []byte) bool {
		if len(page) == prefetchPage || len(held)+len(m) > cap(held) {
			if flush(); !more {
				return false
			}
			held = slices.Grow(held, max(len(m), prefetchPage*32))
		}
		at := len(held)
		held = append(held, m...)
		page = append(page, held[at:len(held):len(held)])
		return true
	})
	if more {
		flush()
	}
}

// prefetchPage is the number of members that are prefetched together.
const prefetchPage = 256

// Union visits the members that are in any set, until visit returns false. The large
// sets come first, in a merge of their rows, which share the order of hashes. Above
// mergeMost sets, they are walked one after the other, the largest first, and a member is
// new if no previous set has it. Then come the small sets, which may be very many; their
// members are kept in a map.
func (g *Group) Union(visit func(member []byte) bool) {
	if g.tx.Heavy(g.Weight()) {
		return
	}
	large, small := g.distinct()
	apart := large
	if len(large) > 1 && len(large) <= mergeMost {
		if !g.merge(large, visit) {
			return
		}
		apart = nil
	}
	for i, s := range apart {
		known := anyOf(large[:i], s.Len())
		more := true
		s.eachAhead(large[:i], func(m []byte) bool {
			more = g.tx.Err() == nil && (known(m) || visit(m))
			return more
		})
		if !more {
			return
		}
	}
	known, seen := anyOf(large, 0), make(map[string]struct{})
	for i, s := range small {
		more := true
		s.Each(func(m []byte) bool {
			if _, dup := seen[string(m)]; dup {
				return true
			}
			if i < len(small)-1 {
				seen[string(m)] = struct{}{}
				g.tx.Take(int64(len(m)) + seenBytes)
			}
			more = g.tx.Err() == nil && (known(m) || visit(m))
			return more
		})
		if !more {
			return
		}
	}
}

const (
	mergeMost = 32 // the most sets that are merged
	seenBytes = 64 // memory of a member in the map besides its bytes
)

// merge visits the members of several large sets, each once. It returns false if the
// walk is to end.
func (g *Group) merge(list []*Set, visit func(member []byte) bool) (more bool) {
	cursors := make([]*member.Cursor, len(list))
	for i, s := range list {
		cursors[i] = s.Members(i)
	}
	more = true
	member.Merge(cursors, func(m []byte, _ []*member.Cursor) bool {
		more = visit(m)
		return more
	})
	return more && g.tx.Err() == nil
}

// distinct returns the sets that have members, without repetitions: large are those
// in rows, the largest first, small the others.
func (g *Group) distinct() (large, small []*Set) {
	keys := make(map[string]struct{}, len(g.sets))
	for _, s := range g.sets {
		if _, dup := keys[string(s.key)]; dup || s.Len() == 0 {
			continue
		}
		keys[string(s.key)] = struct{}{}
		if s.Small() {
			small = append(small, s)
		} else {
			large = append(large, s)
		}
	}
	slices.SortStableFunc(large, bySizeDown)
	return large, small
}

func bySizeDown(a, b *Set) int { return cmp.Compare(b.Len(), a.Len()) }

// Diff visits the members of the first set that are in none of the others, until
// visit returns false.
func (g *Group) Diff(visit func(member []byte) bool) {
	first := g.sets[0]
	var others []*Set
	for _, s := range g.sets[1:] {
		if first.same(s) {
			return
		}
		if s.Len() > 0 {
			others = append(others, s)
		}
	}
	// A large set is the most likely to have a member.
	slices.SortStableFunc(others, bySizeDown)
	if g.tx.Heavy(first.Weight() * int64(1+len(others))) {
		return
	}
	known := anyOf(others, first.Len())
	first.eachAhead(others, func(m []byte) bool {
		return g.tx.Err() == nil && (known(m) || visit(m))
	})
}

// CreateInter returns a new set, as Create does, with the intersection. In Redis the
// result begins as an intset if the smallest set is one, else as a listpack, which is
// finally converted to an intset if its members are few integers. Here the result always
// begins as Integers, and continues with Redis's form when there are too many.
func (g *Group) CreateInter(key []byte, limits *types.Limits) *Set {
	s := Create(g.tx, key, limits)
	s.loose = g.bySize()[0].enc != keyspace.Integers
	g.Inter(s.collect)
	return s
}

// CreateUnion returns a new set, as Create does, with the union.
func (g *Group) CreateUnion(key []byte, limits *types.Limits) *Set {
	s := Create(g.tx, key, limits)
	g.Union(s.collect)
	return s
}

// CreateDiff returns a new set, as Create does, with the difference. If the first set is
// large compared to the others, Redis copies it to the result and removes the others'
// members, which shows in the form of the result.
func (g *Group) CreateDiff(key []byte, limits *types.Limits) *Set {
	s := Create(g.tx, key, limits)
	if g.subtracts() {
		s.become(formOf(g.sets[0], limits))
	}
	g.Diff(s.collect)
	return s
}

// collect adds a new member, and reports whether to go on.
func (s *Set) collect(member []byte) bool {
	s.insert(member)
	return s.tx.Err() == nil
}

// subtracts reports whether Redis would remove the other sets from a copy of the first.
func (g *Group) subtracts() bool {
	first := g.sets[0]
	one, two := int64(0), int64(0)
	for _, s := range g.sets {
		if s.Exists() {
			one += first.Len()
			two += s.Len()
		}
	}
	return one/2 > two
}

// formOf is the form that a new set gets when the members of s are added to it.
func formOf(s *Set, limits *types.Limits) keyspace.Encoding {
	if s.Len() > max(limits.SetIntegers, limits.SetEntries) {
		return keyspace.Rows
	}
	t := &Set{tx: s.tx, key: s.key, limits: limits, enc: keyspace.Integers}
	s.Each(func(m []byte) bool {
		enc := t.fit(m)
		if enc == keyspace.Rows {
			t.enc = enc
			return false
		}
		t.become(enc)
		t.own(16)
		t.form().insert(m)
		return true
	})
	return t.enc
}

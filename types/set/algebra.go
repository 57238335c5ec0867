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
// copy of the result: a member belongs to it, or not, by what the other sets say.
// So a result may be visited twice, to count it and then to reply it.

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

// Weight is what walking over all sets costs, in the terms of keyspace.Tx.Heavy.
func (g *Group) Weight() (sum int64) {
	for _, s := range g.sets {
		sum += s.Weight()
	}
	return sum
}

// bySize returns the sets, none of them twice, the smallest first.
func (g *Group) bySize() []*Set {
	list := slices.Clone(g.sets)
	slices.SortStableFunc(list, func(a, b *Set) int { return bySizeDown(b, a) })
	first := list[0]
	return append(list[:1], slices.DeleteFunc(list[1:], first.same)...)
}

func (s *Set) same(t *Set) bool { return bytes.Equal(s.key, t.key) }

// within returns what says whether a set has a member, for someone who will ask
// often: a packed set is made a map.
func (s *Set) within(often int64) func(member []byte) bool {
	if s.enc != keyspace.Packed || often*s.Size() < manyLooks {
		return s.Has
	}
	members := make(map[string]struct{}, s.Size())
	s.Each(func(m []byte) bool {
		members[string(m)] = struct{}{}
		return true
	})
	return func(m []byte) bool {
		_, ok := members[string(m)]
		return ok
	}
}

// manyLooks is how many looks at an entry cost more than making a map.
const manyLooks = 1 << 14

// anyOf says whether one of the sets has a member.
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

// Inter visits the members that are in all sets, until visit says false: it walks
// over the smallest set and looks its members up in the others.
func (g *Group) Inter(visit func(member []byte) bool) {
	list := g.bySize()
	first, others := list[0], list[1:]
	if first.Size() == 0 || g.tx.Heavy(first.Weight()*int64(1+len(others))) {
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

// eachAhead is Each for a visitor that looks the members up in other sets: where that
// is worth while, members are gathered and the others told of them.
func (s *Set) eachAhead(others []*Set, visit func(member []byte) bool) {
	large := func(t *Set) bool { return !t.Small() }
	if !slices.ContainsFunc(others, large) || !s.tx.Ahead(int(min(s.Size(), aheadPage))) {
		if s.Small() || !s.tx.Writable {
			s.Each(visit)
		} else { // what is stored may be much
			member.Merge([]*member.Cursor{s.Members(0)}, func(m []byte, _ []*member.Cursor) bool { return visit(m) })
		}
		return
	}
	var held []byte
	page := make([][]byte, 0, aheadPage)
	more := true
	flush := func() {
		for _, t := range others {
			t.Ahead(page)
		}
		for _, m := range page {
			if more = more && visit(m); !more {
				break
			}
		}
		held, page = held[:0], page[:0]
	}
	s.Each(func(m []byte) bool {
		if len(page) == aheadPage || len(held)+len(m) > cap(held) {
			if flush(); !more {
				return false
			}
			held = slices.Grow(held, max(len(m), aheadPage*32))
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

// aheadPage is how many members are looked up together.
const aheadPage = 256

// Union visits the members that are in any set, until visit says false. The large
// sets come first: their rows are walked over side by side, in the order of hashes that
// they have in common. If they are many, one comes behind the other, the largest first,
// and a member is new if no set before has it. The members of small sets, which may be
// very many sets, are remembered.
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
		known := anyOf(large[:i], s.Size())
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
	mergeMost = 32 // sets that are walked over side by side
	seenBytes = 64 // what a remembered member takes besides its bytes
)

// merge visits the members of several large sets, each once. It says whether visit wants
// more.
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

// distinct returns the sets that have members, none of them twice: those in rows,
// the largest first, and the others.
func (g *Group) distinct() (large, small []*Set) {
	keys := make(map[string]struct{}, len(g.sets))
	for _, s := range g.sets {
		if _, dup := keys[string(s.key)]; dup || s.Size() == 0 {
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

func bySizeDown(a, b *Set) int { return cmp.Compare(b.Size(), a.Size()) }

// Diff visits the members of the first set that are in none of the others, until
// visit says false.
func (g *Group) Diff(visit func(member []byte) bool) {
	first := g.sets[0]
	var others []*Set
	for _, s := range g.sets[1:] {
		if first.same(s) {
			return
		}
		if s.Size() > 0 {
			others = append(others, s)
		}
	}
	// Where a large set is, a member is likely to be.
	slices.SortStableFunc(others, bySizeDown)
	if g.tx.Heavy(first.Weight() * int64(1+len(others))) {
		return
	}
	known := anyOf(others, first.Size())
	first.eachAhead(others, func(m []byte) bool {
		return g.tx.Err() == nil && (known(m) || visit(m))
	})
}

// Build begins a new set for a key, whatever is there. It is stored by Replace.
func Build(tx *keyspace.Tx, key []byte, limits *types.Limits) *Set {
	return &Set{tx: tx, key: key, limits: limits, enc: keyspace.Integers}
}

// Replace makes the built set the key's value, without a time of death; without
// members the key goes. It notes the event, and returns the size.
func (s *Set) Replace(event string) int64 {
	old := s.tx.Find(s.key)
	n := s.Size()
	switch {
	case n > 0:
		s.tx.Store(s.key, old, s.meta(0))
		s.tx.Changed(keyspace.SetEv, event, s.key)
	case old.Exists():
		s.tx.Remove(s.key, old)
		s.tx.Changed(keyspace.Generic, "del", s.key)
	}
	return n
}

// InterStore makes a key the intersection. In Redis the result begins as integers
// if the smallest set is such, else as a listpack, and becomes integers in the
// end if its members are few and all integers. Here it begins as integers in any
// case, and when they are too many goes on as Redis would have.
func (g *Group) InterStore(key []byte, limits *types.Limits) int64 {
	s := Build(g.tx, key, limits)
	s.loose = g.bySize()[0].enc != keyspace.Integers
	g.Inter(s.collect)
	return s.Replace("sinterstore")
}

// UnionStore makes a key the union.
func (g *Group) UnionStore(key []byte, limits *types.Limits) int64 {
	s := Build(g.tx, key, limits)
	g.Union(s.collect)
	return s.Replace("sunionstore")
}

// DiffStore makes a key the difference. When the first set is large compared to
// the others, Redis puts all of it into the result before it takes the others
// away, which shows in the form.
func (g *Group) DiffStore(key []byte, limits *types.Limits) int64 {
	s := Build(g.tx, key, limits)
	if g.subtracts() {
		s.become(formOf(g.sets[0], limits))
	}
	g.Diff(s.collect)
	return s.Replace("sdiffstore")
}

// collect adds a member that is new.
func (s *Set) collect(member []byte) bool {
	s.insert(member)
	return s.tx.Err() == nil
}

// subtracts says whether Redis would take the other sets from a copy of the first.
func (g *Group) subtracts() bool {
	first := g.sets[0]
	one, two := int64(0), int64(0)
	for _, s := range g.sets {
		if s.Exists() {
			one += first.Size()
			two += s.Size()
		}
	}
	return one/2 > two
}

// formOf is the form that a new set gets when the members of s are added to it.
func formOf(s *Set, limits *types.Limits) keyspace.Encoding {
	if s.Size() > max(limits.SetIntegers, limits.SetEntries) {
		return keyspace.Rows
	}
	t := Build(s.tx, s.key, limits)
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

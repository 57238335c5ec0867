package zset

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Rank rows count elements, so that the rank of an element, and the element of a
// rank, are found without a walk over the set.
//
// The order is cut into segments of up to segmentMax elements, and segments are
// collected in groups of up to groupMax:
//
//	home:2 04 id:8 01 boundary -> count:4              a segment
//	home:2 04 id:8 02 boundary -> count:8 segments:4   a group
//
// A boundary is a place in the order, in the form of an element: the segment holds
// the elements from its boundary up to the next one. The first boundary is empty. If
// the element of a boundary is removed, the boundary stays.
//
// Invariants:
//  1. Each segment has at least one element, and at most segmentMax.
//  2. A group's boundary is that of its first segment. A group has at least one
//     segment, and at most groupMax.
//  3. There are segments only if there are two or more, and groups only if there
//     are two or more. Their numbers are in the meta row.
//
// Groups exist in sets of a hundred thousand elements and more: below that a change
// need not maintain a second count, and an engine without counts of its own reads some
// hundred small rows for a rank. That holds up to some ten millions. Groups written
// under a larger groupMax are split as they grow.
//
// A change of the set touches one segment and one group. A segment that becomes
// too large is split in halves; one that becomes small is merged with a neighbour
// of its group if the two together are small as well, so that merges and splits do
// not alternate. An empty segment is always removed.
//
// An execution caches the segment and the group that it used last and writes them
// when it moves on to others: so adding or removing many adjacent elements costs
// little more than their own rows.
//
// Rejected: counts in a tree of nodes with many entries each (a change would
// rewrite some kilobytes), and counts that are only nearly right (ZRANK is exact).

// The sizes are not part of the format. They are variables so that tests can reach all
// cases with few elements.
var (
	segmentMax int64  = 512
	groupMax   uint32 = 256
)

const (
	levelSegment = 0x01
	levelGroup   = 0x02

	segmentValue = 4
	groupValue   = 12
)

// run is a cached segment or group.
type run struct {
	known    bool
	lo, hi   []byte // its boundary, and the next one (nil if none), valid if hiKnown
	hiKnown  bool
	uses     int // consecutive lookups that found this run
	count    int64
	segments uint32 // of a group
	// The values in its row.
	stored         int64
	storedSegments uint32
}

// rank is the state of the rank rows in an execution.
type rank struct {
	segments, groups uint32 // the numbers of rank rows
	seg, grp         run    // the segment and the group used last
	key, from, to    []byte // scratch
}

func (k *rank) reset() {
	k.segments, k.groups, k.seg.known, k.grp.known = 0, 0, false, false
}

// rankKey makes the key of a rank row.
func (r *rows) rankKey(level byte, boundary []byte) []byte {
	k := keyspace.AppendRowKey(r.rank.key[:0], r.m.Ref, keyspace.RankRow)
	r.rank.key = append(append(k, level), boundary...)
	return r.rank.key
}

func (r *rows) putSegment(boundary []byte, count int64) {
	var v [segmentValue]byte
	binary.BigEndian.PutUint32(v[:], uint32(count))
	r.m.Tx.PutRow(r.rankKey(levelSegment, boundary), v[:])
}

func (r *rows) putGroup(boundary []byte, count int64, segments uint32) {
	var v [groupValue]byte
	binary.BigEndian.PutUint64(v[:], uint64(count))
	binary.BigEndian.PutUint32(v[8:], segments)
	r.m.Tx.PutRow(r.rankKey(levelGroup, boundary), v[:])
}

func (r *rows) deleteRank(level byte, boundary []byte) { r.m.Tx.DeleteRow(r.rankKey(level, boundary)) }

// decodeRank reads the value of a rank row.
func (r *rows) decodeRank(level byte, v []byte) (count int64, segments uint32) {
	switch {
	case level == levelSegment && len(v) == segmentValue:
		return int64(binary.BigEndian.Uint32(v)), 0
	case level == levelGroup && len(v) == groupValue:
		return int64(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint32(v[8:])
	}
	r.m.Tx.Fail(fmt.Errorf("%w: rank row of level %d with %d bytes", engine.ErrCorrupt, level, len(v)))
	return 0, 0
}

// rankRange sets r.rank.from and to to the key range of the rank rows of a level with
// boundaries in [from, to); nil stands for the beginning and the end.
func (r *rows) rankRange(level byte, from, to []byte) {
	k := &r.rank
	k.from = append(append(keyspace.AppendRowKey(k.from[:0], r.m.Ref, keyspace.RankRow), level), from...)
	if to == nil {
		level++
	}
	k.to = append(append(keyspace.AppendRowKey(k.to[:0], r.m.Ref, keyspace.RankRow), level), to...)
}

// eachRank visits the rank rows of a range (see rankRange) until visit returns false.
func (r *rows) eachRank(level byte, from, to []byte, reverse bool, visit func(boundary []byte, count int64, segments uint32) bool) {
	r.rankRange(level, from, to)
	tx := r.m.Tx
	it := tx.IterRows(r.rank.from, r.rank.to, reverse)
	defer tx.CloseRows(it)
	for it.Next() {
		count, segments := r.decodeRank(level, it.Value())
		if !visit(it.Key()[keyspace.RowKeyHead+1:], count, segments) {
			return
		}
	}
}

// load reads the first row of a range, or the last one if reverse, into u, and reports
// whether there is one.
func (r *rows) load(u *run, level byte, from, to []byte, reverse bool) bool {
	r.rankRange(level, from, to)
	return r.loadEdge(u, level, reverse)
}

// loadEdge is load for the range in r.rank.from and to.
func (r *rows) loadEdge(u *run, level byte, reverse bool) bool {
	u.known = false
	held := r.m.Tx.Held()
	key, value, found := r.m.Tx.EdgeRow(r.rank.from, r.rank.to, reverse)
	if found {
		count, segments := r.decodeRank(level, value)
		u.is(key[keyspace.RowKeyHead+1:], count, segments)
		r.m.Tx.Release(held)
	}
	return found
}

// is sets the run to a row.
func (u *run) is(boundary []byte, count int64, segments uint32) {
	u.lo = append(u.lo[:0], boundary...)
	u.known, u.hiKnown, u.uses = true, false, 0
	u.count, u.stored, u.segments, u.storedSegments = count, count, segments, segments
}

// locate makes u the run of an element, and writes the previous run if it has changed.
// same is true if the run was in use before.
func (r *rows) locate(u *run, level byte, elem []byte) (same, found bool) {
	next := &r.next
	if r.atFront { // the first element is in the first run
		held := r.m.Tx.Held()
		v, ok := r.m.Tx.GetRow(r.rankKey(level, nil))
		if found = ok; found {
			count, segments := r.decodeRank(level, v)
			next.is(nil, count, segments)
		}
		r.m.Tx.Release(held)
	} else { // the last run whose boundary is not after the element
		r.rankRange(level, nil, elem)
		r.rank.to = append(r.rank.to, 0)
		found = r.loadEdge(next, level, true)
	}
	if !found {
		return false, false
	}
	if u.known && bytes.Equal(next.lo, u.lo) {
		u.uses++
		return true, true
	}
	r.flushRun(u, level)
	*u, *next = *next, *u
	return false, true
}

// holds reports whether the run is known to contain an element's place. The end of the
// run is looked up only after repeated uses: until then, locating the element's run is
// as cheap.
func (r *rows) holds(u *run, level byte, elem []byte) bool {
	if !u.known || bytes.Compare(elem, u.lo) < 0 {
		return false
	}
	if u.uses >= 2 {
		r.learnEnd(u, level)
	}
	return u.hiKnown && (u.hi == nil || bytes.Compare(elem, u.hi) < 0)
}

// learnEnd looks up the end of a run.
func (r *rows) learnEnd(u *run, level byte) {
	if u.hiKnown {
		return
	}
	r.rankRange(level, after(u.lo), nil)
	held := r.m.Tx.Held()
	key, _, found := r.m.Tx.EdgeRow(r.rank.from, r.rank.to, false)
	hi := u.hi[:0]
	if u.hiKnown, u.hi = true, nil; found {
		u.hi = append(hi, key[keyspace.RowKeyHead+1:]...)
	}
	r.m.Tx.Release(held)
}

// after is the next place after another.
func after(place []byte) []byte {
	return append(append(make([]byte, 0, len(place)+1), place...), 0)
}

// enter makes the segment and the group of an element those in use. The group in use is
// always that of the segment in use, so the group is not looked up if the segment is
// the same.
func (r *rows) enter(elem []byte) bool {
	k := &r.rank
	if r.holds(&k.seg, levelSegment, elem) {
		return true
	}
	same, found := r.locate(&k.seg, levelSegment, elem)
	switch {
	case !found:
		return r.lost("segment")
	case same || k.groups == 0 || r.holds(&k.grp, levelGroup, elem):
		return true
	}
	if _, found = r.locate(&k.grp, levelGroup, elem); !found {
		return r.lost("group")
	}
	return true
}

// lost fails the execution because a row is missing.
func (r *rows) lost(what string) bool {
	r.m.Tx.Fail(fmt.Errorf("%w: a sorted set has no %s row at some place", engine.ErrCorrupt, what))
	return false
}

// flush writes the segment and the group in use.
func (r *rows) flush() {
	r.flushRun(&r.rank.seg, levelSegment)
	r.flushRun(&r.rank.grp, levelGroup)
}

// flushRun writes a run if it differs from its row.
func (r *rows) flushRun(u *run, level byte) {
	switch {
	case !u.known || u.count == u.stored && u.segments == u.storedSegments:
		return
	case level == levelSegment:
		r.putSegment(u.lo, u.count)
	default:
		r.putGroup(u.lo, u.count, u.segments)
	}
	u.stored, u.storedSegments = u.count, u.segments
}

// count counts an element that was added or removed; its rows are already updated.
func (r *rows) count(elem []byte, delta int64) {
	k := &r.rank
	switch {
	case r.bulk:
		return
	case k.segments == 0:
		if r.m.Ref.Size > segmentMax {
			r.build()
		}
		return
	case !r.enter(elem):
		return
	}
	k.seg.count += delta
	if k.groups > 0 {
		k.grp.count += delta
	}
	switch {
	case k.seg.count > segmentMax:
		r.split()
	case k.seg.count == 0 || delta < 0 && k.seg.count < segmentMax/4 && k.seg.count%max(1, segmentMax/16) == 0:
		r.join()
	}
}

// split splits the segment in use in halves.
func (r *rows) split() {
	k := &r.rank
	half := k.seg.count / 2
	var middle []byte
	n := int64(0)
	r.walk(Span{lo: k.seg.lo}, false, func(elem []byte) bool {
		if n++; n > half {
			middle = append(middle, elem...)
			return false
		}
		return true
	})
	if middle == nil {
		r.lost("score")
		return
	}
	r.putSegment(middle, k.seg.count-half)
	r.putSegment(k.seg.lo, half)
	k.seg.known = false
	k.segments++
	switch {
	case k.groups > 0:
		if k.grp.segments++; k.grp.segments > groupMax {
			r.splitGroup(k.grp.lo, k.grp.count, k.grp.segments)
			k.groups++
		}
	case k.segments > groupMax:
		r.splitGroup(nil, r.m.Ref.Size, k.segments)
		k.groups = 2
	}
}

// splitGroup splits the group at boundary lo in two. All its segments must be written.
func (r *rows) splitGroup(lo []byte, count int64, segments uint32) {
	half := segments / 2
	var middle []byte
	n, sum := uint32(0), int64(0)
	r.eachRank(levelSegment, lo, nil, false, func(boundary []byte, c int64, _ uint32) bool {
		if n == half {
			middle = append(middle, boundary...)
			return false
		}
		n, sum = n+1, sum+c
		return true
	})
	if middle == nil {
		r.lost("segment")
		return
	}
	r.putGroup(lo, sum, half)
	r.putGroup(middle, count-sum, segments-half)
	r.rank.grp.known = false
}

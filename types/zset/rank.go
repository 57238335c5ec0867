package zset

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Rank rows count elements, so that the number of an element in the order, and
// the element of a number, are found without walking over the set.
//
// The order is cut into segments of up to segmentMax elements, and segments are
// gathered in groups of up to groupMax:
//
//	home:2 04 id:8 01 boundary -> count:4              a segment
//	home:2 04 id:8 02 boundary -> count:8 segments:4   a group
//
// A boundary is a place in the order, in the form of an element: the segment holds
// the elements from it up to the next boundary. That of the first segment is
// empty. An element that once was a boundary may be gone; the boundary stays.
//
// Invariants:
//  1. Each segment has at least one element, and at most segmentMax.
//  2. A group's boundary is that of its first segment. A group has at least one
//     segment, and at most groupMax.
//  3. There are segments only if there are two or more, and groups only if there
//     are two or more. Their numbers are in the meta row.
//
// Groups are there for sets of a hundred thousand and more: below that a change
// need not keep a second count, and an engine that cannot count by itself reads some
// hundred small rows for a rank. So it does up to some ten millions. Where groups had
// more segments once, they are split as they grow.
//
// A change of the set touches one segment and one group. A segment that becomes
// too large is split in halves; one that becomes small is joined with a neighbour
// of its group if the two together are small as well, so that joining and
// splitting do not alternate. An empty one always goes.
//
// An execution keeps the segment and the group that it used last and writes them
// when it leaves them: so adding or removing many elements side by side costs
// little more than their own rows.
//
// Rejected: counts in a tree of nodes with many entries each (a change would
// rewrite some kilobytes), and counts that are only nearly right (ZRANK is exact).

// The sizes. They are no part of the format; they are variables so that tests can
// reach all cases with few elements.
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

// run is a segment or a group in use.
type run struct {
	known    bool
	lo, hi   []byte // its boundary, and the next one if hiKnown; nil: there is none
	hiKnown  bool
	uses     int // how often it was found again
	count    int64
	segments uint32 // of a group
	// What its row says.
	stored         int64
	storedSegments uint32
}

// rank is what an execution knows of the ranks.
type rank struct {
	segments, groups uint32 // how many rank rows there are
	seg, grp         run    // the ones used last
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

// rankRange makes from and to the keys of the rank rows of a level with boundaries
// from one place up to, not including, another; nil stands for the beginning and
// the end.
func (r *rows) rankRange(level byte, from, to []byte) {
	k := &r.rank
	k.from = append(append(keyspace.AppendRowKey(k.from[:0], r.m.Ref, keyspace.RankRow), level), from...)
	if to == nil {
		level++
	}
	k.to = append(append(keyspace.AppendRowKey(k.to[:0], r.m.Ref, keyspace.RankRow), level), to...)
}

// eachRank visits the rank rows of such a range.
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

// load makes the first row of a range the run, or the last one if reverse, if there
// is one.
func (r *rows) load(u *run, level byte, from, to []byte, reverse bool) bool {
	r.rankRange(level, from, to)
	return r.loadEdge(u, level, reverse)
}

// loadEdge makes the first row between the keys in from and to the run.
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

// is makes the run the one of a row.
func (u *run) is(boundary []byte, count int64, segments uint32) {
	u.lo = append(u.lo[:0], boundary...)
	u.known, u.hiKnown, u.uses = true, false, 0
	u.count, u.stored, u.segments, u.storedSegments = count, count, segments, segments
}

// locate makes the run of an element the one in use; before it leaves another one it
// writes that. It says whether it was in use before.
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
	} else { // the last one whose boundary is not behind the element
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

// holds says whether the run is known to be the one of an element. Where the run
// ends is found out only when it was used some times: until then it is as cheap to
// look for the element's run.
func (r *rows) holds(u *run, level byte, elem []byte) bool {
	if !u.known || bytes.Compare(elem, u.lo) < 0 {
		return false
	}
	if u.uses >= 2 {
		r.learnEnd(u, level)
	}
	return u.hiKnown && (u.hi == nil || bytes.Compare(elem, u.hi) < 0)
}

// learnEnd finds where a run ends.
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

// after is the first place behind another.
func after(place []byte) []byte {
	return append(append(make([]byte, 0, len(place)+1), place...), 0)
}

// enter makes the segment and the group of an element those in use. The group in use
// is always that of the segment in use, so it need not be looked for if the segment
// is the same.
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

// lost notes that a row is missing that must be there.
func (r *rows) lost(what string) bool {
	r.m.Tx.Fail(fmt.Errorf("%w: a sorted set has no %s row at some place", engine.ErrCorrupt, what))
	return false
}

// flush writes what is in use.
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

// count notes that an element came or went; its rows are already as they will be.
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

// split cuts the segment in use in halves.
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

// splitGroup makes two groups of the segments from a boundary on. All segments
// are written.
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

package zset

import "bytes"

// Merging segments and groups that became small.

// join merges the segment in use with a neighbour inside its group, if both together
// are small or the segment in use is empty.
func (r *rows) join() {
	k := &r.rank
	var from, limit []byte
	if k.groups > 0 {
		r.learnEnd(&k.grp, levelGroup)
		from, limit = k.grp.lo, k.grp.hi
	}
	small := func(count int64) bool { return k.seg.count == 0 || k.seg.count+count <= segmentMax/2 }
	var other run
	switch {
	case r.load(&other, levelSegment, after(k.seg.lo), limit, false):
		if !small(other.count) {
			return
		}
		r.deleteRank(levelSegment, other.lo)
		k.seg.count += other.count
		k.seg.hiKnown = false
	case bytes.Compare(k.seg.lo, from) > 0:
		if !r.load(&other, levelSegment, from, k.seg.lo, true) {
			r.lost("segment")
			return
		}
		if !small(other.count) {
			return
		}
		r.deleteRank(levelSegment, k.seg.lo)
		other.count += k.seg.count
		k.seg = other
	case k.seg.count > 0:
		return
	default:
		r.dropGroup()
		return
	}
	k.segments--
	if k.groups > 0 {
		k.grp.segments--
		r.joinGroup()
	}
	r.settle()
}

// dropGroup removes the group in use, whose only segment is empty.
func (r *rows) dropGroup() {
	k := &r.rank
	k.segments--
	k.groups--
	if len(k.grp.lo) > 0 { // the previous group now extends over its range
		r.deleteRank(levelSegment, k.seg.lo)
		r.deleteRank(levelGroup, k.grp.lo)
		k.seg.known, k.grp.known = false, false
		r.settle()
		return
	}
	// The first group takes over the next group, and its segment takes over the first
	// segment of that group.
	var group, seg run
	if !r.load(&group, levelGroup, after(nil), nil, false) || !r.load(&seg, levelSegment, group.lo, nil, false) {
		r.lost("group")
		return
	}
	r.deleteRank(levelGroup, group.lo)
	r.deleteRank(levelSegment, seg.lo)
	k.seg.count, k.seg.hiKnown = seg.count, false
	k.grp.count, k.grp.segments, k.grp.hiKnown = group.count, group.segments, false
	r.settle()
}

// joinGroup merges the group in use with a neighbour if both are small.
func (r *rows) joinGroup() {
	k := &r.rank
	if k.grp.segments >= groupMax/4 {
		return
	}
	var other run
	small := func() bool { return k.grp.segments+other.segments <= groupMax/2 }
	if r.load(&other, levelGroup, after(k.grp.lo), nil, false) && small() {
		r.deleteRank(levelGroup, other.lo)
		k.grp.count += other.count
		k.grp.segments += other.segments
		k.grp.hiKnown = false
		k.groups--
	} else if len(k.grp.lo) > 0 && r.load(&other, levelGroup, nil, k.grp.lo, true) && small() {
		r.deleteRank(levelGroup, k.grp.lo)
		other.count += k.grp.count
		other.segments += k.grp.segments
		k.grp = other
		k.groups--
	}
}

// settle removes the last row of a level: a single row carries no information.
func (r *rows) settle() {
	k := &r.rank
	if k.groups == 1 {
		r.deleteRank(levelGroup, nil)
		k.groups, k.grp.known = 0, false
	}
	if k.segments == 1 {
		r.deleteRank(levelSegment, nil)
		k.segments, k.seg.known = 0, false
	}
}

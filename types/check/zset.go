package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"redoubt/keyspace"
	"redoubt/types/pack"
)

// scoreSize is the length of a score, in front of the member of an element.
const scoreSize = 8

// badScore returns what is wrong with a score.
func badScore(b []byte) string {
	bits := binary.BigEndian.Uint64(b)
	if bits>>63 != 0 {
		bits &^= 1 << 63
	} else {
		bits = ^bits
	}
	switch f := math.Float64frombits(bits); {
	case math.IsNaN(f):
		return "its score is not a number"
	case f == 0 && bits != 0:
		return "its score is minus zero, which is not stored"
	}
	return ""
}

func packedZSet(b pack.Buf) string {
	var last []byte
	for off := b.First(); ; {
		e, next, ok := b.At(off)
		if !ok {
			return once(b, 1, scoreSize)
		}
		if off = next; len(e) < scoreSize {
			return fmt.Sprintf("an element has %d bytes, too few for a score", len(e))
		}
		if what := badScore(e); what != "" {
			return fmt.Sprintf("member %.64q: %s", e[scoreSize:], what)
		}
		if last != nil && bytes.Compare(e, last) <= 0 {
			return fmt.Sprintf("member %.64q is not in its place", e[scoreSize:])
		}
		last = e
	}
}

// zset checks a sorted set in rows: a sub row for each member with its score as
// value, a score row with score and member in its key, and rank rows that count
// score rows. A second iterator reads the rank rows of segments along with the score
// rows; those of groups come last.
type zset struct {
	value
	members, scores  digest
	segments, groups uint32

	seg           *keyspace.RowIter
	open          bool  // seg stands on a segment
	here, counted int64 // elements in the segment: by its row, and as counted
	bound         []byte
	next          []byte // the boundary of the next segment, nil if there is none
	nextCount     int64
	seen          uint32
	whole         bool // segments could be read

	groupRows uint32
}

const (
	levelSegment = 0x01
	levelGroup   = 0x02
)

func newZSet(s *keyspace.Subject) keyspace.Judge {
	v, ok := open(s, 8)
	if !ok {
		return nil
	}
	j := &zset{value: v, whole: true}
	j.segments, j.groups = binary.BigEndian.Uint32(v.tail), binary.BigEndian.Uint32(v.tail[4:])
	return j
}

func (j *zset) Row(k keyspace.Kind, rest, value []byte) {
	switch k {
	case keyspace.SubRow:
		member, ok := j.member(rest)
		if len(value) != scoreSize {
			j.WrongRow(k, rest, "its score has %d bytes", len(value))
		} else if ok {
			j.buf = append(append(j.buf[:0], value...), member...)
			j.members.add(j.buf)
		}
	case keyspace.ScoreRow:
		j.score(rest, value)
	case keyspace.RankRow:
		j.rank(rest, value)
	}
}

func (j *zset) score(rest, value []byte) {
	if len(rest) < scoreSize {
		j.foreign(keyspace.ScoreRow, rest)
		return
	}
	if what := badScore(rest); what != "" {
		j.WrongRow(keyspace.ScoreRow, rest, "%s", what)
	}
	if len(value) > 0 {
		j.WrongRow(keyspace.ScoreRow, rest, "it has a value: %x", value[:min(len(value), 64)])
	}
	j.scores.add(rest)
	if j.seg == nil {
		j.seg = j.Iter(keyspace.RankRow, []byte{levelSegment}, []byte{levelSegment + 1})
		j.advance()
		j.enter()
	}
	for j.open && j.next != nil && bytes.Compare(rest, j.next) >= 0 {
		j.enter()
	}
	j.counted++
}

// advance reads the next segment's row.
func (j *zset) advance() {
	for j.seg.Next() {
		if value := j.seg.Value(); len(value) == 4 { // rank reports the others
			j.next, j.nextCount = append(j.next[:0:0], j.seg.Rest()[1:]...), int64(binary.BigEndian.Uint32(value))
			if j.next == nil {
				j.next = []byte{}
			}
			return
		}
	}
	j.next = nil
}

// enter goes to the next segment.
func (j *zset) enter() {
	j.leave()
	if j.open = j.next != nil; !j.open {
		return
	}
	j.bound, j.here, j.counted = j.next, j.nextCount, 0
	if j.seen == 0 && len(j.bound) > 0 {
		j.WrongRow(keyspace.RankRow, append([]byte{levelSegment}, j.bound...), "it is the first segment, and does not begin with the first element")
	}
	j.seen++
	j.advance()
}

// leave checks the count of the current segment.
func (j *zset) leave() {
	row := append([]byte{levelSegment}, j.bound...)
	switch {
	case !j.open:
	case j.counted != j.here:
		j.WrongRow(keyspace.RankRow, row, "it is said to have %d members, and has %d", j.here, j.counted)
	case j.here == 0:
		j.WrongRow(keyspace.RankRow, row, "it is empty, and should not be there")
	}
	j.open = false
}

// endScores ends the walk over the segments.
func (j *zset) endScores() {
	if j.seg == nil {
		return
	}
	for j.open {
		j.enter()
	}
	j.whole = j.seg.Close()
	j.seg = nil
}

func (j *zset) rank(rest, value []byte) {
	j.endScores()
	switch {
	case len(rest) == 0 || rest[0] != levelSegment && rest[0] != levelGroup || len(rest) > 1 && len(rest) < 1+scoreSize:
		j.foreign(keyspace.RankRow, rest)
	case rest[0] == levelSegment && len(value) != 4, rest[0] == levelGroup && len(value) != 12:
		j.WrongRow(keyspace.RankRow, rest, "its value has %d bytes", len(value))
	case rest[0] == levelGroup:
		j.group(rest[1:], int64(binary.BigEndian.Uint64(value)), binary.BigEndian.Uint32(value[8:]))
	}
}

// group compares a group with its segments.
func (j *zset) group(bound []byte, count int64, segments uint32) {
	row := append([]byte{levelGroup}, bound...)
	j.groupRows++
	if j.groupRows == 1 && len(bound) > 0 {
		j.WrongRow(keyspace.RankRow, row, "it is the first group, and does not begin with the first segment")
	}
	it := j.Iter(keyspace.RankRow, append([]byte{levelGroup}, append(bytes.Clone(bound), 0)...), nil)
	to := []byte{levelSegment + 1}
	if it.Next() {
		to = append([]byte{levelSegment}, it.Rest()[1:]...)
	}
	ok := it.Close()
	sum, n := int64(0), uint32(0)
	it = j.Iter(keyspace.RankRow, append([]byte{levelSegment}, bound...), to)
	for it.Next() {
		if n++; n == 1 && !bytes.Equal(it.Rest()[1:], bound) {
			j.WrongRow(keyspace.RankRow, row, "no segment begins with it")
		}
		if len(it.Value()) == 4 {
			sum += int64(binary.BigEndian.Uint32(it.Value()))
		}
	}
	if it.Close() && ok && (sum != count || n != segments || n == 0) {
		j.WrongRow(keyspace.RankRow, row, "it is said to have %d members in %d segments, and has %d in %d", count, segments, sum, n)
	}
}

func (j *zset) End() {
	j.endScores()
	j.count()
	if j.members != j.scores {
		j.compare()
	}
	if j.whole && (j.seen != j.segments || j.groupRows != j.groups) {
		j.Wrong("it is said to have %d segments in %d groups, and has %d in %d", j.segments, j.groups, j.seen, j.groupRows)
	}
	if j.segments == 1 || j.groups == 1 || j.segments == 0 && j.groups > 0 {
		j.Wrong("it has %d segments in %d groups", j.segments, j.groups)
	}
}

// compare reports the members and the score rows that do not match.
func (j *zset) compare() {
	it := j.Iter(keyspace.SubRow, nil, nil)
	for it.Next() {
		rest, v := it.Rest(), it.Value()
		if len(rest) < hashSize || len(v) != scoreSize {
			continue
		}
		if _, found, ok := j.Get(keyspace.ScoreRow, append(bytes.Clone(v), rest[hashSize:]...)); ok && !found {
			j.WrongRow(keyspace.SubRow, rest, "it has no score row for its score")
		}
	}
	it.Close()
	it = j.Iter(keyspace.ScoreRow, nil, nil)
	for it.Next() {
		rest := it.Rest()
		if len(rest) < scoreSize {
			continue
		}
		v, found, ok := j.Get(keyspace.SubRow, memberRow(rest[scoreSize:]))
		switch {
		case !ok:
		case !found:
			j.WrongRow(keyspace.ScoreRow, rest, "there is no such member")
		case !bytes.Equal(v, rest[:scoreSize]):
			j.WrongRow(keyspace.ScoreRow, rest, "the member has another score")
		}
	}
	it.Close()
}

package zset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// smallRanks makes segments and groups small for a test, which must not be
// parallel.
func smallRanks(t testing.TB, segment int64, group uint32) {
	oldSegment, oldGroup := segmentMax, groupMax
	segmentMax, groupMax = segment, group
	t.Cleanup(func() { segmentMax, groupMax = oldSegment, oldGroup })
}

// change runs f on the set at a key and saves it.
func change(s *typestest.Store, key string, l *types.Limits, f func(z *ZSet)) {
	s.Do(func(tx *keyspace.Tx) {
		z, err := Open(tx, []byte(key), l)
		if err != nil {
			tx.Fail(err)
			return
		}
		f(z)
		z.Save()
		z.Release()
	})
}

// boundary is a rank row.
type boundary struct {
	at       []byte
	count    int64
	segments uint32
}

// verify compares everything that is stored for a set with its elements, which
// are given in their order, and the rank rows with their invariants.
func verify(tx *keyspace.Tx, key string, want [][]byte) error {
	m := tx.Find([]byte(key))
	if len(want) == 0 || !m.Exists() {
		if m.Exists() || len(want) > 0 {
			return fmt.Errorf("exists: %v, with %d elements to be", m.Exists(), len(want))
		}
		return nil
	}
	z, err := Of(tx, []byte(key), m)
	if err != nil {
		return err
	}
	var got [][]byte
	z.form.walk(Whole, false, func(elem []byte) bool {
		got = append(got, bytes.Clone(elem))
		return true
	})
	if int64(len(got)) != z.Len() || len(got) != len(want) {
		return fmt.Errorf("%d elements, the size says %d, and there should be %d", len(got), z.Len(), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("element %d is %q, not %q", i, got[i], want[i])
		}
	}
	if z.Packed() {
		return z.packed.buf.Check()
	}
	members := 0
	z.rows.m.Each(func(member, value []byte) bool {
		members++
		elem := append(bytes.Clone(value), member...)
		if i := lowerBound(want, elem); i == len(want) || !bytes.Equal(want[i], elem) {
			err = fmt.Errorf("member row %q has score % x", member, value)
		}
		return true
	})
	if err != nil || members != len(want) {
		return fmt.Errorf("%d member rows for %d elements: %w", members, len(want), err)
	}
	return verifyRanks(&z.rows, m, want)
}

func lowerBound(sorted [][]byte, place []byte) int {
	lo, hi := 0, len(sorted)
	for lo < hi {
		if mid := (lo + hi) / 2; bytes.Compare(sorted[mid], place) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func verifyRanks(r *rows, m keyspace.Meta, want [][]byte) error {
	levels := make(map[byte][]boundary)
	for _, level := range []byte{levelSegment, levelGroup} {
		r.eachRank(level, nil, nil, false, func(at []byte, count int64, segments uint32) bool {
			levels[level] = append(levels[level], boundary{bytes.Clone(at), count, segments})
			return true
		})
	}
	segs, groups := levels[levelSegment], levels[levelGroup]
	tail := m.Body[keyspace.RefSize:]
	if n, g := binary.BigEndian.Uint32(tail), binary.BigEndian.Uint32(tail[4:]); int(n) != len(segs) || int(g) != len(groups) {
		return fmt.Errorf("the meta row says %d segments and %d groups; there are %d and %d", n, g, len(segs), len(groups))
	}
	if len(segs) == 1 || len(groups) == 1 || int64(len(want)) > segmentMax && len(segs) == 0 || len(segs) > int(groupMax) && len(groups) == 0 {
		return fmt.Errorf("%d segments and %d groups for %d elements", len(segs), len(groups), len(want))
	}
	for i, s := range segs {
		end := len(want)
		if i+1 < len(segs) {
			end = lowerBound(want, segs[i+1].at)
		}
		if n := int64(end - lowerBound(want, s.at)); n != s.count || n < 1 || n > segmentMax {
			return fmt.Errorf("segment %d of %d has %d elements and says %d", i, len(segs), n, s.count)
		}
		if (i == 0) != (len(s.at) == 0) {
			return fmt.Errorf("segment %d begins at %q", i, s.at)
		}
	}
	next := 0
	for i, g := range groups {
		if next >= len(segs) || !bytes.Equal(segs[next].at, g.at) {
			return fmt.Errorf("group %d does not begin with a segment", i)
		}
		count, n := int64(0), uint32(0)
		for next < len(segs) && (i+1 == len(groups) || bytes.Compare(segs[next].at, groups[i+1].at) < 0) {
			count, n, next = count+segs[next].count, n+1, next+1
		}
		if count != g.count || n != g.segments || n < 1 || n > groupMax {
			return fmt.Errorf("group %d of %d has %d elements in %d segments and says %d in %d", i, len(groups), count, n, g.count, g.segments)
		}
	}
	return nil
}

package keyspace

import (
	"bytes"
	"slices"
	"testing"
)

// No row of a store lies in an unused range, and those of a store with a longer prefix do.
func TestUnused(t *testing.T) {
	t.Parallel()
	ranges := Unused()
	slices.SortFunc(ranges, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	in := func(key []byte) bool { // ranges do not overlap
		n, _ := slices.BinarySearchFunc(ranges, key, func(r [2][]byte, key []byte) int {
			if bytes.Compare(key, r[1]) >= 0 {
				return -1
			}
			return max(0, bytes.Compare(r[0], key))
		})
		return n < len(ranges) && bytes.Compare(ranges[n][0], key) <= 0
	}
	var rows [][]byte
	for slot := range uint16(Slots) {
		for kind := byte(kindMeta); kind <= kindGarbage; kind++ {
			rows = append(rows, []byte{byte(slot >> 8), byte(slot), kind, 0xff, 0xff})
		}
	}
	for what := range 255 {
		rows = append(rows, []byte{system, byte(what)})
	}
	for _, row := range rows {
		if in(row) {
			t.Fatalf("the row % x is used", row)
		}
	}
	for _, more := range []string{"a", "A:", ":", "1", "-x", "0:", "10", "2024:", "~", "?z", "é"} {
		found := 0
		for _, row := range append(rows, []byte("\xff\xff\xff\xffc")) {
			if in(append([]byte(more), row...)) {
				found++
			}
		}
		if found == 0 {
			t.Errorf("no row of a store with %q behind the prefix is found", more)
		}
	}
}

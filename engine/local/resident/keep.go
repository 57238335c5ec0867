package resident

import (
	"sync/atomic"

	"redoubt/engine/local/arena"
)

// Some rows are few but stand for many others, as the counts by which the rank of
// one among ten million elements is found. A command reads hundreds of them, in
// order, and each costs as much to bring in as a row that is read once. So they are
// kept: the hand passes them by while they take no more than their share, and while there
// is anything else to take; so their unit stays complete. When it is not, after a start, it is filled at once (engine's
// keep.go), whatever else has to leave for that.
//
// Units are kept as a whole: what says which rows are kept says the same of all rows
// of a unit.
type keep struct {
	rows  func(key []byte) bool // nil: none
	limit atomic.Int64
	bytes atomic.Int64
}

// Keep says which rows are kept. It is called before the set is used.
func (s *Set) Keep(rows func(key []byte) bool) { s.keep.rows = rows }

// LimitKept says how much memory kept rows may take before they are as others are.
func (s *Set) LimitKept(bytes int64) { s.keep.limit.Store(bytes) }

// Kept is what they take.
func (s *Set) Kept() int64 { return s.keep.bytes.Load() }

// Keeps says whether a row is one of those, and there is room for more of them.
func (s *Set) Keeps(key []byte) bool {
	return s.keep.rows != nil && s.keep.rows(key) && s.keep.bytes.Load() < s.keep.limit.Load()
}

// keptSize is what a row counts.
func keptSize(n int) int64 { return int64(arena.Round(n)) + tableRow + treeRow }

// keepFlag is kept for a row that is.
func (s *Set) keepFlag(key []byte) uint32 {
	if s.keep.rows == nil || !s.keep.rows(key) {
		return 0
	}
	return kept
}

// spares says whether the hand passes by kept rows.
func (s *Set) spares() bool { return s.keep.bytes.Load() <= s.keep.limit.Load() }

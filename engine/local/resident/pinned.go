package resident

import (
	"sync/atomic"

	"redoubt/engine/local/arena"
)

// Pinned rows. Some rows are few but stand for many others, as the counts by which the rank of
// one among ten million elements is found. A command reads hundreds of them, in order, and to
// load one costs as much as to load a row that is read once. So they are pinned: the clock's
// hand skips them while they are within their limit and other rows can be evicted, and their
// unit stays complete. A unit that is not complete after a start is filled when it is first
// read (engine/local/pinned.go), even if other rows are evicted for that.
//
// All rows of a unit are pinned, or none.
type pinning struct {
	rows  func(key []byte) bool // nil: none
	limit atomic.Int64
	bytes atomic.Int64
}

// Pin sets the function that tells which rows are pinned. It is called before the set is used.
func (s *Set) Pin(rows func(key []byte) bool) { s.pinning.rows = rows }

// LimitPinned sets how much memory pinned rows may take before they are evicted as others are.
func (s *Set) LimitPinned(bytes int64) { s.pinning.limit.Store(bytes) }

// PinnedBytes is the memory that pinned rows take.
func (s *Set) PinnedBytes() int64 { return s.pinning.bytes.Load() }

// Pins reports whether a row is pinned, and there is room for more pinned rows.
func (s *Set) Pins(key []byte) bool {
	return s.pinning.rows != nil && s.pinning.rows(key) && s.pinning.bytes.Load() < s.pinning.limit.Load()
}

// pinnedSize is the memory of a pinned row of n bytes.
func pinnedSize(n int) int64 { return int64(arena.Round(n)) + tableRow + treeRow }

// pinFlag is the flag pinned if a row is to be, else 0.
func (s *Set) pinFlag(key []byte) uint32 {
	if s.pinning.rows == nil || !s.pinning.rows(key) {
		return 0
	}
	return pinned
}

// sparesPinned reports whether the hand skips pinned rows.
func (s *Set) sparesPinned() bool { return s.pinning.bytes.Load() <= s.pinning.limit.Load() }

package resident

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"redoubt/engine/local/arena"
)

// keyFilter is a Bloom filter of the keys in the store, with about ten bits for each. Where a
// unit is not complete, most of the rows that are read and are not resident do not exist at
// all: they are about to be created. If the filter does not have a key, the store need not be
// read.
//
// Invariant: every key that the store has, or will have once the present round
// is ingested, has been added, if the filter is ready. So:
//   - A round adds the keys of the rows that it copies (give), before the store has
//     them. The rows stay resident until the store does. So for a row that is not
//     resident, under its part's lock: its key is in the filter, or it does not exist.
//   - A filter of an empty store is ready at once. Another one is begun between
//     two rounds, and is ready when all keys of the store, as it is then or
//     later, were added: a key that this walk does not see was added by a round.
//   - Nothing is ever taken out. Keys that were deleted cost memory, and reads of
//     the store that find nothing. When the filter has reached its limit it is
//     dropped, and the engine may have another one made.
//
// Snapshots do not use the filter: they may show a store from before it was begun.
//
// The filter is blocked: a key is one bit in each of the eight words of one line
// of the processor's cache. It grows by another generation of twice the size,
// since keys cannot be read back from it. Words are read without a lock. They lie
// in the arena, so they are freed when no reader can see them any more.
//
// Rejected: Pebble's own filters. They are per table, and asking those of all
// levels takes microseconds and a worker, since one may have to be read from disk;
// Pebble's Get does not use those of the last level, where nearly all keys are.
type keyFilter struct {
	now    atomic.Pointer[bloom] // nil if there is none
	gone   atomic.Int64          // rows that rounds have deleted since the filter was begun
	ranges atomic.Bool           // a round had a range delete since then

	mu      sync.Mutex // guards changes, and the following fields
	begun   uint64     // the number of the last filter
	limit   int64      // in bytes
	keys    int64      // in the present one, or in the last one
	retired []generation
}

type bloom struct {
	number uint64
	ready  atomic.Bool
	gens   atomic.Pointer[[]*generation] // newest first
	bytes  int64
	tight  bool // the newest generation takes keys at tightBits each
}

type generation struct {
	lines []line
	ref   arena.Ref
	room  int64 // how many more keys it takes
}

// line is one line of the processor's cache.
type line [8]uint64

const (
	lineSize = int64(unsafe.Sizeof(line{}))
	// keyBits are the bits per key in a generation that is full, tightBits in the
	// last one, if there is no memory for another.
	keyBits   = 10
	tightBits = 4
	// The first generation takes a sixteenth of the limit, within these bounds.
	leastGeneration, mostFirst = 4 << 10, 4 << 20
	// A larger generation wastes nothing of the arena's chunks if it takes whole
	// ones.
	largeGeneration, generationStep = 8 << 20, 16 << 20
)

func roomFor(bytes, bits int64) int64 { return 8 * bytes / bits }

// at finds the line of a hash. The hash is mixed anew for the bits in it, since
// the keys of a line share the highest ones.
func (g *generation) at(hash uint64) (l *line, mixed uint64) {
	i, _ := bits.Mul64(hash, uint64(len(g.lines)))
	return &g.lines[i], hash * 0x9e3779b97f4a7c15
}

func (g *generation) has(hash uint64) bool {
	l, mixed := g.at(hash)
	for i := range l {
		if atomic.LoadUint64(&l[i])&(1<<(mixed>>58)) == 0 {
			return false
		}
		mixed <<= 6
	}
	return true
}

func (g *generation) add(hash uint64) {
	l, mixed := g.at(hash)
	for i := range l {
		atomic.StoreUint64(&l[i], l[i]|1<<(mixed>>58)) // one writes at a time
		mixed <<= 6
	}
}

func (f *bloom) has(hash uint64) bool {
	for _, g := range *f.gens.Load() {
		if g.has(hash) {
			return true
		}
	}
	return false
}

// excludes reports that the store has no row with this hash. The row's part is locked, and the
// row is not resident.
func (n *keyFilter) excludes(hash uint64) bool {
	f := n.now.Load()
	return f != nil && f.ready.Load() && !f.has(hash)
}

// BeginFilter begins a new filter in place of the present one, if any. No round may be under
// way. The filter is not used before FilterReady is called with its number.
func (s *Set) BeginFilter() (number uint64) {
	n := &s.filter
	n.mu.Lock()
	defer n.mu.Unlock()
	s.dropFilter()
	n.keys = 0
	n.gone.Store(0)
	n.ranges.Store(false)
	n.begun++
	f := &bloom{number: n.begun}
	f.gens.Store(new([]*generation))
	n.now.Store(f)
	return f.number
}

// FilterReady declares that the filter with this number has all keys of the store. It reports
// false if the filter was dropped meanwhile.
func (s *Set) FilterReady(number uint64) bool {
	f := s.filter.now.Load()
	if f == nil || f.number != number {
		return false
	}
	f.ready.Store(true)
	return true
}

// GiveUpFilter drops the filter with this number, which could not be built. Another filter is
// due then.
func (s *Set) GiveUpFilter(number uint64) {
	n := &s.filter
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.now.Load(); f != nil && f.number == number {
		s.dropFilter()
		n.ranges.Store(true)
	}
}

// AddToFilter adds keys of the store, by their hashes. It reports false if the filter was
// dropped since the keys were too many.
func (s *Set) AddToFilter(hashes []uint64) bool {
	for _, hash := range hashes {
		s.addToFilter(hash)
	}
	return s.filter.now.Load() != nil
}

func (s *Set) addToFilter(hash uint64) {
	n := &s.filter
	if f := n.now.Load(); f == nil || f.has(hash) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.now.Load()
	if f == nil {
		return
	}
	gens := *f.gens.Load()
	if len(gens) == 0 || gens[0].room == 0 {
		if !s.growFilter(f) {
			s.dropFilter()
			return
		}
		gens = *f.gens.Load()
	}
	gens[0].room--
	gens[0].add(hash)
	n.keys++
}

// growFilter adds a generation to a filter, or lets the last one take more keys. It reports
// false if the filter has reached its limit.
func (s *Set) growFilter(f *bloom) bool {
	gens := *f.gens.Load()
	size := min(max(s.filter.limit/16, leastGeneration), mostFirst)
	if len(gens) > 0 {
		size = 2 * int64(len(gens[0].lines)) * lineSize
	}
	left := s.filter.limit - f.bytes
	if left-size < size/2 {
		size = left // the last one, which is stretched, must not be a small rest
	}
	if size = min(size, left); size > largeGeneration {
		size = max(size/generationStep*generationStep, largeGeneration)
	}
	size = size / lineSize * lineSize
	if size < leastGeneration {
		if f.tight || len(gens) == 0 {
			return false
		}
		f.tight = true
		size = int64(len(gens[0].lines)) * lineSize
		gens[0].room = roomFor(size, tightBits) - roomFor(size, keyBits)
		return true
	}
	ref, err := s.arena.Alloc(int(size))
	if err != nil {
		return false
	}
	g := &generation{ref: ref, room: roomFor(size, keyBits)}
	g.lines = unsafe.Slice((*line)(unsafe.Pointer(unsafe.SliceData(s.arena.Bytes(ref, int(size))))), size/lineSize)
	clear(g.lines)
	f.bytes += size
	s.bytes.Add(size)
	more := append([]*generation{g}, gens...)
	f.gens.Store(&more)
	return true
}

// dropFilter retires the filter. FreeFilters frees its memory when no reader can see it.
func (s *Set) dropFilter() {
	n := &s.filter
	f := n.now.Swap(nil)
	if f == nil {
		return
	}
	for _, g := range *f.gens.Load() {
		n.retired = append(n.retired, *g)
	}
}

// FreeFilters frees the memory of retired filters. The caller must not hold the lock of a
// part.
func (s *Set) FreeFilters() {
	n := &s.filter
	n.mu.Lock()
	retired := n.retired
	n.retired = nil
	n.mu.Unlock()
	if len(retired) == 0 {
		return
	}
	for no := range s.parts { // a reader of the filter holds the lock of a part
		if p := s.parts[no].Load(); p != nil {
			p.mu.Lock()
			//lint:ignore SA2001 only to wait for readers
			p.mu.Unlock()
		}
	}
	for _, g := range retired {
		size := int64(len(g.lines)) * lineSize
		s.arena.Free(g.ref, int(size))
		s.bytes.Add(-size)
	}
}

// LimitFilter sets how much memory the filter may take.
func (s *Set) LimitFilter(bytes int64) {
	n := &s.filter
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.now.Load()
	switch {
	case f != nil && f.bytes > bytes:
		s.dropFilter()
		n.ranges.Store(true) // another one may fit
	case f == nil && bytes > n.limit:
		n.ranges.Store(true)
	}
	n.limit = bytes
}

// FilterDue reports whether a filter should be made: there is none, and the store has
// probably fewer keys than were too many for the last one.
func (s *Set) FilterDue() bool {
	n := &s.filter
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now.Load() == nil && (n.ranges.Load() || 4*n.gone.Load() >= n.keys)
}

// FilterFigures returns how many keys the filter has, what memory it takes, and whether it is
// ready: 1, or else 0.
func (s *Set) FilterFigures() (keys, bytes, ready int64) {
	n := &s.filter
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.now.Load()
	if f == nil {
		return 0, 0, 0
	}
	if f.ready.Load() {
		ready = 1
	}
	return n.keys, f.bytes, ready
}

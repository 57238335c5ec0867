package arena

import (
	"errors"
	"math/bits"
)

// chunk is the bookkeeping of 16 MiB of memory. The pool's lock guards all of it but pages.
type chunk struct {
	pages [chunkPages]page // first, so that a page's room lies in its second cache line
	index int
	free  int // units
	huge  int // bytes of the huge allocation that starts here
	used  [chunkUnits / 64]uint64
	heads [chunkUnits / 64]uint64 // the first unit of each page and run: Free must know the true size
	warm  grains                  // may be in memory
	gone  [chunkUnits / 64]uint64 // free units of warm grains that Split gave back
	split bool                    // no huge pages are asked for here
	avoid grains                  // being drained: taken only when nothing else is left
	//lint:ignore U1000 arena_heap.go uses it
	backing
}

// grains is a set of grains of a chunk; in the smallest case a grain is a page.
type grains [(chunkPages + 63) / 64]uint64

func (g *grains) has(i int) bool { return g[i>>6]>>(i&63)&1 != 0 }
func (g *grains) add(i int)      { g[i>>6] |= 1 << (i & 63) }
func (g *grains) drop(i int)     { g[i>>6] &^= 1 << (i & 63) }

// bound has the results of failed searches, so that full chunks are skipped: the number
// of units of which a chunk has no run [in this pass][aligned as a page].
type bound [3][2]uint16

var unknown = func() (b bound) {
	for i := range b {
		b[i] = [2]uint16{chunkUnits + 1, chunkUnits + 1}
	}
	return b
}()

func (ch *chunk) ref(unit int) Ref { return Ref(ch.index)<<refChunk + Ref(unit)<<refUnit }
func (ch *chunk) unit(r Ref) int   { return int(r>>refUnit) % chunkUnits }

func (a *Arena) grainUnits() int { return a.grain * pageUnits }

// takeRun takes n free units, for a page aligned as pages are: first in warm grains that
// are not being drained, then in all warm grains, which take no more memory, then
// anywhere, then in a new chunk; always at the lowest address, so that the high end
// drains.
func (a *Arena) takeRun(n int, aligned bool) (*chunk, int, error) {
	al, to := 0, 1
	if aligned {
		al, to = 1, pageUnits
	}
	for pass := range len(unknown) {
		for i := 1; i < a.pool.top; i++ {
			b := &a.pool.bounds[i][pass][al]
			if n >= int(*b) {
				continue
			}
			ch := a.chunks[i].Load()
			used := a.unavailable(ch, pass)
			if u := find(used[:], n, to); u >= 0 {
				a.take(ch, u, n)
				return ch, u, nil
			}
			*b = uint16(n)
		}
	}
	if err := a.grow(1); err != nil {
		return nil, 0, err
	}
	ch := a.chunks[a.pool.top-1].Load()
	a.take(ch, 0, n)
	return ch, 0, nil
}

// unavailable returns the units in use, and those that a pass does not take.
func (a *Arena) unavailable(ch *chunk, pass int) [chunkUnits / 64]uint64 {
	used, gu := ch.used, a.grainUnits()
	for g := range chunkUnits / gu {
		if pass < 2 && !ch.warm.has(g) || pass == 0 && ch.avoid.has(g) {
			fill(used[:], g*gu, gu, true)
		}
	}
	for i := range used {
		if pass < 2 {
			used[i] |= ch.gone[i]
		}
	}
	return used
}

func (a *Arena) take(ch *chunk, unit, n int) {
	fill(ch.used[:], unit, n, true)
	fill(ch.heads[:], unit, 1, true)
	ch.free -= n
	a.heat(ch, unit, n)
	a.back(ch, chunkSize)
}

// heat notes that units may be in memory from now on.
func (a *Arena) heat(ch *chunk, unit, n int) {
	gu := a.grainUnits()
	for g := unit / gu; g <= (unit+n-1)/gu; g++ {
		if !ch.warm.has(g) {
			ch.warm.add(g)
			a.mapped.Add(int64(gu * unitSize))
			if next(ch.used[:], g*gu, ^uint64(0)) < (g+1)*gu { // more warm room than before
				a.pool.bounds[ch.index] = unknown
			}
		}
	}
	a.mapped.Add(int64(ch.regain(unit, n) * unitSize))
}

// regain clears the gone bits of a range and returns how many were set.
func (ch *chunk) regain(unit, n int) int {
	gone := count(ch.gone[:], unit, n)
	if gone > 0 {
		fill(ch.gone[:], unit, n, false)
	}
	return gone
}

func (a *Arena) giveRun(ch *chunk, unit, n int) {
	fill(ch.used[:], unit, n, false)
	fill(ch.heads[:], unit, 1, false)
	ch.free += n
	a.pool.bounds[ch.index] = unknown
}

var errFull = errors.New("the range of addresses is used up")

// grow takes n more chunks into use.
func (a *Arena) grow(n int) error {
	if a.pool.top+n > len(a.chunks) {
		return noMemory(errFull)
	}
	if err := a.grant(a.pool.top, n); err != nil {
		return noMemory(err)
	}
	for range n {
		a.chunks[a.pool.top].Store(&chunk{index: a.pool.top, free: chunkUnits})
		a.pool.bounds = append(a.pool.bounds, unknown)
		a.pool.top++
	}
	return nil
}

func (a *Arena) allocLarge(n int) (Ref, error) {
	if n < 0 || n>>chunkBits >= maxChunks {
		return 0, errSize
	}
	units := (n + unitSize - 1) / unitSize
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	if n > maxRun {
		return a.allocHuge(units * unitSize)
	}
	ch, unit, err := a.takeRun(units, false)
	if err != nil {
		return 0, err
	}
	a.pool.large += int64(units * unitSize)
	return ch.ref(unit), nil
}

// freeLarge frees a run or a huge allocation. It reports false if none begins at r.
func (a *Arena) freeLarge(r Ref, n int) bool {
	i := r >> refChunk
	if n < 0 || i >= Ref(len(a.chunks)) || r%(unitSize/align) != 0 {
		return false
	}
	ch := a.chunks[i].Load()
	if ch == nil {
		return false
	}
	if n > maxRun {
		return a.freeHuge(ch, r, Round(n))
	}
	unit, units := ch.unit(r), Round(n)/unitSize
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	if ch.pages[unit/pageUnits].class.Load() != 0 || ch.length(unit) != units {
		return false
	}
	a.giveRun(ch, unit, units)
	a.pool.large -= int64(units * unitSize)
	return true
}

// length returns the number of units of the run or page that begins at a unit, 0 if none does.
func (ch *chunk) length(unit int) int {
	if ch.huge != 0 || next(ch.heads[:], unit, 0) != unit {
		return 0
	}
	return min(next(ch.used[:], unit, ^uint64(0)), next(ch.heads[:], unit+1, 0)) - unit
}

// allocHuge takes whole chunks in a row. The end of the last one stays unused,
// which costs addresses but no memory.
func (a *Arena) allocHuge(size int) (Ref, error) {
	k := (size + chunkSize - 1) / chunkSize
	first, run := 1, 0
	for i := 1; i < a.pool.top && run < k; i++ {
		if run++; a.chunks[i].Load().free != chunkUnits {
			first, run = i+1, 0
		}
	}
	if run < k { // the last chunks are free, and there are too few of them
		if err := a.grow(k - run); err != nil {
			return 0, err
		}
	}
	for i := range k {
		ch := a.chunks[first+i].Load()
		fill(ch.used[:], 0, chunkUnits, true)
		ch.free = 0
		a.mapped.Add(int64(ch.regain(0, chunkUnits) * unitSize))
		a.heat(ch, 0, min(size-i*chunkSize, chunkSize)/unitSize)
	}
	ch := a.chunks[first].Load()
	ch.huge = size
	fill(ch.heads[:], 0, 1, true)
	a.back(ch, size)
	a.pool.large += int64(size)
	return ch.ref(0), nil
}

// freeHuge gives the memory back to the system at once.
func (a *Arena) freeHuge(ch *chunk, r Ref, size int) bool {
	a.pool.mu.Lock()
	ok := ch.huge == size && r == ch.ref(0)
	if ok {
		ch.huge = -1 // so that a second Free fails, while the lock is not held
	}
	a.pool.mu.Unlock()
	if !ok {
		return false
	}
	for i := range (size + chunkSize - 1) / chunkSize {
		b := a.chunks[ch.index+i].Load()
		gone := a.release(b, 0, chunkSize)
		a.pool.mu.Lock()
		b.huge, b.free = 0, chunkUnits
		b.used, b.heads = [chunkUnits / 64]uint64{}, [chunkUnits / 64]uint64{}
		if gone {
			for _, w := range b.warm {
				a.mapped.Add(-int64(bits.OnesCount64(w) * a.grain * pageSize))
			}
			b.warm = grains{} // nothing of it is gone, since allocHuge
		}
		a.pool.bounds[b.index] = unknown
		a.pool.mu.Unlock()
	}
	a.pool.mu.Lock()
	a.pool.large -= int64(size)
	a.pool.mu.Unlock()
	return true
}

// Trim gives free grains back to the system, and returns how many bytes they have. To give
// back a part of a grain would split a huge page; see Split and Sparse.
func (a *Arena) Trim() int64 {
	for i := range a.classes {
		c := &a.classes[i]
		c.mu.Lock()
		if p := c.current; p != nil && p.empty(c) {
			a.freePage(c, p)
		}
		c.mu.Unlock()
	}
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	var n int64
	for i := 1; i < a.pool.top; i++ {
		n += a.trim(a.chunks[i].Load())
		a.pool.mu.Unlock() // let the others in after each chunk
		a.pool.mu.Lock()
	}
	return n
}

func (a *Arena) trim(ch *chunk) int64 {
	gu := a.grainUnits()
	last := chunkUnits / gu
	var n int64
	for g := 0; g < last; g++ {
		from := g
		for g < last && ch.warm.has(g) && next(ch.used[:], g*gu, 0) >= (g+1)*gu {
			g++
		}
		if g == from || !a.release(ch, from*gu*unitSize, (g-from)*gu*unitSize) {
			continue
		}
		for i := from; i < g; i++ {
			ch.warm.drop(i)
		}
		n += int64(((g-from)*gu - ch.regain(from*gu, (g-from)*gu)) * unitSize)
		a.pool.bounds[ch.index] = unknown
	}
	a.mapped.Add(-n)
	if ch.split && ch.free == chunkUnits {
		a.askHuge(ch, true)
		ch.split = false
	}
	return n
}

// Split gives free units between used ones back to the system, until these are want bytes
// or there are no more, and returns how many bytes it gave back. That splits huge pages,
// and none are asked for in such a chunk until the chunk is empty, so reads of it are
// slower. Split is therefore used after Trim and Sparse.
func (a *Arena) Split(want int64) int64 {
	if !canSplit {
		return 0
	}
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	var n int64
	for i := a.pool.top - 1; i > 0 && n < want; i-- { // the high end is to be empty
		n += a.splitChunk(a.chunks[i].Load())
		a.pool.mu.Unlock() // let the others in after each chunk
		a.pool.mu.Lock()
	}
	return n
}

// splitLeast is the least number of units in a row that is worth a system call.
const splitLeast = 2

func (a *Arena) splitChunk(ch *chunk) (n int64) {
	if ch.free == 0 || ch.huge != 0 {
		return 0
	}
	used := a.unavailable(ch, 1) // what is in use, or not in memory
	for u := 0; u < chunkUnits; {
		if u = next(used[:], u, ^uint64(0)); u == chunkUnits {
			break
		}
		end := next(used[:], u, 0)
		if end-u >= splitLeast {
			if !ch.split {
				a.askHuge(ch, false)
				ch.split = true
			}
			if a.release(ch, u*unitSize, (end-u)*unitSize) {
				fill(ch.gone[:], u, end-u, true)
				n += int64((end - u) * unitSize)
			}
		}
		u = end
	}
	a.mapped.Add(-n)
	return n
}

// find returns the first of n clear bits in a row, at a multiple of to; -1 if
// there are none.
func find(set []uint64, n, to int) int {
	for i := 0; ; {
		i = roundUp(next(set, i, ^uint64(0)), to)
		if i+n > len(set)*64 {
			return -1
		}
		j := next(set, i, 0)
		if j-i >= n {
			return i
		}
		i = j
	}
}

// next returns the first set bit from i on, or with flip all ones the first
// clear one; the length if there is none.
func next(set []uint64, i int, flip uint64) int {
	if i >= len(set)*64 {
		return len(set) * 64
	}
	w := (set[i>>6] ^ flip) &^ (1<<(i&63) - 1)
	for i >>= 6; w == 0; w = set[i] ^ flip {
		if i++; i == len(set) {
			return i * 64
		}
	}
	return i<<6 + bits.TrailingZeros64(w)
}

// count returns how many of n bits from i on are set.
func count(set []uint64, i, n int) (all int) {
	for n > 0 {
		k := min(n, 64-i&63)
		all += bits.OnesCount64(set[i>>6] & (^uint64(0) >> (64 - k) << (i & 63)))
		i, n = i+k, n-k
	}
	return all
}

// fill sets or clears n bits from i on.
func fill(set []uint64, i, n int, on bool) {
	for n > 0 {
		k := min(n, 64-i&63)
		mask := ^uint64(0) >> (64 - k) << (i & 63)
		if on {
			set[i>>6] |= mask
		} else {
			set[i>>6] &^= mask
		}
		i, n = i+k, n-k
	}
}

package arena

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// both runs a test with huge pages and without.
func both(t *testing.T, test func(t *testing.T, a *Arena)) {
	t.Parallel()
	for name, options := range map[string][]Option{"huge": nil, "small": {smallPages}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := New(options...)
			t.Cleanup(a.Close)
			test(t, a)
			check(t, a)
		})
	}
}

func check(t *testing.T, a *Arena) {
	t.Helper()
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
}

func alloc(t *testing.T, a *Arena, n int) Ref {
	t.Helper()
	r, err := a.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func TestRound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{
		-1: 16, 0: 16, 1: 16, 16: 16, 17: 32, 128: 128, 129: 144, 180: 192, 256: 256, 257: 288,
		12_289: 13_104, 16_384: 16_384, 16_385: 20_480, maxRun: maxRun, maxRun + 1: maxRun + 4096,
	} {
		if got := Round(n); got != want {
			t.Errorf("Round(%d) = %d, want %d", n, got, want)
		}
	}
	if !slices.IsSorted(classSizes) || len(classSizes) > math.MaxUint8 {
		t.Errorf("classes %v", classSizes)
	}
	for n := 1; n <= maxSmall; n++ {
		r := Round(n)
		if r < n || r%16 != 0 || Round(r) != r {
			t.Fatalf("Round(%d) = %d, of that %d", n, r, Round(r))
		}
		// Up to 256 the next multiple of 16, then about an eighth more at most; from
		// 4 KiB on what a page divides into, at most a quarter.
		if n <= 256 && r-n > 15 || n <= 4096 && r-n > n/7+16 || r-n > n/4+16 {
			t.Fatalf("Round(%d) = %d wastes too much", n, r)
		}
	}
	// The multiplication in place of a division is right for every slot.
	for i := range classSizes {
		var c class
		c.init(i)
		for off := range pageSize / align {
			if got := int(uint64(off) * c.magic >> 24); got != off/c.step {
				t.Fatalf("%d/%d = %d", off, c.step, got)
			}
		}
	}
}

// live is an allocation that the model knows of.
type live struct {
	ref  Ref
	n    int
	mark uint64
}

// write fills an allocation with what only it can hold; in large ones only the
// ends and the first bytes of each unit, or the test would take for ever.
func (l live) write(b []byte) { l.visit(b, func(b []byte, v byte) { b[0] = v }) }

func (l live) intact(b []byte) bool {
	ok := true
	l.visit(b, func(b []byte, v byte) { ok = ok && b[0] == v })
	return ok
}

func (l live) visit(b []byte, f func(b []byte, v byte)) {
	var m [8]byte
	binary.LittleEndian.PutUint64(m[:], l.mark*0x9e3779b97f4a7c15)
	for i := 0; i < len(b); i++ {
		if i >= 512 && i%unitSize >= 8 && i < len(b)-64 {
			i = min(roundUp(i, unitSize), len(b)-64)
		}
		f(b[i:], m[i%8]^byte(i>>8))
	}
}

// size draws a size: mostly of rows, sometimes of runs, rarely huge.
func size(rnd *rand.Rand) int {
	switch n := rnd.IntN(1000); {
	case n < 2:
		return maxRun + rnd.IntN(2*chunkSize)
	case n < 4:
		return rnd.IntN(maxRun + 1)
	case n < 50:
		return maxSmall + rnd.IntN(20*unitSize)
	}
	return rnd.IntN(16 << rnd.IntN(11))
}

// The property test: against a list of what is live, allocations never overlap,
// keep their contents, and are counted to the byte, whatever is moved or trimmed.
func TestAgainstModel(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		rnd := random(t)
		var all []live
		used := int64(0)
		take := func(n int) live {
			l := live{alloc(t, a, n), n, rnd.Uint64()}
			if l.ref == 0 || l.ref >= 1<<40 {
				t.Fatalf("ref %x", l.ref)
			}
			l.write(a.Bytes(l.ref, n))
			used += int64(Round(n))
			return l
		}
		drop := func(l live) {
			if !l.intact(a.Bytes(l.ref, l.n)) {
				t.Fatalf("%x of %d bytes was overwritten", l.ref, l.n)
			}
			a.Free(l.ref, max(l.n, Round(l.n)-rnd.IntN(8)))
			used -= int64(Round(l.n))
		}
		verify := func() {
			t.Helper()
			check(t, a)
			if a.Used() != used {
				t.Fatalf("used %d, want %d", a.Used(), used)
			}
			if m := a.Mapped(); m < used+a.Fragmented() {
				t.Fatalf("mapped %d for %d used and %d in free slots", m, used, a.Fragmented())
			}
			slices.SortFunc(all, func(x, y live) int { return int(x.ref) - int(y.ref) })
			end := Ref(0)
			for _, l := range all {
				if l.ref < end {
					t.Fatalf("%x lies in what ends at %x", l.ref, end)
				}
				end = l.ref + Ref(Round(l.n)/align)
				if l.n <= maxRun && l.ref>>refChunk != (end-1)>>refChunk {
					t.Fatalf("%x of %d bytes crosses a chunk", l.ref, l.n)
				}
			}
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		rounds, large := 40, int64(6*chunkSize)
		if testing.Short() {
			rounds = 10
		}
		for round := range rounds {
			grow := 0.2 + 0.7*rnd.Float64() // how likely an operation allocates
			for range 1 + rnd.IntN(4000) {
				if rnd.Float64() < grow && used < large {
					all = append(all, take(size(rnd)))
				} else if last := len(all) - 1; last >= 0 {
					i := rnd.IntN(len(all))
					drop(all[i])
					all[i], all = all[last], all[:last]
				}
			}
			switch rnd.IntN(4) {
			case 0:
				before := a.Mapped()
				if n := a.Trim(); n < 0 || a.Mapped() != before-n {
					t.Fatalf("trimmed %d of %d, left %d", n, before, a.Mapped())
				}
				before = a.Mapped()
				if n := a.Split(int64(rnd.IntN(4 << 20))); n < 0 || a.Mapped() != before-n {
					t.Fatalf("Split gave %d back, %d of %d are mapped", n, a.Mapped(), before)
				}
			case 1:
				todo := a.Sparse(rnd.IntN(8 << 20))
				check(t, a)
				for i, l := range all {
					if a.InSparse(l.ref) {
						all[i] = take(l.n)
						drop(l)
						todo -= int64(Round(l.n))
					}
				}
				if todo != 0 {
					t.Fatalf("%d bytes were to be moved and not found", todo)
				}
			}
			verify()
			t.Logf("round %d: %d live, used %d, mapped %d, fragmented %d", round, len(all), used, a.Mapped(), a.Fragmented())
		}
		for _, l := range all {
			drop(l)
		}
		all = nil
		verify()
		a.Trim()
		verify()
		if a.Used() != 0 || a.Mapped() != 0 || a.Fragmented() != 0 {
			t.Fatalf("empty, yet used %d, mapped %d, fragmented %d", a.Used(), a.Mapped(), a.Fragmented())
		}
	})
}

func TestBytesAndFrom(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		for _, n := range []int{1, 180, maxSmall, maxSmall + 1, maxRun, maxRun + 1, 2*chunkSize + 1} {
			r := alloc(t, a, n)
			b := a.Bytes(r, n)
			if len(b) != n || cap(b) != n {
				t.Fatalf("len %d, cap %d, want %d", len(b), cap(b), n)
			}
			b[0], b[n-1] = 7, 8
			f := a.From(r)
			if len(f) < min(n, maxRun) || f[0] != b[0] || &f[0] != &b[0] {
				t.Fatalf("From gives %d bytes", len(f))
			}
			_ = a.Touch(r)
		}
		for _, r := range []Ref{0, 1, 1<<40 - 1, math.MaxUint64, 1 << 62} {
			_ = a.Touch(r) // must not fault
			if a.InSparse(r) {
				t.Errorf("%x is sparse", r)
			}
		}
	})
}

// A reader that comes late finds readable memory, whatever happened to it.
func TestTouchAfterFree(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		var refs []Ref
		sizes := []int{100, 5000, 100_000, maxRun + 1, 3 * chunkSize}
		for _, n := range sizes {
			refs = append(refs, alloc(t, a, n))
		}
		for i, n := range sizes {
			a.Free(refs[i], n)
		}
		a.Trim()
		for i, n := range sizes {
			_ = a.Touch(refs[i])
			_ = a.Touch(refs[i] + Ref(n/align))
		}
	})
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	a := New()
	defer a.Close()
	const run, huge = 5 * unitSize, chunkSize + 1
	s, s2, l, l2, h := alloc(t, a, 100), alloc(t, a, 100), alloc(t, a, run), alloc(t, a, run), alloc(t, a, huge)
	gone := alloc(t, a, 3000)
	a.Free(gone, 3000)
	used := a.Used()
	for i, bad := range []struct {
		r Ref
		n int
	}{
		{s, 200}, {s + 1, 100}, {s, run}, {s, huge}, {s, -1}, {0, 100}, {0, run}, {1<<40 - 1, 100}, {math.MaxUint64, 100},
		{math.MaxUint64, run}, {gone, 3000}, {s2 + 14, 100},
		{l, run + 1}, {l, run - unitSize}, {l + 1, run}, {l + unitSize/align, run}, {l, 100}, {l, huge}, {l2, 2 * run},
		{h, huge + unitSize}, {h, run}, {h, 100}, {h + chunkSize/align, huge}, {h, maxRun},
	} {
		a.Free(bad.r, bad.n)
		if a.Misused() != int64(i+1) || a.Used() != used {
			t.Fatalf("Free(%x, %d) was let through", bad.r, bad.n)
		}
	}
	for range 2 { // the second time is wrong
		a.Free(s, 100)
		a.Free(s2, 100)
		a.Free(l, run)
		a.Free(l2, run)
		a.Free(h, huge)
		if used := a.Used(); used != 0 {
			t.Fatalf("used %d", used)
		}
	}
	if n := a.Misused(); n != 24+5 {
		t.Fatalf("%d misuses", n)
	}
	if a.Check() == nil {
		t.Fatal("Check is silent about misuse")
	}
	a.misuse.Store(0)
	check(t, a)
}

func TestImpossibleSizes(t *testing.T) {
	t.Parallel()
	a := New()
	defer a.Close()
	if math.MaxInt == math.MaxInt32 {
		t.Skip("no size is impossible here")
	}
	for _, n := range []int{-1, math.MinInt, math.MaxInt} {
		if _, err := a.Alloc(n); !errors.Is(err, errSize) {
			t.Errorf("Alloc(%d): %v", n, err)
		}
	}
	if _, err := a.Alloc(len(a.chunks) * chunkSize); !errors.Is(err, errFull) {
		t.Errorf("more than there is: %v", err)
	}
	check(t, a)
}

// Check would be worth nothing if it let broken books pass.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(a *Arena, c *class, p *page, ch *chunk){
		"slot count":     func(_ *Arena, c *class, _ *page, _ *chunk) { c.used++ },
		"page count":     func(_ *Arena, c *class, _ *page, _ *chunk) { c.pages-- },
		"free bit":       func(_ *Arena, _ *class, p *page, _ *chunk) { p.bits[0] ^= 1 },
		"hint":           func(_ *Arena, _ *class, p *page, _ *chunk) { p.hint = uint16(len(p.bits)) },
		"lost page":      func(_ *Arena, c *class, p *page, _ *chunk) { c.unlist(p) },
		"listed current": func(_ *Arena, c *class, p *page, _ *chunk) { c.current = p },
		"bucket":         func(_ *Arena, _ *class, p *page, _ *chunk) { p.bucket++ },
		"unit":           func(_ *Arena, _ *class, _ *page, ch *chunk) { ch.used[chunkUnits/64-1] ^= 1 << 63 },
		"head":           func(_ *Arena, _ *class, _ *page, ch *chunk) { ch.heads[0] ^= 1 << 3 },
		"cold":           func(_ *Arena, _ *class, _ *page, ch *chunk) { ch.warm.drop(0) },
		"mapped":         func(a *Arena, _ *class, _ *page, _ *chunk) { a.mapped.Add(1) },
		"run bytes":      func(a *Arena, _ *class, _ *page, _ *chunk) { a.pool.large += unitSize },
		"bound":          func(a *Arena, _ *class, _ *page, ch *chunk) { a.pool.bounds[ch.index][1][0] = 1 },
	} {
		a := New()
		var refs []Ref
		for range 1000 {
			refs = append(refs, alloc(t, a, 200))
		}
		alloc(t, a, 100_000)
		for _, r := range refs[:100] {
			a.Free(r, 200)
		}
		check(t, a)
		p := a.page(refs[0])
		damage(a, &a.classes[p.class.Load()-1], p, a.chunks[1].Load())
		if a.Check() == nil {
			t.Errorf("damaged %s was not found", name)
		}
		a.Close()
	}
}

// Small sizes cost no Go memory once their pages exist.
func TestNoGoAllocations(t *testing.T) {
	a := New()
	defer a.Close()
	n := testing.AllocsPerRun(1000, func() {
		r, err := a.Alloc(180)
		if err != nil {
			t.Fatal(err)
		}
		a.Free(r, 180)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

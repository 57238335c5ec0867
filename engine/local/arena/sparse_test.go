package arena

import (
	"math/rand/v2"
	"testing"
)

// thin fills the arena with rows of n bytes and frees all but a share of them.
func thin(t *testing.T, a *Arena, rnd *rand.Rand, rows, n int, share float64) []Ref {
	t.Helper()
	var refs, rest []Ref
	for range rows {
		refs = append(refs, alloc(t, a, n))
	}
	for i, r := range refs {
		if rnd.Float64() < share {
			rest = append(rest, r)
			a.Bytes(r, n)[0] = byte(i)
		} else {
			a.Free(r, n)
		}
	}
	return rest
}

// move does what an owner does after Sparse.
func move(t *testing.T, a *Arena, refs []Ref, n int) (moved int64) {
	t.Helper()
	for i, r := range refs {
		if a.InSparse(r) {
			refs[i] = alloc(t, a, n)
			copy(a.Bytes(refs[i], n), a.Bytes(r, n))
			a.Free(r, n)
			moved += int64(Round(n))
		}
	}
	return moved
}

// Nine of ten rows go, here and there: nearly every page keeps a few. Moving those
// frees the pages, for the system and for other classes.
func TestSparse(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		rnd := random(t)
		const n = 180
		refs := thin(t, a, rnd, 6*chunkSize/Round(n), n, 0.1)
		full := a.Mapped()
		used := a.Used()
		if f := a.Fragmented(); f < 8*used {
			t.Fatalf("fragmented %d, used %d: no case", f, used)
		}
		if a.Trim(); a.Mapped() < full*9/10 {
			t.Fatalf("mapped %d of %d: no case", a.Mapped(), full)
		}
		for round := 0; ; round++ {
			todo := a.Sparse(4 << 20)
			check(t, a)
			if todo == 0 {
				break
			}
			if moved := move(t, a, refs, n); moved != todo || round > 100 {
				t.Fatalf("round %d: moved %d of %d", round, moved, todo)
			}
			check(t, a)
			if a.Mapped() > full {
				t.Fatalf("moving took memory: %d, was %d", a.Mapped(), full)
			}
		}
		if a.Used() != used {
			t.Fatalf("used %d, was %d", a.Used(), used)
		}
		if f := a.Fragmented(); f > used/2 {
			t.Errorf("fragmented %d, used %d", f, used)
		}
		before := a.Mapped()
		alloc(t, a, 5000) // another class takes a page that came free
		if a.Mapped() != before {
			t.Error("a page that came free does not serve another class")
		}
		a.Trim()
		if m := a.Mapped(); m > 2*used+int64(2*a.grain*pageSize) {
			t.Errorf("mapped %d for %d, was %d", m, used, full)
		}
	})
}

// A dense arena, and one with a page per class, is left alone.
func TestSparseLeavesDense(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		for _, s := range classSizes {
			alloc(t, a, s)
		}
		// The first call may drain the last grain into the others; no more than that.
		for range 2 {
			a.Sparse(1 << 30)
		}
		thin(t, a, random(t), 20_000, 180, 0.8)
		if n := a.Sparse(1 << 30); n > int64(a.grain*pageSize) {
			t.Errorf("%d bytes to move", n)
		}
	})
}

// Marks are taken back: pages that were not emptied serve again.
func TestSparseAgain(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		refs := thin(t, a, random(t), 50_000, 180, 0.1)
		count := func() (n int64) {
			for _, r := range refs {
				if a.InSparse(r) {
					n += int64(Round(180))
				}
			}
			return n
		}
		todo := a.Sparse(1 << 30)
		if todo == 0 || count() != todo {
			t.Fatalf("%d bytes in marked pages, want %d", count(), todo)
		}
		if most := a.Sparse(100_000); most == 0 || most > 100_000 || count() != most {
			t.Fatalf("limited to 100,000: %d, %d", most, count())
		}
		if a.Sparse(0) != 0 || count() != 0 {
			t.Fatal("marks stay")
		}
		check(t, a)
		mapped := a.Mapped()
		for range 44_000 {
			alloc(t, a, 180)
		}
		if a.Mapped() > mapped {
			t.Errorf("free slots were not used again: %d, was %d", a.Mapped(), mapped)
		}
	})
}

// Runs cannot be moved, so their grains are not drained, but the pages are.
func TestSparseBesideRuns(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		rnd := random(t)
		var refs []Ref
		for range 40 {
			refs = append(refs, thin(t, a, rnd, 2000, 180, 0.1)...)
			alloc(t, a, 6*unitSize)
		}
		for range 3 {
			todo := a.Sparse(1 << 30)
			if moved := move(t, a, refs, 180); moved != todo {
				t.Fatalf("moved %d of %d", moved, todo)
			}
			check(t, a)
		}
		if f := a.Fragmented(); f > a.Used() {
			t.Errorf("fragmented %d, used %d", f, a.Used())
		}
	})
}

// Fuller pages are taken first, so that the emptier drain.
func TestFullerPagesFirst(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		const n = 1024 // 64 a page
		var refs []Ref
		for range 4 * 64 {
			refs = append(refs, alloc(t, a, n))
		}
		pages := [][]Ref{refs[:64], refs[64:128], refs[128:192], refs[192:]}
		for i, free := range []int{60, 10, 30, 0} {
			for _, r := range pages[i][:free] {
				a.Free(r, n)
			}
		}
		for i := range 40 {
			want := a.page(pages[1][0])
			if i >= 10 {
				want = a.page(pages[2][0])
			}
			if p := a.page(alloc(t, a, n)); p != want {
				t.Fatalf("allocation %d is in page %x, not %x", i, p.base, want.base)
			}
		}
	})
}

// Full pages in grains that are else free: huge pages are drained of them, small
// ones have nothing to win.
func TestSparseFullPages(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		const n, perPage = 1024, 64
		var stay, gone []Ref
		for i := range 8 * maxGrain * perPage {
			if r := alloc(t, a, n); i/perPage%4 == 0 {
				stay = append(stay, r)
			} else {
				gone = append(gone, r)
			}
		}
		for _, r := range gone {
			a.Free(r, n)
		}
		if f := a.Fragmented(); f != 0 {
			t.Fatalf("%d bytes in free slots", f)
		}
		todo := a.Sparse(1 << 30)
		if (todo > 0) != (a.grain > 1) {
			t.Fatalf("%d bytes to move", todo)
		}
		a.Sparse(0)
		check(t, a)
		if again := a.Sparse(1 << 30); again != todo {
			t.Fatalf("%d bytes to move, then %d", todo, again)
		}
		if moved := move(t, a, stay, n); moved != todo {
			t.Fatalf("moved %d of %d", moved, todo)
		}
		a.Trim()
		if m := a.Mapped(); m != a.Used() {
			t.Errorf("mapped %d for %d", m, a.Used())
		}
	})
}

//go:build !race && (amd64 || arm64)

package arena

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident asks the system how much of the arena's range is in memory.
func resident(t *testing.T, a *Arena) (bytes int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	from := uintptr(unsafe.Pointer(unsafe.SliceData(a.reserved)))
	to := from + uintptr(len(a.reserved))
	ours := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var lo, hi uintptr
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &lo, &hi); n == 2 {
			ours = lo >= from && hi <= to
		} else if ours && strings.HasPrefix(s.Text(), "Rss:") {
			if _, err := fmt.Sscanf(s.Text(), "Rss: %d kB", &kib); err != nil {
				t.Fatal(err)
			}
			bytes += kib << 10
		}
	}
	return bytes
}

// A page's bits lie in the cache line after its other fields.
func TestPageLayout(t *testing.T) {
	t.Parallel()
	if n, at := unsafe.Sizeof(page{}), unsafe.Offsetof(page{}.room); n != 128 || at != 64 {
		t.Errorf("a page takes %d bytes, its bits begin at %d", n, at)
	}
}

// Mapped is never less than what the system counts, and comes down with it.
func TestResidentSize(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		if n := resident(t, a); n != 0 {
			t.Fatalf("an empty arena has %d bytes", n)
		}
		const rows, n = 300_000, 180
		refs := make([]Ref, rows)
		for i := range refs {
			refs[i] = alloc(t, a, n)
			clear(a.Bytes(refs[i], n))
		}
		big := alloc(t, a, 5*chunkSize)
		clear(a.Bytes(big, 5*chunkSize))
		report := func(when string) (rss, mapped int64) {
			rss, mapped = resident(t, a), a.Mapped()
			t.Logf("%-9s rss %9d, mapped %9d, used %9d", when, rss, mapped, a.Used())
			if rss > mapped {
				t.Errorf("%s: more in memory than counted", when)
			}
			return rss, mapped
		}
		if rss, mapped := report("full"); rss < a.Used()*9/10 || mapped > a.Used()*11/10 {
			t.Errorf("full: rss %d, mapped %d, used %d", rss, mapped, a.Used())
		}
		a.Free(big, 5*chunkSize)
		if rss, _ := report("no huge"); rss > a.Used()*11/10 {
			t.Errorf("a huge allocation stays in memory: %d", rss)
		}
		for _, r := range refs[:rows/2] {
			a.Free(r, n)
		}
		a.Trim()
		if rss, _ := report("half"); rss > a.Used()*11/10+4<<20 {
			t.Errorf("half: %d", rss)
		}
		for _, r := range refs[rows/2:] {
			a.Free(r, n)
		}
		a.Trim()
		if rss, mapped := report("empty"); rss != 0 || mapped != 0 {
			t.Errorf("empty: %d, %d", rss, mapped)
		}
		for _, r := range refs {
			if a.Touch(r) != 0 {
				t.Fatal("old contents after Trim")
			}
		}
		if rss := resident(t, a); rss != 0 {
			t.Errorf("reading what was given back took %d bytes", rss)
		}
	})
}

// What lies free between used runs goes back to the system too, and comes back with
// the next allocation.
func TestSplit(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		const n = 40 << 10 // ten units
		var refs []Ref
		for range 2000 {
			r := alloc(t, a, n)
			clear(a.Bytes(r, n))
			refs = append(refs, r)
		}
		for i, r := range refs {
			if i%2 == 0 {
				a.Free(r, n)
			}
		}
		full := a.Mapped()
		if a.Trim(); a.Mapped() < full*9/10 {
			t.Fatalf("mapped %d of %d: no case", a.Mapped(), full)
		}
		trimmed := a.Mapped()
		if gone := a.Split(full / 8); gone < full/8 || gone > full/8+chunkSize || a.Mapped() != trimmed-gone {
			t.Errorf("%d of %d are gone, %d mapped", gone, full, a.Mapped())
		}
		a.Split(full)
		check(t, a)
		if rss := resident(t, a); rss > a.Mapped() || a.Mapped() > a.Used()*11/10 {
			t.Errorf("used %d, mapped %d, resident %d", a.Used(), a.Mapped(), rss)
		}
		for i := range refs {
			if i%2 == 0 {
				refs[i] = alloc(t, a, n)
				clear(a.Bytes(refs[i], n))
			}
		}
		check(t, a)
		if rss := resident(t, a); a.Mapped() > full || rss > a.Mapped() {
			t.Errorf("full again: mapped %d, resident %d, before %d", a.Mapped(), rss, full)
		}
		for _, r := range refs {
			a.Free(r, n)
		}
		if a.Trim(); a.Mapped() != 0 || resident(t, a) != 0 {
			t.Errorf("empty: mapped %d, resident %d", a.Mapped(), resident(t, a))
		}
	})
}

// A limit on addresses makes Alloc fail, not the process.
func TestNoAddresses(t *testing.T) {
	t.Parallel()
	a := New()
	defer a.Close()
	a.chunks = a.chunks[:3] // as a small reservation would
	var refs []Ref
	for {
		r, err := a.Alloc(maxSmall)
		if err != nil {
			break
		}
		refs = append(refs, r)
	}
	if len(refs) != 2*chunkSize/maxSmall {
		t.Fatalf("%d allocations", len(refs))
	}
	if _, err := a.Alloc(maxRun); err == nil {
		t.Fatal("a run from nowhere")
	}
	check(t, a)
	a.Free(refs[0], maxSmall)
	alloc(t, a, maxSmall)
	check(t, a)

	none := New()
	defer none.Close()
	none.chunks = nil // as when nothing could be reserved
	if _, err := none.Alloc(1); !errors.Is(err, errFull) {
		t.Fatalf("memory without a reservation: %v", err)
	}
}

// The system refuses memory: an error, and the arena stays whole.
func TestSystemRefuses(t *testing.T) {
	t.Parallel()
	a := New()
	defer a.Close()
	r := alloc(t, a, 100)
	// A file that may only be read stands in for a system short of memory.
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := unix.Mmap(int(f.Fd()), 0, 8*chunkSize, unix.PROT_NONE, unix.MAP_SHARED)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Munmap(file) }()
	mem, mapped := a.mem, a.Mapped()
	a.mem = file
	for _, n := range []int{chunkSize, 2*chunkSize + 1} {
		if _, err := a.Alloc(n); !errors.Is(err, unix.EACCES) {
			t.Errorf("memory out of nothing: %v", err)
		}
	}
	a.mem = mem
	check(t, a)
	if a.Mapped() != mapped || a.Used() != int64(Round(100)) {
		t.Errorf("failed allocations count: mapped %d, used %d", a.Mapped(), a.Used())
	}
	a.Free(r, 100)
}

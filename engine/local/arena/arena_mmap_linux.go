//go:build !race && (amd64 || arm64)

package arena

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const chunkBits = 24

// memory is a range of addresses, reserved without access and opened chunk by chunk. It
// stays open until Close: Trim and Free only tell the system to discard the contents, so
// that a late reader finds zeros and no fault.
type memory struct {
	small    bool
	reserved []byte        // as mapped
	mem      []byte        // aligned to chunks; what refs are offsets into
	open     atomic.Uint64 // bytes opened, from chunk 1 on
}

// backing is empty here: the range backs all chunks.
//
//lint:ignore U1000 arena_heap.go uses it
type backing struct{}

// reserve takes addresses for eight times the machine's memory (rows of an arena
// are in memory, so more is of no use), or less if there is a limit on them. It
// returns the number of chunks, 0 if there are none to be had.
func (a *Arena) reserve() int {
	a.grain = maxGrain
	if a.small = a.small || !hugePages(); a.small {
		a.grain = 1
	}
	size := uint64(64 << 30)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		size = max(size, 8*(uint64(info.Totalram)+uint64(info.Totalswap))*uint64(info.Unit))
	}
	n := int(min(size>>chunkBits, maxChunks))
	for ; n > 1; n /= 2 {
		b, err := unix.Mmap(-1, 0, (n+1)*chunkSize, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		if err != nil {
			continue
		}
		at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % chunkSize)
		a.reserved, a.mem = b, b[at:at+n*chunkSize:at+n*chunkSize]
		return n
	}
	return 0
}

// hugePages reports whether the system has huge pages of the size of a grain.
func hugePages() bool {
	const dir = "/sys/kernel/mm/transparent_hugepage/"
	enabled, err := os.ReadFile(dir + "enabled")
	size, err2 := os.ReadFile(dir + "hpage_pmd_size")
	return errors.Join(err, err2) == nil && !strings.Contains(string(enabled), "[never]") &&
		strings.TrimSpace(string(size)) == "2097152"
}

func (a *Arena) unreserve() {
	a.open.Store(0)
	if a.reserved != nil {
		_ = unix.Munmap(a.reserved) // fails only for a range that is not ours
	}
	a.reserved, a.mem = nil, nil
}

// grant opens n chunks from the i-th on, which follow the last one opened.
func (a *Arena) grant(i, n int) error {
	b := a.mem[i*chunkSize : (i+n)*chunkSize]
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	if !a.small {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // without it all is well, but slower
	}
	a.open.Add(uint64(n * chunkSize))
	return nil
}

// canSplit is true: a part of a chunk can be given back.
const canSplit = true

// askHuge has the system use huge pages for a chunk, or no more: else it would fill
// what was given back between used units.
func (a *Arena) askHuge(ch *chunk, on bool) {
	advice := unix.MADV_NOHUGEPAGE
	if on {
		advice = unix.MADV_HUGEPAGE
	}
	if !a.small {
		_ = unix.Madvise(a.mem[ch.index*chunkSize:(ch.index+1)*chunkSize], advice) // as in grant
	}
}

// back has nothing to do: the system gives memory at the first touch.
func (a *Arena) back(*chunk, int) {}

// release tells the system to discard a part of a chunk.
func (a *Arena) release(ch *chunk, from, n int) bool {
	at := ch.index*chunkSize + from
	return unix.Madvise(a.mem[at:at+n], unix.MADV_DONTNEED) == nil
}

// Bytes returns the first n bytes of an allocation.
func (a *Arena) Bytes(r Ref, n int) []byte {
	at := int(r) * align
	return a.mem[at : at+n : at+n]
}

// From returns the bytes from r to the end of its chunk (a huge allocation goes
// on behind it), for a reader of a header that does not know the length yet.
func (a *Arena) From(r Ref) []byte {
	at := int(r) * align
	return a.mem[at : at|(chunkSize-1)+1]
}

// Touch reads a byte at r, which brings it into the processor's cache. Touch is safe
// for every r, without a lock, at any time before Close. The result has no meaning, but
// the caller must use it, or the compiler drops the read.
func (a *Arena) Touch(r Ref) byte {
	at := uint64(r) * align
	if at-chunkSize >= a.open.Load() {
		return 0
	}
	return a.mem[at]
}

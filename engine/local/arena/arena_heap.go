//go:build !linux || race || !(amd64 || arm64)

package arena

// The same arena on Go memory: for systems without arena_mmap_linux.go, and for the
// race detector, which sees only the Go heap. Chunks are smaller, and at most 128 GiB
// are addressed.

const (
	chunkBits  = 21 // one grain
	heapChunks = 1 << 16
)

type memory struct{ small bool }

// backing is the memory of a chunk while it is warm, or of all of a huge
// allocation that starts there.
type backing struct{ mem []byte }

func (a *Arena) reserve() int {
	a.grain = maxGrain // all of a chunk: its memory is one object
	return heapChunks
}

func (a *Arena) unreserve() { a.chunks = nil }

func (a *Arena) grant(int, int) error { return nil }

func (a *Arena) back(ch *chunk, n int) {
	if len(ch.mem) < n {
		ch.mem = make([]byte, n)
	}
}

// canSplit is false: a chunk is one object.
const canSplit = false

func (a *Arena) askHuge(*chunk, bool) {}

func (a *Arena) release(ch *chunk, _, _ int) bool {
	ch.mem = nil
	return true
}

// Bytes returns the first n bytes of an allocation.
func (a *Arena) Bytes(r Ref, n int) []byte {
	at := int(r) % (chunkSize / align) * align
	return a.chunks[r>>refChunk].Load().mem[at : at+n : at+n]
}

// From returns the bytes from r to the end of its chunk (a huge allocation goes
// on behind it), for a reader of a header that does not know the length yet.
func (a *Arena) From(r Ref) []byte {
	at := int(r) % (chunkSize / align) * align
	return a.chunks[r>>refChunk].Load().mem[at:]
}

// Touch does nothing here: the race detector would report the read without a lock.
func (a *Arena) Touch(Ref) byte { return 0 }

package output

import (
	"sync"

	"redoubt/budget"
	"redoubt/engine"
)

// Memory is shared by the outputs of all clients: a pool of buffers, which input uses
// too, and the account to which the outputs are charged.
type Memory struct {
	Account *budget.Account
	// Over is called when the account has gone over its limit. It must not wait: its
	// caller holds locks.
	Over func()
	// Void, if set, reports whether a commit was taken back, whose ticket may be less than one
	// that is durable. What waits for such a commit fails with VoidText.
	Void     func(engine.Ticket) bool
	VoidText string

	small, large sync.Pool
}

const (
	// SmallBuffer is the size of most buffers.
	SmallBuffer = 16 << 10
	// KeepBuffer is the largest size of a buffer that is reused as a small one.
	KeepBuffer  = 64 << 10
	largeBuffer = 512 << 10 // for replies of about that size; larger ones are left to the collector
)

// Get returns an empty buffer with room for n bytes or more.
func (p *Memory) Get(n int) []byte {
	switch {
	case n <= SmallBuffer:
		if b, ok := p.small.Get().(*[SmallBuffer]byte); ok {
			return b[:0]
		}
		n = SmallBuffer
	case n > KeepBuffer && n <= largeBuffer:
		if b, ok := p.large.Get().(*[largeBuffer]byte); ok {
			return b[:0]
		}
		n = largeBuffer
	}
	return make([]byte, 0, n)
}

// Put returns an unused buffer to the pool.
func (p *Memory) Put(b []byte) {
	switch n := cap(b); {
	case n >= SmallBuffer && n <= KeepBuffer:
		p.small.Put((*[SmallBuffer]byte)(b[:SmallBuffer]))
	case n >= largeBuffer && n <= 2*largeBuffer:
		p.large.Put((*[largeBuffer]byte)(b[:largeBuffer]))
	}
}

package server

import "sync"

// buffers is a pool of byte buffers for input and output.
type buffers struct {
	small, large sync.Pool
}

const (
	smallBuffer = 16 << 10
	keepBuffer  = 64 << 10
	largeBuffer = 512 << 10 // for replies of about that size; larger ones are left to the collector
	keepArgs    = 4 << 10
)

func (p *buffers) get(n int) []byte {
	switch {
	case n <= smallBuffer:
		if b, ok := p.small.Get().(*[smallBuffer]byte); ok {
			return b[:0]
		}
		n = smallBuffer
	case n > keepBuffer && n <= largeBuffer:
		if b, ok := p.large.Get().(*[largeBuffer]byte); ok {
			return b[:0]
		}
		n = largeBuffer
	}
	return make([]byte, 0, n)
}

func (p *buffers) put(b []byte) {
	switch n := cap(b); {
	case n >= smallBuffer && n <= keepBuffer:
		p.small.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	case n >= largeBuffer && n <= 2*largeBuffer:
		p.large.Put((*[largeBuffer]byte)(b[:largeBuffer]))
	}
}

package engine

import "math"

// Usage says how rows remember their use. A row has a mark of 24 bits: when it was used last, in
// seconds, or, with LFU, a counter of uses (the lowest 8 bits) and the minute of the last
// change of it, as in Redis.
type Usage struct {
	LFU       bool
	LogFactor int64 // lfu-log-factor
	DecayTime int64 // lfu-decay-time: the counter loses one each so many minutes; 0 is never
	Now       int64 // in seconds
}

const (
	markBits = 24
	markMask = 1<<markBits - 1
	newFreq  = 5 // the counter of a new row
)

func (u *Usage) minute() uint32 { return uint32(u.Now/60) & 0xffff }

// New is the mark of a new row.
func (u *Usage) New() uint32 { return u.Mark(0, newFreq) }

// Mark is the mark of a row that was last used idle seconds ago, or, with LFU, has the counter
// freq.
func (u *Usage) Mark(idle, freq int64) uint32 {
	if u.LFU {
		return u.minute()<<8 | uint32(min(max(freq, 0), math.MaxUint8))
	}
	return uint32(u.Now-min(idle, markMask)) & markMask
}

// Used is the mark of a row behind one more use. random returns numbers from 0 to 1.
func (u *Usage) Used(mark uint32, random func() float64) uint32 {
	if !u.LFU {
		return uint32(u.Now) & markMask
	}
	n := u.Freq(mark)
	if n < math.MaxUint8 && random() < 1/float64(max(n-newFreq, 0)*u.LogFactor+1) {
		n++
	}
	return u.Mark(0, n)
}

// Idle is for how many seconds a row was not used.
func (u *Usage) Idle(mark uint32) int64 { return int64((uint32(u.Now) - mark) & markMask) }

// Freq is the counter of a row, with what it has lost by now.
func (u *Usage) Freq(mark uint32) int64 {
	n := int64(mark & 0xff)
	if u.DecayTime > 0 {
		n -= int64((u.minute()-mark>>8)&0xffff) / u.DecayTime
	}
	return max(n, 0)
}

// Sampler is an optional interface of an engine whose rows remember their use, so that keys can
// be evicted. The kind of a row is the third byte of its key.
type Sampler interface {
	// SetUsage sets how rows remember their use, and the present time. Rows that are read by
	// Get count as used.
	SetUsage(Usage)
	// Usage is what SetUsage has set.
	Usage() *Usage
	// RowMark returns the mark of a row. ok is false if there is no such row.
	RowMark(key []byte) (mark uint32, ok bool)
	// SetRowMark changes the mark of a row, if there is one.
	SetRowMark(key []byte, mark uint32)
	// Sample appends the key of a random row of a kind to b; each row is about equally
	// likely. ok is false if there is none. The cost does not depend on the number of rows.
	Sample(kind byte, b []byte) (key []byte, ok bool)
	// Reclaim frees memory of rows that are deleted already, and reports whether there may
	// be more.
	Reclaim() bool
}

// Peeker is an optional interface of a View: Peek is a Get that does not count as a use.
type Peeker interface {
	Peek(key, dst []byte) (value []byte, found bool, err error)
}

// Peek is Get for a read that does not count as a use of the row.
func (t *Txn) Peek(key, dst []byte) ([]byte, bool, error) {
	if v, found, known := t.Batch.Get(key); known {
		return append(dst, v...), found, nil
	}
	if p, ok := t.View.(Peeker); ok {
		return p.Peek(key, dst)
	}
	return t.View.Get(key, dst)
}

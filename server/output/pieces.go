package output

import (
	"sync/atomic"
	"unsafe"

	"redoubt/budget"
)

// message is a message to several clients. All of them refer to one array of bytes,
// which is charged to the account of clients once, until the last reference is released.
type message struct {
	data    []byte
	refs    atomic.Int64
	account *budget.Account
}

// newMessage copies a message. The caller must release the first reference.
func newMessage(data []byte, account *budget.Account) *message {
	m := &message{data: make([]byte, len(data)), account: account}
	copy(m.data, data)
	m.refs.Store(1)
	account.Add(int64(len(m.data)))
	return m
}

// release drops one reference.
func (m *message) release() {
	if m.refs.Add(-1) == 0 {
		m.account.Add(-int64(len(m.data)))
	}
}

// piece is a run of bytes that is not changed any more.
type piece struct {
	data   []byte
	shared *message // the message that owns data; nil: the piece owns data
}

// pieces is a queue of pieces. Bytes leave it at the front as they are sent; adding pieces
// copies no bytes.
type pieces struct {
	list []piece
	head int // list[:head] has left
	off  int // bytes of the first piece that have left
	size int // bytes in the queue
	// owned is the memory of the pieces that own their data, and borrowed that of the
	// shared messages.
	owned, borrowed int
}

// keepPieces is the largest capacity of list that an empty queue keeps.
const keepPieces = 8

// count returns the number of pieces.
func (p *pieces) count() int { return len(p.list) - p.head }

// memory returns how many bytes the queue holds, without shared messages.
func (p *pieces) memory() int { return p.owned + cap(p.list)*int(unsafe.Sizeof(piece{})) }

// add appends data without its first skip bytes. The queue owns data from now on.
func (p *pieces) add(data []byte, skip int) {
	if p.count() == 0 {
		p.off = skip
	} else if skip > 0 {
		panic("output: bytes are left out in the middle of an output")
	}
	p.list = append(p.list, piece{data: data})
	p.size += len(data) - skip
	p.owned += cap(data)
}

// share appends a message.
func (p *pieces) share(m *message) {
	m.refs.Add(1)
	p.list = append(p.list, piece{m.data, m})
	p.size += len(m.data)
	p.borrowed += len(m.data)
}

// take appends all pieces of another queue and empties that. None of its pieces may have
// left in part.
func (p *pieces) take(from *pieces) {
	p.list = append(p.list, from.list[from.head:]...)
	p.size += from.size
	p.owned += from.owned
	p.borrowed += from.borrowed
	from.reset()
}

// advance removes n bytes at the front.
func (p *pieces) advance(n int, mem *Memory) {
	p.off += n
	p.size -= n
	for p.head < len(p.list) && p.off >= len(p.list[p.head].data) {
		p.off -= len(p.list[p.head].data)
		p.free(p.head, mem)
		p.head++
	}
	switch {
	case p.head == len(p.list):
		p.reset()
	case p.head > 4*keepPieces && p.head > len(p.list)/2:
		n := copy(p.list, p.list[p.head:])
		clear(p.list[n:])
		p.list, p.head = p.list[:n], 0
	}
}

// truncate removes bytes at the end until n are left.
func (p *pieces) truncate(n int, mem *Memory) {
	for p.size > n {
		last := len(p.list) - 1
		there := len(p.list[last].data)
		if last == p.head {
			there -= p.off
		}
		if p.size-there < n {
			data := &p.list[last].data
			*data = (*data)[:len(*data)-(p.size-n)]
			p.size = n
			return
		}
		p.size -= there
		p.free(last, mem)
		p.list = p.list[:last]
	}
	if p.count() == 0 {
		p.reset()
	}
}

// clear empties the queue.
func (p *pieces) clear(mem *Memory) { p.truncate(0, mem) }

// free releases the memory of a piece.
func (p *pieces) free(i int, mem *Memory) {
	x := &p.list[i]
	if x.shared != nil {
		p.borrowed -= len(x.shared.data)
		x.shared.release()
	} else {
		p.owned -= cap(x.data)
		mem.Put(x.data)
	}
	*x = piece{}
}

// reset empties the queue, whose pieces were moved or freed.
func (p *pieces) reset() {
	list := p.list
	if cap(list) > keepPieces {
		list = nil
	}
	clear(list)
	*p = pieces{list: list[:0]}
}

// views appends slices of the front to dst: no more than n bytes, in no more slices than
// dst has room for.
func (p *pieces) views(dst [][]byte, n int) [][]byte {
	off := p.off
	for i := p.head; i < len(p.list) && n > 0 && len(dst) < cap(dst); i++ {
		b := p.list[i].data[off:]
		off = 0
		if b = b[:min(n, len(b))]; len(b) > 0 {
			dst = append(dst, b)
			n -= len(b)
		}
	}
	return dst
}

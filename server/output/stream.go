// Package output holds the unsent output of a client: the replies to its commands, and
// push messages.
//
// The package promises that bytes leave in the order in which they came, that none is sent
// before the commit that it depends on is durable, that a message enters between two replies
// and never inside of one, and that a message to many clients is in memory once. A message
// is pushed into the client's Queue, from any goroutine and without waiting. The Stream
// belongs to the carrier of the client's session.
package output

import (
	"redoubt/engine"
	"redoubt/wire"
)

// Stream is the output of one client: a stream of bytes, whose places are counted from the
// beginning of the connection. Commands write their replies to its tail, which is the
// Writer. The bytes before the tail are in pieces, which are sent as they are: former tails
// that had become large, and shared messages. So the output of a client that does not read
// grows without being copied.
//
// Invariants:
//  1. sent <= released <= End. The bytes between sent and start are in pieces, the rest
//     in the tail. The bytes behind released wait for the tickets in holds.
//  2. Replies may be taken back until their batch is committed, by their place in the
//     tail. So the tail becomes a piece only while it has no reply of the turn under way
//     (Answers is 0).
//  3. The output of several turns does not make the tail longer than a block.
type Stream struct {
	wire.Writer // the tail

	Answers int           // replies given in this turn
	Wait    engine.Ticket // the ticket that the output of this turn waits for
	Own     bool          // it waits for the turn's own commit, too

	mem      *Memory
	start    int64  // where the tail begins
	before   pieces // the bytes before the tail
	sent     int64
	released int64 // the bytes between sent and released may be sent now
	holds    []hold
	lastSize int // length of the tail when everything was last sent
}

// hold is a run of replies that waits for a ticket.
type hold struct {
	end     int64 // the place behind it
	ticket  engine.Ticket
	answers int
}

// Init sets the shared memory.
func (o *Stream) Init(mem *Memory) { o.mem = mem }

// End returns the place behind the last byte.
func (o *Stream) End() int64 { return o.start + int64(len(o.Buf)) }

// Memory returns how many bytes the output holds, without shared messages.
func (o *Stream) Memory() int { return cap(o.Buf) + o.before.memory() }

// Borrowed returns the size of the shared messages in the output.
func (o *Stream) Borrowed() int { return o.before.borrowed }

// Pieces returns the number of pieces, the tail included.
func (o *Stream) Pieces() int {
	n := o.before.count()
	if len(o.Buf) > 0 {
		n++
	}
	return n
}

// Pending returns how many bytes are unsent.
func (o *Stream) Pending() int { return int(o.End() - o.sent) }

// Sendable reports whether there are bytes that may be sent now.
func (o *Stream) Sendable() bool { return o.sent < o.released }

// Held reports whether output waits for a commit to be durable.
func (o *Stream) Held() bool { return len(o.holds) > 0 }

// LastSize returns the length of the tail when everything was last sent: a good estimate
// for the next turn.
func (o *Stream) LastSize() int { return o.lastSize }

// block is the length from which on the tail becomes a piece.
const block = SmallBuffer

// Open prepares the tail for the replies of a turn, which are expected to have size bytes.
func (o *Stream) Open(size int) {
	if len(o.Buf) >= block && o.Answers == 0 {
		o.seal()
	}
	if o.Buf == nil {
		o.Buf = o.mem.Get(size)
	}
}

// seal makes the tail a piece. The tail must have no reply of the present turn.
func (o *Stream) seal() {
	if len(o.Buf) == 0 {
		return
	}
	gone := int(max(0, o.sent-o.start))
	o.start += int64(len(o.Buf))
	if rest := o.Buf[gone:]; len(rest) <= cap(o.Buf)/4 { // the piece would waste most of the buffer
		if len(rest) > 0 {
			o.before.add(append(make([]byte, 0, len(rest)), rest...), 0)
		}
		o.Buf = o.Buf[:0]
		return
	}
	o.before.add(o.Buf, gone)
	o.Buf = nil
}

// Take moves the queue's messages into the stream, unless the queue is muted.
func (o *Stream) Take(q *Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.told = false; !q.muted {
		o.Wait = max(o.Wait, o.take(q))
	}
}

// TakeDurable moves the queue's messages into an empty stream and releases them. It does
// nothing and returns false if the stream is not empty, the queue is empty or muted, or its
// messages are not durable.
func (o *Stream) TakeDurable(q *Queue, durable engine.Ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o.Pending() > 0 || o.Answers > 0 || q.muted || q.size() == 0 || q.ticket > durable || o.void(q.ticket) {
		return false
	}
	o.take(q)
	o.released = o.End()
	return true
}

// take moves a queue's messages, and returns the ticket that they wait for. The queue's lock
// is held.
func (o *Stream) take(q *Queue) (ticket engine.Ticket) {
	if q.some.Store(false); q.size() == 0 {
		return 0
	}
	ticket, q.ticket = q.ticket, 0
	defer q.charge()
	if o.Answers > 0 {
		for _, p := range q.before.list[q.before.head:] {
			o.Buf = append(o.Buf, p.data...)
		}
		o.Buf = append(o.Buf, q.buf...)
		q.clear()
		return ticket
	}
	if n := q.before.size; n > 0 {
		o.seal()
		o.before.take(&q.before)
		o.start += int64(n)
	}
	if len(o.Buf)+len(q.buf) >= block {
		o.seal()
	}
	if len(o.Buf) == 0 { // the common case: nothing but messages
		o.Buf, q.buf = q.buf, o.Buf
	} else {
		o.Buf = append(o.Buf, q.buf...)
	}
	q.clear()
	return ticket
}

// Append appends replies that a worker has made. The stream owns the slice from now on.
func (o *Stream) Append(replies []byte) {
	if len(o.Buf) == 0 && len(replies) > SmallBuffer { // avoid a second copy in memory
		replies, o.Buf = o.Buf, replies
		o.mem.Put(replies)
		return
	}
	o.Buf = append(o.Buf, replies...)
}

// Settle ends a turn whose commit got the ticket: the turn's output is released, or held
// until the commits that it depends on are durable.
func (o *Stream) Settle(ticket, durable engine.Ticket) {
	if o.Own {
		o.Wait = max(o.Wait, ticket)
	}
	wait, answers, end := o.Wait, o.Answers, o.End()
	o.Wait, o.Own, o.Answers = 0, false, 0
	if end == o.released && len(o.holds) == 0 {
		return
	}
	if len(o.holds) == 0 && wait <= durable && !o.void(wait) {
		o.released = end
		return
	}
	o.holds = append(o.holds, hold{end, wait, answers})
	o.Release(durable)
}

// Release releases the output up to a durable ticket.
func (o *Stream) Release(durable engine.Ticket) {
	n := 0
	void := false
	for n < len(o.holds) && o.holds[n].ticket <= durable {
		if void = o.void(o.holds[n].ticket); void {
			break
		}
		o.released = o.holds[n].end
		n++
	}
	if o.holds = o.holds[:copy(o.holds, o.holds[n:])]; void {
		o.Fail(o.mem.VoidText)
	}
}

// void reports whether a commit was taken back.
func (o *Stream) void(t engine.Ticket) bool { return t != 0 && o.mem.Void != nil && o.mem.Void(t) }

// Fail replaces every held reply by an error, and drops held messages.
func (o *Stream) Fail(text string) {
	answers := 0
	for _, h := range o.holds {
		answers += h.answers
	}
	o.holds = o.holds[:0]
	o.takeBack()
	for range answers {
		o.Error(text)
	}
	o.released = o.End()
}

// takeBack removes everything that is not released.
func (o *Stream) takeBack() {
	if o.released >= o.start {
		o.Buf = o.Buf[:o.released-o.start]
		return
	}
	o.before.truncate(int(o.released-o.sent), o.mem)
	o.Buf, o.start = o.Buf[:0], o.released
}

// MessagesOnly reports whether the held output has messages only, and no replies.
func (o *Stream) MessagesOnly() bool {
	for i := range o.holds {
		if o.holds[i].answers > 0 {
			return false
		}
	}
	return true
}

// Next returns all released bytes if they are in the tail alone, else nil: then Views has
// them.
func (o *Stream) Next() []byte {
	if o.before.size > 0 {
		return nil
	}
	return o.Buf[o.sent-o.start : o.released-o.start]
}

// Views appends slices of the released bytes to dst, from the oldest byte on: no more than
// n bytes, in no more slices than dst has room for.
func (o *Stream) Views(dst [][]byte, n int) [][]byte {
	n = int(min(int64(n), o.released-o.sent))
	dst = o.before.views(dst, n)
	if n -= o.before.size; n > 0 && len(dst) < cap(dst) {
		at := max(0, o.sent-o.start)
		dst = append(dst, o.Buf[at:at+int64(n)])
	}
	return dst
}

// Advance notes that the socket has taken n bytes more.
func (o *Stream) Advance(n int) {
	o.sent += int64(n)
	if o.before.size > 0 {
		o.before.advance(min(n, o.before.size), o.mem)
	}
}

// Emptied is called when everything was sent: it returns the buffer to the pool.
func (o *Stream) Emptied() {
	o.lastSize = len(o.Buf)
	o.start = o.sent
	o.mem.Put(o.Buf)
	o.Buf, o.released = nil, o.sent
}

// Drop drops unsent output, when the connection is closed.
func (o *Stream) Drop() {
	o.before.clear(o.mem)
	o.mem.Put(o.Buf)
	o.Buf = nil
	o.start = o.sent
}

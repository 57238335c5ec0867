package output

import (
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// Queue has the messages pushed to a client that are not in its stream yet: those of channels
// and of MONITOR, and invalidations of keys.
//
// A sender may be on any goroutine and hold locks: it must not wait for the session. So it
// appends the message to the queue, under a lock that is never held for long, and the
// session's carrier moves the queue into the stream (Stream.Take).
//
// Invariants:
//  1. Messages reach the client in the order in which they were pushed.
//  2. Messages enter the stream between two replies, never inside one. While a worker
//     runs the client's command the queue is muted, so messages that the command
//     publishes come behind its reply.
//  3. No byte of a message is sent before its ticket is durable.
//  4. A client that does not read is closed by the limit of its class. The queue counts
//     towards that limit.
type Queue struct {
	owner Owner
	mem   *Memory
	some  atomic.Bool // the queue is not empty; read without mu

	mu     sync.Mutex
	before pieces // the messages before buf
	buf    []byte
	ticket engine.Ticket // must be durable before any of the queue is sent
	resp3  bool          // the client's protocol
	told   bool          // Pushed was called since the last Take
	muted  bool          // Take moves nothing
	shut   bool          // the queue overflowed, or the client has gone
	// charged is the queue's part of the account, and borrowed the size of the shared
	// messages in it.
	charged, borrowed atomic.Int64
}

// Owner is the client of a queue. Its methods may be called from any goroutine, and must
// not wait.
type Owner interface {
	// Pushed is called when the queue is no longer empty: the owner is to take it soon.
	Pushed()
	// Overflowed is called once, when the queue has exceeded its limit and drops further
	// messages: the client is to be closed.
	Overflowed()
	// QueueLimit returns how many bytes the queue may hold; 0 is no limit.
	QueueLimit() uint64
}

// smallPush is the largest message for which a queue gets no buffer from the pool: one
// message may go to a hundred thousand clients at once.
const smallPush = 2 << 10

// Init sets the owner and the shared memory.
func (q *Queue) Init(owner Owner, mem *Memory) { q.owner, q.mem = owner, mem }

// Push appends a copy of a message.
func (q *Queue) Push(msg []byte, ticket engine.Ticket) {
	q.mu.Lock()
	q.append(msg, nil, ticket)
}

// PushRESP3 is Push for a message that only exists in RESP3: other clients do not get it.
func (q *Queue) PushRESP3(msg []byte, ticket engine.Ticket) {
	q.mu.Lock()
	if !q.resp3 {
		msg = nil
	}
	q.append(msg, nil, ticket)
}

// PushEncoded is Push for a message that looks different in RESP2 and in RESP3.
func (q *Queue) PushEncoded(e *Encoder, ticket engine.Ticket) {
	q.mu.Lock()
	q.append(e.form(q.resp3), nil, ticket)
}

// PushShared is PushEncoded for a message to several clients: unless it is very small its
// bytes are not copied. Encoder.Sent must be called after the last PushShared.
func (q *Queue) PushShared(e *Encoder, ticket engine.Ticket) {
	q.mu.Lock()
	resp3 := q.resp3
	q.append(e.form(resp3), e.share(resp3, q.mem.Account), ticket)
}

// append appends msg, or a reference to shared, which has the same bytes. mu is held, and
// append unlocks it.
func (q *Queue) append(msg []byte, shared *message, ticket engine.Ticket) {
	if len(msg) == 0 || q.shut {
		q.mu.Unlock()
		return
	}
	if len(q.buf) > 0 && (shared != nil || len(q.buf)+len(msg) > block) {
		q.before.add(q.buf, 0)
		q.buf = nil
	}
	if shared != nil {
		q.before.share(shared)
	} else {
		if q.buf == nil && len(msg) > smallPush {
			q.buf = q.mem.Get(len(msg))
		}
		q.buf = append(q.buf, msg...)
	}
	q.charge()
	q.ticket = max(q.ticket, ticket)
	if limit := q.owner.QueueLimit(); limit > 0 && uint64(q.size()) > limit {
		// The carrier does not empty the queue: the client's socket is full.
		q.clear()
		q.shut = true
		q.charge()
	}
	shut, tell := q.shut, !q.told
	q.told = true
	q.some.Store(true)
	q.mu.Unlock()
	switch {
	case shut:
		q.owner.Overflowed()
	case tell:
		q.owner.Pushed()
	}
}

// Any reports whether the queue has messages. It takes no lock.
func (q *Queue) Any() bool { return q.some.Load() }

// Mute keeps messages in the queue, until it is called with false.
func (q *Queue) Mute(muted bool) {
	q.mu.Lock()
	q.muted = muted
	q.mu.Unlock()
}

// SetRESP3 sets the protocol of later messages.
func (q *Queue) SetRESP3(on bool) {
	q.mu.Lock()
	q.resp3 = on
	q.mu.Unlock()
}

// Close drops all messages, and those that will be pushed.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.clear()
	q.shut = true
	q.charge()
}

// Charged returns the queue's part of the account. It takes no lock.
func (q *Queue) Charged() int64 { return q.charged.Load() }

// Memory returns how many bytes the queue holds, shared messages included. It takes no lock.
func (q *Queue) Memory() int64 { return q.charged.Load() + q.borrowed.Load() }

// size returns how many bytes are in the queue. mu is held.
func (q *Queue) size() int { return q.before.size + len(q.buf) }

// clear empties the queue. mu is held.
func (q *Queue) clear() {
	q.before.clear(q.mem)
	q.mem.Put(q.buf)
	q.buf = nil
}

// charge updates the queue's charge. mu is held. Small queues are not charged: the carrier
// is about to move them.
func (q *Queue) charge() {
	q.borrowed.Store(int64(q.before.borrowed))
	n := int64(cap(q.buf) + q.before.memory())
	if n <= SmallBuffer {
		n = 0
	}
	if old := q.charged.Load(); n != old {
		q.charged.Store(n)
		if q.mem.Account.Add(n - old); n > old && q.mem.Account.Over() > 0 {
			q.mem.Over()
		}
	}
}

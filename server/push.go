package server

import (
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// Messages that come to a client unasked: those of channels and of MONITOR, and
// that a key it has read was changed.
//
// Whoever has a message may be on any goroutine and holds locks: it must not wait
// for the session's mu. So it appends the message to a queue, under a lock that is
// never held for long, and the session's carrier moves the queue into the output.
//
// Invariants:
//  1. Messages reach the client in the order in which they were pushed.
//  2. They enter the output between two replies, never inside one. While somebody
//     else than the carrier runs the client's command the queue is muted, so what the
//     command publishes comes behind its reply.
//  3. A message that was pushed before a command came stands before its reply: the
//     queue is moved before commands are run. So who has the reply of PUBLISH knows
//     that no subscriber hears anything of a later moment first, as with Redis.
//  4. No byte of a message is sent before its ticket is durable.
//  5. A client that does not read is closed by the limit of its class, and what is
//     still in the queue counts.
//  6. The messages of a commit are sent before its replies, as far as their clients'
//     sockets take them: on one loop always (endTurn), to another loop if the client is
//     idle and they are few (pushElsewhere).

// pushQueue is what was pushed to a session and is not in its output yet.
type pushQueue struct {
	some atomic.Bool // there is something: to be asked without the lock

	mu     sync.Mutex
	buf    []byte
	ticket engine.Ticket // that must be durable before any of it is sent
	resp3  bool          // the client's protocol
	told   bool          // the carrier was
	muted  bool          // nothing is moved: see mute
	shut   bool          // it was too much, and the client is being closed
	// charged is what budget.Clients has of the queue; see held.go.
	charged atomic.Int64
}

// smallPush is up to how many bytes a queue gets no buffer from the pool: one message
// may go to a hundred thousand clients at once.
const smallPush = 2 << 10

// push sends a message to the client, whose bytes are copied. It may be called
// from any goroutine.
func (s *session) push(msg []byte, ticket engine.Ticket) {
	s.pushes.mu.Lock()
	s.enqueuePush(msg, ticket)
}

// pushEncoded is push for a message that looks different in RESP2 and in RESP3.
// Where there is no form for the client's protocol it gets nothing.
func (s *session) pushEncoded(e *encoder, ticket engine.Ticket) {
	s.pushes.mu.Lock()
	s.enqueuePush(e.form(s.pushes.resp3), ticket)
}

// enqueuePush appends to the queue, whose lock is held and is given back.
func (s *session) enqueuePush(msg []byte, ticket engine.Ticket) {
	q := &s.pushes
	if len(msg) == 0 || q.shut {
		q.mu.Unlock()
		return
	}
	if q.buf == nil && len(msg) > smallPush {
		q.buf = s.srv.bufs.get(len(msg))
	}
	q.buf = append(q.buf, msg...)
	q.charge(s.srv)
	q.ticket = max(q.ticket, ticket)
	if hard := s.outputLimit().Hard; hard > 0 && uint64(len(q.buf)) > hard {
		// The carrier does not get around to the queue: the client's socket is full.
		q.buf, q.shut = nil, true
		q.charge(s.srv)
	}
	shut, tell := q.shut, !q.told
	q.told = true
	q.some.Store(true)
	q.mu.Unlock()
	switch {
	case shut:
		s.srv.stats.outputLimit.Add(1)
		s.srv.clientLog.Warn("closing a client: it does not read its messages", "client", s.id, "addr", s.addr)
		go s.car.shut() // it may wait, and this may be the carrier
	case tell:
		s.car.post(nil)
	}
}

// movePushed moves the queue into the output. It runs on the carrier, which holds
// mu.
func (s *session) movePushed() {
	q := &s.pushes
	q.mu.Lock()
	q.told = false
	if q.muted {
		q.mu.Unlock()
		return // it is moved when the session goes on
	}
	buf, ticket := q.buf, q.ticket
	q.buf, q.ticket = nil, 0
	q.charge(s.srv)
	q.some.Store(false)
	q.mu.Unlock()
	if len(buf) == 0 {
		return
	}
	s.wait = max(s.wait, ticket)
	if len(s.out.Buf) == 0 { // the common case: nothing but messages
		buf, s.out.Buf = s.out.Buf, buf
	} else {
		s.out.Buf = append(s.out.Buf, buf...)
	}
	s.srv.bufs.put(buf)
}

// hear moves what was pushed, if there is anything.
func (s *session) hear() {
	if s.pushes.some.Load() {
		s.movePushed()
	}
}

// mute keeps what is pushed in the queue, until unmute. It may be called from any
// goroutine.
func (s *session) mute() {
	s.pushes.mu.Lock()
	s.pushes.muted = true
	s.pushes.mu.Unlock()
}

// unmute moves what was pushed since mute. It runs on the carrier, which holds mu.
func (s *session) unmute() {
	s.pushes.mu.Lock()
	s.pushes.muted = false
	s.pushes.mu.Unlock()
	s.hear()
}

// setProto changes the client's protocol. What was pushed before is in the old one.
func (s *session) setProto(version int) {
	s.hear()
	s.out.Proto = version
	s.pushes.mu.Lock()
	s.pushes.resp3 = version == 3
	s.pushes.mu.Unlock()
}

// echo has a client that listens to something hear at once of what its own command
// has done, right behind the reply, as with Redis. Others hear of it when the turn
// is committed.
func (s *session) echo() {
	if s.subs == nil && (s.tracker == nil || !s.tracker.on || s.tracker.bcast) {
		return
	}
	s.work.batch.Tell(s.call.Guard)
	s.hear()
}

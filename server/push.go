package server

import "redoubt/server/output"

// Push messages to a client. They are in the session's queue (package output) until its
// carrier moves them into the output, before commands are run and when Pushed posts it.
//
// Invariants besides those of the queue:
//  1. A message that was pushed before a command came stands before its reply: the
//     queue is moved before commands are run. So once a client has the reply of PUBLISH,
//     no subscriber gets a later message first, as with Redis.
//  2. The messages of a commit are sent before its replies, as far as their clients'
//     sockets take them: on one loop always (endTurn), to another loop if the client is
//     idle and they are few (pushElsewhere).

// initOutputs initializes the memory that the outputs of all sessions share.
func (srv *Server) initOutputs() {
	srv.outputs.Account, srv.outputs.Over = &srv.budget.Clients, srv.requestEviction
	srv.pubsub.Init(&srv.outputs)
}

// initOutput initializes the session's output and queue.
func (s *session) initOutput() {
	s.out.Init(&s.srv.outputs)
	s.pushQueue.Init(s, &s.srv.outputs)
}

// Pushed implements output.Owner.
func (s *session) Pushed() { s.car.post(nil) }

// Overflowed implements output.Owner.
func (s *session) Overflowed() {
	s.srv.obs.Stats.OutputLimit.Add(1)
	s.srv.clientLog.Warn("closing a client: it does not read its messages", "client", s.id, "addr", s.addr)
	go s.car.shut() // shut waits, and this may be the carrier
}

// QueueLimit implements output.Owner.
func (s *session) QueueLimit() uint64 { return s.outputLimit().Hard }

// movePushed moves the queue into the output. It runs on the carrier, which holds
// mu.
func (s *session) movePushed() { s.out.Take(&s.pushQueue) }

// takePushed moves pushed messages into the output, if there are any.
func (s *session) takePushed() {
	if s.pushQueue.Any() {
		s.movePushed()
	}
}

// mute keeps pushed messages in the queue until unmute. It may be called from any
// goroutine.
func (s *session) mute() { s.pushQueue.Mute(true) }

// unmute moves the messages pushed since mute. It runs on the carrier, which holds mu.
func (s *session) unmute() {
	s.pushQueue.Mute(false)
	s.takePushed()
}

// setProto changes the client's protocol. Messages pushed before keep the old one.
func (s *session) setProto(version int) {
	s.takePushed()
	s.out.Proto = version
	s.pushQueue.SetRESP3(version == 3)
}

// echo delivers the messages that a client's own command has caused to that client right
// behind the reply, as with Redis. Other clients get theirs when the turn is committed.
func (s *session) echo() {
	if s.subs == nil && !s.tracker.HearsReads() {
		return
	}
	s.work.batch.CommitIfObserved(s.call.Guard)
	s.takePushed()
}

var _ output.Owner = (*session)(nil)

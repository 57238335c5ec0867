package server

import (
	"redoubt/command"
	"redoubt/engine"
	"redoubt/server/output"
	"redoubt/wire"
)

// settle ends the session's part of a turn whose commit got the ticket: its
// replies are released, or held until the commits they depend on are durable.
func (s *session) settle(ticket, durable engine.Ticket) {
	s.out.Settle(ticket, durable)
	s.failed()
}

// release releases the replies up to a durable ticket.
func (s *session) release(durable engine.Ticket) {
	s.out.Release(durable)
	s.failed()
}

// failed replaces held replies by an error if the store has failed. It will never call
// their commits durable, and whether those writes survive is unknown.
func (s *session) failed() {
	if s.out.Held() {
		if err := s.srv.eng.Err(); err != nil {
			s.out.Fail(command.Text(err))
		}
	}
}

// advance notes that the socket has taken n bytes more.
func (s *session) advance(n int) {
	s.netOut += int64(n)
	s.out.Advance(n)
}

// discard returns a writer for a reply that the client does not want.
func (s *session) discard() *wire.Writer {
	if cap(s.scratch.Buf) > output.KeepBuffer {
		s.scratch.Buf = nil
	}
	s.scratch.Buf, s.scratch.Proto = s.scratch.Buf[:0], s.out.Proto
	return &s.scratch
}

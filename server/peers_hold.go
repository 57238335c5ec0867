package server

import (
	"context"
	"strings"
	"time"

	"redoubt/bus"
	"redoubt/command"
	"redoubt/keyspace"
)

// Commands that are answered only when the other front ends know what the client
// wants to hear.

// holdPeers is how long a command waits for other front ends at most. One that does
// not answer for so long is about to be taken for dead.
const holdPeers = time.Second

// wants is what a client wants to hear after a command.
func (srv *Server) wants(cmd *command.Command, args [][]byte) (i bus.Interest) {
	switch cmd.FullName {
	case "subscribe", "psubscribe":
		i.Messages, i.Events = true, keyspace.Class(srv.notifyClasses.Load())
	case "ssubscribe":
		i.Shard = true
	case "client|tracking":
		i.Keys = strings.EqualFold(string(args[2]), "on")
	}
	return i
}

// holdForPeers has the session wait until the others know what it wants to hear by a
// command, and says whether it does. The command is then to be presented again. mu is
// held.
func (s *session) holdForPeers(cmd *command.Command, args [][]byte) bool {
	p := s.srv.peers.Load()
	if p == nil || s.multi != nil {
		return false
	}
	if s.announced { // it has waited
		s.announced = false
		return false
	}
	want, r := s.srv.wants(cmd, args), p.raised.Load()
	if want.Empty() || want.Without(r.Interest).Empty() && p.follower.Acked(r.number) {
		return false
	}
	number := p.ask(want)
	if p.follower.Acked(number) { // there is nobody else
		return false
	}
	s.waiting, s.announced = true, true
	s.car.interest()
	s.srv.workers.Add(1)
	go func() {
		defer s.srv.workers.Done()
		ctx, cancel := context.WithTimeout(context.Background(), holdPeers)
		defer cancel()
		if err := p.follower.Wait(ctx, number); err != nil {
			s.srv.clientLog.Warn("other front ends may not know yet what a client wants to hear", "client", s.id, "err", err)
		}
		s.car.post(s.resume)
	}()
	return true
}

package server

import (
	"redoubt/engine"
	"redoubt/keyspace"
)

// publishEffects passes the effects of a committed execution to the other front ends and to this
// server's clients, in the order in which they were noted.
func (srv *Server) publishEffects(fx *keyspace.Effects, ticket engine.Ticket) {
	if p := srv.peers.Load(); p != nil {
		p.Tell(fx)
	}
	srv.deliver(fx, ticket)
}

// deliver passes effects to the clients of this server: invalidations, messages, events.
func (srv *Server) deliver(fx *keyspace.Effects, ticket engine.Ticket) {
	srv.tracking.Changed(fx, ticket)
	srv.pubsub.Deliver(fx, ticket)
	if len(fx.Events) > 0 {
		srv.web.Heard(fx.Events)
	}
}

// applyNotify has the executor note the events that notify-keyspace-events names, that
// other front ends want, or that the HTTP side wants.
func (srv *Server) applyNotify() {
	srv.set.mu.Lock()
	defer srv.set.mu.Unlock()
	classes := srv.pubsub.SetEvents(srv.cfg.Str("notify-keyspace-events"))
	if srv.ready.Load() {
		if p := srv.peers.Load(); p != nil {
			classes |= p.PeerClasses()
		}
		srv.exec.Listening(classes | srv.webClasses())
		srv.raiseInterest()
	}
}

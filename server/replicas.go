package server

import (
	"context"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/feed"
	"redoubt/server/replication"
	"redoubt/version"
)

// The server as package replication sees it.

// feed returns the stream that commits append to, and the replicas that WAIT sees, nil if the
// store is shared: other processes commit to such a store, too.
func (srv *Server) feed() (*feed.Stream, command.Replicas) {
	s := srv.source.Stream
	s.Durable, s.Memory = srv.eng.Durable, &srv.budget.Clients
	srv.source.Init(replication.SourceOptions{
		Config: srv.cfg, Log: srv.log, Now: srv.clock, Engine: srv.eng.Capabilities(), RedisVersion: version.Redis,
		Freeze: srv.freeze, Await: srv.waitDurable,
	})
	if srv.eng.Capabilities().Shared {
		return nil, nil
	}
	return s, s
}

// freeze takes a snapshot while no commit is under way.
func (srv *Server) freeze(at func()) (snap engine.Snapshot, ticket engine.Ticket, err error) {
	srv.exec.Exclusively(func() {
		at()
		ticket = srv.eng.Committed()
		snap, err = srv.eng.Snapshot()
	})
	return snap, ticket, err
}

// drainTime bounds how long a shutdown waits for replicas to be handed the last of the stream.
const drainTime = time.Second

// stopSource hands replicas what is left of the stream and ends them.
func (srv *Server) stopSource(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	srv.source.Drain(ctx)
	srv.source.Stop()
}

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"redoubt/bus"
	"redoubt/command"
	"redoubt/fleet"
	"redoubt/keyspace"
	"redoubt/server/cluster"
	"redoubt/server/peers"
	"redoubt/version"
)

// A server that shares its store with others. Package peers joins it to them and receives
// their effects, package cluster shows all of them to clients.

// errNoStore is returned when peers are used before the store is open.
var errNoStore = errors.New("there is no store yet")

// SetFleet sets the front ends that share the store, so that clients see a cluster. It may
// be called at any time; nil ends the cluster.
func (srv *Server) SetFleet(f cluster.Fleet) { srv.cluster.SetFleet(f) }

// portOf returns the port of the first listener of a kind, 0 if there is none.
func (srv *Server) portOf(k kind) int {
	for _, l := range srv.lns.all() {
		if l.kind == k {
			return peers.PortOf(l.Addr())
		}
	}
	return 0
}

// relocate announces this front end's addresses and ports after their directives changed.
func (srv *Server) relocate() error {
	if !srv.cluster.Enabled() {
		return nil
	}
	var now fleet.Member
	if err := srv.member.Locate(&now, srv.eng); err != nil {
		return err
	}
	srv.cluster.Announce(func(m *fleet.Member) {
		m.Host, m.Hostname, m.Port, m.TLSPort, m.BusPort = now.Host, now.Hostname, now.Port, now.TLSPort, now.BusPort
	})
	return nil
}

// meet connects the server with the other front ends, and waits until none of them
// misses what happens here.
func (srv *Server) meet(ctx context.Context) error {
	f := srv.member.Fleet()
	if f == nil {
		return nil
	}
	f.SetWork(srv.upkeep.Deferred)
	if srv.cfg.Bool("cluster-enabled") {
		srv.SetFleet(f)
	}
	if err := srv.StartPeers(srv.member.Options()); err != nil {
		return fmt.Errorf("follow other front ends: %w", err)
	}
	srv.member.Meet(ctx, srv.peers.Load())
	return nil
}

// StartPeers connects to the other front ends of the store, which must be open.
// It is to be called once, before clients are accepted; see PeersReady.
func (srv *Server) StartPeers(o peers.Options) error {
	switch {
	case !srv.ready.Load():
		return errNoStore
	case srv.peers.Load() != nil:
		return errors.New("other front ends are followed already")
	}
	s := peers.Server{
		Executor: srv.exec, PubSub: &srv.pubsub, Tracking: &srv.tracking, Log: srv.log,
		Deliver:    func(fx *keyspace.Effects) { srv.deliver(fx, 0) },
		NoteEvents: srv.applyNotify, Missed: srv.web.Missed,
		MoreEvents: func() keyspace.Class {
			if srv.web.Hooked() {
				return keyspace.ChannelEv
			}
			return 0
		},
		SendBuffer: int(srv.cfg.Int("cluster-link-sendbuf-limit")),
	}
	if srv.cfg.Bool("tls-cluster") {
		s.TLS = func() *tls.Config { return srv.tls.config.Load() }
	}
	x, err := peers.New(o, s)
	if err != nil {
		return err
	}
	srv.peers.Store(x)
	x.Start()
	return nil
}

// StopPeers ends the connections to and from other front ends. Those then check for
// themselves what they may have missed.
func (srv *Server) StopPeers() {
	if x := srv.peers.Swap(nil); x != nil {
		x.Stop()
	}
}

// PeersReady waits until all other front ends that live follow this one, and this one
// follows them, or until ctx ends: see peers.Exchange.
func (srv *Server) PeersReady(ctx context.Context) error {
	x := srv.peers.Load()
	if x == nil {
		return errNoStore
	}
	return x.Ready(ctx)
}

// becomeSolo makes a server with a store of its own a cluster of one node, if cluster-enabled.
func (srv *Server) becomeSolo() {
	if srv.cluster.Enabled() || !srv.cfg.Bool("cluster-enabled") || srv.eng.Capabilities().Shared || srv.raft.store != nil {
		return
	}
	self := fleet.Member{ID: fleet.NewID(), Version: version.Redoubt}
	if err := srv.member.Locate(&self, srv.eng); err != nil {
		srv.log.Error("cluster mode is not possible", "err", err)
		return
	}
	srv.cluster.SetSolo(self)
	srv.log.Info("cluster mode: this server is a cluster of one node, with all slots", "id", self.ID.String())
}

// raiseInterest announces to the other front ends what clients here want to hear, after that
// has changed. It does not wait.
func (srv *Server) raiseInterest() {
	if x := srv.peers.Load(); x != nil {
		x.RaiseInterest()
	}
}

// receivers returns how many clients here a message would reach, and whether it would
// reach any here or at another front end. As in a Redis cluster PUBLISH replies with n.
func (srv *Server) receivers(channel []byte, shard bool) (n int, heard bool) {
	n = srv.pubsub.Receivers(channel, shard)
	if x := srv.peers.Load(); x != nil && n == 0 {
		i := x.PeerInterest()
		return 0, !shard && i.Messages || shard && i.Shard
	}
	return n, n > 0
}

// PeerLinks are the connections to and from other front ends.
func (srv *Server) PeerLinks() []cluster.Link {
	if x := srv.peers.Load(); x != nil {
		return x.Links()
	}
	return nil
}

// PeerTraffic implements cluster.Source.
func (v adminView) PeerTraffic() (sent, received, dropped int64) {
	if x := v.srv.peers.Load(); x != nil {
		return x.Traffic()
	}
	return 0, 0, 0
}

// PeerLinks implements cluster.Source.
func (v adminView) PeerLinks() []cluster.Link { return v.srv.PeerLinks() }

// holdPeers is how long a command waits for other front ends at most. A front end that
// does not answer for so long is about to be declared dead.
const holdPeers = time.Second

// wants returns what a client is to hear after a command that subscribes or tracks.
func (srv *Server) wants(cmd *command.Command, args [][]byte) (i bus.Interest) {
	if ch := &cmd.Channels; ch.Flags&command.Subscribe != 0 {
		if i.Shard = ch.Flags&command.ShardChannel != 0; !i.Shard {
			i.Messages, i.Events = true, srv.pubsub.Classes()
		}
	}
	if cmd.Flags&command.Tracking != 0 {
		i.Keys = strings.EqualFold(string(args[2]), "on")
	}
	return i
}

// holdForPeers suspends the session until the other front ends know what the command makes
// it hear, and reports whether it did. The command must then be dispatched again. mu is
// held.
func (s *session) holdForPeers(cmd *command.Command, args [][]byte) bool {
	p := s.srv.peers.Load()
	if p == nil || s.multi != nil {
		return false
	}
	if s.cameFrom == forPeers { // the session has waited
		s.cameFrom = running
		return false
	}
	wait := p.Announce(s.srv.wants(cmd, args))
	if wait == nil {
		return false
	}
	s.handOver(forPeers, func() (done func()) {
		ctx, cancel := context.WithTimeout(context.Background(), holdPeers)
		defer cancel()
		if err := wait(ctx); err != nil {
			s.srv.clientLog.Warn("other front ends may not know yet what a client wants to hear", "client", s.id, "err", err)
		}
		return func() {}
	})
	return true
}

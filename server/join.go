package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"redoubt/bus"
	"redoubt/engine"
	"redoubt/fleet"
)

// How a front end of a shared store begins and ends: it opens its bus, says in the
// store that it lives, opens the keyspace, follows the other front ends, and lets
// clients in when all that live follow it.

// membership is this server's place among the front ends of its store.
type membership struct {
	fleet *fleet.Fleet
	bus   net.Listener
}

// join makes the server a member. It does nothing for a store of its own.
func (srv *Server) join(ctx context.Context, eng engine.Engine) error {
	shared, ok := eng.(engine.Shared)
	if !ok || !eng.Capabilities().Shared {
		return nil
	}
	self, err := srv.describe(shared)
	if err != nil {
		return fmt.Errorf("join the front ends: %w", err)
	}
	f, err := fleet.Join(ctx, fleet.Options{Engine: shared, Self: self, Beat: srv.beat, Lease: 4 * srv.beat, Log: srv.log})
	if err != nil {
		return errors.Join(err, srv.member.bus.Close())
	}
	srv.member.fleet = f
	return nil
}

// describe opens the bus and says what others must know to reach this front end.
func (srv *Server) describe(eng engine.Shared) (self fleet.Member, err error) {
	host := ""
	if bind := strings.Fields(srv.cfg.Str("bind")); len(bind) > 0 {
		if host = strings.TrimPrefix(bind[0], "-"); host == "*" || host == "::*" {
			host = ""
		}
	}
	if srv.member.bus, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(srv.busPort()))); err != nil {
		return self, err
	}
	self.Version = Version
	self.Away = true // until meet
	if err := srv.locate(&self, eng); err != nil {
		return self, errors.Join(err, srv.member.bus.Close())
	}
	return self, nil
}

// busPort is the one that the configuration gives the bus, 0 if any will do.
func (srv *Server) busPort() int {
	n := int(srv.cfg.Int("cluster-port"))
	if own := int(srv.cfg.Int("port")); n == 0 && own != 0 && own+10000 < 1<<16 {
		n = own + 10000
	}
	return n
}

// locate fills in where this front end is reached.
func (srv *Server) locate(self *fleet.Member, eng engine.Engine) (err error) {
	store := ""
	if a, ok := eng.(interface{ Address() string }); ok {
		store = a.Address()
	}
	self.Hostname = srv.cfg.Str("cluster-announce-hostname")
	announced := func(directive string, own int) int {
		if n := srv.cfg.Int(directive); n != 0 {
			return int(n)
		}
		return own
	}
	self.Port = announced("cluster-announce-port", srv.portOf(overTCP))
	self.TLSPort = announced("cluster-announce-tls-port", srv.portOf(overTLS))
	own := srv.busPort()
	if srv.member.bus != nil {
		own = port(srv.member.bus.Addr())
	}
	self.BusPort = announced("cluster-announce-bus-port", own)
	if !eng.Capabilities().Shared {
		self.Host = srv.cfg.Str("cluster-announce-ip") // else where each client has found it: see reached
		return nil
	}
	self.Host, err = fleet.Address(srv.cfg.Str("cluster-announce-ip"), strings.Fields(srv.cfg.Str("bind")), store)
	return err
}

// relocate tells the others when one of the directives about that has changed.
func (srv *Server) relocate() error {
	f := srv.fleet.Load()
	if f == nil {
		return nil
	}
	member, ok := (*f).(interface{ Announce(func(*fleet.Member)) })
	if !ok {
		return nil
	}
	var now fleet.Member
	if err := srv.locate(&now, srv.eng); err != nil {
		return err
	}
	member.Announce(func(m *fleet.Member) {
		m.Host, m.Hostname, m.Port, m.TLSPort, m.BusPort = now.Host, now.Hostname, now.Port, now.TLSPort, now.BusPort
	})
	return nil
}

// portOf is the port for clients of a kind, 0 if there is none.
func (srv *Server) portOf(k kind) int {
	for _, l := range srv.lns.all() {
		if l.kind == k {
			return port(l.Addr())
		}
	}
	return 0
}

func port(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// meet connects the server with the other front ends, and waits until none of them
// misses what happens here. One that does not answer within its lease is dead.
func (srv *Server) meet(ctx context.Context) error {
	f := srv.member.fleet
	if f == nil {
		return nil
	}
	srv.exec.SetLeads(f.Leader)
	srv.exec.SetNews(f.News)
	f.SetWork(srv.exec.Deferred)
	var deaths uint64
	srv.exec.SetRecountDue(func() bool { // who was killed may not have stored what it counted
		was := deaths
		deaths = f.Deaths()
		return deaths != was
	})
	if srv.cfg.Bool("cluster-enabled") {
		srv.SetFleet(f)
	}
	err := srv.StartPeers(PeerOptions{Self: f.Self().ID.String(), Secret: f.Secret(), Source: peerSource{f}, Listener: srv.member.bus})
	if err != nil {
		return fmt.Errorf("follow other front ends: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.Lease()+2*time.Second)
	defer cancel()
	if err := srv.PeersReady(ctx); err != nil {
		srv.log.Warn("not all other front ends follow this one; what they miss they look for themselves", "err", err)
	}
	f.Announce(func(m *fleet.Member) { m.Away = false }) // clients may come
	return nil
}

// depart ends the membership.
func (srv *Server) depart(ctx context.Context) {
	if srv.member.fleet == nil {
		return
	}
	if err := srv.member.fleet.Leave(ctx); err != nil {
		srv.log.Warn("the others will notice later that this front end has left", "err", err)
	}
}

// peerSource are the other members of a fleet.
type peerSource struct{ *fleet.Fleet }

func (s peerSource) Peers() (list []bus.Peer) {
	self := s.Self().ID
	for _, m := range s.Members() {
		if m.ID != self {
			list = append(list, bus.Peer{ID: m.ID.String(), Addr: m.Bus()})
		}
	}
	return list
}

// Came has the rows of members read at once if one has connected that is not known yet: it
// waits to be followed before it lets clients in.
func (s peerSource) Came(id string) {
	known := slices.ContainsFunc(s.Peers(), func(p bus.Peer) bool { return p.ID == id })
	if !known {
		s.Look()
	}
}

func (s peerSource) Reached(id string) {
	if id, ok := memberID(id); ok {
		s.Fleet.Reached(id)
	}
}

func (s peerSource) Refused(id string) {
	if id, ok := memberID(id); ok {
		s.Fleet.Refused(id)
	}
}

package server

import (
	"net"
	"slices"
	"sync/atomic"

	"redoubt/fleet"
)

// A server with a store of its own and cluster-enabled: a cluster of one node that has
// all slots, so that clients which know clusters only can be used. As with front ends
// of a shared store nothing else is different: all databases are there, and a command
// may have keys of any slots.

// solo is the Fleet of such a server.
type solo struct {
	division atomic.Pointer[fleet.Division]
}

func (s *solo) Division() *fleet.Division { return s.division.Load() }

// Fenced is never so: there are no others.
func (s *solo) Fenced() bool { return false }

// Announce changes what the node says of itself.
func (s *solo) Announce(change func(*fleet.Member)) {
	d := *s.division.Load()
	d.Members = slices.Clone(d.Members)
	change(&d.Members[0])
	d.Epoch++
	s.division.Store(&d)
}

// beSolo makes the server such a node, if it is to be one.
func (srv *Server) beSolo() {
	if srv.fleet.Load() != nil || !srv.cfg.Bool("cluster-enabled") || srv.eng.Capabilities().Shared {
		return
	}
	self := fleet.Member{ID: fleet.NewID(), Version: Version}
	if err := srv.locate(&self, srv.eng); err != nil {
		srv.log.Error("cluster mode is not possible", "err", err)
		return
	}
	s := new(solo)
	s.division.Store(&fleet.Division{Members: []fleet.Member{self}, Epoch: 1})
	srv.SetFleet(s)
	srv.log.Info("cluster mode: this server is a cluster of one node, with all slots", "id", self.ID.String())
}

// reached fills in where this node is, if it does not know: where the client has found
// it.
func (v *clusterView) reached(s *session) {
	if v.self().Host != "" || s.unix {
		return
	}
	host, _, err := net.SplitHostPort(s.laddr)
	if err != nil {
		return
	}
	d := *v.Division
	d.Members = slices.Clone(d.Members)
	d.Members[d.Self].Host = host
	v.Division = &d
}

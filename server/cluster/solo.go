package cluster

import (
	"slices"
	"sync/atomic"

	"redoubt/fleet"
)

// A server with a store of its own and cluster-enabled is a cluster of one node that has
// all slots, for clients that only support clusters. As with front ends of a shared store
// nothing else changes: all databases are available, and a command may have keys of any
// slots.

// solo is the Fleet of a server with a store of its own.
type solo struct {
	division atomic.Pointer[fleet.Division]
}

func (s *solo) Division() *fleet.Division { return s.division.Load() }

// Fenced returns false: there are no others.
func (s *solo) Fenced() bool { return false }

// Announce changes the node's own entry.
func (s *solo) Announce(change func(*fleet.Member)) {
	d := *s.division.Load()
	d.Members = slices.Clone(d.Members)
	change(&d.Members[0])
	d.Epoch++
	s.division.Store(&d)
}

// SetSolo makes this server a cluster with self as the only member.
func (c *Cluster) SetSolo(self fleet.Member) {
	s := new(solo)
	s.division.Store(&fleet.Division{Members: []fleet.Member{self}, Epoch: 1})
	c.SetFleet(s)
}

// reached sets the host of this node, if it is unknown, to the one that the client has
// connected to.
func (v *view) reached(host string) {
	if v.self().Host != "" || host == "" {
		return
	}
	d := *v.Division
	d.Members = slices.Clone(d.Members)
	d.Members[d.Self].Host = host
	v.Division = &d
}

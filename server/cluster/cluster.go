// Package cluster shows the front ends of a shared store to clients as a Redis Cluster, and
// implements CLUSTER.
//
// The package promises: to clients each front end is a master that has a range of slots,
// every slot has a master, and there are no replicas. The nodes of a replicated store are a
// master, the leader, which has all slots, and its replicas. But for these the slots are a hint only: a command
// runs on whichever front end it reaches, and no client ever gets MOVED. A key that usually
// comes to the same front end meets fewer conflicts, and its waiters are woken sooner.
package cluster

import (
	"cmp"
	"sync/atomic"
	"time"

	"redoubt/config"
	"redoubt/fleet"
	"redoubt/server/admin"
)

// Fleet is the set of front ends that share the store. Package fleet implements it.
type Fleet interface {
	// Division returns the living front ends and their slots.
	Division() *fleet.Division
	// Fenced reports whether the other front ends consider this one dead.
	Fenced() bool
}

// Link is a connection between this front end and another.
type Link struct {
	Inbound bool // opened by the other front end
	Peer    fleet.ID
	Since   time.Time
	Queued  int64 // bytes to be sent
}

// Source is the server as this package sees it.
type Source interface {
	Config() *config.Config
	Now() time.Time
	// PeerLinks returns the connections to and from other front ends.
	PeerLinks() []Link
	// PeerTraffic returns the numbers of messages between front ends, and of connections
	// closed because the other side read too slowly.
	PeerTraffic() (sent, received, dropped int64)
}

// Cluster is the cluster as clients see it. Without a fleet there is none.
type Cluster struct {
	source Source
	fleet  atomic.Pointer[Fleet]
}

// Init sets the source. There is no fleet yet.
func (c *Cluster) Init(s Source) { c.source = s }

// SetFleet sets the fleet. It may be called at any time; nil ends the cluster.
func (c *Cluster) SetFleet(f Fleet) {
	if f == nil {
		c.fleet.Store(nil)
		return
	}
	c.fleet.Store(&f)
}

// Enabled reports whether clients see a cluster.
func (c *Cluster) Enabled() bool { return c.fleet.Load() != nil }

// Mode returns the mode that HELLO and INFO show.
func (c *Cluster) Mode() string {
	if c.Enabled() {
		return "cluster"
	}
	return "standalone"
}

// Announce changes this front end's own entry in the fleet, if the fleet supports that.
func (c *Cluster) Announce(change func(*fleet.Member)) {
	if f := c.fleet.Load(); f != nil {
		if member, ok := (*f).(interface{ Announce(func(*fleet.Member)) }); ok {
			member.Announce(change)
		}
	}
}

// view is the cluster as one command sees it.
type view struct {
	*fleet.Division
	source Source
	fleet  Fleet
	call   *admin.Call
	tls    bool // the client uses TLS
}

// view returns nil if there is no cluster.
func (c *Cluster) view(call *admin.Call) *view {
	f := c.fleet.Load()
	if f == nil {
		return nil
	}
	host, tls := call.Client.Reached()
	v := &view{(*f).Division(), c.source, *f, call, tls}
	v.reached(host)
	return v
}

func (v *view) self() *fleet.Member { return &v.Members[v.Self] }

// find returns the number of a member, -1 if there is none of that id.
func (v *view) find(id string) int {
	for i := range v.Members {
		if v.Members[i].ID.String() == id {
			return i
		}
	}
	return -1
}

// epoch is the cluster's epoch, and nodeEpoch that of a node, which is unique.
func (v *view) epoch() uint64    { return max(v.Epoch, uint64(len(v.Members))) }
func nodeEpoch(i int) uint64     { return uint64(i) + 1 }
func (v *view) empty(i int) bool { lo, hi := v.Slots(i); return lo == hi }
func (v *view) masters() (n int) {
	for i := range v.Members {
		if !v.empty(i) {
			n++
		}
	}
	return n
}

// replicas returns the numbers of the replicas of a member.
func (v *view) replicas(i int) (list []int) {
	for n := range v.Members {
		if v.Led && i == v.Master && n != i {
			list = append(list, n)
		}
	}
	return list
}

// port returns the port that the client is given: the TLS port if the client uses TLS, else
// the plain one; the other if the front end has only that.
func (v *view) port(m *fleet.Member) int {
	if v.tls {
		return cmp.Or(m.TLSPort, m.Port)
	}
	return cmp.Or(m.Port, m.TLSPort)
}

// endpoint returns the host for clients to connect to. If known is false clients get none:
// they use the host that they know with the port that they are given.
func (v *view) endpoint(m *fleet.Member) (host string, known bool) {
	switch v.preferred() {
	case "hostname":
		return cmp.Or(m.Hostname, "?"), true
	case "unknown-endpoint":
		return "", false
	}
	return m.Host, true
}

func (v *view) preferred() string {
	return v.source.Config().Enum("cluster-preferred-endpoint-type")
}

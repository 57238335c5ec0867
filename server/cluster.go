package server

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"redoubt/fleet"
	"redoubt/keyspace"
	"redoubt/wire"
)

// The front ends of a shared store as a cluster. To clients each is a master that has
// a range of slots, and there are no replicas. That is a hint only: whichever front
// end a command reaches, it runs there, and nobody is ever told MOVED. A key that
// usually comes to the same front end meets fewer conflicts, and who waits for it is
// woken sooner.

// Fleet is what a server knows of the front ends that share its store. Package fleet
// has one.
type Fleet interface {
	// Division is the living front ends and their slots.
	Division() *fleet.Division
	// Fenced says that the others take this one for dead.
	Fenced() bool
}

// Linked is what a Fleet may offer besides: its connections, for CLUSTER LINKS.
type Linked interface {
	Links() []FleetLink
}

// FleetLink is a connection between this front end and another.
type FleetLink struct {
	Inbound bool // the other one has made it
	Peer    fleet.ID
	Since   time.Time
	Queued  int64 // bytes to be sent
}

// SetFleet says that others share the store. It may be called at any time; nil takes
// it back.
func (srv *Server) SetFleet(f Fleet) {
	if f == nil {
		srv.fleet.Store(nil)
		return
	}
	srv.fleet.Store(&f)
}

// clusterView is the cluster as one command sees it.
type clusterView struct {
	*fleet.Division
	fleet Fleet
}

// cluster returns nil if the store is this server's alone.
func (srv *Server) cluster() *clusterView {
	f := srv.fleet.Load()
	if f == nil {
		return nil
	}
	return &clusterView{(*f).Division(), *f}
}

// mode is what HELLO and INFO say that the server is.
func (srv *Server) mode() string {
	if srv.fleet.Load() != nil {
		return "cluster"
	}
	return "standalone"
}

func (v *clusterView) self() *fleet.Member { return &v.Members[v.Self] }

// find returns the number of a member, -1 if there is none of that id.
func (v *clusterView) find(id string) int {
	for i := range v.Members {
		if v.Members[i].ID.String() == id {
			return i
		}
	}
	return -1
}

// epoch is the cluster's, and nodeEpoch a node's, which no other one has.
func (v *clusterView) epoch() uint64    { return max(v.Epoch, uint64(len(v.Members))) }
func nodeEpoch(i int) uint64            { return uint64(i) + 1 }
func (v *clusterView) empty(i int) bool { lo, hi := v.Slots(i); return lo == hi }
func (v *clusterView) masters() (n int) {
	for i := range v.Members {
		if !v.empty(i) {
			n++
		}
	}
	return n
}

// port is the one that a client is told: that of TLS if it uses TLS itself, where
// there is one.
func (c *localCall) port(m *fleet.Member) int {
	if p, ok := c.s.car.(*pipe); ok {
		if _, ok := p.conn.(*tls.Conn); ok {
			return cmp.Or(m.TLSPort, m.Port)
		}
	}
	return cmp.Or(m.Port, m.TLSPort)
}

// endpoint is what clients shall connect to, and known whether they are told at all:
// if not, they use the host that they know and only the port from here.
func (c *localCall) endpoint(m *fleet.Member) (host string, known bool) {
	switch c.srv.cfg.Enum("cluster-preferred-endpoint-type") {
	case "hostname":
		return cmp.Or(m.Hostname, "?"), true
	case "unknown-endpoint":
		return "", false
	}
	return m.Host, true
}

func clusterSlots(c *localCall, v *clusterView) error {
	c.w.Array(v.masters())
	kind := c.srv.cfg.Enum("cluster-preferred-endpoint-type")
	for i := range v.Members {
		if v.empty(i) {
			continue
		}
		m := &v.Members[i]
		lo, hi := v.Slots(i)
		c.w.Array(3)
		c.w.Int(int64(lo))
		c.w.Int(int64(hi - 1))
		c.w.Array(4)
		if host, known := c.endpoint(m); known {
			c.w.BulkString(host)
		} else {
			c.w.Null()
		}
		c.w.Int(int64(c.port(m)))
		c.w.BulkString(m.ID.String())
		var more []string // what is not the preferred endpoint
		if kind != "ip" {
			more = append(more, "ip", m.Host)
		}
		if kind != "hostname" && m.Hostname != "" {
			more = append(more, "hostname", m.Hostname)
		}
		c.w.Map(len(more) / 2)
		for _, s := range more {
			c.w.BulkString(s)
		}
	}
	return nil
}

func clusterShards(c *localCall, v *clusterView) error {
	c.w.Array(len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		c.w.Map(2)
		c.w.BulkString("slots")
		if lo, hi := v.Slots(i); lo < hi {
			c.w.Array(2)
			c.w.Int(int64(lo))
			c.w.Int(int64(hi - 1))
		} else {
			c.w.Array(0)
		}
		c.w.BulkString("nodes")
		c.w.Array(1)
		c.shardNode(m)
	}
	return nil
}

func (c *localCall) shardNode(m *fleet.Member) {
	host, _ := c.endpoint(m)
	fields := []any{"id", m.ID.String()}
	if m.Port != 0 {
		fields = append(fields, "port", m.Port)
	}
	if m.TLSPort != 0 {
		fields = append(fields, "tls-port", m.TLSPort)
	}
	fields = append(fields, "ip", m.Host, "endpoint", host)
	if m.Hostname != "" {
		fields = append(fields, "hostname", m.Hostname)
	}
	writeFields(c.w, append(fields, "role", "master", "replication-offset", 0, "health", "online")...)
}

// writeFields writes a map of names and strings or integers.
func writeFields(w *wire.Writer, fields ...any) {
	w.Map(len(fields) / 2)
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			w.Int(int64(f))
		case int64:
			w.Int(f)
		case string:
			w.BulkString(f)
		}
	}
}

func clusterNodes(c *localCall, v *clusterView) error {
	var b strings.Builder
	for i := range v.Members {
		m := &v.Members[i]
		flags, seen := "master", m.Seen
		if i == v.Self {
			flags, seen = "myself,master", c.srv.clock()
		}
		fmt.Fprintf(&b, "%s %s:%d@%d", m.ID, m.Host, c.port(m), m.BusPort)
		if m.Hostname != "" {
			b.WriteString("," + m.Hostname)
		}
		fmt.Fprintf(&b, " %s - 0 %d %d connected", flags, max(0, seen.UnixMilli()), nodeEpoch(i))
		switch lo, hi := v.Slots(i); {
		case lo == hi:
		case lo == hi-1:
			fmt.Fprintf(&b, " %d", lo)
		default:
			fmt.Fprintf(&b, " %d-%d", lo, hi-1)
		}
		b.WriteString("\n")
	}
	c.w.Verbatim("txt", b.String())
	return nil
}

func clusterInfo(c *localCall, v *clusterView) error {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s:%v\r\n", name, value) }
	if v.fleet.Fenced() { // it cannot reach the store
		line("cluster_state", "fail")
	} else {
		line("cluster_state", "ok")
	}
	line("cluster_slots_assigned", keyspace.Slots)
	line("cluster_slots_ok", keyspace.Slots)
	line("cluster_slots_pfail", 0)
	line("cluster_slots_fail", 0)
	line("cluster_known_nodes", len(v.Members))
	line("cluster_size", v.masters())
	line("cluster_current_epoch", v.epoch())
	line("cluster_my_epoch", nodeEpoch(v.Self))
	sent, received, dropped := c.srv.peerTraffic()
	line("cluster_stats_messages_sent", sent)
	line("cluster_stats_messages_received", received)
	line("total_cluster_links_buffer_limit_exceeded", dropped)
	c.w.Verbatim("txt", b.String())
	return nil
}

func clusterLinks(c *localCall, v *clusterView) error {
	links := c.srv.PeerLinks()
	if l, ok := v.fleet.(Linked); ok {
		links = l.Links()
	}
	c.w.Array(len(links))
	for _, l := range links {
		direction := "to"
		if l.Inbound {
			direction = "from"
		}
		events := "r"
		if l.Queued > 0 {
			events = "rw"
		}
		writeFields(c.w, "direction", direction, "node", l.Peer.String(), "create-time", l.Since.UnixMilli(),
			"events", events, "send-buffer-allocated", l.Queued, "send-buffer-used", l.Queued)
	}
	return nil
}

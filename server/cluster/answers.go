package cluster

import (
	"fmt"
	"strings"

	"redoubt/fleet"
	"redoubt/keyspace"
	"redoubt/wire"
)

func (v *view) writeSlots() error {
	w := v.call.Reply
	w.Array(v.masters())
	kind := v.preferred()
	for i := range v.Members {
		if v.empty(i) {
			continue
		}
		m := &v.Members[i]
		lo, hi := v.Slots(i)
		w.Array(3 + len(v.replicas(i)))
		w.Int(int64(lo))
		w.Int(int64(hi - 1))
		v.slotNode(m, kind)
		for _, n := range v.replicas(i) {
			v.slotNode(&v.Members[n], kind)
		}
	}
	return nil
}

// slotNode writes a node of CLUSTER SLOTS.
func (v *view) slotNode(m *fleet.Member, kind string) {
	w := v.call.Reply
	w.Array(4)
	if host, known := v.endpoint(m); known {
		w.BulkString(host)
	} else {
		w.Null()
	}
	w.Int(int64(v.port(m)))
	w.BulkString(m.ID.String())
	var more []string // what is not the preferred endpoint
	if kind != "ip" {
		more = append(more, "ip", m.Host)
	}
	if kind != "hostname" && m.Hostname != "" {
		more = append(more, "hostname", m.Hostname)
	}
	w.Map(len(more) / 2)
	for _, s := range more {
		w.BulkString(s)
	}
}

func (v *view) writeShards() error {
	w := v.call.Reply
	shards := len(v.Members)
	if v.Led {
		shards = v.masters()
	}
	w.Array(shards)
	for i := range v.Members {
		if v.Led && i != v.Master {
			continue
		}
		m := &v.Members[i]
		w.Map(2)
		w.BulkString("slots")
		if lo, hi := v.Slots(i); lo < hi {
			w.Array(2)
			w.Int(int64(lo))
			w.Int(int64(hi - 1))
		} else {
			w.Array(0)
		}
		w.BulkString("nodes")
		w.Array(1 + len(v.replicas(i)))
		v.shardNode(m, "master")
		for _, n := range v.replicas(i) {
			v.shardNode(&v.Members[n], "replica")
		}
	}
	return nil
}

func (v *view) shardNode(m *fleet.Member, role string) {
	host, _ := v.endpoint(m)
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
	writeFields(v.call.Reply, append(fields, "role", role, "replication-offset", 0, "health", "online")...)
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

func (v *view) writeNodes() error {
	w := v.call.Reply
	var b strings.Builder
	for i := range v.Members {
		m := &v.Members[i]
		flags, master, seen := "master", "-", m.Seen
		if v.Led && i != v.Master {
			flags = "slave"
			if v.Master >= 0 {
				master = v.Members[v.Master].ID.String()
			}
		}
		if i == v.Self {
			flags, seen = "myself,"+flags, v.source.Now()
		}
		fmt.Fprintf(&b, "%s %s:%d@%d", m.ID, m.Host, v.port(m), m.BusPort)
		if m.Hostname != "" {
			b.WriteString("," + m.Hostname)
		}
		fmt.Fprintf(&b, " %s %s 0 %d %d connected", flags, master, max(0, seen.UnixMilli()), nodeEpoch(i))
		switch lo, hi := v.Slots(i); {
		case lo == hi:
		case lo == hi-1:
			fmt.Fprintf(&b, " %d", lo)
		default:
			fmt.Fprintf(&b, " %d-%d", lo, hi-1)
		}
		b.WriteString("\n")
	}
	w.Verbatim("txt", b.String())
	return nil
}

func (v *view) writeInfo() error {
	w := v.call.Reply
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
	sent, received, dropped := v.source.PeerTraffic()
	line("cluster_stats_messages_sent", sent)
	line("cluster_stats_messages_received", received)
	line("total_cluster_links_buffer_limit_exceeded", dropped)
	w.Verbatim("txt", b.String())
	return nil
}

func (v *view) writeLinks() error {
	w := v.call.Reply
	links := v.source.PeerLinks()
	w.Array(len(links))
	for _, l := range links {
		direction := "to"
		if l.Inbound {
			direction = "from"
		}
		events := "r"
		if l.Queued > 0 {
			events = "rw"
		}
		writeFields(w, "direction", direction, "node", l.Peer.String(), "create-time", l.Since.UnixMilli(),
			"events", events, "send-buffer-allocated", l.Queued, "send-buffer-used", l.Queued)
	}
	return nil
}

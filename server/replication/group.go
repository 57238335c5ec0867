package replication

import (
	"encoding/hex"
	"strconv"
	"time"

	"redoubt/server/admin"
)

// Group is the cluster of a replicated store, which agrees upon its commits by Raft.
type Group interface{ State() GroupState }

// GroupState is the state of this node, and of the others as this node knows them.
type GroupState struct {
	ID                    [16]byte // of the cluster
	Leads                 bool     // this server serves
	Term                  uint64
	Replica, Leader       uint64 // Raft ids; Leader is 0 if none is known
	LeaderHost            string
	LeaderPort            int
	Commit, Applied, Last uint64
	Lease                 time.Duration
	Elections, Rewinds    int64
	Failure               string // why the node has stopped
	Members               []GroupMember
}

// GroupMember is another node.
type GroupMember struct {
	Replica uint64
	Host    string
	Port    int
	Seen    time.Time
	Known   bool   // this node leads, and knows the rest
	Match   uint64 // the newest entry that the node is known to have
	Active  bool
}

// SetGroup sets the group of a replicated store. It is called before clients are served.
func (r *Role) SetGroup(g Group) { r.group.Store(&g) }

// groupRole answers ROLE.
func groupRole(c *admin.Call, s GroupState) {
	if s.Leads {
		var list []GroupMember
		for _, m := range s.Members {
			if m.Known && m.Active {
				list = append(list, m)
			}
		}
		c.Reply.Array(3)
		c.Reply.BulkString("master")
		c.Reply.Int(int64(s.Commit))
		c.Reply.Array(len(list))
		for _, m := range list {
			c.Strings([]string{m.Host, strconv.Itoa(m.Port), strconv.FormatUint(m.Match, 10)})
		}
		return
	}
	c.Reply.Array(5)
	c.Reply.BulkString("slave")
	c.Reply.BulkString(s.LeaderHost)
	c.Reply.Int(int64(s.LeaderPort))
	if s.Leader == 0 {
		c.Reply.BulkString("connect")
	} else {
		c.Reply.BulkString("connected")
	}
	c.Reply.Int(int64(s.Applied))
}

// groupFigures writes INFO's section replication.
func groupFigures(s GroupState, line func(name string, value any)) {
	if s.Leads {
		line("role", "master")
	} else {
		line("role", "slave")
		line("master_host", s.LeaderHost)
		line("master_port", s.LeaderPort)
		status := "up"
		if s.Leader == 0 || s.Failure != "" {
			status = "down"
		}
		line("master_link_status", status)
		line("slave_repl_offset", s.Applied)
		line("slave_read_only", 1)
	}
	n := 0
	for _, m := range s.Members {
		if m.Known && m.Active {
			n++
		}
	}
	line("connected_slaves", n)
	n = 0
	for _, m := range s.Members {
		if m.Known && m.Active {
			line("slave"+strconv.Itoa(n), "ip="+m.Host+",port="+strconv.Itoa(m.Port)+",state=online,offset="+strconv.FormatUint(m.Match, 10)+",lag=0")
			n++
		}
	}
	line("master_failover_state", "no-failover")
	line("master_replid", hex.EncodeToString(s.ID[:])+"00000000")
	line("master_repl_offset", s.Commit)
	line("raft_replica", s.Replica)
	line("raft_leader", s.Leader)
	line("raft_term", s.Term)
	line("raft_commit", s.Commit)
	line("raft_applied", s.Applied)
	line("raft_last", s.Last)
	line("raft_lease_ms", s.Lease.Milliseconds())
	line("raft_elections", s.Elections)
	line("raft_rewinds", s.Rewinds)
	for _, m := range s.Members {
		text := "host=" + m.Host + ",port=" + strconv.Itoa(m.Port)
		if !m.Seen.IsZero() {
			text += ",seen_ms=" + strconv.FormatInt(time.Since(m.Seen).Milliseconds(), 10)
		}
		if m.Known {
			text += ",match=" + strconv.FormatUint(m.Match, 10) + ",lag=" + strconv.FormatUint(s.Last-min(s.Last, m.Match), 10) + ",active=" + strconv.FormatInt(admin.BoolInt(m.Active), 10)
		}
		line("raft_member"+strconv.FormatUint(m.Replica, 10), text)
	}
	if s.Failure != "" {
		line("raft_failure", oneLine(s.Failure))
	}
}

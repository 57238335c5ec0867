package server

import (
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/fleet"
	"redoubt/keyspace"
	"redoubt/replica"
	"redoubt/replica/member"
	"redoubt/server/replication"
)

// A replicated store: several servers hold the same data, one of them, the leader, serves
// (docs/adr/0034). The others refuse commands that touch data, and say where the leader is.
//
// When this server loses the leadership, replies that wait for a commit go on waiting: the new
// leader most often has the commit. They become errors when it has not, or when nobody says
// so for unknownAfter.
type raft struct {
	srv     *Server
	store   *member.Store // nil: the store is not replicated
	serving atomic.Bool
	retired atomic.Int64 // how often the leadership was lost
	led     bool         // the server has served, and was not retired since; of Lead and Follow
}

const (
	// textVoid: the commit was taken back. Other commits of the same pipeline may have been
	// made, so it does not say that nothing happened.
	textVoid = "UNKNOWN the leader of the cluster changed before the write was agreed upon: read before you retry"
	// textPending: nobody says what became of the commit.
	textPending = "UNKNOWN this node does not lead the cluster any more, and nobody says yet whether the write was agreed upon: read before you retry"
	// unknownAfter is how long replies wait for the next leader.
	unknownAfter = 10 * time.Second
)

var (
	errVoid     = command.Error(textVoid)
	errNoLeader = command.Error("CLUSTERDOWN No leader of the cluster is known: a majority of its nodes does not answer")
	// errRetired: what a client waits for may come on another node.
	errRetired = command.Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
)

// open makes the server follow until it is told to lead.
func (r *raft) open(srv *Server, store *member.Store) *keyspace.Space {
	r.srv, r.store = srv, store
	srv.outputs.Void, srv.outputs.VoidText = store.Void, textVoid
	return keyspace.Unloaded(store, srv.databases)
}

// start takes part in the cluster.
func (r *raft) start() error {
	if r.store == nil {
		return nil
	}
	r.srv.role.SetGroup(r)
	if r.srv.cfg.Bool("cluster-enabled") {
		r.srv.SetFleet(r)
	}
	return r.store.Start(r)
}

func (r *raft) void(t engine.Ticket) bool { return r.store != nil && r.store.Void(t) }

// leadership is what the executor asks; nil if the store is not replicated.
func (r *raft) leadership() executor.Leadership {
	if r.store == nil {
		return nil
	}
	return r
}

// Leads implements executor.Leadership.
func (r *raft) Leads() bool { return r.serving.Load() && r.store.Leads() }

// Confirm implements executor.Leadership.
func (r *raft) Confirm() error {
	if !r.serving.Load() {
		return engine.ErrNotLeader
	}
	return r.store.Confirm()
}

// Lead implements member.Server: the store has everything, and may be written.
func (r *raft) Lead(term uint64) error {
	srv, start := r.srv, time.Now()
	r.led = true
	err := srv.exec.Take(func() error {
		if err := srv.exec.Space().Load(); err != nil {
			return err
		}
		if err := srv.scripts.Open(srv.exec.Space()); err != nil {
			return err
		}
		r.serving.Store(true)
		return nil
	})
	if err != nil {
		return err
	}
	srv.upkeep.Rest(false)
	srv.log.Info("this server leads the cluster and serves clients", "term", term, "took", time.Since(start).Round(time.Microsecond))
	return nil
}

// Follow implements member.Server.
func (r *raft) Follow() {
	srv := r.srv
	srv.upkeep.Rest(true)
	srv.exec.Retire(func() { r.serving.Store(false) })
	n := r.retired.Add(1)
	srv.log.Warn("this server does not lead the cluster any more: it serves no data until it leads again")
	srv.publishEffects(&keyspace.Effects{Flushed: true}, 0) // clients that cache hear of no more changes
	// Nothing below is waited for: what is told to carriers may wait for clients.
	srv.pool.run(func() {
		for _, s := range srv.clients.list() {
			s.mu.Lock()
			w, leave := s.blocked, s.subs != nil || s.monitor
			s.mu.Unlock()
			if w != nil {
				w.waiter.End(errRetired)
			}
			if leave { // it would hear nothing more
				s.car.post(func() { s.closing = true })
			}
		}
	})
	time.AfterFunc(unknownAfter, func() {
		if r.retired.Load() != n || r.serving.Load() {
			return
		}
		for _, s := range srv.clients.list() {
			s.car.post(func() {
				if s.out.Held() {
					s.out.Fail(textPending)
				}
			})
		}
	})
}

// refuse returns the error of a command that this server does not run, since it does not lead.
func (r *raft) refuse(cmd *command.Command, args [][]byte, flags command.Flags) error {
	if r.store == nil || r.serving.Load() {
		return nil
	}
	data := cmd.Run != nil && flags&command.Loading == 0 || flags&command.Write != 0 || cmd.Channels.Flags != 0 || cmd.Group == command.Transactions
	if !data {
		return nil
	}
	leader, known := r.leader()
	if !known {
		return errNoLeader
	}
	if r.srv.cluster.Enabled() {
		slot := -1
		cmd.EachKey(args, func(i int, _ *command.KeySpec) { slot = int(keyspace.SlotOf(args[i])) })
		if slot >= 0 {
			return command.Error("MOVED " + strconv.Itoa(slot) + " " + address(leader))
		}
	}
	return command.Error("READONLY this node follows; the leader of the cluster is " + address(leader))
}

func address(c member.Contact) string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// leader returns where clients reach the leader.
func (r *raft) leader() (c member.Contact, known bool) {
	role := r.store.Member().Node().Role()
	if role.Leader == 0 {
		return c, false
	}
	for _, p := range r.store.Member().Peers() {
		if uint64(p.Place) == role.Leader {
			return p.Contact, p.Contact.Port != 0
		}
	}
	return c, false
}

// State implements replication.Group.
func (r *raft) State() (g replication.GroupState) {
	m := r.store.Member()
	s := m.Node().Status()
	g = replication.GroupState{
		Leads: r.serving.Load(), Term: s.Role.Term, Replica: s.ID, Leader: s.Role.Leader, Commit: s.Commit, Applied: s.Applied, Last: s.Last,
		Lease: s.Lease, Elections: s.Elections, Rewinds: s.Rewinds, ID: m.Cluster(),
	}
	if err := m.Node().Err(); err != nil {
		g.Failure = err.Error()
	}
	if c, known := r.leader(); known {
		g.LeaderHost, g.LeaderPort = c.Host, c.Port
	}
	members := make(map[uint64]replica.Member)
	for _, p := range s.Members {
		members[p.ID] = p
	}
	for _, p := range m.Peers() {
		id := uint64(p.Place)
		if id == s.ID {
			continue
		}
		x := replication.GroupMember{Replica: id, Host: p.Contact.Host, Port: p.Contact.Port, Seen: p.Seen}
		if known, ok := members[id]; ok {
			x.Known, x.Match, x.Active = true, known.Match, known.Active
		}
		g.Members = append(g.Members, x)
	}
	return g
}

// Division implements cluster.Fleet: the leader has all slots.
func (r *raft) Division() *fleet.Division {
	m := r.store.Member()
	role := m.Node().Role()
	d := &fleet.Division{Epoch: role.Term, Master: -1}
	for i, p := range m.Peers() {
		x := fleet.Member{Host: p.Contact.Host, Port: p.Contact.Port, TLSPort: p.Contact.TLSPort, Seen: p.Seen}
		if _, port, err := net.SplitHostPort(p.Addr); err == nil {
			x.BusPort, _ = strconv.Atoi(port) // checked when the list was read
		}
		copy(x.ID[:], p.Node[:])
		if uint64(p.Place) == m.Node().ID() {
			d.Self = i
		}
		if uint64(p.Place) == role.Leader {
			d.Master = i
		}
		d.Members = append(d.Members, x)
	}
	d.Led = true
	return d
}

// Fenced implements cluster.Fleet.
func (r *raft) Fenced() bool {
	return r.store.Member().Node().Role().Leader == 0 || errors.Is(r.store.Member().Node().Err(), replica.ErrBroken)
}

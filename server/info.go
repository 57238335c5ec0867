package server

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"redoubt/acl"
	"redoubt/budget"
	"redoubt/config"
	"redoubt/script"
	"redoubt/server/checkpoint"
	"redoubt/server/info"
	"redoubt/server/observe"
)

// infoView is the server as INFO, MEMORY and the metrics see it: info.Source.
type infoView struct{ srv *Server }

func (v infoView) Config() *config.Config      { return v.srv.cfg }
func (v infoView) ClientLog() *slog.Logger     { return v.srv.clientLog }
func (v infoView) Observer() *observe.Observer { return &v.srv.obs }
func (v infoView) Net() (in, out int64)        { return v.srv.net() }
func (v infoView) Scripts() script.Figures     { return v.srv.scripts.Figures() }
func (v infoView) Working() budget.Figures     { return v.srv.budget.Work.Figures() }
func (v infoView) Saves() checkpoint.Figures   { return v.srv.save.Figures() }

func (v infoView) Replication(line func(name string, value any)) { v.srv.role.Figures(line) }

func (v infoView) Transfer() (begun time.Time, done, total int64, ok bool) {
	return v.srv.role.Transfer()
}

func (v infoView) Server() info.Server {
	srv := v.srv
	s := info.Server{
		Started: srv.life.started, Cluster: srv.cluster.Enabled(), Mode: srv.cluster.Mode(),
		Multiplexing: "epoll", Loops: len(srv.car.loops), Engine: srv.engineName(), Durability: srv.durability(), MaxMemory: srv.set.maxMemory.Load(),
	}
	if srv.car.usePipes {
		s.Multiplexing = "goroutines"
	}
	for i, k := range []kind{overTCP, overUnix, overTLS} {
		l := info.Listener{Number: i, Kind: k.String()}
		for _, ln := range srv.lns.all() {
			if ln.kind != k {
				continue
			}
			l.Binds = append(l.Binds, ln.bind)
			if a, ok := ln.Addr().(*net.TCPAddr); ok {
				l.Port = a.Port
				if s.Port == 0 && (k == overTCP || srv.cfg.Int("port") == 0) {
					s.Port = a.Port
				}
			}
		}
		if len(l.Binds) > 0 {
			s.Listeners = append(s.Listeners, l)
		}
	}
	if a, ok := srv.HTTPAddr().(*net.TCPAddr); ok {
		s.Listeners = append(s.Listeners, info.Listener{Number: 3, Kind: "http", Binds: []string{a.IP.String()}, Port: a.Port})
	}
	return s
}

func (v infoView) Clients() info.Clients {
	srv, account := v.srv, &v.srv.budget.Clients
	f := info.Clients{
		Connected: srv.clients.count.Load(), Max: srv.set.maxClients.Load(), Links: len(srv.PeerLinks()), Blocked: srv.pause.waiting(),
		Charged: account.Used(), ChargeLimit: account.Limit(), Unauthenticated: srv.clients.unauthenticated(),
		Tracking: srv.tracking.Clients(), PubSub: srv.pubsub.Figures().Clients,
	}
	if srv.ready.Load() {
		clients, keys := srv.exec.Waiting()
		f.Blocked, f.Keys, f.KeysGone = f.Blocked+clients, keys, srv.exec.WaitingGone()
	}
	for _, s := range srv.clients.list() {
		s.mu.Lock()
		f.Input = max(f.Input, int64(s.bufPeak))
		f.Output = max(f.Output, int64(s.out.Pending()))
		f.Memory += int64(s.held()) + s.pushQueue.Charged()
		s.mu.Unlock()
	}
	return f
}

func (v infoView) Store() info.Store {
	srv := v.srv
	f := info.Store{OnDisk: !srv.inMemory()}
	if !srv.ready.Load() {
		return f
	}
	f.Ready, f.Stats, f.Err = true, srv.eng.Stats(), srv.eng.Err()
	if _, ok := srv.eng.(inMemory); ok {
		data, beside := srv.dataBytes()
		f.Counted = data + beside
	}
	if f.Err == nil {
		f.Err = srv.eng.Full()
	}
	f.Durable = srv.eng.Durable() // read first, so that Durable <= Committed
	f.Committed = srv.eng.Committed()
	w := srv.upkeep.Stats()
	f.Sweeps, f.SweepNanos, f.SweepsBehind, f.SweepConflicts = w.Cycles, w.Nanos, w.Behind, w.Conflicts
	f.Cleared, f.Clearing = w.Cleared, w.Clearing
	x := &srv.exec.Stats
	f.Hits, f.Misses, f.Expired, f.Changes = x.Hits.Load(), x.Misses.Load(), x.Expired.Load(), x.Changes.Load()
	f.Dropped, f.Evicted = x.Dropped.Load(), x.Evicted.Load()
	f.Cold, f.WarmUps, f.Slowed, f.Together = x.Cold.Load(), x.Warmed.Load(), x.Slowed.Load(), x.Joined.Load()
	return f
}

func (v infoView) Loading() (f info.Loading, ok bool) {
	l := &v.srv.load
	if !l.active.Load() {
		return f, false
	}
	f.Start, f.Done, f.Total = l.start, l.done.Load(), l.total.Load()
	f.Percent, f.Seconds = l.estimate(time.Now())
	return f, true
}

func (v infoView) Databases(visit func(db int, keys, volatile int64) bool) error {
	if !v.srv.ready.Load() {
		return nil
	}
	space := v.srv.exec.Space()
	for db := range space.Databases() {
		keys, volatile, err := space.Count(db)
		if err != nil || !visit(db, keys, volatile) {
			return err
		}
	}
	return nil
}

func (v infoView) Features() info.Features {
	srv := v.srv
	t, p, denied := srv.tracking.Figures(), srv.pubsub.Figures(), &srv.access.Denied
	full, partial, refused := srv.source.Syncs()
	stream := srv.source.Stream.State()
	return info.Features{
		Channels: p.Channels, Patterns: p.Patterns, ShardChannels: p.ShardChannels,
		TrackedKeys: t.Keys, TrackedItems: t.Items, TrackedPrefixes: t.Prefixes, MigrateConnections: srv.migrations.Connections(),
		DeniedAuth: denied.Denied(acl.ByAuth), DeniedCommand: denied.Denied(acl.ByCommand),
		DeniedKey: denied.Denied(acl.ByKey), DeniedChannel: denied.Denied(acl.ByChannel),
		FullSyncs: full, PartialSyncs: partial, RefusedSyncs: refused, Stream: stream.Memory, Backlog: min(stream.Memory, stream.Backlog),
	}
}

func (v infoView) Peers() (f info.Peers, ok bool) {
	p := v.srv.peers.Load()
	if p == nil {
		return f, false
	}
	in, out := p.Stats()
	return info.Peers{
		Known: in.Peers, Connected: in.Connected, Followers: out.Followers, FramesIn: in.Frames, BytesIn: in.Bytes,
		FramesOut: out.Frames, BytesOut: out.Bytes, Queued: out.Queued, Lost: in.Lost, Refused: out.Refused, Dropped: out.Drops,
		Wanted: fmt.Sprint(p.Wanted()), WantedByOthers: fmt.Sprint(p.PeerInterest()),
	}, true
}

func (v infoView) Raft() (f info.Raft, ok bool) {
	if !v.srv.ready.Load() || v.srv.raft.store == nil {
		return f, false
	}
	g := v.srv.raft.State()
	f = info.Raft{
		Leads: g.Leads, LeaderKnown: g.Leader != 0, Failed: g.Failure != "", Term: g.Term, Commit: g.Commit, Applied: g.Applied, Last: g.Last,
		Lease: g.Lease, Elections: g.Elections, Rewinds: g.Rewinds,
	}
	for _, m := range g.Members {
		if m.Known {
			f.Members = append(f.Members, info.RaftMember{Replica: m.Replica, Lag: g.Last - min(g.Last, m.Match), Active: m.Active})
		}
	}
	return f, true
}

// engineName returns the package name of the engine in use, which a program may have
// chosen without the configuration.
func (srv *Server) engineName() string {
	if !srv.ready.Load() {
		return srv.cfg.Enum("engine")
	}
	var eng any = srv.eng
	if srv.raft.store != nil {
		eng = srv.raft.store.Rows
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", eng), "*"), ".")
	return name
}

// durability returns when a write is durable: a value of appendfsync, none or replicated.
func (srv *Server) durability() string {
	if srv.inMemory() {
		return "none"
	}
	if srv.ready.Load() && srv.remote {
		return "replicated"
	}
	return srv.cfg.Enum("appendfsync")
}

// MetricsAddr returns the address at which metrics are served, or nil.
func (srv *Server) MetricsAddr() net.Addr { return srv.metrics.Addr() }

// samples returns the functions by which the observer samples the server.
func (srv *Server) samples() observe.Samples {
	return observe.Samples{
		Paused: srv.debug.PauseCron.Load,
		Net:    srv.net,
		Sweeps: func() (observe.Work, bool) {
			if !srv.ready.Load() {
				return observe.Work{}, false
			}
			s := srv.upkeep.Stats()
			// On a remote store a cycle waits for round trips, and delays no client.
			return observe.Work{Count: s.Cycles, Nanos: s.Nanos}, !srv.remote
		},
		Syncs: func() observe.Work {
			e := infoView{srv}.Store()
			return observe.Work{Count: e.Syncs, Nanos: e.SyncNanos}
		},
		Memory: func() { srv.info.Memory() },
	}
}

// net returns how many bytes came in and went out, live sessions included.
func (srv *Server) net() (in, out int64) {
	for _, s := range srv.clients.list() {
		s.mu.Lock()
		if !s.closed { // else leave has counted it
			in, out = in+s.netIn, out+s.netOut
		}
		s.mu.Unlock()
	}
	return srv.obs.Stats.Net(in, out)
}

// resetStats implements CONFIG RESETSTAT.
func (srv *Server) resetStats() {
	in, out := srv.net()
	srv.obs.Stats.NetIn.Add(-in)
	srv.obs.Stats.NetOut.Add(-out)
	srv.obs.Reset()
	if srv.ready.Load() {
		x := &srv.exec.Stats
		for _, n := range []*atomic.Int64{&x.Hits, &x.Misses, &x.Expired, &x.Dropped} {
			n.Store(0)
		}
	}
}

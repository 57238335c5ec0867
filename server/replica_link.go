package server

import (
	"net"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/number"
	"redoubt/server/replication"
)

// A session that is a replica: it takes acknowledgments only, and its output is what package
// replication writes to it.

// replicaLink is the connection of a session that is, or may become, a replica. It implements
// replication.Link.
type replicaLink struct {
	s      *session
	room   chan struct{} // the client took something
	gone   chan struct{} // closed with the connection
	sent   atomic.Int64  // bytes that the client has taken since its connection began
	unsent atomic.Int64
}

// replicaRoom is how many unsent bytes a replica's connection may hold: the rest is in the
// stream, which all replicas share.
const replicaRoom = 256 << 10

// Host implements replication.Link.
func (l *replicaLink) Host() string {
	if host, _, err := net.SplitHostPort(l.s.addr); err == nil {
		return host
	}
	return l.s.addr
}

// Shut implements replication.Link.
func (l *replicaLink) Shut() { go l.s.car.shut() }

// Write implements replication.Link.
func (l *replicaLink) Write(b []byte, patience time.Duration) error {
	var taken, given atomic.Bool // given up, or taken
	l.s.car.post(func() {
		if !given.CompareAndSwap(false, true) {
			return
		}
		l.s.out.Buf = append(l.s.out.Buf, b...)
		l.unsent.Store(int64(l.s.out.Pending()))
		taken.Store(true)
		l.wake()
	})
	var expired <-chan time.Time
	last := l.sent.Load()
	if patience > 0 {
		t := time.NewTicker(patience)
		defer t.Stop()
		expired = t.C
	}
	for !taken.Load() || l.unsent.Load() >= replicaRoom {
		select {
		case <-l.room:
		case <-l.gone:
			return errClientGone
		case <-expired:
			n := l.sent.Load()
			if n == last {
				if !given.CompareAndSwap(false, true) { // the carrier may be reading b
					l.s.mu.Lock()
					l.s.mu.Unlock() //lint:ignore SA2001 until here it has read it
				}
				return errClientSlow
			}
			last = n
		}
	}
	return nil
}

// progress notes how much the client has taken, and how much is unsent. The carrier calls it.
func (l *replicaLink) progress(sent int64, pending int) {
	l.sent.Store(sent)
	l.unsent.Store(int64(pending))
	l.wake()
}

func (l *replicaLink) wake() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// progress tells whoever sends a large output in parts how much the client has taken.
func (s *session) progress() {
	if s.streamed != nil {
		s.streamed.progress(s.netOut, s.out.Pending())
	}
	if s.link != nil {
		s.link.progress(s.netOut, s.out.Pending())
	}
}

// asReplica returns the session as a client that may become a replica.
func (s *session) asReplica() *replication.Replica {
	if s.replica == nil {
		s.link = &replicaLink{s: s, room: make(chan struct{}, 1), gone: make(chan struct{})}
		s.replica = s.srv.source.NewReplica(s.link)
	}
	return s.replica
}

// endReplica ends the replica with its session. mu is held.
func (s *session) endReplica() {
	if s.link != nil {
		close(s.link.gone)
		s.replica.Close()
	}
}

// refuseReplica closes a replica whose input would make a reply: the reply would be taken for a
// part of the stream.
func (s *session) refuseReplica(why string, args [][]byte) {
	name := ""
	if len(args) > 0 {
		name = string(args[0])
	}
	s.srv.clientLog.Warn("closing a replica: it has sent what a replica does not send", "client", s.id, "addr", s.addr, "what", why, "command", name)
	s.closing = true
	s.link.Shut()
}

const (
	replicaFlags = command.Admin | command.NoScript
	syncFlags    = replicaFlags | command.NoMulti | command.NoAsyncLoading
)

var (
	errSyncShared  = command.Error("ERR This server has no replication stream: its store is shared with other servers, use them")
	errSyncRaft    = command.Error("ERR A replicated store has no replication stream yet: attach the replica to a server of its own, or use redoubt export")
	errSyncPending = command.Error("ERR SYNC and PSYNC are invalid with pending output")
	errSyncMaster  = command.Error("ERR PSYNC FAILOVER can't be sent to a master.")
)

// replicaCommands are the commands that replicas send.
func replicaCommands() []*local {
	return []*local{
		{Command: &command.Command{
			Name: "replconf", Group: command.Server, Since: "3.0.0", Arity: -1,
			Flags:   replicaFlags | command.Loading | command.Stale | command.AllowBusy,
			Summary: "Is what a replica tells its master about itself.", Complexity: "O(1)",
		}, run: replconf},
		{Command: &command.Command{
			Name: "psync", Group: command.Server, Since: "2.8.0", Arity: -3, Flags: syncFlags,
			Syntax: "replicationid:string offset:integer", Summary: "Makes this connection a replica, which may go on from where it was.",
		}, run: psync},
		{Command: &command.Command{
			Name: "sync", Group: command.Server, Since: "1.0.0", Arity: 1, Flags: syncFlags,
			Summary: "Makes this connection a replica.",
		}, run: func(c *localCall) error { return c.becomeReplica("", -1, false) }},
	}
}

func replconf(c *localCall) error {
	s := c.s
	attached := s.replica.Attached()
	answers, err := s.asReplica().Configure(c.args[1:])
	switch {
	case !answers:
		c.unanswered()
	case attached:
		c.unanswered()
		s.refuseReplica("REPLCONF that has an answer", c.args)
	case err != nil:
		return err
	default:
		c.w.OK()
	}
	return nil
}

func psync(c *localCall) error {
	offset, ok := number.ParseInt(c.args[2])
	switch {
	case len(c.args) > 3 && c.is(3, "failover"):
		return errSyncMaster
	case !ok:
		return command.ErrNotInteger
	}
	return c.becomeReplica(string(c.args[1]), offset, true)
}

// becomeReplica makes the session a replica. It has no reply: package replication writes what
// comes next.
func (c *localCall) becomeReplica(id string, next int64, psync bool) error {
	s := c.s
	switch {
	case s.replica.Attached():
		return nil
	case s.srv.remote:
		return errSyncShared
	case s.srv.raft.store != nil: // what is streamed could be taken back
		return errSyncRaft
	case s.out.Pending() > 0 || s.out.Answers > 1:
		return errSyncPending
	}
	c.unanswered()
	s.endMonitor()
	s.unsubscribeAll()
	s.tracker.End(false)
	s.feeding.Store(true)
	r := s.asReplica()
	if psync && id != "?" && r.Continue(id, next) {
		return nil
	}
	r.Full(psync)
	return nil
}

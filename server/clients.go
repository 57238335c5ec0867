package server

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/config"
	"redoubt/server/output"
)

// clients is the register of all sessions.
type clients struct {
	mu     sync.Mutex
	byID   map[int64]*session
	guests map[int64]*session // sessions that have yet to authenticate; see guests.go
	nextID atomic.Int64
	count  atomic.Int64
}

func (c *clients) init() { c.byID, c.guests = make(map[int64]*session), make(map[int64]*session) }

// list returns all sessions in the order of their ids.
func (c *clients) list() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*session, 0, len(c.byID))
	for _, s := range c.byID {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int { return int(a.id - b.id) })
	return all
}

func (c *clients) find(id int64) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// Descriptors reserved from clients: for the server itself, and for a store on disk,
// which must not fail because many clients came.
const (
	ownFiles   = 32
	storeFiles = 1024
)

// limitClients applies maxclients and http-max-connections, lowered to what the
// descriptor limit allows.
func (srv *Server) limitClients() {
	srv.set.mu.Lock()
	defer srv.set.mu.Unlock()
	n, can := srv.cfg.Int("maxclients"), descriptorLimit()-ownFiles
	if !srv.inMemory() {
		can -= storeFiles
	}
	if srv.cfg.Str("http-addr") != "" { // HTTP gets half of the descriptors, or what maxclients leaves
		http := srv.cfg.Int("http-max-connections")
		if most := max(1, can/2, can-n); http > most {
			srv.log.Warn("the limit on open files is too low for http-max-connections: raise it, or lower http-max-connections",
				"http-max-connections", http, "possible", most)
			http = most
		}
		srv.set.maxHTTP.Store(http)
		can -= http
	}
	if can = max(1, can); n > can {
		srv.log.Warn("the limit on open files is too low for maxclients: raise it, or lower maxclients",
			"maxclients", n, "possible", can)
		n = can
	}
	srv.set.maxClients.Store(n)
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// initSession makes a session ready and registers it.
func (srv *Server) initSession(s *session, car carrier, t *turn, addr, laddr string, unix bool) {
	s.srv, s.car, s.work = srv, car, t
	s.id = srv.clients.nextID.Add(1)
	s.addr, s.laddr, s.unix = addr, laddr, unix
	s.created = time.Now()
	s.lastUsed = s.created
	s.initOutput()
	s.out.Proto = 2
	s.caller = caller{s: s, carried: true}
	s.call.Caller, s.call.By = &s.caller, s.id
	s.setDefaultAuth()
	srv.clients.mu.Lock()
	srv.clients.byID[s.id] = s
	srv.clients.mu.Unlock()
	srv.clients.count.Add(1)
	s.setLimits()
	s.charge()
	srv.obs.Stats.Connections.Add(1)
}

// setDefaultAuth sets the state of a new connection: authenticated as the default user
// if that user has no password.
func (s *session) setDefaultAuth() {
	s.user = s.srv.access.Users.Default()
	s.setAuthenticated(s.user.Load().Open())
}

func (s *session) setAuthenticated(is bool) {
	s.authenticated = is
	s.srv.setGuest(s, !is)
}

// mustAuthenticate reports whether the client has to authenticate first. A client need
// not if there was no password when it connected, or if there is none now.
func (s *session) mustAuthenticate() bool {
	return !s.authenticated && !s.srv.access.Users.Default().Load().Open()
}

// leave removes a closed session from the register and ends its subscriptions, tracking
// and waiting. Its mu is held.
func (srv *Server) leave(s *session) {
	s.discharge() // while the session is in the register: see evictClients
	srv.clients.mu.Lock()
	delete(srv.clients.byID, s.id)
	delete(srv.clients.guests, s.id)
	srv.clients.mu.Unlock()
	srv.clients.count.Add(-1)
	srv.obs.Stats.NetIn.Add(s.netIn)
	srv.obs.Stats.NetOut.Add(s.netOut)
	s.endMonitor()
	s.endReplica()
	s.unsubscribeAll()
	s.tracker.End(true)
	if s.suspended == forPause {
		srv.pause.drop(s)
	}
	s.abandon()
	if s.deferred != nil {
		s.deferred.stop.At(time.Now())
	}
	s.watch.End()
}

// overdue reports whether the client is to be closed: it was idle for too long, has not
// authenticated in time, or does not read its replies.
func (s *session) overdue(now time.Time) bool {
	timeout := time.Duration(s.srv.set.timeout.Load()) * time.Second
	if timeout > 0 && !s.monitor && s.subs == nil && !s.replica.Attached() && !s.waiting() && now.Sub(s.lastUsed) > timeout {
		return true
	}
	return s.guestOverdue(now) || s.out.Pending() > 0 && s.overLimit(now)
}

// outputLimit is the limit of the client's class.
func (s *session) outputLimit() *config.BufferLimit {
	switch {
	case s.feeding.Load(): // a replica's limit is one on its part of the stream
		return new(config.BufferLimit)
	case s.subscribed.Load():
		return s.srv.set.subscribedLimit.Load()
	}
	return s.srv.set.outLimit.Load()
}

// overLimit says whether the client's unread replies are past
// client-output-buffer-limit.
func (s *session) overLimit(now time.Time) bool {
	n, l := uint64(s.out.Pending()), s.outputLimit()
	over := l.Hard > 0 && n > l.Hard
	if l.Soft == 0 || n <= l.Soft {
		s.softSince = time.Time{}
	} else if s.softSince.IsZero() {
		s.softSince = now
	} else if now.Sub(s.softSince) > time.Duration(l.SoftSeconds)*time.Second {
		over = true
	}
	if over {
		s.srv.obs.Stats.OutputLimit.Add(1)
		s.srv.clientLog.Warn("closing a client: it does not read its replies", "client", s.id, "addr", s.addr, "pending", n)
	}
	return over
}

// overQueryLimit reports whether unfinished input of size bytes is past
// client-query-buffer-limit, or guestInput for a guest.
func (s *session) overQueryLimit(size int) bool {
	n := int64(size)
	guest := n > guestInput && s.suspended == running && s.guest.Load() && s.mustAuthenticate()
	if n <= s.srv.set.queryLimit.Load() && !guest {
		return false
	}
	s.srv.obs.Stats.QueryLimit.Add(1)
	s.srv.clientLog.Warn("closing a client: its query buffer is over the limit", "client", s.id, "addr", s.addr, "bytes", n, "authenticated", !guest)
	return true
}

// peak updates the largest recent sizes of the buffers.
func (s *session) peak() {
	s.bufPeak = max(s.bufPeak, cap(s.buf), output.SmallBuffer)
	s.outPeak = max(s.outPeak, s.out.Pending())
}

// decay resets the peaks, and frees memory that an idle client does not use.
func (s *session) decay(now time.Time) {
	if now.Sub(s.peakAt) > activeOf {
		s.bufPeak, s.outPeak, s.peakAt = cap(s.buf), s.out.Pending(), now
	}
	if now.Sub(s.lastUsed) <= activeOf {
		return
	}
	s.lastMulti = nil
	if cap(s.buf)-len(s.buf) > output.SmallBuffer {
		s.buf = append(make([]byte, 0, len(s.buf)), s.buf...)
	}
	s.charge()
}

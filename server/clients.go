package server

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// clients is the register of all sessions.
type clients struct {
	mu     sync.Mutex
	byID   map[int64]*session
	nextID atomic.Int64
	count  atomic.Int64
}

func (c *clients) init() { c.byID = make(map[int64]*session) }

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

// admit says why a new connection is refused, or nothing.
func (srv *Server) admit(addr string, unix bool) string {
	if srv.clients.count.Load() >= srv.maxClients.Load() {
		srv.stats.rejected.Add(1)
		return "ERR max number of clients reached"
	}
	if !unix && srv.cfg.Bool("protected-mode") && *srv.password.Load() == "" && !loopback(addr) {
		srv.stats.rejected.Add(1)
		return "DENIED Redoubt is running in protected mode: no password is set and this connection does not come " +
			"from the loopback interface. Set a password with requirepass, or turn protected-mode off if everybody " +
			"who can reach this port may use it."
	}
	return ""
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
	s.in.MaxBulk = srv.maxBulk.Load()
	s.out.Proto = 2
	s.setAuth(*srv.password.Load() == "")
	srv.clients.mu.Lock()
	srv.clients.byID[s.id] = s
	srv.clients.mu.Unlock()
	srv.clients.count.Add(1)
	srv.stats.connections.Add(1)
}

func (s *session) setAuth(ok bool) { s.authenticated, s.in.Authenticated = ok, ok }

// leave forgets a session that was closed. Its mu is held.
func (srv *Server) leave(s *session) {
	srv.clients.mu.Lock()
	delete(srv.clients.byID, s.id)
	srv.clients.mu.Unlock()
	srv.clients.count.Add(-1)
	srv.stats.netIn.Add(s.netIn)
	srv.stats.netOut.Add(s.netOut)
	if s.monitor {
		srv.dropMonitor(s)
	}
}

// overLimit says whether the client's unread replies are past
// client-output-buffer-limit.
func (s *session) overLimit(now time.Time) bool {
	n, l := uint64(s.pending()), s.srv.outLimit.Load()
	over := l.Hard > 0 && n > l.Hard
	if l.Soft == 0 || n <= l.Soft {
		s.softSince = time.Time{}
	} else if s.softSince.IsZero() {
		s.softSince = now
	} else if now.Sub(s.softSince) > time.Duration(l.SoftSeconds)*time.Second {
		over = true
	}
	if over {
		s.srv.stats.outputLimit.Add(1)
		s.srv.log.Warn("closing a client: it does not read its replies", "client", s.id, "addr", s.addr, "pending", n)
	}
	return over
}

// overQueryLimit says whether the unparsed input is past
// client-query-buffer-limit.
func (s *session) overQueryLimit() bool {
	if int64(len(s.buf)) <= s.srv.queryLimit.Load() {
		return false
	}
	s.srv.stats.queryLimit.Add(1)
	s.srv.log.Warn("closing a client: its query buffer is over the limit", "client", s.id, "addr", s.addr)
	return true
}

// peak notes the largest query buffer of late; decay forgets it.
func (s *session) peak() {
	if cap(s.buf) > s.bufPeak {
		s.bufPeak = cap(s.buf)
	}
}

func (s *session) decay(now time.Time) {
	if s.bufPeak > 0 && now.Sub(s.peakAt) > 2*time.Second {
		s.bufPeak, s.peakAt = cap(s.buf), now
	}
}

// kill closes a session from anywhere, once its replies are sent.
func (s *session) kill() {
	s.car.post(func() {
		s.closing = true
		s.waiting = false
	})
}

package server

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"time"
	"unsafe"
)

// What clients make the server hold, and how it is bounded: maxmemory-clients.
//
// Each session knows what it holds (held), remembers what it was charged with, and
// adds the difference to budget.Clients where its buffers have changed: when its
// output was sent as far as the socket takes it, and in the middle of a turn when it
// has grown much. A session without unread replies and half-sent commands always
// holds the same, so the hot path compares two numbers and touches nothing shared.
//
// When the sum is over its limit, clients are evicted at once, the largest first, by
// the loop that has seen it: a client can send hundreds of megabytes a second. Before
// that, clients that leave replies unread are slowed down: how much each may leave
// unread depends on what is left (setLimits).
//
// Invariants:
//  1. The account is the sum of what the sessions of the register are charged with.
//     leave takes a session's part back.
//  2. Only a session's carrier, with mu held, changes what it is charged with, and only
//     whoever holds the lock of its queue what that is charged with.
//  3. evictClients takes the mu of a session only on the session's own carrier, and never
//     waits for another eviction.

const (
	// mostUnread is how many bytes of replies a client may leave unread before its
	// commands wait, when there is memory for it, and leastUnread when there is none.
	mostUnread  = 32 << 20
	leastUnread = 64 << 10
	// smallChange is what is not worth a charge: the arguments of a command that a worker
	// runs are mostly less.
	smallChange = 1 << 10
	// chargeStep is how much a session may grow within a turn before it is charged.
	chargeStep = 64 << 10
	// turnOutput is how many bytes of large replies a loop gathers before it sends them.
	turnOutput = 4 << 20
)

// setLimits sets what the session may send and leave unread in the turn that begins.
func (s *session) setLimits() {
	s.in.MaxBulk = s.srv.maxBulk.Load()
	a := &s.srv.budget.Clients
	limit := a.Limit()
	switch {
	case s.guest.Load() && s.mustAuthenticate():
		s.unread, s.in.MaxFrame = guestOutput, 0 // it has limits of its own
	case limit == 0 || s.noEvict.Load():
		s.unread, s.in.MaxFrame = mostUnread, 0
	default:
		s.unread = int(min(mostUnread, max(leastUnread, (limit-a.Used())/4)))
		s.in.MaxFrame = limit
	}
}

// held is how many bytes the session holds but for the queue of messages. mu is held.
func (s *session) held() int {
	n := s.base + s.subsMemory + cap(s.buf) + cap(s.out.Buf) + cap(s.scratch.Buf) + s.in.Memory() + s.watch.Memory()
	if s.multi != nil {
		n += s.multi.memory()
	}
	if s.deferred != nil && s.deferred.size > smallChange {
		n += s.deferred.size
	}
	if s.blocked != nil {
		n += s.blocked.size
	}
	if s.parts != nil {
		n += partsMemory
	}
	if s.tracker != nil {
		n += s.tracker.held
	}
	return n + len(s.name) + len(s.libName) + len(s.libVersion)
}

// charge brings what the session is charged with up to date. mu is held, by the carrier.
func (s *session) charge() {
	if n := int64(s.held()); n != s.charged.Load() && !s.closed {
		s.srv.budget.Clients.Add(n - s.charged.Swap(n))
	}
}

// chargeGrowth is charge in the middle of a turn, for a session that has grown much.
func (s *session) chargeGrowth() {
	if int64(s.held())-s.charged.Load() > chargeStep {
		s.charge()
	}
}

// discharge takes back what a session was charged with that has left. mu is held.
func (s *session) discharge() {
	s.srv.budget.Clients.Add(-s.charged.Swap(0))
	q := &s.pushes
	q.mu.Lock()
	defer q.mu.Unlock()
	q.buf, q.shut = nil, true
	q.charge(s.srv)
}

// charge brings what the queue is charged with up to date. Its lock is held. Small
// queues cost nothing: the carrier is about to move them.
func (q *pushQueue) charge(srv *Server) {
	n := int64(cap(q.buf))
	if n <= smallBuffer {
		n = 0
	}
	if old := q.charged.Load(); n != old {
		q.charged.Store(n)
		if srv.budget.Clients.Add(n - old); n > old && srv.budget.Clients.Over() > 0 {
			srv.requestEviction()
		}
	}
}

// memory is what the client is charged with.
func (s *session) memory() int64 { return s.charged.Load() + s.pushes.charged.Load() }

// argsSize is how many bytes arguments take that were copied.
func argsSize(args [][]byte) int {
	n := len(args) * int(unsafe.Sizeof([]byte(nil)))
	for _, a := range args {
		n += len(a)
	}
	return n
}

// The default share of maxmemory, in percent, means leastClients bytes at least: under a
// small maxmemory commands of a few megabytes must find a place, and the client that is to
// raise it again. Other percentages are taken as they are.
const (
	defaultShare = 25
	leastClients = 16 << 20
)

// limitClientMemory applies maxmemory-clients.
func (srv *Server) limitClientMemory() {
	srv.settingsMu.Lock()
	n := srv.cfg.Int("maxmemory-clients")
	if n < 0 {
		all, share := srv.cfg.Int("maxmemory"), -n
		if n = all/100*share + all%100*share/100; all > 0 && share == defaultShare {
			n = max(n, leastClients)
		}
	}
	srv.budget.Clients.SetLimit(n)
	srv.settingsMu.Unlock()
	srv.evictClients(nil)
}

// evictRetryDelay is the time after which a loop tries again when evicting all that may be
// evicted was not enough.
const evictRetryDelay = 10 * time.Millisecond

// evictClients evicts clients, the largest first, until all together hold no more than
// maxmemory-clients. Those that have not authenticated go first. t is the turn of the
// loop that calls, with no session's mu held, or nil.
func (srv *Server) evictClients(t *turn) {
	a := &srv.budget.Clients
	if a.Over() == 0 || !srv.evictMu.TryLock() {
		return
	}
	defer srv.evictMu.Unlock()
	if t != nil && time.Now().Before(srv.evictRetryAt) {
		return
	}
	type candidate struct {
		s     *session
		bytes int64
		guest bool
	}
	var list []candidate
	over := a.Over()
	srv.clients.mu.Lock()
	for _, s := range srv.clients.byID {
		switch {
		case s.evicting.Load(): // its carrier has not got round to it
			over -= s.memory()
		case !s.noEvict.Load():
			list = append(list, candidate{s, s.memory(), s.guest.Load()})
		}
	}
	srv.clients.mu.Unlock()
	slices.SortFunc(list, func(x, y candidate) int {
		if x.guest != y.guest {
			return boolInt(y.guest) - boolInt(x.guest)
		}
		return cmp.Compare(y.bytes, x.bytes)
	})
	for _, c := range list {
		if over <= 0 {
			break
		}
		over -= c.bytes
		srv.clientLog.Warn("evicting a client: all clients hold more memory than maxmemory-clients allows", "client", c.s.id,
			"addr", c.s.addr, "bytes", c.bytes, "authenticated", !c.guest, "all", a.Used(), "limit", a.Limit())
		c.s.evicting.Store(true)
		srv.stats.evicted.Add(1)
		c.s.car.evict(t)
	}
	if over > 0 {
		srv.evictRetryAt = time.Now().Add(evictRetryDelay)
	}
}

// requestEviction has watchMemory call evictClients soon: its caller may hold locks.
func (srv *Server) requestEviction() {
	select {
	case srv.evictRequests <- struct{}{}:
	default:
	}
}

// watchMemory evicts clients when requestEviction was called or the account is over its
// limit for another reason, and gives memory back after a burst, until ctx ends.
func (srv *Server) watchMemory(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	peak := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-srv.evictRequests:
			srv.evictClients(nil)
		case <-tick.C:
			srv.evictClients(nil)
			if peak = max(peak, srv.budget.Clients.TakePeak()); peak-srv.budget.Clients.Used() > burst {
				debug.FreeOSMemory()
				peak = 0
			}
		}
	}
}

// burst is how far clients must have come down from what they held for memory to be
// given back at once: the collector would do it some minutes later.
const burst = 16 << 20

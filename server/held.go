package server

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"
	"unsafe"

	"redoubt/server/admin"
)

// The memory of clients and its bound, maxmemory-clients.
//
// Each session knows what it holds (held), remembers what it was charged with, and
// adds the difference to budget.Clients where its buffers have changed: when its
// output was sent as far as the socket takes it, and in the middle of a turn when it
// has grown much. A session without unread replies and half-sent commands always
// holds the same, so the hot path compares two numbers and touches nothing shared.
//
// When the sum is over its limit, clients are evicted at once, the largest first, by
// the loop that notices: a client can send hundreds of megabytes a second. Before
// that, clients that leave replies unread are slowed down: how much each may leave
// unread depends on what is left (setLimits).
//
// Invariants:
//  1. The account is the sum of the charges of all registered sessions, and of
//     the messages that any of them refers to, each of which counts once (package output). leave
//     takes a session's part back. CLIENT LIST, the limits of an output and the order of
//     eviction count a message with every client that has yet to take it, as with Redis.
//  2. A session's charge is changed only by its carrier with mu held, the charge of its
//     message queue only under the queue's lock.
//  3. evictClients takes the mu of a session only on the session's own carrier, and never
//     waits for another eviction.

const (
	// mostUnread is how many bytes of replies a client may leave unread before its
	// commands wait, when there is memory for it, and leastUnread when there is none.
	mostUnread  = 32 << 20
	leastUnread = 64 << 10
	// smallChange is the size up to which the arguments of a command that a worker runs
	// are not charged.
	smallChange = 1 << 10
	// chargeStep is how much a session may grow within a turn before it is charged.
	chargeStep = 64 << 10
	// turnOutput is how many bytes of large replies a loop gathers before it sends them.
	turnOutput = 4 << 20
)

// setLimits sets what the session may send and leave unread in the turn that begins.
func (s *session) setLimits() {
	s.in.MaxBulk = s.srv.set.maxBulk.Load()
	a := &s.srv.budget.Clients
	limit := a.Limit()
	switch {
	case s.guest.Load() && s.mustAuthenticate():
		s.unread, s.in.MaxFrame = guestOutput, 0 // the reader has limits for guests
	case limit == 0 || s.noEvict.Load():
		s.unread, s.in.MaxFrame = mostUnread, 0
	default:
		s.unread = int(min(mostUnread, max(leastUnread, (limit-a.Used())/4)))
		s.in.MaxFrame = limit
	}
}

// held returns how many bytes the session holds, without its message queue and the
// messages that it shares with others. mu is held.
func (s *session) held() int {
	n := s.base + s.subs.Memory() + cap(s.buf) + s.out.Memory() + cap(s.scratch.Buf) + s.in.Memory() + s.watch.Memory()
	if s.multi != nil {
		n += s.multi.memory()
	}
	if s.deferred != nil && s.deferred.size > smallChange {
		n += s.deferred.size
	}
	if s.blocked != nil {
		n += s.blocked.size
	}
	if s.streamed != nil {
		n += streamedMemory
	}
	return n + s.tracker.Memory() + len(s.name) + len(s.libName) + len(s.libVersion)
}

// charge updates the session's charge. It runs on the carrier, which holds mu.
func (s *session) charge() {
	if n := int64(s.held()); n != s.charged.Load() && !s.closed {
		s.srv.budget.Clients.Add(n - s.charged.Swap(n))
	}
	if n := int64(s.out.Borrowed()); n != s.borrowed.Load() && !s.closed {
		s.borrowed.Store(n)
	}
}

// chargeGrowth is charge in the middle of a turn, for a session that has grown much.
func (s *session) chargeGrowth() {
	if int64(s.held())-s.charged.Load() > chargeStep {
		s.charge()
	}
}

// discharge returns the charge of a closed session. mu is held.
func (s *session) discharge() {
	s.srv.budget.Clients.Add(-s.charged.Swap(0))
	s.borrowed.Store(0)
	s.pushQueue.Close()
}

// memory returns what the client holds: its charge, and the messages that it shares with
// others.
func (s *session) memory() int64 {
	return s.charged.Load() + s.borrowed.Load() + s.pushQueue.Memory()
}

// argsSize returns how many bytes copied arguments take.
func argsSize(args [][]byte) int {
	n := len(args) * int(unsafe.Sizeof([]byte(nil)))
	for _, a := range args {
		n += len(a)
	}
	return n
}

// The default share of maxmemory, in percent, is leastClients bytes at least: a small
// maxmemory must leave room for commands of a few megabytes, and for the client that
// raises it again. Other percentages are taken as they are.
const (
	defaultShare = 25
	leastClients = 16 << 20
)

// eviction is the state of closing clients for the memory that they take.
type eviction struct {
	requests chan struct{} // asks watchMemory to call evictClients
	mu       sync.Mutex    // held by evictClients
	retryAt  time.Time     // when evictClients may try again
}

// limitClientMemory applies maxmemory-clients.
func (srv *Server) limitClientMemory() {
	srv.set.mu.Lock()
	n := srv.cfg.Int("maxmemory-clients")
	if n < 0 {
		all, share := srv.cfg.Int("maxmemory"), -n
		if n = all/100*share + all%100*share/100; all > 0 && share == defaultShare {
			n = max(n, leastClients)
		}
	}
	srv.budget.Clients.SetLimit(n)
	srv.set.mu.Unlock()
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
	if a.Over() == 0 || !srv.evict.mu.TryLock() {
		return
	}
	defer srv.evict.mu.Unlock()
	if t != nil && time.Now().Before(srv.evict.retryAt) {
		return
	}
	type candidate struct {
		s     *session
		bytes int64
		guest bool
	}
	var list []candidate
	closing := int64(0)
	srv.clients.mu.Lock()
	for _, s := range srv.clients.byID {
		switch {
		case s.evicting.Load(): // its carrier has yet to close it
			closing += s.memory()
		case !s.noEvict.Load() && !s.feeding.Load():
			list = append(list, candidate{s, s.memory(), s.guest.Load()})
		}
	}
	srv.clients.mu.Unlock()
	// The sum is read after the list: what a client gives back meanwhile must not cost another one.
	over := a.Over() - closing
	slices.SortFunc(list, func(x, y candidate) int {
		if x.guest != y.guest {
			return int(admin.BoolInt(y.guest) - admin.BoolInt(x.guest))
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
		srv.obs.Stats.Evicted.Add(1)
		c.s.car.evict(t)
	}
	if over > 0 {
		srv.evict.retryAt = time.Now().Add(evictRetryDelay)
	}
}

// requestEviction has watchMemory call evictClients soon: its caller may hold locks.
func (srv *Server) requestEviction() {
	select {
	case srv.evict.requests <- struct{}{}:
	default:
	}
}

// watchMemory evicts clients after requestEviction and once a second, and gives memory
// back to the system after a burst, until ctx ends.
func (srv *Server) watchMemory(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	peak := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-srv.evict.requests:
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

// burst is how far the memory of clients must have fallen from its peak for it to be
// given back at once: the collector would do that some minutes later.
const burst = 16 << 20

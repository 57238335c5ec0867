package server

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"redoubt/wire"
)

// Failed logins are slowed, by the address that they come from. The first ones are
// answered at once: somebody mistypes, a program has an old password. From then on the
// answer is held back for longer and longer, and the connection's next commands with it.
// A login with the right password is never held back, so that nobody can lock a client
// out by guessing from its address. docs/adr/0025.

const (
	freeFailures  = 20                    // are answered at once
	failureStep   = 10 * time.Millisecond // is what each further one adds, up to
	longestDelay  = time.Second
	forgetLogins  = time.Minute // after the last failure of an address
	knownHosts    = 10_000      // addresses that are remembered at most
	delayedLogins = 128         // of one address at a time; more are closed
	logLoginEvery = 10 * time.Second
	logLoginGap   = time.Second // between two lines about any address
)

// logins is what is known of failed logins.
type logins struct {
	mu     sync.Mutex
	hosts  map[netip.Prefix]*failures
	logged time.Time // when the last line was written
}

// failures are those of one address.
type failures struct {
	count    int // within forgetLogins of each other
	delayed  int // that wait for their answer
	last     time.Time
	logged   time.Time
	unlogged int // since the last line in the log
}

// loginHost is what stands for an address: of IPv6 the network, since whoever has one
// address there has all of it. Clients on unix sockets are one.
func loginHost(addr string) netip.Prefix {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.Prefix{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // fails only for a wrong number of bits
	return p
}

// fail notes a failed login. It returns for how long its answer is held back, and
// whether too many are: the connection is closed then. Unless full, done is to be called
// after a delay. say is how many failures the log is to tell of now, or 0.
func (l *logins) fail(host netip.Prefix, now time.Time) (delay time.Duration, full bool, say int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.find(host, now)
	f.count++
	f.unlogged++
	f.last = now
	if now.Sub(f.logged) >= logLoginEvery && now.Sub(l.logged) >= logLoginGap {
		say, f.unlogged, f.logged, l.logged = f.unlogged, 0, now, now
	}
	if f.count <= freeFailures {
		return 0, false, say
	}
	if f.delayed >= delayedLogins {
		return 0, true, say
	}
	f.delayed++
	return min(longestDelay, time.Duration(f.count-freeFailures)*failureStep), false, say
}

// find gives what is known of an address, which is forgotten when it is old.
func (l *logins) find(host netip.Prefix, now time.Time) *failures {
	if f := l.hosts[host]; f != nil {
		if now.Sub(f.last) > forgetLogins {
			f.count = 0
		}
		return f
	}
	if l.hosts == nil {
		l.hosts = make(map[netip.Prefix]*failures)
	}
	if len(l.hosts) >= knownHosts {
		l.makeRoom(now)
	}
	f := new(failures)
	l.hosts[host] = f
	return f
}

// makeRoom looks at some addresses and forgets those that are old, or else the oldest of
// them. Those with answers that are held back stay.
func (l *logins) makeRoom(now time.Time) {
	var oldest netip.Prefix
	found, looked := false, 0
	for host, f := range l.hosts {
		if looked++; looked > 64 && (found || len(l.hosts) < knownHosts) {
			break
		}
		switch {
		case f.delayed > 0:
		case now.Sub(f.last) > forgetLogins:
			delete(l.hosts, host)
		case !found || f.last.Before(l.hosts[oldest].last):
			oldest, found = host, true
		}
	}
	if found && len(l.hosts) >= knownHosts {
		delete(l.hosts, oldest)
	}
}

// done says that an answer that was held back was given.
func (l *logins) done(host netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.hosts[host]; f != nil && f.delayed > 0 {
		f.delayed--
	}
}

// loginFailed notes a failed login of the session, and has its answer held back if there
// were many. mu is held.
func (c *localCall) loginFailed(user []byte) {
	s, host, now := c.s, loginHost(c.s.addr), time.Now()
	delay, full, say := c.srv.logins.fail(host, now)
	if say > 0 {
		c.srv.log.Warn("failed logins: wrong user or password; if they are not yours, keep the address away by bind or a firewall",
			"addr", s.addr, "user", cString(user, 64), "failures", say)
	}
	switch {
	case full:
		s.closing = true
	case delay > 0 && c.within != nil: // the reply is the transaction's
		c.srv.logins.done(host)
		s.closing = true
	default:
		c.delay = delay
	}
}

// holdBack takes the reply behind at back, and has it given after a while. Until then
// the session waits. It runs on the carrier, which holds mu.
func (s *session) holdBack(w *wire.Writer, at int, delay time.Duration) {
	reply := append([]byte(nil), w.Buf[at:]...)
	w.Buf = w.Buf[:at]
	wanted := w == &s.out
	if wanted {
		s.answers-- // it is one of the turn in which it is given
	}
	s.waiting = true
	s.car.interest()
	host := loginHost(s.addr)
	time.AfterFunc(delay, func() {
		s.srv.logins.done(host)
		s.car.post(func() {
			if wanted {
				s.answers++
				s.out.Buf = append(s.out.Buf, reply...)
			}
			s.resume()
		})
	})
}

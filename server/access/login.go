package access

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Failed logins are delayed by source address. The first ones are answered at once: they
// may be typing errors or an old password. From then on the answer is delayed for longer
// and longer, and the connection's next commands with it. A login with the right password
// is never delayed, so that guessing from a client's address cannot lock the client out.
// docs/adr/0025.

const (
	freeFailures  = 20                    // failures that are answered at once
	failureStep   = 10 * time.Millisecond // delay that each further failure adds
	longestDelay  = time.Second
	forgetLogins  = time.Minute // after the last failure of an address
	knownHosts    = 10_000      // addresses that are remembered at most
	delayedLogins = 128         // of one address at a time; further connections are closed
	logLoginEvery = 10 * time.Second
	logLoginGap   = time.Second // between two lines about any address
)

// Logins counts failed logins by address.
type Logins struct {
	mu     sync.Mutex
	hosts  map[netip.Prefix]*failures
	logged time.Time // when the last line was written
}

// failures are the failed logins of one address.
type failures struct {
	count    int // within forgetLogins of each other
	delayed  int // answers being delayed
	last     time.Time
	logged   time.Time
	unlogged int // since the last line in the log
}

// Host returns the key under which failures of an address are counted: the /64 network of
// an IPv6 address, since one client usually has all of it. All unix sockets share one.
func Host(addr string) netip.Prefix {
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

// Fail notes a failed login. It returns how long to delay the answer, and whether too many
// answers are delayed already (full): the connection is then to be closed. Unless full, Done
// is to be called after a delay. logCount is how many failures to log now, or 0.
func (l *Logins) Fail(host netip.Prefix, now time.Time) (delay time.Duration, full bool, logCount int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.find(host, now)
	f.count++
	f.unlogged++
	f.last = now
	if now.Sub(f.logged) >= logLoginEvery && now.Sub(l.logged) >= logLoginGap {
		logCount, f.unlogged, f.logged, l.logged = f.unlogged, 0, now, now
	}
	if f.count <= freeFailures {
		return 0, false, logCount
	}
	if f.delayed >= delayedLogins {
		return 0, true, logCount
	}
	f.delayed++
	return min(longestDelay, time.Duration(f.count-freeFailures)*failureStep), false, logCount
}

// find returns the failures of an address, with the count reset if they are old.
func (l *Logins) find(host netip.Prefix, now time.Time) *failures {
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

// makeRoom samples some addresses and removes the old ones, or else the oldest of
// them. Addresses with delayed answers stay.
func (l *Logins) makeRoom(now time.Time) {
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

// Done ends the delay of one answer.
func (l *Logins) Done(host netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.hosts[host]; f != nil && f.delayed > 0 {
		f.delayed--
	}
}

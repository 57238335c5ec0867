package replica

import (
	"math/rand/v2"
	"testing"
	"time"
)

func newLease(voters, outgoing []uint64) *Lease {
	l := &Lease{length: 100}
	l.Begin(1, voters, outgoing)
	return l
}

func TestLeaseNeedsAQuorum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		voters, outgoing []uint64
		echoes           []uint64 // who echoes 1000, one after the other
		want             []time.Duration
	}{
		{"three", []uint64{1, 2, 3}, nil, []uint64{2, 3}, []time.Duration{1100, 1100}},
		{"five", []uint64{1, 2, 3, 4, 5}, nil, []uint64{2, 4}, []time.Duration{0, 1100}},
		{"four", []uint64{1, 2, 3, 4}, nil, []uint64{2, 4}, []time.Duration{0, 1100}},
		{"two", []uint64{1, 2}, nil, []uint64{2}, []time.Duration{1100}},
		{"joint", []uint64{1, 2, 3}, []uint64{1, 4, 5}, []uint64{2, 3, 4}, []time.Duration{0, 0, 1100}},
		{"joint, leader in one", []uint64{2, 3, 4}, []uint64{1, 2, 5}, []uint64{5, 2, 3}, []time.Duration{0, 0, 1100}},
		{"learners do not count", []uint64{1, 2, 3}, nil, []uint64{9, 1}, []time.Duration{0, 0}},
	} {
		l := newLease(c.voters, c.outgoing)
		for i, from := range c.echoes {
			l.Echo(from, 1000)
			if l.Until() != c.want[i] {
				t.Errorf("%s: after %v the lease is until %d, want %d", c.name, c.echoes[:i+1], l.Until(), c.want[i])
			}
		}
	}
}

// Echoes come late, twice and out of order.
func TestLeaseTakesTheNewest(t *testing.T) {
	t.Parallel()
	l := newLease([]uint64{1, 2, 3, 4, 5}, nil)
	l.Echo(2, 1000)
	l.Echo(3, 500)
	if l.Until() != 600 {
		t.Errorf("until %d", l.Until())
	}
	l.Echo(2, 200)
	l.Echo(3, 500)
	if l.Until() != 600 {
		t.Errorf("after older echoes until %d", l.Until())
	}
	l.Echo(4, 900)
	if l.Until() != 1000 {
		t.Errorf("until %d: 1000 and 900 and the leader are a quorum", l.Until())
	}
}

// After a transfer was asked for nothing brings the lease back in that term.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	l := newLease([]uint64{1, 2, 3}, nil)
	l.Echo(2, 1000)
	l.End()
	l.Echo(3, 2000)
	if l.Until() != 0 {
		t.Errorf("until %d", l.Until())
	}
	l.Begin(1, []uint64{1, 2, 3}, nil)
	if l.Until() != 0 {
		t.Errorf("a new term begins with a lease until %d", l.Until())
	}
	l.Echo(3, 3000)
	if l.Until() != 3100 {
		t.Errorf("until %d", l.Until())
	}
}

func TestLeaseLength(t *testing.T) {
	t.Parallel()
	if got := leaseLength(time.Second, 100*time.Millisecond); got != 720*time.Millisecond {
		t.Errorf("%v", got)
	}
}

// What a lease rests on: whoever votes has counted an election timeout of ticks since
// the last message of the leader, on a clock that is up to a tenth faster. At no time
// are there a lease and enough nodes that would vote.
func TestLeaseAndVotesExcludeEachOther(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const tick, ticks = 100, 10
	leases, free := 0, 0
	for range 300 {
		l := &Lease{length: leaseLength(tick*ticks, tick)}
		voters := []uint64{1, 2, 3, 4, 5}[:3+2*rng.IntN(2)]
		l.Begin(1, voters, nil)
		elapsed, nextTick, rate := map[uint64]int{}, map[uint64]time.Duration{}, map[uint64]time.Duration{}
		for _, id := range voters[1:] {
			elapsed[id], rate[id] = ticks, time.Duration(tick-rng.IntN(tick/11)) // a tick that is too early
			nextTick[id] = time.Duration(rng.IntN(tick))
		}
		type echo struct {
			from  uint64
			stamp time.Duration
		}
		var flying []echo
		for now := time.Duration(1); now < 20_000; now += time.Duration(1 + rng.IntN(40)) {
			for _, id := range voters[1:] {
				for ; nextTick[id] <= now; nextTick[id] += rate[id] {
					elapsed[id]++
				}
			}
			if id := voters[1+rng.IntN(len(voters)-1)]; rng.IntN(3000) > int(now%3000) { // in spells
				stamp := now - time.Duration(rng.IntN(30)) // was under way
				elapsed[id] = 0
				flying = append(flying, echo{id, stamp})
			}
			for len(flying) > 0 && rng.IntN(3) > 0 {
				i := rng.IntN(len(flying))
				l.Echo(flying[i].from, flying[i].stamp)
				flying = append(flying[:i], flying[i+1:]...)
			}
			would := 0
			for _, id := range voters[1:] {
				if elapsed[id] >= ticks {
					would++
				}
			}
			if held := l.Until() > now; held && would > len(voters)/2 {
				t.Fatalf("at %d the lease is until %d, and %d of %d would vote for another", now, l.Until(), would, len(voters))
			} else if held {
				leases++
			} else if would > len(voters)/2 {
				free++
			}
		}
	}
	if leases == 0 || free == 0 {
		t.Errorf("%d moments with a lease, %d in which there could be an election", leases, free)
	}
}

package replica

import (
	"slices"
	"time"
)

// A Lease tells a leader until when no other node can have become one, so that it may
// answer reads without asking the others.
//
// Each message of a leader carries a stamp, the leader's clock when the message was
// sent. A follower that takes a message of the leader that it follows grants no vote
// for an election timeout from then on, and echoes the newest stamp with all that
// it sends back. A stamp that a quorum has echoed, the leader itself included, was
// hence sent before a moment from which on each quorum has a node that grants no vote
// for an election timeout. Only the leader's own clock is compared with itself; that of
// the others need only run at about the same rate.
//
// The library has a lease of its own, which counts ticks; a process that was stopped
// misses those, and would read by a lease that has ended long ago. The clock of a Lease
// must go on while the process, or the whole machine, is stopped.
type Lease struct {
	length  time.Duration
	self    uint64
	voters  [2][]uint64 // the second is empty, or what voters were in a joint state
	echoes  map[uint64]time.Duration
	scratch []time.Duration
	until   time.Duration
	off     bool
}

// leaseLength is how long a stamp is good for: an election timeout less two ticks,
// since a follower counts ticks, the first of which may come at once, and a
// tenth for clocks that do not run at the same rate.
func leaseLength(election, tick time.Duration) time.Duration {
	return (election - 2*tick) * 9 / 10
}

// Begin is called when the node has become leader: it has no lease then. In a joint
// state both sets of voters must agree.
func (l *Lease) Begin(self uint64, voters, outgoing []uint64) {
	l.self, l.voters = self, [2][]uint64{slices.Clone(voters), slices.Clone(outgoing)}
	l.echoes, l.until, l.off = make(map[uint64]time.Duration), 0, false
}

// End takes the lease away for the rest of the term: the node is no leader any more, or
// has asked another to become one, which may do so at any time.
func (l *Lease) End() { l.until, l.off = 0, true }

// Echo takes a stamp of this term that a follower has echoed.
func (l *Lease) Echo(from uint64, stamp time.Duration) {
	if l.off || from == l.self || stamp <= l.echoes[from] {
		return
	}
	l.echoes[from] = stamp
	l.until = max(l.until, l.quorum()+l.length)
}

// Until is when the lease ends, by the leader's clock. It never comes earlier but by End.
func (l *Lease) Until() time.Duration { return l.until }

// quorum is the newest stamp that a quorum has echoed, or far in the past.
func (l *Lease) quorum() time.Duration {
	newest := time.Duration(1<<63 - 1)
	for _, voters := range l.voters {
		if len(voters) == 0 {
			continue
		}
		l.scratch = l.scratch[:0]
		for _, id := range voters {
			switch stamp, ok := l.echoes[id]; {
			case id == l.self:
				l.scratch = append(l.scratch, 1<<63-1)
			case ok:
				l.scratch = append(l.scratch, stamp)
			default:
				l.scratch = append(l.scratch, -l.length)
			}
		}
		slices.Sort(l.scratch)
		newest = min(newest, l.scratch[(len(voters)-1)/2])
	}
	if newest == 1<<63-1 { // alone: nobody else can become leader
		return 1<<63 - 1 - l.length
	}
	return newest
}

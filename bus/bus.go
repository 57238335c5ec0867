// Package bus is how front ends that share one store tell each other what happened:
// messages, keyspace events, keys that were changed, keys that got elements.
//
// Each front end has a Hub, to which the others connect, and a Follower, which is
// connected to the hubs of the others. What one wants to hear, it says itself: an
// Interest, which may change at any time. So nobody sends what nobody wants.
//
// Promises:
//  1. A follower hears what a hub tells in the order in which Tell was called.
//  2. A change of interest is acknowledged in the same stream as the effects. What
//     is told after the hub has taken it is behind the acknowledgement, so what a
//     follower looks at when the acknowledgement comes (Handler.Synced), and what it
//     hears behind it, leave no gap.
//  3. When something may have been missed, since a connection broke or a follower
//     was too slow for the hub's queue, Handler.Lost says so. Nothing is sent twice.
//  4. Tell never waits: it is called with latches held.
//
// Both sides prove that they know a secret of the store before anything is told or
// taken (handshake.go). That keeps everybody out who cannot read and change what is
// on the way; where somebody may, TLS is to be used.
package bus

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"redoubt/keyspace"
)

// Interest is what a follower wants to hear.
type Interest struct {
	Messages bool           // of channels
	Shard    bool           // of shard channels
	Keys     bool           // which keys were changed
	Waiting  bool           // which keys became ready for those who wait
	Events   keyspace.Class // keyspace events of these classes
}

// The bits of an interest, as they are sent and as one number.
const (
	wantMessages = 1 << iota
	wantShard
	wantKeys
	wantWaiting

	wantAll    = wantMessages | wantShard | wantKeys | wantWaiting
	eventsFrom = 8 // the classes are above
)

func (i Interest) bits() (b uint32) {
	b = uint32(i.Events) << eventsFrom
	for _, f := range []struct {
		is  bool
		bit uint32
	}{{i.Messages, wantMessages}, {i.Shard, wantShard}, {i.Keys, wantKeys}, {i.Waiting, wantWaiting}} {
		if f.is {
			b |= f.bit
		}
	}
	return b
}

func interestOf(b uint32) Interest {
	return Interest{b&wantMessages != 0, b&wantShard != 0, b&wantKeys != 0, b&wantWaiting != 0, keyspace.Class(b >> eventsFrom)}
}

// Or is what either of the two wants.
func (i Interest) Or(o Interest) Interest { return interestOf(i.bits() | o.bits()) }

// Without is what i wants and o does not.
func (i Interest) Without(o Interest) Interest { return interestOf(i.bits() &^ o.bits()) }

// String names what is wanted, for people.
func (i Interest) String() string {
	var names []string
	for _, f := range []struct {
		is   bool
		name string
	}{{i.Messages, "messages"}, {i.Shard, "shard-messages"}, {i.Events != 0, "events"}, {i.Keys, "keys"}, {i.Waiting, "waiting"}} {
		if f.is {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ",")
}

// Empty says that nothing is wanted.
func (i Interest) Empty() bool { return i == Interest{} }

// Peer is another front end: who it is, and where its hub is.
type Peer struct{ ID, Addr string }

// Errors of connections.
var (
	errMalformed = errors.New("malformed frame")
	errSecret    = errors.New("the other side does not know the secret")
	errOther     = errors.New("another front end has this address")
	errSlow      = errors.New("it does not read what it is told")
	errReplaced  = errors.New("it has connected again")
	errClosed    = errors.New("closed")
)

// The times of a connection.
const (
	defaultBeat  = time.Second     // something is sent at least so often
	defaultDead  = 3 * time.Second // who sends or takes nothing for so long is dead
	defaultQueue = 64 << 20
)

// Timing is how a connection is kept alive; zeros are the usual times. Both sides
// should have the same.
type Timing struct {
	Beat time.Duration // something is sent at least so often: 1 s
	Dead time.Duration // who is silent for so long is dead: 3 s
}

func (t *Timing) fill() {
	if t.Beat <= 0 {
		t.Beat = defaultBeat
	}
	if t.Dead <= 0 {
		t.Dead = defaultDead
	}
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

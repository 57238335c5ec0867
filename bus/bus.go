// Package bus sends effects between front ends that share one store: messages, keyspace
// events, changed keys, and keys that became ready for waiters.
//
// Each front end has a Hub, to which the others connect, and a Follower, which connects to
// the hubs of the others. A follower subscribes by an Interest, which may change at any
// time, and a hub sends only what its followers want.
//
// Promises:
//  1. A follower receives effects in the order in which Hub.Tell was called.
//  2. A change of interest is acknowledged in the same stream as the effects. Effects
//     told after the hub has taken the change are behind the acknowledgement, so a
//     state that a follower reads when the acknowledgement comes (Handler.Synced) and
//     the effects behind it leave no gap.
//  3. If effects may have been missed, because a connection broke or a follower was
//     too slow for the hub's queue, Handler.Lost is called. Nothing is sent twice.
//  4. Tell never waits: it is called with latches held.
//
// A Mesh is another use of the same connections: the members of a replicated cluster send
// each other what package replica has to say. A message may be lost there, with all behind it
// until the members are connected again; none is sent twice, and none is changed.
//
// Both sides prove that they know a secret of the store before anything is sent or
// accepted (handshake.go). That protects against everyone but an attacker who can read or
// change the traffic; against that, use TLS.
package bus

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"redoubt/keyspace"
)

// Interest is what a follower wants to receive.
type Interest struct {
	Messages bool           // of channels
	Shard    bool           // of shard channels
	Keys     bool           // which keys were changed
	Waiting  bool           // which keys became ready for waiters
	Events   keyspace.Class // keyspace events of these classes
}

// The bits of an interest, as they are sent and as one number.
const (
	wantMessages = 1 << iota
	wantShard
	wantKeys
	wantWaiting

	wantAll    = wantMessages | wantShard | wantKeys | wantWaiting
	eventsFrom = 8 // the bits from here on are classes of events
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

// Or returns what either of the two wants.
func (i Interest) Or(o Interest) Interest { return interestOf(i.bits() | o.bits()) }

// Without returns what i wants and o does not.
func (i Interest) Without(o Interest) Interest { return interestOf(i.bits() &^ o.bits()) }

// String lists what is wanted, for people.
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

// Empty reports whether nothing is wanted.
func (i Interest) Empty() bool { return i == Interest{} }

// Peer is another front end: its id, and the address of its hub.
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
	defaultBeat  = time.Second     // see Timing
	defaultDead  = 3 * time.Second // see Timing
	defaultQueue = 64 << 20
)

// Timing is how a connection is kept alive; zeros mean the defaults. Both sides should
// have the same.
type Timing struct {
	Beat time.Duration // the longest time between two frames; default 1 s
	Dead time.Duration // a connection that sends or takes nothing for so long is closed; default 3 s
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

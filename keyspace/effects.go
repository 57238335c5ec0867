package keyspace

import (
	"redoubt/engine"
	"redoubt/feed"
)

// Class is a class of keyspace events, as in notify-keyspace-events.
type Class uint16

const (
	Generic   Class = 1 << iota // g
	StringEv                    // $
	ListEv                      // l
	SetEv                       // s
	HashEv                      // h
	ZSetEv                      // z
	ExpiredEv                   // x
	EvictedEv                   // e
	StreamEv                    // t
	MissEv                      // m
	NewEv                       // n
	ChannelEv                   // p: Redis has no such class
)

// Event is something that happened to a key.
type Event struct {
	Class Class
	Name  string
	DB    int
	Key   []byte
}

// Effects are what happens after the commit of an execution. A handler notes them;
// a rollback drops them.
type Effects struct {
	// Changes counts changes as Redis's "changes since the last save" does.
	Changes int
	// Expired counts expired keys that were removed.
	Expired int
	// Dropped counts values of many elements that were deleted.
	Dropped int
	// Garbage counts values and databases left to background clearing.
	Garbage int
	// Hits and Misses count look-ups of keys for reading.
	Hits, Misses int
	// Events are in the order in which they happened, of the classes in Tx.Listening
	// only.
	Events []Event
	// Ready are keys with possible waiters, in the order in which they became ready.
	Ready []Ready
	// Woken are the Ready keys whose waiters here were served, for other processes.
	Woken []Ready
	// Touched are the keys that were changed, noted only while Space.Observers is not
	// 0.
	Touched []Touch
	// UntrackedTouch: keys were changed that are not in Touched, since there were no observers
	// then. Flushed: databases were emptied, or were empty already. A rollback leaves
	// both as they are.
	UntrackedTouch, Flushed bool
	// UntrackedReady: keys may have become ready that are not in Ready, since no client waited
	// then. A rollback leaves it as it is. It is for other processes: inside one process
	// the latches order waiters and writers.
	UntrackedReady bool
	// Messages are to be published.
	Messages []Message
	// Feed has what replicas are told of the batch: see Tx.Propagate.
	Feed  feed.Batch
	moves []move
	dues  []due
	// libraries that were changed: see library.go.
	libraries []LibraryChange
	// role, if not nil, is the role that the batch stores.
	role *Role
	// watermark, if not 0, is the id watermark that the batch stores.
	watermark uint64
	// catalog: the batch changes the catalog of a shared store, from a moment on.
	catalog bool
	from    engine.Stamp
}

// Ready is a key whose waiters must be run again. A nil Key means all keys of
// the database.
type Ready struct {
	DB  int
	Key []byte
}

// Touch is a key that was changed. A nil Key means all keys of the database.
type Touch struct {
	DB  int
	Key []byte
	// Expired: the key has expired, no client changed it.
	Expired bool
	// By is the client that changed the key: see Tx.By.
	By int64
}

// Message is one to be published to a channel.
type Message struct {
	Channel, Payload []byte
	Shard            bool
	// Events is how many events were noted before the message.
	Events int
}

// move is a database that was given another keyspace number.
type move struct {
	db int
	ks uint32
}

// due is an expire row that was stored.
type due struct {
	slot uint16
	at   int64
}

type effectsMark struct {
	changes, expired, dropped, garbage, hits, misses, events, ready, moves, dues int
	touched, messages, libraries                                                 int
	watermark                                                                    uint64
	catalog                                                                      bool
	role                                                                         *Role
	feed                                                                         feed.Mark
}

func (e *Effects) mark() effectsMark {
	return effectsMark{e.Changes, e.Expired, e.Dropped, e.Garbage, e.Hits, e.Misses, len(e.Events), len(e.Ready), len(e.moves), len(e.dues),
		len(e.Touched), len(e.Messages), len(e.libraries), e.watermark, e.catalog, e.role, e.Feed.Mark()}
}

func (e *Effects) rollback(m effectsMark) {
	e.Changes, e.Expired, e.Dropped, e.Garbage, e.Hits, e.Misses = m.changes, m.expired, m.dropped, m.garbage, m.hits, m.misses
	e.Events, e.Ready, e.moves, e.dues = e.Events[:m.events], e.Ready[:m.ready], e.moves[:m.moves], e.dues[:m.dues]
	e.Touched, e.Messages, e.libraries = e.Touched[:m.touched], e.Messages[:m.messages], e.libraries[:m.libraries]
	e.Feed.Rollback(m.feed)
	e.watermark, e.catalog, e.role = m.watermark, m.catalog, m.role // the rows that store them were rolled back as well
}

// Observed reports whether the listener of the executor must be called for the effects.
func (e *Effects) Observed(s *Space) bool {
	return len(e.Events)+len(e.Touched)+len(e.Messages)+len(e.Woken) > 0 || (e.UntrackedTouch || e.Flushed) && s.Observers.Load() > 0 ||
		e.UntrackedReady && s.Waiting.Load() > 0
}

// Deferred reports whether the batch stores rows for background work: expire rows and garbage
// rows.
func (e *Effects) Deferred() bool { return len(e.dues) > 0 || e.Garbage != 0 }

// Reset empties the Effects and keeps their buffers.
func (e *Effects) Reset() {
	clear(e.Events)
	clear(e.Ready)
	clear(e.Woken)
	clear(e.Touched)
	clear(e.Messages)
	clear(e.libraries)
	e.Feed.Reset()
	*e = Effects{Events: e.Events[:0], Ready: e.Ready[:0], Woken: e.Woken[:0], Touched: e.Touched[:0], Messages: e.Messages[:0],
		moves: e.moves[:0], dues: e.dues[:0], libraries: e.libraries[:0], Feed: e.Feed}
}

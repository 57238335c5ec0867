package pubsub

import (
	"strconv"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Keyspace notifications: events of keys as messages on channels, in the classes
// that notify-keyspace-events names. Handlers note events only while somebody wants
// their class, so without the directive they cost nothing.

// notifyWays are the channels on which events are published.
type notifyWays uint32

const (
	notifyKeyspace notifyWays = 1 << iota // K: __keyspace@<db>__:<key> gets the event
	notifyKeyevent                        // E: __keyevent@<db>__:<event> gets the key
)

// classLetters are the classes as the directive names them. A stands for those in
// allClasses.
var classLetters = map[rune]keyspace.Class{
	'g': keyspace.Generic, '$': keyspace.StringEv, 'l': keyspace.ListEv, 's': keyspace.SetEv, 'h': keyspace.HashEv,
	'z': keyspace.ZSetEv, 'x': keyspace.ExpiredEv, 'e': keyspace.EvictedEv, 't': keyspace.StreamEv,
	'm': keyspace.MissEv, 'n': keyspace.NewEv, 'p': keyspace.ChannelEv, 'A': allClasses,
}

const allClasses = keyspace.Generic | keyspace.StringEv | keyspace.ListEv | keyspace.SetEv | keyspace.HashEv |
	keyspace.ZSetEv | keyspace.ExpiredEv | keyspace.EvictedEv | keyspace.StreamEv

// notifyClasses parses the directive, whose letters config has checked.
func notifyClasses(text string) (ways notifyWays, classes keyspace.Class) {
	for _, letter := range text {
		switch letter {
		case 'K':
			ways |= notifyKeyspace
		case 'E':
			ways |= notifyKeyevent
		}
		classes |= classLetters[letter]
	}
	if ways == 0 {
		classes = 0
	}
	return ways, classes
}

// SetEvents sets the events to be published to a value of notify-keyspace-events, and
// returns their classes: handlers must note events of these.
func (p *Register) SetEvents(text string) keyspace.Class {
	ways, classes := notifyClasses(text)
	p.ways.Store(uint32(ways))
	p.classes.Store(uint32(classes))
	return classes
}

// Classes returns the classes of the events that are published.
func (p *Register) Classes() keyspace.Class { return keyspace.Class(p.classes.Load()) }

const (
	keyspacePrefix = "__keyspace@"
	keyeventPrefix = "__keyevent@"
)

// notify publishes an event, first on the channel of the key.
func (p *Register) notify(ev *keyspace.Event, ticket engine.Ticket) {
	if ev.Class&p.Classes() == 0 {
		return // noted for another front end or the HTTP side
	}
	var buf [128]byte
	channel := func(prefix string) []byte {
		return append(strconv.AppendInt(append(buf[:0], prefix...), int64(ev.DB), 10), "__:"...)
	}
	ways := notifyWays(p.ways.Load())
	var one [1]keyspace.Message
	if ways&notifyKeyspace != 0 {
		one[0] = keyspace.Message{Channel: append(channel(keyspacePrefix), ev.Key...), Payload: []byte(ev.Name)}
		p.deliver(one[:], ticket)
	}
	if ways&notifyKeyevent != 0 {
		one[0] = keyspace.Message{Channel: append(channel(keyeventPrefix), ev.Name...), Payload: ev.Key}
		p.deliver(one[:], ticket)
	}
}

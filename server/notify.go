package server

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
	notifyKeyspace notifyWays = 1 << iota // K: __keyspace@<db>__:<key> says what happened
	notifyKeyevent                        // E: __keyevent@<db>__:<event> says to which key
)

// classLetters are the classes as the directive names them. A stands for those in
// allClasses.
var classLetters = map[rune]keyspace.Class{
	'g': keyspace.Generic, '$': keyspace.StringEv, 'l': keyspace.ListEv, 's': keyspace.SetEv, 'h': keyspace.HashEv,
	'z': keyspace.ZSetEv, 'x': keyspace.ExpiredEv, 'e': keyspace.EvictedEv, 't': keyspace.StreamEv,
	'm': keyspace.MissEv, 'n': keyspace.NewEv, 'A': allClasses,
}

const allClasses = keyspace.Generic | keyspace.StringEv | keyspace.ListEv | keyspace.SetEv | keyspace.HashEv |
	keyspace.ZSetEv | keyspace.ExpiredEv | keyspace.EvictedEv | keyspace.StreamEv

// notifyClasses reads the directive, whose letters config has checked.
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

// applyNotify has the events noted that the directive names.
func (srv *Server) applyNotify() {
	srv.settingsMu.Lock()
	defer srv.settingsMu.Unlock()
	ways, classes := notifyClasses(srv.cfg.Str("notify-keyspace-events"))
	srv.notifying.Store(uint32(ways))
	srv.notifyClasses.Store(uint32(classes))
	if srv.ready.Load() {
		srv.exec.Listening(classes | keyspace.Class(srv.peerClasses.Load()))
		srv.interested()
	}
}

const (
	keyspacePrefix = "__keyspace@"
	keyeventPrefix = "__keyevent@"
)

// notify publishes an event, first on the channel of the key.
func (srv *Server) notify(ev *keyspace.Event, ticket engine.Ticket) {
	if ev.Class&keyspace.Class(srv.notifyClasses.Load()) == 0 {
		return // somebody else wants it
	}
	var buf [128]byte
	channel := func(prefix string) []byte {
		return append(strconv.AppendInt(append(buf[:0], prefix...), int64(ev.DB), 10), "__:"...)
	}
	ways := notifyWays(srv.notifying.Load())
	var one [1]keyspace.Message
	if ways&notifyKeyspace != 0 {
		one[0] = keyspace.Message{Channel: append(channel(keyspacePrefix), ev.Key...), Payload: []byte(ev.Name)}
		srv.pubsub.deliver(one[:], ticket)
	}
	if ways&notifyKeyevent != 0 {
		one[0] = keyspace.Message{Channel: append(channel(keyeventPrefix), ev.Name...), Payload: ev.Key}
		srv.pubsub.deliver(one[:], ticket)
	}
}

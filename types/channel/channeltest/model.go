// Package channeltest is a model of channels over plain lists and maps, and a property
// test that compares any implementation with it: the type itself, or a server.
//
// The model restates the promises of ../../../docs/channels.md in terms of clocks: it has
// no positions, and compares clocks by the wrap rule only.
package channeltest

import (
	"fmt"
	"sort"
	"strings"
)

// Constants that every implementation shares.
const (
	maxClock      = 1<<53 - 1
	defaultExpire = 30 * 60 * 1000
)

// Message is a message that a fetch returned.
type Message struct {
	Clock       int64
	ID, Content string
}

// Fetched is what a fetch returned.
type Fetched struct {
	Messages []Message
	More     bool
	Handle   string // "" for none
}

// Outcome is OK, or the reason why a call was refused.
type Outcome string

// The outcomes.
const (
	OK           Outcome = ""
	NoSubscriber Outcome = "no subscriber"
	BadHandle    Outcome = "bad handle"
	Refused      Outcome = "refused"
)

// Settings are those of a channel; a negative one is left as it is.
type Settings struct{ Expire, MaxLen, MaxBytes int64 }

// Driver is an implementation of channels under test.
type Driver interface {
	Publish(channel, id, content string, life int64) (clock int64, created bool)
	// Subscribe makes a subscriber; from is "", "first", "now" or a clock.
	Subscribe(channel, name, from string) (clock int64, created bool)
	Unsubscribe(channel, name string) bool
	Fetch(channel, name string, count int, after string) (Fetched, Outcome)
	Ack(channel, name, handle string) (moved bool, o Outcome)
	// Read acknowledges and fetches in one step.
	Read(channel, name string, count int, handle string) (Fetched, Outcome)
	Configure(channel string, s Settings)
	SetClock(channel string, clock int64) Outcome
	// Describe returns the visible state of a channel, in the format of Model.Describe.
	Describe(channel string) string
	// Disturb does something without a visible effect: a sweep, a copy away and back.
	Disturb(channel string, n int)
	// Delete deletes the channel.
	Delete(channel string)
	// Advance lets time pass.
	Advance(ms int64)
	Now() int64
}

// Model is a channel.
type Model struct {
	born     int // how often the channel was created
	clock    int64
	messages []message // in their order
	readers  map[string]*reader
	settings Settings
	kept     bool
}

type message struct {
	Message
	death    int64
	readable bool
}

type reader struct{ at, death int64 }

func next(clock int64) int64 {
	if clock == maxClock {
		return -maxClock
	}
	return clock + 1
}

func previous(clock int64) int64 {
	if clock == -maxClock {
		return maxClock
	}
	return clock - 1
}

// unread reports whether a clock is after a cursor and not after the channel's clock.
func (m *Model) unread(x, cursor int64) bool {
	if m.clock >= cursor {
		return x > cursor && x <= m.clock
	}
	return x > cursor || x <= m.clock
}

// settle removes what is past its time, and the channel itself if nothing is left.
func (m *Model) settle(now int64) {
	var live []message
	for _, x := range m.messages {
		if x.death > now {
			live = append(live, x)
		}
	}
	m.messages = live
	for name, r := range m.readers {
		if r.death <= now {
			delete(m.readers, name)
		}
	}
	if !m.exists() {
		*m = Model{born: m.born, readers: map[string]*reader{}}
	}
}

func (m *Model) exists() bool {
	return len(m.messages) > 0 || len(m.readers) > 0 || m.kept || m.settings != Settings{}
}

// make counts the creation of a channel that does not exist.
func (m *Model) make() {
	if !m.exists() {
		m.born++
	}
}

func (m *Model) life() int64 {
	if m.settings.Expire > 0 {
		return m.settings.Expire
	}
	return defaultExpire
}

func (m *Model) publish(now int64, id, content string, life int64) (int64, bool) {
	for _, x := range m.messages {
		if x.ID == id {
			return x.Clock, false
		}
	}
	m.make()
	if life == 0 {
		life = m.life()
	}
	m.clock = next(m.clock)
	m.messages = append(m.messages, message{Message{m.clock, id, content}, now + life, true})
	m.trim()
	return m.clock, true
}

func (m *Model) trim() {
	n, bytes := int64(0), int64(0)
	for _, x := range m.messages {
		if x.readable {
			n++
			bytes += int64(len(x.ID) + len(x.Content))
		}
	}
	s := m.settings
	for i := range m.messages {
		x := &m.messages[i]
		if !x.readable {
			continue
		}
		if !(s.MaxLen > 0 && n > s.MaxLen || s.MaxBytes > 0 && bytes > s.MaxBytes && n > 1) {
			return
		}
		n--
		bytes -= int64(len(x.ID) + len(x.Content))
		x.readable = false
	}
}

func (m *Model) renew(r *reader, now int64) {
	if r.death < now+m.life() {
		step := int64(1) // the largest power of two that is at most a 32nd of the life
		for 2*step <= m.life()/32 {
			step *= 2
		}
		for r.death = now + m.life() + step; r.death%step != 0; {
			r.death++
		}
	}
}

func (m *Model) subscribe(now int64, name string, at int64) (int64, bool) {
	if r := m.readers[name]; r != nil {
		m.renew(r, now)
		return r.at, false
	}
	m.make()
	m.readers[name] = &reader{at: at}
	m.renew(m.readers[name], now)
	return at, true
}

// fetch returns up to count unread messages after a cursor, and the clock of the handle if
// there is one.
func (m *Model) fetch(cursor int64, count int) (f Fetched, handle int64, has bool) {
	for _, x := range m.messages {
		switch {
		case !x.readable || !m.unread(x.Clock, cursor):
		case len(f.Messages) == count:
			f.More = true
			return f, handle, true
		default:
			f.Messages = append(f.Messages, x.Message)
			handle, has = x.Clock, true
		}
	}
	if !has && cursor != m.clock {
		return f, m.clock, true
	}
	return f, handle, has
}

// Describe returns the visible state of the channel, with the lives of subscribers or
// without.
func (m *Model) Describe(now int64, lives bool) string {
	if !m.exists() {
		return "none"
	}
	var b strings.Builder
	n := 0
	for _, x := range m.messages {
		if x.readable {
			n++
		}
	}
	fmt.Fprintf(&b, "clock %d, %d messages, expire %d maxlen %d maxbytes %d", m.clock, n, m.life(), m.settings.MaxLen, m.settings.MaxBytes)
	var names []string
	for name := range m.readers {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		r, backlog := m.readers[name], 0
		for _, x := range m.messages {
			if x.readable && m.unread(x.Clock, r.at) {
				backlog++
			}
		}
		fmt.Fprintf(&b, "\n%s at %d, %d behind", name, r.at, backlog)
		if lives {
			fmt.Fprintf(&b, ", lives %d", r.death-now)
		}
	}
	return b.String()
}

package pubsub

import (
	"slices"

	"redoubt/server/output"
)

// Subscriptions are the subscriptions of one client. Its session's lock guards them; only
// the client's own commands and the closing of its session use them.
type Subscriptions struct {
	register                   *Register
	queue                      *output.Queue
	channels, patterns, shards map[string]*subscription
	memory                     int
}

// Subscribe returns the subscriptions of a client that has none yet. It counts among the
// clients with subscriptions until End is called.
func (p *Register) Subscribe(q *output.Queue) *Subscriptions {
	p.clients.Add(1)
	return &Subscriptions{register: p, queue: q}
}

// Counts returns the figures of CLIENT LIST.
func (s *Subscriptions) Counts() (channels, patterns, shards int) {
	if s == nil {
		return 0, 0, 0
	}
	return len(s.channels), len(s.patterns), len(s.shards)
}

// Total returns the number of subscriptions.
func (s *Subscriptions) Total() int {
	c, p, h := s.Counts()
	return c + p + h
}

// Memory returns about how many bytes the subscriptions take.
func (s *Subscriptions) Memory() int {
	if s == nil {
		return 0
	}
	return s.memory
}

// Kind is one of the three kinds of subscriptions: the words of its messages, and its
// registers.
type Kind struct {
	Subscribed, Unsubscribed string

	own   func(*Subscriptions) *map[string]*subscription
	join  func(p *Register, q *output.Queue, name []byte) *subscription
	leave func(p *Register, sub *subscription)
	// count is the number in an answer: for channels and patterns the sum of both.
	count func(*Subscriptions) int
}

// The kinds.
var (
	Channels = &Kind{
		Subscribed: "subscribe", Unsubscribed: "unsubscribe",
		own: func(s *Subscriptions) *map[string]*subscription { return &s.channels },
		join: func(p *Register, q *output.Queue, name []byte) *subscription {
			return p.channels.subscribe(q, name)
		},
		leave: func(p *Register, sub *subscription) { p.channels.unsubscribe(sub) },
		count: func(s *Subscriptions) int { return len(s.channels) + len(s.patterns) },
	}
	Patterns = &Kind{
		Subscribed: "psubscribe", Unsubscribed: "punsubscribe",
		own: func(s *Subscriptions) *map[string]*subscription { return &s.patterns },
		join: func(p *Register, q *output.Queue, name []byte) *subscription {
			return p.patterns.subscribe(q, name)
		},
		leave: func(p *Register, sub *subscription) { p.patterns.unsubscribe(sub) },
		count: Channels.count,
	}
	Shards = &Kind{
		Subscribed: "ssubscribe", Unsubscribed: "sunsubscribe",
		own:   func(s *Subscriptions) *map[string]*subscription { return &s.shards },
		join:  func(p *Register, q *output.Queue, name []byte) *subscription { return p.shards.subscribe(q, name) },
		leave: func(p *Register, sub *subscription) { p.shards.unsubscribe(sub) },
		count: func(s *Subscriptions) int { return len(s.shards) },
	}
)

// Kinds are all kinds of subscriptions.
var Kinds = []*Kind{Channels, Patterns, Shards}

// subscriptionSize is about the memory of a subscription without its name.
const subscriptionSize = 256

// Add notes a subscription unless the client has it.
func (s *Subscriptions) Add(k *Kind, name []byte) {
	own := k.own(s)
	if (*own)[string(name)] != nil {
		return
	}
	if *own == nil {
		*own = make(map[string]*subscription)
	}
	sub := k.join(s.register, s.queue, name)
	(*own)[sub.topic.name] = sub
	s.memory += subscriptionSize + len(name)
}

// Remove ends a subscription if the client has it.
func (s *Subscriptions) Remove(k *Kind, name string) {
	if s == nil {
		return
	}
	own := *k.own(s)
	if sub := own[name]; sub != nil {
		delete(own, name)
		s.memory -= subscriptionSize + len(name)
		k.leave(s.register, sub)
	}
}

// Count returns the number in an answer to a client: the subscriptions of a kind, for
// channels and patterns the sum of both.
func (s *Subscriptions) Count(k *Kind) int {
	if s == nil {
		return 0
	}
	return k.count(s)
}

// Len returns the number of subscriptions of a kind.
func (s *Subscriptions) Len(k *Kind) int {
	if s == nil {
		return 0
	}
	return len(*k.own(s))
}

// Names returns the names of a kind, sorted.
func (s *Subscriptions) Names(k *Kind) (list []string) {
	if s != nil {
		for name := range *k.own(s) {
			list = append(list, name)
		}
		slices.Sort(list)
	}
	return list
}

// Some returns n names of a kind, or all if there are less.
func (s *Subscriptions) Some(k *Kind, n int) (list []string) {
	if s == nil {
		return nil
	}
	for name := range *k.own(s) {
		if list = append(list, name); len(list) == n {
			break
		}
	}
	return list
}

// End ends all subscriptions, without an answer, and no longer counts the client. It returns
// a function that removes them from the register, which takes long if they are many and must
// not run concurrently with other methods.
func (s *Subscriptions) End() (finish func()) {
	s.register.clients.Add(-1)
	return func() {
		for _, k := range Kinds {
			for _, sub := range *k.own(s) {
				k.leave(s.register, sub)
			}
		}
	}
}

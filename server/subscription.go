package server

import "slices"

// subscriptions are those of one session.
type subscriptions struct {
	channels, patterns, shards map[string]*subscription
}

// counts are what CLIENT LIST tells.
func (s *subscriptions) counts() (channels, patterns, shards int) {
	if s == nil {
		return 0, 0, 0
	}
	return len(s.channels), len(s.patterns), len(s.shards)
}

func (s *subscriptions) total() int {
	c, p, h := s.counts()
	return c + p + h
}

// subscriptionKind is one of the three kinds of subscriptions: the words of its
// messages, and its registers.
type subscriptionKind struct {
	subscribed, unsubscribed string
	own                      func(*subscriptions) *map[string]*subscription
	join                     func(p *pubsub, s *session, name []byte) *subscription
	leave                    func(p *pubsub, sub *subscription)
	// count is what a message tells: of channels and patterns it is the sum.
	count func(*subscriptions) int
}

// left is count for a session that may have none at all.
func (k *subscriptionKind) left(s *subscriptions) int {
	if s == nil {
		return 0
	}
	return k.count(s)
}

var (
	channelKind = &subscriptionKind{
		subscribed: "subscribe", unsubscribed: "unsubscribe",
		own:   func(s *subscriptions) *map[string]*subscription { return &s.channels },
		join:  func(p *pubsub, s *session, name []byte) *subscription { return p.channels.subscribe(s, name) },
		leave: func(p *pubsub, sub *subscription) { p.channels.unsubscribe(sub) },
		count: func(s *subscriptions) int { return len(s.channels) + len(s.patterns) },
	}
	patternKind = &subscriptionKind{
		subscribed: "psubscribe", unsubscribed: "punsubscribe",
		own:   func(s *subscriptions) *map[string]*subscription { return &s.patterns },
		join:  func(p *pubsub, s *session, name []byte) *subscription { return p.patterns.subscribe(s, name) },
		leave: func(p *pubsub, sub *subscription) { p.patterns.unsubscribe(sub) },
		count: channelKind.count,
	}
	shardKind = &subscriptionKind{
		subscribed: "ssubscribe", unsubscribed: "sunsubscribe",
		own:   func(s *subscriptions) *map[string]*subscription { return &s.shards },
		join:  func(p *pubsub, s *session, name []byte) *subscription { return p.shards.subscribe(s, name) },
		leave: func(p *pubsub, sub *subscription) { p.shards.unsubscribe(sub) },
		count: func(s *subscriptions) int { return len(s.shards) },
	}
)

// subscriptionSize is about what a subscription takes besides its name.
const subscriptionSize = 256

// subscribe notes a subscription unless the session has it. mu is held.
func (s *session) subscribe(k *subscriptionKind, name []byte) {
	if s.subs == nil {
		s.subs = &subscriptions{}
	}
	own := k.own(s.subs)
	if (*own)[string(name)] != nil {
		return
	}
	if *own == nil {
		*own = make(map[string]*subscription)
	}
	sub := k.join(&s.srv.pubsub, s, name)
	(*own)[sub.topic.name] = sub
	s.subsMemory += subscriptionSize + len(name)
	if s.subscribed.CompareAndSwap(false, true) {
		s.srv.pubsub.clients.Add(1)
	}
	s.srv.interested()
}

// unsubscribe ends a subscription if the session has it. mu is held.
func (s *session) unsubscribe(k *subscriptionKind, name string) {
	if s.subs == nil {
		return
	}
	own := *k.own(s.subs)
	if sub := own[name]; sub != nil {
		delete(own, name)
		s.subsMemory -= subscriptionSize + len(name)
		k.leave(&s.srv.pubsub, sub)
	}
}

// subscriptionNames are the session's subscriptions of a kind, sorted.
func (s *session) subscriptionNames(k *subscriptionKind) (list []string) {
	if s.subs != nil {
		for name := range *k.own(s.subs) {
			list = append(list, name)
		}
		slices.Sort(list)
	}
	return list
}

// portion is how many subscriptions a session begins or ends before its carrier turns to
// others: a client may have hundreds of thousands.
const portion = 512

// inPortions calls step on the carrier until it says that all is done: now, and then once
// in each turn. The session's next commands wait meanwhile. mu is held.
func (s *session) inPortions(step func() (done bool)) {
	if step() {
		return
	}
	s.waiting = true
	s.car.interest()
	var next func()
	next = func() {
		if step() {
			s.resume()
		} else {
			s.car.post(next)
		}
	}
	s.car.post(next)
}

// someSubscriptions are a portion of the session's subscriptions of a kind.
func (s *session) someSubscriptions(k *subscriptionKind) (list []string) {
	if s.subs == nil {
		return nil
	}
	for name := range *k.own(s.subs) {
		if list = append(list, name); len(list) == portion {
			break
		}
	}
	return list
}

// endSubscribed leaves the subscribed state when there is no subscription left.
func (s *session) endSubscribed() {
	if s.subs != nil && s.subs.total() == 0 {
		s.subs = nil
		s.subscribed.Store(false)
		s.srv.pubsub.clients.Add(-1)
	}
}

// unsubscribeAll ends all subscriptions of a session, without a word. mu is held.
func (s *session) unsubscribeAll() {
	if s.subs == nil {
		return
	}
	subs := s.subs
	s.subs, s.subsMemory = &subscriptions{}, 0
	s.endSubscribed()
	if s.closed && subs.total() > portion { // what is pushed until they are gone is dropped: see discharge
		go subs.end(&s.srv.pubsub)
		return
	}
	subs.end(&s.srv.pubsub)
}

// end takes the subscriptions out of the register.
func (s *subscriptions) end(p *pubsub) {
	for _, k := range []*subscriptionKind{channelKind, patternKind, shardKind} {
		for _, sub := range *k.own(s) {
			k.leave(p, sub)
		}
	}
}

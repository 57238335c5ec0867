// Package pubsub has the subscriptions to channels, and the delivery of messages and of
// keyspace events, which are messages too.
//
// The package promises that a client that has subscribed before a message is delivered gets
// it, once for each matching subscription, in the order of delivery; and that no message
// follows the end of its subscription. Delivery takes the lock of no session.
//
// A message is noted by the execution that publishes it and delivered when that is
// committed, on the goroutine that commits. Delivery walks the subscribers of the channel
// under a read lock and pushes to the queue of each (package output); the message is encoded
// once for each protocol. Channels are spread over parts with a lock each, so loops that
// publish side by side seldom meet.
//
// Unsubscribing takes the write lock: once it is held no delivery is under way, and earlier
// messages are in the client's queue. Lock order: a session's, those here, a queue's.
package pubsub

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"redoubt/engine"
	"redoubt/glob"
	"redoubt/keyspace"
	"redoubt/server/output"
)

// Register is the register of all subscriptions.
type Register struct {
	channels topics // of SUBSCRIBE
	shards   topics // of SSUBSCRIBE
	patterns patterns
	clients  atomic.Int64 // number of clients with subscriptions
	mem      *output.Memory
	ways     atomic.Uint32 // notifyWays
	classes  atomic.Uint32 // of the keyspace events that are published
}

// Init initializes the register. The queues of its subscribers use mem.
func (p *Register) Init(mem *output.Memory) {
	p.mem = mem
	p.channels.init()
	p.shards.init()
	p.patterns.init()
}

// topic is a channel or a pattern with subscribers.
type topic struct {
	name string
	subs []*subscription
	at   int // of a pattern: index among those with the same head
}

// subscription is one client's place in a topic.
type subscription struct {
	queue *output.Queue
	topic *topic
	at    int // in topic.subs
}

func (t *topic) add(q *output.Queue) *subscription {
	sub := &subscription{q, t, len(t.subs)}
	t.subs = append(t.subs, sub)
	return sub
}

// remove removes a subscription in amortized constant time.
func (t *topic) remove(sub *subscription) {
	last := len(t.subs) - 1
	t.subs[sub.at] = t.subs[last]
	t.subs[sub.at].at = sub.at
	t.subs[last] = nil
	if t.subs = t.subs[:last]; cap(t.subs) > 64 && last < cap(t.subs)/4 {
		t.subs = slices.Clone(t.subs)
	}
}

// topics are the channels of one kind.
type topics struct {
	seed  maphash.Seed
	count atomic.Int64
	parts [topicParts]topicPart
}

const topicParts = 64

type topicPart struct {
	mu sync.RWMutex
	m  map[string]*topic
	_  [88]byte // a cache line of its own for each lock
}

func (t *topics) init() { t.seed = maphash.MakeSeed() }

func (t *topics) part(name []byte) *topicPart {
	return &t.parts[maphash.Bytes(t.seed, name)%topicParts]
}

func (t *topics) subscribe(q *output.Queue, name []byte) *subscription {
	p := t.part(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.m[string(name)]
	if c == nil {
		if p.m == nil {
			p.m = make(map[string]*topic)
		}
		c = &topic{name: string(name)}
		p.m[c.name] = c
		t.count.Add(1)
	}
	return c.add(q)
}

func (t *topics) unsubscribe(sub *subscription) {
	name := sub.topic.name
	p := t.part([]byte(name))
	p.mu.Lock()
	defer p.mu.Unlock()
	sub.topic.remove(sub)
	if len(sub.topic.subs) == 0 {
		delete(p.m, name)
		t.count.Add(-1)
		if len(p.m) == 0 {
			p.m = nil // a map never shrinks
		}
	}
}

// size returns the number of subscribers of the channel.
func (t *topics) size(name []byte) int {
	if t.count.Load() == 0 {
		return 0
	}
	p := t.part(name)
	p.mu.RLock()
	defer p.mu.RUnlock()
	if c := p.m[string(name)]; c != nil {
		return len(c.subs)
	}
	return 0
}

// names returns the channels that match a pattern, or all if it is nil, sorted.
func (t *topics) names(pattern []byte) (list []string) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.RLock()
		for name := range p.m {
			if pattern == nil || glob.Match(pattern, []byte(name)) {
				list = append(list, name)
			}
		}
		p.mu.RUnlock()
	}
	slices.Sort(list)
	return list
}

// patterns are the patterns of PSUBSCRIBE. They are indexed by their head, the text before
// the first special character: of a million patterns such as user:1:* only those whose
// head the channel begins with are tried.
type patterns struct {
	count atomic.Int64
	mu    sync.RWMutex
	all   map[string]*topic
	// heads has the patterns by length of the head, and head.
	heads   map[int]map[string][]*topic
	lengths []int
}

func (p *patterns) init() {
	p.all, p.heads = make(map[string]*topic), make(map[int]map[string][]*topic)
}

// head returns the literal beginning of a pattern.
func head(pattern string) string {
	for i := range len(pattern) {
		switch pattern[i] {
		case '*', '?', '[', '\\':
			return pattern[:i]
		}
	}
	return pattern
}

func (p *patterns) subscribe(q *output.Queue, name []byte) *subscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.all[string(name)]
	if t == nil {
		t = &topic{name: string(name)}
		p.all[t.name] = t
		p.count.Add(1)
		h := head(t.name)
		if p.heads[len(h)] == nil {
			p.heads[len(h)] = make(map[string][]*topic)
			p.lengths = append(p.lengths, len(h))
			slices.Sort(p.lengths)
		}
		t.at = len(p.heads[len(h)][h])
		p.heads[len(h)][h] = append(p.heads[len(h)][h], t)
	}
	return t.add(q)
}

func (p *patterns) unsubscribe(sub *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := sub.topic
	t.remove(sub)
	if len(t.subs) > 0 {
		return
	}
	delete(p.all, t.name)
	p.count.Add(-1)
	h := head(t.name)
	same := p.heads[len(h)]
	list := same[h]
	last := len(list) - 1
	list[t.at] = list[last] // in constant time
	list[t.at].at = t.at
	list[last] = nil
	if same[h] = list[:last]; last == 0 {
		delete(same, h)
	}
	if len(same) == 0 {
		delete(p.heads, len(h))
		p.lengths = slices.DeleteFunc(p.lengths, func(n int) bool { return n == len(h) })
	}
}

// match calls f with each pattern that matches a channel, under the read lock.
func (p *patterns) match(channel []byte, f func(*topic)) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, n := range p.lengths {
		if n > len(channel) {
			return
		}
		for _, t := range p.heads[n][string(channel[:n])] {
			if glob.Match([]byte(t.name), channel) {
				f(t)
			}
		}
	}
}

// Receivers returns how many subscriptions a message would reach. A client with a
// subscription to the channel and one to a pattern counts twice, as it gets the message twice.
func (p *Register) Receivers(channel []byte, shard bool) (n int) {
	if shard {
		return p.shards.size(channel)
	}
	n = p.channels.size(channel)
	p.patterns.match(channel, func(t *topic) { n += len(t.subs) })
	return n
}

var (
	kindMessage = []byte("message")
	kindPattern = []byte("pmessage")
	kindSharded = []byte("smessage")
)

// publish sends messages to all subscribers. Consecutive messages to one channel are sent
// together, unless patterns may match: their messages come in between.
func (p *Register) publish(list []keyspace.Message, ticket engine.Ticket) {
	for len(list) > 0 {
		n, size, first := 1, len(list[0].Payload), &list[0]
		if first.Shard || p.patterns.count.Load() == 0 {
			for n < len(list) && size < output.LargeRun && list[n].Shard == first.Shard && bytes.Equal(list[n].Channel, first.Channel) {
				size += len(list[n].Payload)
				n++
			}
		}
		p.deliver(list[:n], ticket)
		list = list[n:]
	}
}

// deliver sends messages of one channel: a single one if patterns may match.
func (p *Register) deliver(list []keyspace.Message, ticket engine.Ticket) {
	channel, shard := list[0].Channel, list[0].Shard
	t, kind := &p.channels, kindMessage
	if shard {
		t, kind = &p.shards, kindSharded
	}
	var e *output.Encoder
	if t.count.Load() > 0 {
		part := t.part(channel)
		part.mu.RLock()
		if c := part.m[string(channel)]; c != nil {
			e = output.NewEncoder()
			for i := range list {
				e.Add(kind, channel, list[i].Payload)
			}
			p.send(e, c, ticket)
		}
		part.mu.RUnlock()
	}
	if !shard {
		p.patterns.match(channel, func(c *topic) {
			if e == nil {
				e = output.NewEncoder()
			}
			for i := range list {
				e.Reset()
				e.Add(kindPattern, []byte(c.name), channel, list[i].Payload)
				p.send(e, c, ticket)
			}
		})
	}
	if e != nil {
		e.Free()
	}
}

// send sends the message to the subscribers of a topic.
func (p *Register) send(e *output.Encoder, t *topic, ticket engine.Ticket) {
	for _, sub := range t.subs {
		sub.queue.PushShared(e, ticket)
	}
	e.Sent(p.mem)
}

// Quiet reports whether no channel or pattern has subscribers.
func (p *Register) Quiet() bool {
	return p.channels.count.Load() == 0 && p.patterns.count.Load() == 0
}

// ShardsQuiet reports whether no shard channel has subscribers.
func (p *Register) ShardsQuiet() bool { return p.shards.count.Load() == 0 }

// Figures are the figures for INFO.
type Figures struct{ Clients, Channels, Patterns, ShardChannels int64 }

// Figures returns the present figures.
func (p *Register) Figures() Figures {
	return Figures{p.clients.Load(), p.channels.count.Load(), p.patterns.count.Load(), p.shards.count.Load()}
}

// Deliver pushes the messages and events of an execution to their subscribers, in the order
// in which they were noted. They are sent when the ticket is durable.
func (p *Register) Deliver(fx *keyspace.Effects, ticket engine.Ticket) {
	messages := fx.Messages
	if len(fx.Events) > 0 && !p.Quiet() {
		for i := range fx.Events {
			n := 0
			for n < len(messages) && messages[n].Events <= i {
				n++
			}
			p.publish(messages[:n], ticket)
			messages = messages[n:]
			p.notify(&fx.Events[i], ticket)
		}
	}
	p.publish(messages, ticket)
}

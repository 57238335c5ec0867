package server

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"redoubt/engine"
	"redoubt/glob"
	"redoubt/keyspace"
)

// Channels: who listens to which, and the delivery of messages.
//
// A message is noted by the execution that publishes it and delivered when that
// is committed, by heard, on whatever goroutine committed. Delivery walks the
// subscribers of the channel under a read lock and pushes to each (push.go); the
// message is encoded once for each protocol. Channels are spread over parts with a
// lock each, so loops that publish side by side seldom meet.
//
// Whoever unsubscribes holds the write lock for that: when it has it, no delivery
// is under way any more, and what was pushed before stands in the session's queue.
// The locks here come behind a session's mu and before its queue's; no delivery
// takes the mu of a session.

// pubsub is the register of all subscriptions.
type pubsub struct {
	channels topics // of SUBSCRIBE
	shards   topics // of SSUBSCRIBE
	patterns patterns
	clients  atomic.Int64 // that have a subscription
}

func (p *pubsub) init() {
	p.channels.init()
	p.shards.init()
	p.patterns.init()
}

// topic is a channel or a pattern that somebody has subscribed to.
type topic struct {
	name string
	subs []*subscription
	at   int // of a pattern: among those with its beginning
}

// subscription is one session's place in a topic.
type subscription struct {
	s     *session
	topic *topic
	at    int // in topic.subs
}

func (t *topic) add(s *session) *subscription {
	sub := &subscription{s, t, len(t.subs)}
	t.subs = append(t.subs, sub)
	return sub
}

// remove takes a subscription out, in no time that depends on the others.
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

func (t *topics) subscribe(s *session, name []byte) *subscription {
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
	return c.add(s)
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
			p.m = nil // a map never gets smaller
		}
	}
}

// size is how many have subscribed to the channel.
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

// names are the channels that match a pattern, all without one, sorted.
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

// patterns are those of PSUBSCRIBE. They are found by what stands before their
// first special character: of a million patterns such as user:1:* only those are
// tried that a channel begins with.
type patterns struct {
	count atomic.Int64
	mu    sync.RWMutex
	all   map[string]*topic
	// heads has the patterns by that beginning, for each length of it that there is.
	heads   map[int]map[string][]*topic
	lengths []int
}

func (p *patterns) init() {
	p.all, p.heads = make(map[string]*topic), make(map[int]map[string][]*topic)
}

// head is the beginning of a pattern that stands for itself.
func head(pattern string) string {
	for i := range len(pattern) {
		switch pattern[i] {
		case '*', '?', '[', '\\':
			return pattern[:i]
		}
	}
	return pattern
}

func (p *patterns) subscribe(s *session, name []byte) *subscription {
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
	return t.add(s)
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
	list[t.at] = list[last] // in no time that depends on the others
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

// match calls f with each pattern that a channel matches, under the lock.
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

// receivers is how many clients a message would reach. One that listens to the
// channel and to a pattern counts twice, as it gets the message twice.
func (p *pubsub) receivers(channel []byte, shard bool) (n int) {
	if shard {
		return p.shards.size(channel)
	}
	n = p.channels.size(channel)
	p.patterns.match(channel, func(t *topic) { n += len(t.subs) })
	return n
}

// encoder holds messages as they are sent: in RESP2 each is an array, in RESP3 a
// push, which differ in the first byte.
type encoder struct {
	resp2, resp3 []byte
	heads        []int // where messages begin that have a RESP3 form which is not made yet
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

func newEncoder() *encoder {
	e := encoders.Get().(*encoder)
	e.reset()
	return e
}

func (e *encoder) reset() { e.resp2, e.resp3, e.heads = e.resp2[:0], e.resp3[:0], e.heads[:0] }

// add appends a message of some strings.
func (e *encoder) add(parts ...[]byte) {
	e.heads = append(e.heads, len(e.resp2))
	b := append(e.resp2, '*', '0'+byte(len(parts)), '\r', '\n')
	for _, p := range parts {
		b = strconv.AppendInt(append(b, '$'), int64(len(p)), 10)
		b = append(append(append(b, '\r', '\n'), p...), '\r', '\n')
	}
	e.resp2 = b
}

// form is what a client gets, made when the first one needs it.
func (e *encoder) form(resp3 bool) []byte {
	if !resp3 {
		return e.resp2
	}
	if len(e.heads) > 0 {
		e.resp3 = append(e.resp3[:0], e.resp2...)
		for _, i := range e.heads {
			e.resp3[i] = '>'
		}
		e.heads = e.heads[:0]
	}
	return e.resp3
}

func (e *encoder) free() {
	if cap(e.resp2) <= 2*largeRun {
		encoders.Put(e)
	}
}

var (
	kindMessage = []byte("message")
	kindPattern = []byte("pmessage")
	kindSharded = []byte("smessage")
)

// largeRun is about how many bytes of messages are sent together.
const largeRun = 64 << 10

// publish sends messages to all who listen. Those to one channel that follow each
// other go to its subscribers together, unless patterns may match: they get theirs
// in between.
func (p *pubsub) publish(list []keyspace.Message, ticket engine.Ticket) {
	for len(list) > 0 {
		n, size, first := 1, len(list[0].Payload), &list[0]
		if first.Shard || p.patterns.count.Load() == 0 {
			for n < len(list) && size < largeRun && list[n].Shard == first.Shard && bytes.Equal(list[n].Channel, first.Channel) {
				size += len(list[n].Payload)
				n++
			}
		}
		p.deliver(list[:n], ticket)
		list = list[n:]
	}
}

// deliver sends messages of one channel; with patterns it is one.
func (p *pubsub) deliver(list []keyspace.Message, ticket engine.Ticket) {
	channel, shard := list[0].Channel, list[0].Shard
	t, kind := &p.channels, kindMessage
	if shard {
		t, kind = &p.shards, kindSharded
	}
	var e *encoder
	if t.count.Load() > 0 {
		part := t.part(channel)
		part.mu.RLock()
		if c := part.m[string(channel)]; c != nil {
			e = newEncoder()
			for i := range list {
				e.add(kind, channel, list[i].Payload)
			}
			e.send(c, ticket)
		}
		part.mu.RUnlock()
	}
	if !shard {
		p.patterns.match(channel, func(c *topic) {
			if e == nil {
				e = newEncoder()
			}
			for i := range list {
				e.reset()
				e.add(kindPattern, []byte(c.name), channel, list[i].Payload)
				e.send(c, ticket)
			}
		})
	}
	if e != nil {
		e.free()
	}
}

func (e *encoder) send(t *topic, ticket engine.Ticket) {
	for _, sub := range t.subs {
		sub.s.pushEncoded(e, ticket)
	}
}

// quiet says that nobody listens to anything.
func (p *pubsub) quiet() bool {
	return p.channels.count.Load() == 0 && p.patterns.count.Load() == 0
}

// heard is told what an execution has done, once that is committed: the messages
// and events go to those who listen, in the order in which they were noted.
func (srv *Server) heard(fx *keyspace.Effects, ticket engine.Ticket) {
	if p := srv.peers.Load(); p != nil {
		p.hub.Tell(fx)
	}
	srv.deliver(fx, ticket)
}

// deliver is heard for the clients of this server.
func (srv *Server) deliver(fx *keyspace.Effects, ticket engine.Ticket) {
	srv.tracking.changed(fx, ticket)
	messages := fx.Messages
	if len(fx.Events) > 0 && !srv.pubsub.quiet() {
		for i := range fx.Events {
			n := 0
			for n < len(messages) && messages[n].Events <= i {
				n++
			}
			srv.pubsub.publish(messages[:n], ticket)
			messages = messages[n:]
			srv.notify(&fx.Events[i], ticket)
		}
	}
	srv.pubsub.publish(messages, ticket)
}

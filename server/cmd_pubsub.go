package server

import (
	"strings"

	"redoubt/command"
	"redoubt/server/pubsub"
	"redoubt/wire"
)

// The SUBSCRIBE commands; package pubsub has the register of subscriptions. PUBLISH and
// SPUBLISH are handlers like others, in package command.
//
// A command answers once for each channel, and its answers are messages: they are sent
// even when the client has switched replies off.

const errSubscribed = "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"

func pubsubCommands() []*local {
	const flags = command.PubSubFlag | command.NoScript | command.Loading | command.Stale | command.WhileSubscribed
	const n = "O(N) where N is the number of "
	sub := func(c command.Command, run func(*localCall) error) *local {
		c.Group, c.Flags = command.PubSub, flags
		return &local{Command: &c, run: run}
	}
	channels := func(more command.ChannelFlags) command.ChannelSpec {
		return command.ChannelSpec{First: 1, Last: -1, Flags: command.Subscribe | more}
	}
	shardKeys := command.KeyRange(1, -1, 1, command.NotKey)
	return []*local{
		sub(command.Command{
			Name: "subscribe", Since: "2.0.0", Arity: -2, Syntax: "channel...", Complexity: n + "channels", Channels: channels(0),
			Summary: "Has this connection hear the messages of channels.",
		}, func(c *localCall) error { return c.subscribe(pubsub.Channels) }),
		sub(command.Command{
			Name: "unsubscribe", Since: "2.0.0", Arity: -1, Syntax: "[channel...]", Complexity: n + "channels",
			Summary: "Ends subscriptions to channels, or to all.",
		}, func(c *localCall) error { return c.unsubscribe(pubsub.Channels) }),
		sub(command.Command{
			Name: "psubscribe", Since: "2.0.0", Arity: -2, Syntax: "pattern:pattern...", Complexity: n + "patterns", Channels: channels(command.ChannelPattern),
			Summary: "Has this connection hear the messages of all channels that match a pattern.",
		}, func(c *localCall) error { return c.subscribe(pubsub.Patterns) }),
		sub(command.Command{
			Name: "punsubscribe", Since: "2.0.0", Arity: -1, Syntax: "[pattern:pattern...]", Complexity: n + "patterns",
			Summary: "Ends subscriptions to patterns, or to all.",
		}, func(c *localCall) error { return c.unsubscribe(pubsub.Patterns) }),
		sub(command.Command{
			Name: "ssubscribe", Since: "7.0.0", Arity: -2, Syntax: "shardchannel...", Complexity: n + "channels", Keys: shardKeys,
			Channels: channels(command.ShardChannel),
			Summary:  "Has this connection hear the messages of shard channels.",
		}, func(c *localCall) error { return c.subscribe(pubsub.Shards) }),
		sub(command.Command{
			Name: "sunsubscribe", Since: "7.0.0", Arity: -1, Syntax: "[shardchannel...]", Complexity: n + "channels", Keys: shardKeys,
			Summary: "Ends subscriptions to shard channels, or to all.",
		}, func(c *localCall) error { return c.unsubscribe(pubsub.Shards) }),
	}
}

// messages returns the writer for the answers: the output even if replies are off.
func (c *localCall) messages() *wire.Writer {
	if c.w == &c.s.scratch {
		return &c.s.out.Writer
	}
	return c.w
}

// nested reports whether the call is one of EXEC's.
func (c *localCall) nested() bool { return c.w != &c.s.out.Writer && c.w != &c.s.scratch }

// settled moves every message from before this call into the output, those included that
// this turn has published but not committed.
func (c *localCall) settled() {
	if c.nested() {
		return // EXEC's reply stands behind all that was pushed
	}
	if b := c.s.work.batch; b != nil {
		b.CommitIfObserved(c.s.call.Guard)
	}
	c.s.takePushed()
}

// subscribe notes a subscription unless the session has it. mu is held.
func (s *session) subscribe(k *pubsub.Kind, name []byte) {
	if s.subs == nil {
		s.subs = s.srv.pubsub.Subscribe(&s.pushQueue)
		s.subscribed.Store(true)
	}
	s.subs.Add(k, name)
	s.srv.raiseInterest()
}

// endSubscribed leaves the subscribed state when there is no subscription left.
func (s *session) endSubscribed() {
	if s.subs != nil && s.subs.Total() == 0 {
		s.unsubscribeAll()
	}
}

// unsubscribeAll ends all subscriptions of a session, without an answer. mu is held.
func (s *session) unsubscribeAll() {
	if s.subs == nil {
		return
	}
	total, finish := s.subs.Total(), s.subs.End()
	s.subs = nil
	s.subscribed.Store(false)
	if s.closed && total > portion { // messages pushed meanwhile are dropped: see discharge
		go finish()
		return
	}
	finish()
}

// portion is how many subscriptions a session begins or ends before its carrier turns to
// others: a client may have hundreds of thousands.
const portion = 512

// inPortions calls step on the carrier until step returns true: now, and then once
// in each turn. The session's next commands wait meanwhile. mu is held.
func (s *session) inPortions(step func() (done bool)) {
	if step() {
		return
	}
	s.suspend(forPortions)
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

func (c *localCall) subscribe(k *pubsub.Kind) error {
	if k == pubsub.Shards && c.nested() {
		return command.Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
	}
	c.settled()
	s, names := c.s, c.args[1:]
	join := func(w *wire.Writer, names [][]byte) {
		for _, name := range names {
			s.subscribe(k, name)
			w.Push(3)
			w.BulkString(k.Subscribed)
			w.Bulk(name)
			w.Int(int64(s.subs.Count(k)))
		}
	}
	if c.nested() || len(names) <= portion {
		join(c.messages(), names)
		return nil
	}
	names = copyArgs(names) // the buffer is used again
	s.inPortions(func() bool {
		n := min(portion, len(names))
		join(&s.out.Writer, names[:n])
		names = names[n:]
		return len(names) == 0
	})
	return nil
}

// unsubscribe ends some subscriptions, or all.
func (c *localCall) unsubscribe(k *pubsub.Kind) error {
	s, all := c.s, len(c.args) == 1
	if n := len(c.args) - 1; !c.nested() && (n > portion || all && s.subs.Len(k) > portion) {
		names := copyArgs(c.args[1:])
		s.inPortions(func() bool {
			var some []string
			if all {
				some = s.subs.Some(k, portion)
			} else {
				n := min(portion, len(names))
				some, names = texts(names[:n]), names[n:]
			}
			s.endSubscriptions(k, some, &s.out.Writer, true)
			if all && s.subs.Len(k) > 0 || len(names) > 0 {
				return false
			}
			s.endSubscribed()
			return true
		})
		return nil
	}
	names := texts(c.args[1:])
	if all {
		names = s.subs.Names(k)
	}
	w := c.messages()
	s.endSubscriptions(k, names, w, !c.nested())
	if len(names) == 0 {
		w.Push(3)
		w.BulkString(k.Unsubscribed)
		w.Null()
		w.Int(int64(s.subs.Count(k)))
	}
	s.endSubscribed()
	return nil
}

// endSubscriptions removes the subscriptions, then moves pushed messages if hear is set
// (not inside EXEC), then answers: no message of a channel may follow its answer.
func (s *session) endSubscriptions(k *pubsub.Kind, names []string, w *wire.Writer, hear bool) {
	if b := s.work.batch; b != nil && hear {
		b.CommitIfObserved(s.call.Guard)
	}
	counts := make([]int, 0, len(names))
	for _, name := range names {
		s.subs.Remove(k, name)
		counts = append(counts, s.subs.Count(k))
	}
	if hear {
		s.takePushed()
	}
	for i, name := range names {
		w.Push(3)
		w.BulkString(k.Unsubscribed)
		w.BulkString(name)
		w.Int(int64(counts[i]))
	}
}

func texts(list [][]byte) (out []string) {
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}

// refuseSubscribed returns the error of a command that a RESP2 client with subscriptions
// may not run.
func (s *session) refuseSubscribed(cmd *command.Command) error {
	if s.out.Proto != 2 || cmd.Flags&command.WhileSubscribed != 0 {
		return nil
	}
	return command.Error(strings.Replace(errSubscribed, "%s", cmd.FullName, 1))
}

package server

import (
	"strings"

	"redoubt/command"
	"redoubt/wire"
)

// Subscribing to channels. PUBLISH and SPUBLISH are handlers like others, in
// package command.
//
// A command answers once for each channel, and its answers are messages: they come
// even when the client has switched replies off.

const errSubscribed = "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"

func pubsubCommands() []*local {
	const flags = command.PubSubFlag | command.NoScript | command.Loading | command.Stale
	const n = "O(N) where N is the number of "
	sub := func(c command.Command, run func(*localCall) error) *local {
		c.Group, c.Flags = command.PubSub, flags
		return &local{Command: &c, run: run}
	}
	shardKeys := command.KeyRange(1, -1, 1, command.NotKey)
	return []*local{
		sub(command.Command{
			Name: "subscribe", Since: "2.0.0", Arity: -2, Syntax: "channel...", Complexity: n + "channels",
			Summary: "Has this connection hear the messages of channels.",
		}, func(c *localCall) error { return c.subscribe(channelKind) }),
		sub(command.Command{
			Name: "unsubscribe", Since: "2.0.0", Arity: -1, Syntax: "[channel...]", Complexity: n + "channels",
			Summary: "Ends subscriptions to channels, or to all.",
		}, func(c *localCall) error { return c.unsubscribe(channelKind) }),
		sub(command.Command{
			Name: "psubscribe", Since: "2.0.0", Arity: -2, Syntax: "pattern:pattern...", Complexity: n + "patterns",
			Summary: "Has this connection hear the messages of all channels that match a pattern.",
		}, func(c *localCall) error { return c.subscribe(patternKind) }),
		sub(command.Command{
			Name: "punsubscribe", Since: "2.0.0", Arity: -1, Syntax: "[pattern:pattern...]", Complexity: n + "patterns",
			Summary: "Ends subscriptions to patterns, or to all.",
		}, func(c *localCall) error { return c.unsubscribe(patternKind) }),
		sub(command.Command{
			Name: "ssubscribe", Since: "7.0.0", Arity: -2, Syntax: "shardchannel...", Complexity: n + "channels", Keys: shardKeys,
			Summary: "Has this connection hear the messages of shard channels.",
		}, func(c *localCall) error { return c.subscribe(shardKind) }),
		sub(command.Command{
			Name: "sunsubscribe", Since: "7.0.0", Arity: -1, Syntax: "[shardchannel...]", Complexity: n + "channels", Keys: shardKeys,
			Summary: "Ends subscriptions to shard channels, or to all.",
		}, func(c *localCall) error { return c.unsubscribe(shardKind) }),
		pubsubContainer(),
	}
}

func pubsubContainer() *local {
	const flags = command.PubSubFlag | command.Loading | command.Stale
	const n = "O(N) where N is the number of "
	sub := func(c command.Command, run func(*localCall) error) *local {
		c.Group, c.Flags = command.PubSub, flags
		return &local{Command: &c, run: run}
	}
	return &local{
		Command: &command.Command{
			Name: "pubsub", Group: command.PubSub, Since: "2.8.0", Arity: -2,
			Summary: "The container of the commands that tell about channels.", Complexity: "Depends on subcommand.",
		},
		subs: []*local{
			sub(command.Command{
				Name: "channels", Since: "2.8.0", Arity: -2, Syntax: "[pattern:pattern]", Complexity: n + "channels",
				Summary: "Lists the channels that somebody listens to.",
			}, func(c *localCall) error { return c.listChannels(&c.srv.pubsub.channels) }).onWorker(),
			helpCommand(command.PubSub, "6.2.0", 0),
			sub(command.Command{
				Name: "numpat", Since: "2.8.0", Arity: 2, Complexity: "O(1)",
				Summary: "Tells how many different patterns are subscribed to.",
			}, func(c *localCall) error { c.w.Int(c.srv.pubsub.patterns.count.Load()); return nil }),
			sub(command.Command{
				Name: "numsub", Since: "2.8.0", Arity: -2, Syntax: "[channel...]", Complexity: n + "channels",
				Summary: "Tells how many listen to each of the channels, patterns not counted.",
			}, func(c *localCall) error { return c.countChannels(&c.srv.pubsub.channels) }),
			sub(command.Command{
				Name: "shardchannels", Since: "7.0.0", Arity: -2, Syntax: "[pattern:pattern]", Complexity: n + "channels",
				Summary: "Lists the shard channels that somebody listens to.",
			}, func(c *localCall) error { return c.listChannels(&c.srv.pubsub.shards) }).onWorker(),
			sub(command.Command{
				Name: "shardnumsub", Since: "7.0.0", Arity: -2, Syntax: "[shardchannel...]", Complexity: n + "channels",
				Summary: "Tells how many listen to each of the shard channels.",
			}, func(c *localCall) error { return c.countChannels(&c.srv.pubsub.shards) }),
		},
	}
}

// onWorker says that the command may take long.
func (l *local) onWorker() *local {
	l.worker = true
	return l
}

// messages is where the answers go, which are messages.
func (c *localCall) messages() *wire.Writer {
	if c.w == &c.s.scratch {
		return &c.s.out
	}
	return c.w
}

// nested says that the call is one of EXEC's.
func (c *localCall) nested() bool { return c.w != &c.s.out && c.w != &c.s.scratch }

// settled has the client get every message of the time before this call: those that
// this turn has published but not committed, too.
func (c *localCall) settled() {
	if c.nested() {
		return // its reply stands behind all that was pushed
	}
	if b := c.s.work.batch; b != nil {
		b.Tell(c.s.call.Guard)
	}
	c.s.hear()
}

func (c *localCall) subscribe(k *subscriptionKind) error {
	if k == shardKind && c.nested() {
		return command.Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
	}
	c.settled()
	s, names := c.s, c.args[1:]
	join := func(w *wire.Writer, names [][]byte) {
		for _, name := range names {
			s.subscribe(k, name)
			w.Push(3)
			w.BulkString(k.subscribed)
			w.Bulk(name)
			w.Int(int64(k.count(s.subs)))
		}
	}
	if c.nested() || len(names) <= portion {
		join(c.messages(), names)
		return nil
	}
	names = copyArgs(names) // the buffer is used again
	s.inPortions(func() bool {
		n := min(portion, len(names))
		join(&s.out, names[:n])
		names = names[n:]
		return len(names) == 0
	})
	return nil
}

// unsubscribe ends some subscriptions, or all.
func (c *localCall) unsubscribe(k *subscriptionKind) error {
	s, all := c.s, len(c.args) == 1
	if n := len(c.args) - 1; !c.nested() && (n > portion || all && s.subs != nil && len(*k.own(s.subs)) > portion) {
		names := copyArgs(c.args[1:])
		s.inPortions(func() bool {
			var some []string
			if all {
				some = s.someSubscriptions(k)
			} else {
				n := min(portion, len(names))
				some, names = texts(names[:n]), names[n:]
			}
			s.endSubscriptions(k, some, &s.out, true)
			if all && s.subs != nil && len(*k.own(s.subs)) > 0 || len(names) > 0 {
				return false
			}
			s.endSubscribed()
			return true
		})
		return nil
	}
	names := texts(c.args[1:])
	if all {
		names = s.subscriptionNames(k)
	}
	w := c.messages()
	s.endSubscriptions(k, names, w, !c.nested())
	if len(names) == 0 {
		w.Push(3)
		w.BulkString(k.unsubscribed)
		w.Null()
		w.Int(int64(k.left(s.subs)))
	}
	s.endSubscribed()
	return nil
}

// endSubscriptions first ends them, then, unless the call is one of EXEC's, takes what was
// pushed until then, then answers: nothing may come behind the answer.
func (s *session) endSubscriptions(k *subscriptionKind, names []string, w *wire.Writer, hear bool) {
	if b := s.work.batch; b != nil && hear {
		b.Tell(s.call.Guard)
	}
	counts := make([]int, 0, len(names))
	for _, name := range names {
		s.unsubscribe(k, name)
		counts = append(counts, k.left(s.subs))
	}
	if hear {
		s.hear()
	}
	for i, name := range names {
		w.Push(3)
		w.BulkString(k.unsubscribed)
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

func (c *localCall) listChannels(t *topics) error {
	if len(c.args) > 3 {
		return subcommandSyntax(c.args)
	}
	var pattern []byte
	if len(c.args) == 3 {
		pattern = c.args[2]
	}
	names := t.names(pattern)
	c.w.Array(len(names))
	for _, name := range names {
		c.w.BulkString(name)
	}
	return nil
}

func (c *localCall) countChannels(t *topics) error {
	c.w.Array(2 * (len(c.args) - 2))
	for _, name := range c.args[2:] {
		c.w.Bulk(name)
		c.w.Int(int64(t.size(name)))
	}
	return nil
}

// whileSubscribed says whether a RESP2 client may send the command although it has
// subscriptions: its replies must not be taken for messages.
func whileSubscribed(cmd *command.Command) bool {
	switch cmd.FullName {
	case "ping", "quit", "reset", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return true
	}
	return false
}

// refuseSubscribed says why a command is refused to a client that has subscriptions.
func (s *session) refuseSubscribed(cmd *command.Command) error {
	if s.out.Proto != 2 || whileSubscribed(cmd) {
		return nil
	}
	return command.Error(strings.Replace(errSubscribed, "%s", cmd.FullName, 1))
}

package command

// PubSubCommands publish messages. The commands that subscribe are about the connection and are
// in package server.
var PubSubCommands = []*Command{publish, spublish}

var publish = &Command{
	Name: "publish", Group: PubSub, Since: "2.0.0", Arity: 3,
	Flags:      PubSubFlag | Loading | Stale | Fast | MayReplicate,
	Channels:   ChannelSpec{First: 1, Flags: Publish},
	Syntax:     "channel message",
	Summary:    "Sends a message to all who listen to the channel, and tells how many they are.",
	Complexity: "O(N+M) where N is the number of subscribers of the channel and M the number of patterns that begin like it",
	Run:        func(c *Ctx) error { return publishTo(c, false) },
}

var spublish = &Command{
	Name: "spublish", Group: PubSub, Since: "7.0.0", Arity: 3,
	Flags:      PubSubFlag | Loading | Stale | Fast | MayReplicate,
	Keys:       OneKey(1, NotKey),
	Channels:   ChannelSpec{First: 1, Flags: Publish | ShardChannel},
	Syntax:     "shardchannel message",
	Summary:    "Sends a message to all who listen to the shard channel, and tells how many they are.",
	Complexity: "O(N) where N is the number of subscribers of the channel",
	Run:        func(c *Ctx) error { return publishTo(c, true) },
}

// publishTo notes the message, if any client may get it: it is sent when the execution is
// committed.
func publishTo(c *Ctx, shard bool) error {
	n, heard := c.Receivers(c.Args[1], shard)
	if heard {
		c.Tx.Publish(c.Args[1], c.Args[2], shard)
	}
	c.Reply.Int(int64(n))
	return nil
}

package pubsub

import (
	"redoubt/command"
	"redoubt/server/admin"
)

// Commands returns PUBSUB and its subcommands. PUBLISH and SPUBLISH are handlers in package
// command; the commands that subscribe change a session, so they are in package server.
func (p *Register) Commands() []*admin.Command {
	const flags = command.PubSubFlag | command.Loading | command.Stale
	const n = "O(N) where N is the number of "
	sub := func(c command.Command, worker bool, run func(*admin.Call) error) *admin.Command {
		c.Group, c.Flags = command.PubSub, flags
		return &admin.Command{Command: &c, Worker: worker, Run: run}
	}
	return []*admin.Command{{
		Command: &command.Command{
			Name: "pubsub", Group: command.PubSub, Since: "2.8.0", Arity: -2,
			Summary: "The container of the commands that tell about channels.", Complexity: "Depends on subcommand.",
		},
		Subs: []*admin.Command{
			sub(command.Command{
				Name: "channels", Since: "2.8.0", Arity: -2, Syntax: "[pattern:pattern]", Complexity: n + "channels",
				Summary: "Lists the channels that somebody listens to.",
			}, true, p.channels.list),
			admin.Help(command.PubSub, "6.2.0", 0),
			sub(command.Command{
				Name: "numpat", Since: "2.8.0", Arity: 2, Complexity: "O(1)",
				Summary: "Tells how many different patterns are subscribed to.",
			}, false, func(c *admin.Call) error { c.Reply.Int(p.patterns.count.Load()); return nil }),
			sub(command.Command{
				Name: "numsub", Since: "2.8.0", Arity: -2, Syntax: "[channel...]", Complexity: n + "channels",
				Summary: "Tells how many listen to each of the channels, patterns not counted.",
			}, false, p.channels.countEach),
			sub(command.Command{
				Name: "shardchannels", Since: "7.0.0", Arity: -2, Syntax: "[pattern:pattern]", Complexity: n + "channels",
				Summary: "Lists the shard channels that somebody listens to.",
			}, true, p.shards.list),
			sub(command.Command{
				Name: "shardnumsub", Since: "7.0.0", Arity: -2, Syntax: "[shardchannel...]", Complexity: n + "channels",
				Summary: "Tells how many listen to each of the shard channels.",
			}, false, p.shards.countEach),
		},
	}}
}

func (t *topics) list(c *admin.Call) error {
	if len(c.Args) > 3 {
		return admin.SubcommandSyntax(c.Args)
	}
	var pattern []byte
	if len(c.Args) == 3 {
		pattern = c.Args[2]
	}
	c.Strings(t.names(pattern))
	return nil
}

func (t *topics) countEach(c *admin.Call) error {
	c.Reply.Array(2 * (len(c.Args) - 2))
	for _, name := range c.Args[2:] {
		c.Reply.Bulk(name)
		c.Reply.Int(int64(t.size(name)))
	}
	return nil
}

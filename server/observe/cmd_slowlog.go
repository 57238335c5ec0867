package observe

import (
	"redoubt/command"
	"redoubt/number"
	"redoubt/server/admin"
)

// slowlogCommands returns SLOWLOG.
func (o *Observer) slowlogCommands() []*admin.Command {
	const flags = command.Admin | command.Loading | command.Stale
	return []*admin.Command{{
		Command: &command.Command{
			Name: "slowlog", Group: command.Server, Since: "2.2.12", Arity: -2,
			Summary: "Holds the commands about the log of slow commands.",
		},
		Subs: []*admin.Command{
			{Command: &command.Command{
				Name: "get", Group: command.Server, Since: "2.2.12", Arity: -2, Flags: flags,
				Tips:   []string{"request_policy:all_nodes", "nondeterministic_output"},
				Syntax: "[count:integer]",
				Summary: "Shows the newest slow commands, 10 of them unless told otherwise and all for -1: number, " +
					"Unix time, microseconds, arguments, address and name of the client.",
			}, Run: o.slowlogGet, Worker: true},
			{Command: &command.Command{
				Name: "len", Group: command.Server, Since: "2.2.12", Arity: 2, Flags: flags,
				Tips:    []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"},
				Summary: "Counts the entries of the log.",
			}, Run: func(c *admin.Call) error { c.Reply.Int(int64(o.Slow.Len())); return nil }},
			{Command: &command.Command{
				Name: "reset", Group: command.Server, Since: "2.2.12", Arity: 2, Flags: flags,
				Tips:    []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
				Summary: "Empties the log.",
			}, Run: func(c *admin.Call) error { o.Slow.reset(); return c.OK() }},
			admin.Help(command.Server, "6.2.0", 0),
		},
	}}
}

func (o *Observer) slowlogGet(c *admin.Call) error {
	n := int64(10)
	switch len(c.Args) {
	case 2:
	case 3:
		var ok bool
		if n, ok = number.ParseInt(c.Args[2]); !ok || n < -1 {
			return command.Error("ERR count should be greater than or equal to -1")
		}
	default:
		return admin.SubcommandSyntax(c.Args)
	}
	list := o.Slow.newest(n)
	c.Reply.Array(len(list))
	for _, e := range list {
		c.Reply.Array(6)
		c.Reply.Int(e.id)
		c.Reply.Int(e.at.Unix())
		c.Reply.Int(e.took.Microseconds())
		c.Reply.Array(len(e.args))
		for _, a := range e.args {
			c.Reply.Bulk(a)
		}
		c.Reply.BulkString(e.addr)
		c.Reply.BulkString(e.client)
	}
	return nil
}

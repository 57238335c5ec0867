package server

import (
	"fmt"
	"strings"

	"redoubt/command"
	"redoubt/number"
)

func slowlogCommands() []*local {
	const flags = command.Admin | command.Loading | command.Stale
	return []*local{{
		Command: &command.Command{
			Name: "slowlog", Group: command.Server, Since: "2.2.12", Arity: -2,
			Summary: "Holds the commands about the log of slow commands.",
		},
		subs: []*local{
			{Command: &command.Command{
				Name: "get", Group: command.Server, Since: "2.2.12", Arity: -2, Flags: flags,
				Tips:   []string{"request_policy:all_nodes", "nondeterministic_output"},
				Syntax: "[count:integer]",
				Summary: "Shows the newest slow commands, 10 of them unless told otherwise and all for -1: number, " +
					"Unix time, microseconds, arguments, address and name of the client.",
			}, run: slowlogGet, worker: true},
			{Command: &command.Command{
				Name: "len", Group: command.Server, Since: "2.2.12", Arity: 2, Flags: flags,
				Tips:    []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"},
				Summary: "Counts the entries of the log.",
			}, run: func(c *localCall) error { c.w.Int(int64(c.srv.slow.len())); return nil }},
			{Command: &command.Command{
				Name: "reset", Group: command.Server, Since: "2.2.12", Arity: 2, Flags: flags,
				Tips:    []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
				Summary: "Empties the log.",
			}, run: func(c *localCall) error { c.srv.slow.reset(); c.w.OK(); return nil }},
			helpCommand(command.Server, "6.2.0", 0),
		},
	}}
}

func slowlogGet(c *localCall) error {
	n := int64(10)
	switch len(c.args) {
	case 2:
	case 3:
		var ok bool
		if n, ok = number.ParseInt(c.args[2]); !ok || n < -1 {
			return command.Error("ERR count should be greater than or equal to -1")
		}
	default:
		return subcommandError(c.args)
	}
	list := c.srv.slow.newest(n)
	c.w.Array(len(list))
	for _, e := range list {
		c.w.Array(6)
		c.w.Int(e.id)
		c.w.Int(e.at.Unix())
		c.w.Int(e.took.Microseconds())
		c.w.Array(len(e.args))
		for _, a := range e.args {
			c.w.Bulk(a)
		}
		c.w.BulkString(e.addr)
		c.w.BulkString(e.client)
	}
	return nil
}

// subcommandError is the answer to a subcommand that is called in a wrong way.
func subcommandError(args [][]byte) error {
	return command.Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.",
		args[1], strings.ToUpper(string(args[0]))))
}

package server

import (
	"redoubt/command"
	"redoubt/number"
)

// localCommands are the commands of this package.
func localCommands() []*local {
	var all []*local
	for _, group := range [][]*local{
		connectionCommands(),
	} {
		all = append(all, group...)
	}
	return all
}

func connectionCommands() []*local {
	return []*local{
		{Command: &command.Command{
			Name: "ping", Group: command.Connection, Since: "1.0.0", Arity: -1,
			Flags:   command.Fast,
			Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
			Syntax:  "[message]",
			Summary: "Answers PONG, or the message.",
		}, run: ping},
		{Command: &command.Command{
			Name: "echo", Group: command.Connection, Since: "1.0.0", Arity: 2,
			Flags: command.Loading | command.Stale | command.Fast, Syntax: "message",
			Summary: "Answers the message.",
		}, run: func(c *localCall) error { c.w.Bulk(c.args[1]); return nil }},
		{Command: &command.Command{
			Name: "select", Group: command.Connection, Since: "1.0.0", Arity: 2,
			Flags: command.Loading | command.Stale | command.Fast, Syntax: "index:integer",
			Summary: "Chooses the database of this connection.",
		}, run: selectDB},
		{Command: &command.Command{
			Name: "quit", Group: command.Connection, Since: "1.0.0", Arity: -1,
			Flags:   command.AllowBusy | command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth,
			Summary: "Closes this connection once its replies are sent.", Deprecated: "7.2.0",
			ReplacedBy: "closing the connection",
		}, run: func(c *localCall) error { c.w.OK(); c.s.closing = true; return nil }},
	}
}

func ping(c *localCall) error {
	switch len(c.args) {
	case 1:
		c.w.Status("PONG")
	case 2:
		c.w.Bulk(c.args[1])
	default:
		return command.ArityError("ping")
	}
	return nil
}

func selectDB(c *localCall) error {
	n, ok := number.ParseInt(c.args[1])
	if !ok {
		return command.ErrNotInteger
	}
	if n < 0 || n >= int64(c.srv.exec.Space().Databases()) {
		return command.ErrDBRange
	}
	c.s.db = int(n)
	c.w.OK()
	return nil
}

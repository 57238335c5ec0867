package server

import (
	"fmt"
	"math"

	"redoubt/command"
	"redoubt/number"
)

// localCommands are the commands of this package.
func localCommands() []*local {
	var all []*local
	for _, group := range [][]*local{
		connectionCommands(),
		helloCommands(),
		clientCommands(),
		monitorCommands(),
		multiCommands(),
		pubsubCommands(),
		replicaCommands(),
	} {
		all = append(all, group...)
	}
	return all
}

// connectionCommands are the small commands about the connection. HELLO and AUTH are in
// cmd_hello.go, CLIENT is in cmd_client.go.
func connectionCommands() []*local {
	const always = command.AllowBusy | command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth |
		command.NoQueue | command.WhileSubscribed
	return []*local{
		{Command: &command.Command{
			Name: "ping", Group: command.Connection, Since: "1.0.0", Arity: -1,
			Flags:  command.Fast | command.Repeatable | command.WhileSubscribed,
			Tips:   []string{"request_policy:all_shards", "response_policy:all_succeeded"},
			Syntax: "[message]", Complexity: "O(1)",
			Summary: "Answers PONG, or the message.",
		}, run: ping},
		{Command: &command.Command{
			Name: "echo", Group: command.Connection, Since: "1.0.0", Arity: 2,
			Flags: command.Loading | command.Stale | command.Fast | command.Repeatable, Syntax: "message", Complexity: "O(1)",
			Summary: "Answers the message.",
		}, run: func(c *localCall) error { c.w.Bulk(c.args[1]); return nil }},
		{Command: &command.Command{
			Name: "select", Group: command.Connection, Since: "1.0.0", Arity: 2,
			Flags: command.Loading | command.Stale | command.Fast | command.Repeatable, Syntax: "index:integer", Complexity: "O(1)",
			Summary: "Chooses the database of this connection.",
		}, run: selectDB},
		{Command: &command.Command{
			Name: "quit", Group: command.Connection, Since: "1.0.0", Arity: -1,
			Flags:   always,
			Summary: "Closes this connection once its replies are sent.", Deprecated: "7.2.0",
			ReplacedBy: "just closing the connection", Complexity: "O(1)",
		}, run: func(c *localCall) error { c.w.OK(); c.s.closing = true; return nil }},
		{Command: &command.Command{
			Name: "reset", Group: command.Connection, Since: "6.2.0", Arity: 1,
			Flags:   always,
			Summary: "Makes this connection as good as new: nothing that was set on it remains.", Complexity: "O(1)",
		}, run: reset},
	}
}

func ping(c *localCall) error {
	switch len(c.args) {
	case 1:
		if c.s.subs != nil && c.w.Proto == 2 {
			return subscribedPing(c, nil)
		}
		c.w.Status("PONG")
	case 2:
		if c.s.subs != nil && c.w.Proto == 2 {
			return subscribedPing(c, c.args[1])
		}
		c.w.Bulk(c.args[1])
	default:
		return command.ArityError("ping")
	}
	return nil
}

// subscribedPing answers a RESP2 client that has subscriptions in the form of a
// message.
func subscribedPing(c *localCall, message []byte) error {
	c.w.Array(2)
	c.w.BulkString("pong")
	c.w.Bulk(message)
	return nil
}

func selectDB(c *localCall) error {
	n, ok := number.ParseInt(c.args[1])
	switch {
	case !ok:
		return command.ErrNotInteger
	case n < math.MinInt32 || n > math.MaxInt32:
		return command.Error(fmt.Sprintf("ERR value is out of range, value must between %d and %d", math.MinInt32, math.MaxInt32))
	case n < 0 || n >= int64(c.srv.databases):
		return command.ErrDBRange
	}
	c.s.db = int(n)
	c.w.OK()
	return nil
}

// reset implements RESET. It keeps the name of the client's library, as Redis does:
// a fact about the client, not a state of the connection.
func reset(c *localCall) error {
	s := c.s
	s.endMonitor()
	s.endMulti()
	s.unsubscribeAll()
	s.tracker.End(false)
	s.takePushed()
	s.db, s.name, s.noTouch = 0, "", false
	s.noEvict.Store(false)
	s.setProto(2)
	s.setDefaultAuth()
	c.speak()
	c.w.Status("RESET")
	return nil
}

// speak ends CLIENT REPLY OFF, beginning with the reply of this call.
func (c *localCall) speak() {
	if c.s.replies == replyOff {
		c.s.replies = replyOn
		c.s.out.Answers++
		c.w = &c.s.out.Writer
	}
}

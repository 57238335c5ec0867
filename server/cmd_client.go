package server

import (
	"math"
	"time"

	"redoubt/command"
	"redoubt/number"
	"redoubt/server/admin"
)

// CLIENT: what a connection sets for itself, and what it may see of the others
// and do to them.

const (
	errClientID    = command.Error("ERR Invalid client ID")
	errKillID      = command.Error("ERR client-id should be greater than 0")
	errKillAge     = command.Error("ERR maxage is not an integer or out of range")
	errKillAgeSign = command.Error("ERR maxage should be greater than 0")
	errNoClient    = command.Error("ERR No such client")
	errPauseMode   = command.Error("ERR CLIENT PAUSE mode must be WRITE or ALL")
	errUnblock     = command.Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
)

func clientCommands() []*local {
	const own = command.NoScript | command.Loading | command.Stale
	const admin = own | command.Admin
	all := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	changing := []string{"nondeterministic_output"}
	sub := func(l local, c command.Command) *local {
		c.Group, l.Command = command.Connection, &c
		if c.Complexity == "" {
			c.Complexity = "O(1)"
		}
		return &l
	}
	return []*local{{
		Command: &command.Command{
			Name: "client", Group: command.Connection, Since: "2.4.0", Arity: -2,
			Summary: "The container of the commands about client connections.", Complexity: "Depends on subcommand.",
		},
		subs: []*local{
			sub(local{run: clientCaching}, command.Command{
				Name: "caching", Since: "6.0.0", Arity: 3, Flags: own, Syntax: "mode=<YES|NO>",
				Summary: "Has the keys of the next command tracked, or not.",
			}),
			sub(local{run: func(c *localCall) error { c.nameReply(c.s.name); return nil }}, command.Command{
				Name: "getname", Since: "2.6.9", Arity: 2, Flags: own,
				Summary: "Tells the name of this connection.",
			}),
			sub(local{run: func(c *localCall) error { t := c.s.tracker.Present(); c.w.Int(t.Redirect()); return nil }}, command.Command{
				Name: "getredir", Since: "6.0.0", Arity: 2, Flags: own,
				Summary: "Tells which connection gets the invalidation messages of this one.",
			}),
			helpCommand(command.Connection, "5.0.0", 0),
			sub(local{run: func(c *localCall) error { c.w.Int(c.s.id); return nil }}, command.Command{
				Name: "id", Since: "5.0.0", Arity: 2, Flags: own,
				Summary: "Tells the number of this connection. No two connections ever have the same.",
			}),
			sub(local{run: clientInfo}, command.Command{
				Name: "info", Since: "6.2.0", Arity: 2, Flags: own, Tips: changing,
				Summary: "Tells about this connection in one line of CLIENT LIST.",
			}),
			sub(local{run: clientKill, worker: true}, command.Command{
				Name: "kill", Since: "2.4.0", Arity: -3, Flags: admin, Complexity: "O(N) where N is the number of connections",
				Syntax: "filter=<old-format'ip:port'!2.8.12|new-format=<[ID client-id:integer]@2.8.12|" +
					"[TYPE client-type=<NORMAL|MASTER@3.2.0|SLAVE|REPLICA@5.0.0|PUBSUB>]@2.8.12|[USER username]|" +
					"[ADDR addr'ip:port']|[LADDR laddr'ip:port']@6.2.0|[SKIPME skipme=<YES|NO>]|[MAXAGE maxage:integer]@7.4.0>...>",
				Summary: "Closes connections: the one from an address, or all that fit every filter.",
			}),
			sub(local{run: clientList, worker: true}, command.Command{
				Name: "list", Since: "2.4.0", Arity: -2, Flags: admin, Tips: changing, Complexity: "O(N) where N is the number of connections",
				Syntax:  "[TYPE client-type=<NORMAL|MASTER|REPLICA|PUBSUB>]@5.0.0 [ID client-id:integer...]@6.2.0",
				Summary: "Lists the connections, one a line.",
			}),
			sub(local{run: clientNoEvict}, command.Command{
				Name: "no-evict", Since: "7.0.0", Arity: 3, Flags: admin, Syntax: "enabled=<ON|OFF>",
				Summary: "Keeps this connection when others are closed for the memory they take.",
			}),
			sub(local{run: func(c *localCall) error { return c.onOff(&c.s.noTouch) }}, command.Command{
				Name: "no-touch", Since: "7.2.0", Arity: 3, Flags: own, Syntax: "enabled=<ON|OFF>",
				Summary: "Has the commands of this connection leave no mark on when a key was last used.",
			}),
			sub(local{run: clientPause}, command.Command{
				Name: "pause", Since: "3.0.0", Arity: -3, Flags: admin, Syntax: "timeout:integer [mode=<WRITE|ALL>]@6.2.0",
				Summary: "Holds back the commands of all clients, or their writes, for some milliseconds.",
			}),
			sub(local{run: clientReply}, command.Command{
				Name: "reply", Since: "3.2.0", Arity: 3, Flags: own, Syntax: "action=<ON|OFF|SKIP>",
				Summary: "Switches the replies to this connection off and on, or skips the next one.",
			}),
			sub(local{run: clientSetInfo}, command.Command{
				Name: "setinfo", Since: "7.2.0", Arity: 4, Flags: own, Tips: all, Syntax: "attr=<LIB-NAME libname|LIB-VER libver>",
				Summary: "Notes which client library this connection uses.",
			}),
			sub(local{run: clientSetName}, command.Command{
				Name: "setname", Since: "2.6.9", Arity: 3, Flags: own, Tips: all, Syntax: "connection-name",
				Summary: "Gives this connection a name.",
			}),
			sub(local{run: clientTracking}, command.Command{
				Name: "tracking", Since: "6.0.0", Arity: -3, Flags: own | command.Tracking,
				Syntax:  "status=<ON|OFF> [REDIRECT client-id:integer] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
				Summary: "Switches messages on and off that tell this client which of the keys it read have changed.",
			}),
			sub(local{run: clientTrackingInfo}, command.Command{
				Name: "trackinginfo", Since: "6.2.0", Arity: 2, Flags: own,
				Summary: "Tells how keys are tracked for this connection.",
			}),
			sub(local{run: clientUnblock, worker: true}, command.Command{
				Name: "unblock", Since: "5.0.0", Arity: -3, Flags: admin, Syntax: "client-id:integer [unblock-type=<TIMEOUT|ERROR>]",
				Summary: "Ends the waiting of a client that is blocked by a command.",
			}),
			sub(local{run: func(c *localCall) error { c.srv.pause.end(); c.w.OK(); return nil }}, command.Command{
				Name: "unpause", Since: "6.2.0", Arity: 2, Flags: admin, Complexity: "O(N) where N is the number of held clients",
				Summary: "Ends CLIENT PAUSE.",
			}),
		},
	}}
}

// onOff sets a switch by the third argument.
func (c *localCall) onOff(to *bool) error {
	if !c.is(2, "on") && !c.is(2, "off") {
		return command.ErrSyntax
	}
	*to = c.is(2, "on")
	c.w.OK()
	return nil
}

func clientNoEvict(c *localCall) error {
	on := c.s.noEvict.Load()
	if err := c.onOff(&on); err != nil {
		return err
	}
	c.s.noEvict.Store(on)
	return nil
}

func (c *localCall) nameReply(name string) {
	if name == "" {
		c.w.Null()
	} else {
		c.w.BulkString(name)
	}
}

func clientSetName(c *localCall) error {
	if !validAttribute(c.args[2]) {
		return errClientName
	}
	c.s.name = string(c.args[2])
	c.w.OK()
	return nil
}

func clientSetInfo(c *localCall) error {
	var to *string
	option := admin.CString(c.args[2], len(c.args[2]))
	switch {
	case c.is(2, "lib-name"):
		to = &c.s.libName
	case c.is(2, "lib-ver"):
		to = &c.s.libVersion
	default:
		return command.Error("ERR Unrecognized option '" + option + "'")
	}
	if !validAttribute(c.args[3]) {
		return command.Error("ERR " + option + " cannot contain spaces, newlines or special characters.")
	}
	*to = string(c.args[3])
	c.w.OK()
	return nil
}

func clientInfo(c *localCall) error {
	c.w.Verbatim("txt", string(c.s.appendInfo(nil, time.Now(), c.args)))
	return nil
}

// clientReply implements CLIENT REPLY. Only ON gets a reply.
func clientReply(c *localCall) error {
	s := c.s
	switch {
	case c.is(2, "on"):
		if s.replies != replyOn {
			s.replies = replyOff // also if this reply was to be skipped: speak needs it
			c.speak()
		}
		c.w.OK()
		return nil
	case c.is(2, "off"):
		c.unanswered()
		s.replies = replyOff
		return nil
	case c.is(2, "skip"):
		if s.replies != replyOff {
			c.unanswered()
			s.replies = replySkipNext
		}
		return nil
	}
	return command.ErrSyntax
}

// unanswered undoes the count of this call as answered.
func (c *localCall) unanswered() {
	if c.s.replies == replyOn {
		c.s.out.Answers--
	}
}

// pauseLimit bounds a pause: time.Duration could not hold all that Redis takes.
const pauseLimit = 100 * 365 * 24 * time.Hour

func clientPause(c *localCall) error {
	all := true
	switch {
	case len(c.args) > 4:
		return admin.SubcommandSyntax(c.args)
	case len(c.args) == 4 && c.is(3, "write"):
		all = false
	case len(c.args) == 4 && !c.is(3, "all"):
		return errPauseMode
	}
	n, ok := number.ParseInt(c.args[2])
	switch {
	case !ok:
		return command.ErrTimeout
	case n < 0:
		return command.ErrTimeoutSign
	case n > math.MaxInt64-time.Now().UnixMilli():
		return command.ErrTimeoutRange
	}
	wait := pauseLimit
	if n < pauseLimit.Milliseconds() {
		wait = time.Duration(n) * time.Millisecond
	}
	c.srv.pause.begin(time.Now().Add(wait), all)
	c.w.OK()
	return nil
}

func clientUnblock(c *localCall) error {
	switch {
	case len(c.args) > 4:
		return admin.SubcommandSyntax(c.args)
	case len(c.args) == 4 && !c.is(3, "timeout") && !c.is(3, "error"):
		return errUnblock
	}
	id, ok := number.ParseInt(c.args[2])
	if !ok {
		return command.ErrNotInteger
	}
	ended := c.srv.unblock(id, len(c.args) == 4 && c.is(3, "error"))
	c.w.Int(admin.BoolInt(ended))
	return nil
}

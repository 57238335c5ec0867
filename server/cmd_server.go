package server

import (
	"strings"
	"time"

	"redoubt/command"
	"redoubt/number"
)

// Small commands about the server.

func serverCommands() []*local {
	return []*local{
		{Command: &command.Command{
			Name: "time", Group: command.Server, Since: "2.6.0", Arity: 1,
			Flags: command.Loading | command.Stale | command.Fast | command.Repeatable, Tips: []string{"nondeterministic_output"},
			Summary: "Tells the server's time: Unix seconds, and microseconds.",
		}, run: serverTime},
		{Command: &command.Command{
			Name: "role", Group: command.Server, Since: "2.8.12", Arity: 1,
			Flags:      command.NoScript | command.Loading | command.Stale | command.Fast,
			Categories: command.CatAdmin | command.CatDangerous,
			Summary:    "Tells the server's part in replication.",
		}, run: func(c *localCall) error {
			c.w.Array(3)
			c.w.BulkString("master")
			c.w.Int(0)
			c.w.Array(0)
			return nil
		}},
		{Command: &command.Command{
			Name: "replicaof", Group: command.Server, Since: "5.0.0", Arity: 3, Flags: replicaFlags,
			Syntax: replicaSyntax, Summary: "Makes the server a replica of another one, which is not possible, or a master, which it is.",
		}, run: replicaOf},
		{Command: &command.Command{
			Name: "slaveof", Group: command.Server, Since: "1.0.0", Arity: 3, Flags: replicaFlags,
			Syntax: replicaSyntax, Summary: "Is the old name of REPLICAOF.", Deprecated: "5.0.0", ReplacedBy: "`REPLICAOF`",
		}, run: replicaOf},
		{Command: &command.Command{
			Name: "shutdown", Group: command.Server, Since: "1.0.0", Arity: -1,
			Flags:   command.Admin | command.NoScript | command.Loading | command.Stale | command.NoMulti | command.AllowBusy,
			Syntax:  "[save-selector=<NOSAVE|SAVE>] [NOW]@7.0.0 [FORCE]@7.0.0 [ABORT]@7.0.0",
			Summary: "Ends the server once what runs is finished and everything is durable; SAVE writes a checkpoint first.",
		}, run: shutdown, worker: true},
		{
			Command: &command.Command{
				Name: "module", Group: command.Server, Since: "4.0.0", Arity: -2,
				Summary: "Holds the commands about modules, which Redoubt does not have.",
			},
			subs: []*local{
				{Command: &command.Command{
					Name: "list", Group: command.Server, Since: "4.0.0", Arity: 2, Flags: command.Admin | command.NoScript,
					Tips: []string{"nondeterministic_output_order"}, Summary: "Lists the modules: none.",
				}, run: func(c *localCall) error { c.w.Array(0); return nil }},
				moduleLoad("load", "4.0.0", "path [arg...]", "Would load a module; Redoubt loads none."),
				moduleLoad("loadex", "7.0.0", "path [CONFIG configs=(name value)]... [ARGS args...]",
					"Would load a module with settings; Redoubt loads none."),
				moduleUnload(),
				helpCommand(command.Server, "5.0.0", 0),
			},
		},
	}
}

const (
	replicaFlags  = command.Admin | command.NoScript | command.Stale | command.NoAsyncLoading
	replicaSyntax = "args=<host-port=(host port:integer)|no-one=(NO ONE)>"
)

func serverTime(c *localCall) error {
	now := c.srv.clock().UnixMicro()
	c.w.Array(2)
	c.w.BulkInt(now / 1e6)
	c.w.BulkInt(now % 1e6)
	return nil
}

func replicaOf(c *localCall) error {
	if isWord(c.args[1], "no") && isWord(c.args[2], "one") {
		return c.ok()
	}
	if port, ok := number.ParseInt(c.args[2]); !ok || port < 0 || port > 65535 {
		return command.Error("ERR Invalid master port")
	}
	return command.Error("ERR Redoubt cannot be a replica of a Redis server")
}

// shutdown has the program end itself: it waits for Stopping. The client gets
// no reply, its connection is closed when the server ends.
func shutdown(c *localCall) error {
	var save, noSave, now, force, abort bool
	for _, a := range c.args[1:] {
		switch strings.ToLower(string(a)) {
		case "save":
			save = true
		case "nosave":
			noSave = true
		case "now":
			now = true
		case "force":
			force = true
		case "abort":
			abort = true
		default:
			return command.ErrSyntax
		}
	}
	if save && noSave || abort && (save || noSave || now || force) {
		return command.ErrSyntax
	}
	if abort {
		return command.Error("ERR No shutdown in progress.")
	}
	if save && c.srv.ready.Load() { // before, there is nothing to save
		for !c.srv.save.begin(time.Now()) {
			time.Sleep(10 * time.Millisecond) // for the save under way
		}
		if err := c.srv.checkpoint(); err != nil && !force {
			return command.Error("ERR Errors trying to SHUTDOWN. Check logs.")
		}
	}
	c.srv.stopAsk.Do(func() { close(c.srv.stopReq) })
	return nil
}

// helpCommand is the HELP of a container.
func helpCommand(group command.Group, since string, cat command.Category) *local {
	return &local{Command: &command.Command{
		Name: "help", Group: group, Since: since, Arity: 2, Categories: cat,
		Flags: command.Loading | command.Stale, Summary: "Lists the subcommands.",
	}, run: func(c *localCall) error {
		lines := command.Help(c.srv.table.Lookup(c.args[0]), c.args[0])
		c.w.Array(len(lines))
		for _, l := range lines {
			c.w.Status(l)
		}
		return nil
	}}
}

func isWord(arg []byte, word string) bool { return strings.EqualFold(string(arg), word) }

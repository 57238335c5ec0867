package admin

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"redoubt/command"
	"redoubt/config"
	"redoubt/script"
)

// Server is the server as the commands of this package see it.
type Server interface {
	Config() *config.Config
	Log() *slog.Logger
	// ClientLog is the rate-limited log for lines that clients can cause at will.
	ClientLog() *slog.Logger
	// Versions returns the version of Redoubt, and of the Redis that it is compatible with.
	Versions() (redoubt, redis string)
	Scripts() *script.Engine
	// Now returns the time that commands see.
	Now() time.Time
	// Loading reports whether the store is still being opened.
	Loading() bool
	// ResetStats resets the counters of INFO.
	ResetStats()
	// Recount counts the keys of a database one by one, and corrects the count of DBSIZE.
	Recount(db int) (int64, error)
	// Save writes a checkpoint of the store; it does nothing while the store is being opened.
	Save() error
	// Stop asks the program to end the server.
	Stop()
}

// Commands returns the administrative commands that need no package of their own: CONFIG,
// COMMAND, MODULE, SCRIPT, FUNCTION, SHUTDOWN and smaller ones.
func Commands(s Server) []*Command {
	return slices.Concat(configCommands(s), tableCommands(), redoubtCommands(s), serverCommands(s), lolwutCommands(s), scriptCommands(s.Scripts()))
}

func serverCommands(s Server) []*Command {
	return []*Command{
		{Command: &command.Command{
			Name: "time", Group: command.Server, Since: "2.6.0", Arity: 1,
			Flags: command.Loading | command.Stale | command.Fast | command.Repeatable, Tips: []string{"nondeterministic_output"},
			Summary: "Tells the server's time: Unix seconds, and microseconds.",
		}, Run: func(c *Call) error { return serverTime(s, c) }},
		{Command: &command.Command{
			Name: "shutdown", Group: command.Server, Since: "1.0.0", Arity: -1,
			Flags:   command.Admin | command.NoScript | command.Loading | command.Stale | command.NoMulti | command.AllowBusy,
			Syntax:  "[save-selector=<NOSAVE|SAVE>] [NOW]@7.0.0 [FORCE]@7.0.0 [ABORT]@7.0.0",
			Summary: "Ends the server once what runs is finished and everything is durable; SAVE writes a checkpoint first.",
		}, Run: func(c *Call) error { return shutdown(s, c) }, Worker: true},
		{
			Command: &command.Command{
				Name: "module", Group: command.Server, Since: "4.0.0", Arity: -2,
				Summary: "Holds the commands about modules, which Redoubt does not have.",
			},
			Subs: []*Command{
				{Command: &command.Command{
					Name: "list", Group: command.Server, Since: "4.0.0", Arity: 2, Flags: command.Admin | command.NoScript,
					Tips: []string{"nondeterministic_output_order"}, Summary: "Lists the modules: none.",
				}, Run: func(c *Call) error { c.Reply.Array(0); return nil }},
				moduleLoad(s, "load", "4.0.0", "path [arg...]", "Would load a module; Redoubt loads none."),
				moduleLoad(s, "loadex", "7.0.0", "path [CONFIG configs=(name value)]... [ARGS args...]",
					"Would load a module with settings; Redoubt loads none."),
				moduleUnload(s),
				Help(command.Server, "5.0.0", 0),
			},
		},
	}
}

func serverTime(s Server, c *Call) error {
	now := s.Now().UnixMicro()
	c.Reply.Array(2)
	c.Reply.BulkInt(now / 1e6)
	c.Reply.BulkInt(now % 1e6)
	return nil
}

// shutdown implements SHUTDOWN: it asks the program to end the server. The client gets no
// reply; its connection is closed when the server ends.
func shutdown(s Server, c *Call) error {
	var save, noSave, now, force, abort bool
	for _, a := range c.Args[1:] {
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
	if save {
		if err := s.Save(); err != nil && !force {
			return command.Error("ERR Errors trying to SHUTDOWN. Check logs.")
		}
	}
	s.Stop()
	return nil
}

package server

import "redoubt/command"

// MODULE: there are no modules, and none can be loaded. The subcommands that would
// do it answer as a Redis does that cannot open the file, and like there only
// when enable-module-command lets the client try.

const moduleFlags = command.Admin | command.NoScript | command.NoAsyncLoading

func moduleLoad(name, since, syntax, summary string) *local {
	return &local{Command: &command.Command{
		Name: name, Group: command.Server, Since: since, Arity: -3, Flags: moduleFlags, Syntax: syntax, Summary: summary,
	}, run: func(c *localCall) error {
		if err := c.enabled("MODULE", "enable-module-command"); err != nil {
			return err
		}
		c.srv.clientLog.Warn("a client tried to load a module, which Redoubt cannot", "path", string(c.args[2]))
		return command.Error("ERR Error loading the extension. Please check the server logs.")
	}}
}

func moduleUnload() *local {
	return &local{Command: &command.Command{
		Name: "unload", Group: command.Server, Since: "4.0.0", Arity: 3, Flags: moduleFlags, Syntax: "name",
		Summary: "Would unload a module; there are none.",
	}, run: func(c *localCall) error {
		if err := c.enabled("MODULE", "enable-module-command"); err != nil {
			return err
		}
		return command.Error("ERR Error unloading module: no such module with that name")
	}}
}

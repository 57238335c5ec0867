package admin

import "redoubt/command"

// MODULE: there are no modules, and none can be loaded. MODULE LOAD and the like answer as
// Redis does when it cannot open the file, and as in Redis only when enable-module-command
// allows them.

const moduleFlags = command.Admin | command.NoScript | command.NoAsyncLoading

func moduleLoad(s Server, name, since, syntax, summary string) *Command {
	return &Command{Command: &command.Command{
		Name: name, Group: command.Server, Since: since, Arity: -3, Flags: moduleFlags, Syntax: syntax, Summary: summary,
	}, Run: func(c *Call) error {
		if err := Enabled(c, s.Config(), "MODULE", "enable-module-command"); err != nil {
			return err
		}
		s.ClientLog().Warn("a client tried to load a module, which Redoubt cannot", "path", string(c.Args[2]))
		return command.Error("ERR Error loading the extension. Please check the server logs.")
	}}
}

func moduleUnload(s Server) *Command {
	return &Command{Command: &command.Command{
		Name: "unload", Group: command.Server, Since: "4.0.0", Arity: 3, Flags: moduleFlags, Syntax: "name",
		Summary: "Would unload a module; there are none.",
	}, Run: func(c *Call) error {
		if err := Enabled(c, s.Config(), "MODULE", "enable-module-command"); err != nil {
			return err
		}
		return command.Error("ERR Error unloading module: no such module with that name")
	}}
}

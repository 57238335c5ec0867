package server

import "redoubt/command"

// COMMAND shows the table of commands; the replies are made in package command.

func commandCommands() []*local {
	const flags, cat = command.Loading | command.Stale, command.CatConnection
	anyOrder := []string{"nondeterministic_output_order"}
	sub := func(name, since string, arity int, tips []string, syntax, summary string, run func(*localCall) error) *local {
		return &local{Command: &command.Command{
			Name: name, Group: command.Server, Since: since, Arity: arity, Flags: flags, Categories: cat,
			Tips: tips, Syntax: syntax, Summary: summary,
		}, run: run}
	}
	return []*local{{
		Command: &command.Command{
			Name: "command", Group: command.Server, Since: "2.8.13", Arity: -1, Flags: flags, Categories: cat,
			Tips: anyOrder, Summary: "Describes all commands as programs need it.",
		},
		run: func(c *localCall) error {
			if len(c.args) > 1 {
				return unknownSubcommand(c.args)
			}
			command.WriteInfo(c.srv.table, nil, c.w)
			return nil
		},
		subs: []*local{
			sub("count", "2.8.13", 2, nil, "", "Tells how many commands there are.", func(c *localCall) error {
				c.w.Int(int64(len(c.srv.table.Commands())))
				return nil
			}),
			sub("docs", "7.0.0", -2, anyOrder, "[command-name...]",
				"Documents the given commands, or all of them.", func(c *localCall) error {
					command.WriteDocs(c.srv.table, c.args[2:], c.w)
					return nil
				}),
			sub("getkeys", "2.8.13", -3, nil, "command [arg...]",
				"Finds the keys among the arguments of a command.", func(c *localCall) error {
					return command.WriteKeys(c.srv.table, c.args[2:], false, c.w)
				}),
			sub("getkeysandflags", "7.0.0", -3, nil, "command [arg...]",
				"Finds the keys among the arguments of a command, and what it does with each.", func(c *localCall) error {
					return command.WriteKeys(c.srv.table, c.args[2:], true, c.w)
				}),
			helpCommand(command.Server, "5.0.0", cat),
			sub("info", "2.8.13", -2, anyOrder, "[command-name...]",
				"Describes the given commands, or all of them, as programs need it.", func(c *localCall) error {
					command.WriteInfo(c.srv.table, c.args[2:], c.w)
					return nil
				}),
			sub("list", "7.0.0", -2, anyOrder, "[FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern:pattern>]",
				"Lists the names of commands, all of them or those of a category or a pattern.", func(c *localCall) error {
					return command.WriteList(c.srv.table, c.args[2:], c.w)
				}),
		},
	}}
}

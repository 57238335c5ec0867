package admin

import "redoubt/command"

// COMMAND shows the table of commands; the replies are made in package command.

func tableCommands() []*Command {
	const flags, cat = command.Loading | command.Stale, command.CatConnection
	anyOrder := []string{"nondeterministic_output_order"}
	sub := func(name, since string, arity int, tips []string, syntax, summary string, run func(*Call) error) *Command {
		return &Command{Command: &command.Command{
			Name: name, Group: command.Server, Since: since, Arity: arity, Flags: flags, Categories: cat,
			Tips: tips, Syntax: syntax, Summary: summary,
		}, Run: run}
	}
	return []*Command{{
		Command: &command.Command{
			Name: "command", Group: command.Server, Since: "2.8.13", Arity: -1, Flags: flags, Categories: cat,
			Tips: anyOrder, Summary: "Describes all commands as programs need it.",
		},
		Run: func(c *Call) error {
			if len(c.Args) > 1 {
				return UnknownSubcommand(c.Args)
			}
			command.WriteInfo(c.Table, nil, c.Reply)
			return nil
		},
		Subs: []*Command{
			sub("count", "2.8.13", 2, nil, "", "Tells how many commands there are.", func(c *Call) error {
				c.Reply.Int(int64(len(c.Table.Commands())))
				return nil
			}),
			sub("docs", "7.0.0", -2, anyOrder, "[command-name...]",
				"Documents the given commands, or all of them.", func(c *Call) error {
					command.WriteDocs(c.Table, c.Args[2:], c.Reply)
					return nil
				}),
			sub("getkeys", "2.8.13", -3, nil, "command [arg...]",
				"Finds the keys among the arguments of a command.", func(c *Call) error {
					return command.WriteKeys(c.Table, c.Args[2:], false, c.Reply)
				}),
			sub("getkeysandflags", "7.0.0", -3, nil, "command [arg...]",
				"Finds the keys among the arguments of a command, and what it does with each.", func(c *Call) error {
					return command.WriteKeys(c.Table, c.Args[2:], true, c.Reply)
				}),
			Help(command.Server, "5.0.0", cat),
			sub("info", "2.8.13", -2, anyOrder, "[command-name...]",
				"Describes the given commands, or all of them, as programs need it.", func(c *Call) error {
					command.WriteInfo(c.Table, c.Args[2:], c.Reply)
					return nil
				}),
			sub("list", "7.0.0", -2, anyOrder, "[FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern:pattern>]",
				"Lists the names of commands, all of them or those of a category or a pattern.", func(c *Call) error {
					return command.WriteList(c.Table, c.Args[2:], c.Reply)
				}),
		},
	}}
}

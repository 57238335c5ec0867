package admin

import "redoubt/command"

// REDOUBT: commands that Redis does not have.

func redoubtCommands(s Server) []*Command {
	return []*Command{{
		Command: &command.Command{
			Name: "redoubt", Group: command.Server, Since: "0.1.0", Arity: -2,
			Summary: "Holds the commands that are Redoubt's own.",
		},
		Subs: []*Command{
			{Command: &command.Command{
				Name: "recount", Group: command.Server, Since: "0.1.0", Arity: 2,
				Flags: command.Admin | command.NoScript | command.NoMulti,
				Summary: "Counts the keys of the selected database one by one, and corrects what DBSIZE says. " +
					"Only where several servers use one store can the two differ.",
			}, Run: func(c *Call) error { return recount(s, c) }, Worker: true},
			Help(command.Server, "0.1.0", 0),
		},
	}}
}

func recount(s Server, c *Call) error {
	n, err := s.Recount(c.Client.Database())
	if err != nil {
		return err
	}
	c.Reply.Int(n)
	return nil
}

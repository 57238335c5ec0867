package server

import "redoubt/command"

// REDOUBT: commands that Redis does not have, about what it does not do.

func redoubtCommands() []*local {
	return []*local{{
		Command: &command.Command{
			Name: "redoubt", Group: command.Server, Since: "0.1.0", Arity: -2,
			Summary: "Holds the commands that are Redoubt's own.",
		},
		subs: []*local{
			{Command: &command.Command{
				Name: "recount", Group: command.Server, Since: "0.1.0", Arity: 2,
				Flags: command.Admin | command.NoScript | command.NoMulti,
				Summary: "Counts the keys of the selected database one by one, and corrects what DBSIZE says. " +
					"Only where several servers use one store can the two differ.",
			}, run: redoubtRecount, worker: true},
			helpCommand(command.Server, "0.1.0", 0),
		},
	}}
}

func redoubtRecount(c *localCall) error {
	if !c.srv.ready.Load() {
		return command.ErrLoading
	}
	n, err := c.srv.exec.Recount(c.s.db, c.srv.draining.Load)
	if err != nil {
		return err
	}
	c.w.Int(n)
	return nil
}

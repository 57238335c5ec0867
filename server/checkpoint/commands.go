package checkpoint

import (
	"time"

	"redoubt/command"
	"redoubt/server/admin"
)

// Commands returns SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE.
func (s *Saver) Commands() []*admin.Command {
	const flags = command.Admin | command.NoScript | command.NoAsyncLoading
	return []*admin.Command{
		{Command: &command.Command{
			Name: "save", Group: command.Server, Since: "1.0.0", Arity: 1, Flags: flags | command.NoMulti,
			Summary: "Writes a checkpoint of the store and waits for it.",
		}, Run: s.saveNow, Worker: true},
		{Command: &command.Command{
			Name: "bgsave", Group: command.Server, Since: "1.0.0", Arity: -1, Flags: flags,
			Syntax: "[SCHEDULE]@3.2.2", Summary: "Writes a checkpoint of the store in the background.",
		}, Run: s.saveInBackground},
		{Command: &command.Command{
			Name: "bgrewriteaof", Group: command.Server, Since: "1.0.0", Arity: 1, Flags: flags,
			Summary: "Does nothing: the store keeps its log short by itself.",
		}, Run: func(c *admin.Call) error {
			c.Reply.Status("Background append only file rewriting started")
			return nil
		}},
		{Command: &command.Command{
			Name: "lastsave", Group: command.Server, Since: "1.0.0", Arity: 1,
			Flags:      command.Loading | command.Stale | command.Fast,
			Categories: command.CatAdmin | command.CatDangerous,
			Tips:       []string{"nondeterministic_output"},
			Summary:    "Tells the Unix time of the last checkpoint, or of the start.",
		}, Run: func(c *admin.Call) error {
			c.Reply.Int(s.Figures().Last.Unix())
			return nil
		}},
	}
}

func (s *Saver) saveNow(c *admin.Call) error {
	if !s.begin(time.Now()) {
		return errSaving
	}
	if err := s.save(); err != nil {
		return err
	}
	return c.OK()
}

func (s *Saver) saveInBackground(c *admin.Call) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !c.Is(1, "schedule") {
		return command.ErrSyntax
	}
	if !s.begin(time.Now()) {
		return errSaving
	}
	s.Workers.Add(1) // so that a shutdown waits for it
	go s.saveSlowly(s.Workers.Done)
	c.Reply.Status("Background saving started")
	return nil
}

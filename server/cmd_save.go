package server

import (
	"time"

	"redoubt/command"
)

// What is written where is in save.go.

func saveCommands() []*local {
	const flags = command.Admin | command.NoScript | command.NoAsyncLoading
	return []*local{
		{Command: &command.Command{
			Name: "save", Group: command.Server, Since: "1.0.0", Arity: 1, Flags: flags | command.NoMulti,
			Summary: "Writes a checkpoint of the store and waits for it.",
		}, run: saveNow, worker: true},
		{Command: &command.Command{
			Name: "bgsave", Group: command.Server, Since: "1.0.0", Arity: -1, Flags: flags,
			Syntax: "[SCHEDULE]@3.2.2", Summary: "Writes a checkpoint of the store in the background.",
		}, run: saveInBackground},
		{Command: &command.Command{
			Name: "bgrewriteaof", Group: command.Server, Since: "1.0.0", Arity: 1, Flags: flags,
			Summary: "Does nothing: the store keeps its log short by itself.",
		}, run: func(c *localCall) error {
			c.w.Status("Background append only file rewriting started")
			return nil
		}},
		{Command: &command.Command{
			Name: "lastsave", Group: command.Server, Since: "1.0.0", Arity: 1,
			Flags:      command.Loading | command.Stale | command.Fast,
			Categories: command.CatAdmin | command.CatDangerous,
			Tips:       []string{"nondeterministic_output"},
			Summary:    "Tells the Unix time of the last checkpoint, or of the start.",
		}, run: func(c *localCall) error {
			c.w.Int(c.srv.save.figures().last.Unix())
			return nil
		}},
	}
}

func saveNow(c *localCall) error {
	if !c.srv.save.begin(time.Now()) {
		return errSaving
	}
	if err := c.srv.checkpoint(); err != nil {
		return err
	}
	return c.ok()
}

func saveInBackground(c *localCall) error {
	if len(c.args) > 2 || len(c.args) == 2 && !isWord(c.args[1], "schedule") {
		return command.ErrSyntax
	}
	if !c.srv.save.begin(time.Now()) {
		return errSaving
	}
	c.srv.workers.Add(1) // so that a shutdown waits for it
	go c.srv.checkpointSlowly(c.srv.workers.Done)
	c.w.Status("Background saving started")
	return nil
}

package server

import (
	"strings"

	"redoubt/command"
	"redoubt/config"
)

// CONFIG is a view on package config, which knows the directives, their forms
// and the texts of their errors.

func configCommands() []*local {
	const flags = command.Admin | command.NoScript | command.Loading | command.Stale
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return []*local{{
		Command: &command.Command{
			Name: "config", Group: command.Server, Since: "2.0.0", Arity: -2,
			Summary: "Holds the commands about the server's settings.",
		},
		subs: []*local{
			{Command: &command.Command{
				Name: "get", Group: command.Server, Since: "2.0.0", Arity: -3, Flags: flags,
				Syntax: "parameter...", Summary: "Shows the settings whose names match one of the patterns.",
			}, run: configGet},
			{Command: &command.Command{
				Name: "set", Group: command.Server, Since: "2.0.0", Arity: -4, Flags: flags, Tips: everywhere,
				Syntax: "(parameter value)...", Summary: "Changes settings, all of them or none.",
			}, run: configSet, worker: true},
			{Command: &command.Command{
				Name: "resetstat", Group: command.Server, Since: "2.0.0", Arity: 2, Flags: flags, Tips: everywhere,
				Summary: "Sets the figures that INFO counts back to zero.",
			}, run: configResetStat, worker: true},
			{Command: &command.Command{
				Name: "rewrite", Group: command.Server, Since: "2.8.0", Arity: 2, Flags: flags, Tips: everywhere,
				Summary: "Writes the settings in force into the configuration file.",
			}, run: configRewrite, worker: true},
			helpCommand(command.Server, "5.0.0", 0),
		},
	}}
}

func configGet(c *localCall) error {
	patterns := make([]string, len(c.args)-2)
	for i, a := range c.args[2:] {
		patterns[i] = string(a)
	}
	found := c.srv.cfg.Match(patterns...)
	c.w.Map(len(found))
	for _, pair := range found {
		c.w.BulkString(pair[0])
		c.w.BulkString(pair[1])
	}
	return nil
}

func configSet(c *localCall) error {
	if len(c.args)%2 != 0 {
		return command.ErrSyntax
	}
	pairs := make([][2]string, 0, len(c.args)/2-1)
	for i := 2; i < len(c.args); i += 2 {
		pairs = append(pairs, [2]string{string(c.args[i]), string(c.args[i+1])})
	}
	if err := c.srv.cfg.SetAllFor(config.Caller{Local: c.fromHere(), Loading: c.srv.load.active.Load()}, pairs); err != nil {
		return command.Error(err.Error())
	}
	c.w.OK()
	return nil
}

// fromHere says whether the client is on this machine.
func (c *localCall) fromHere() bool { return c.s.unix || loopback(c.s.addr) }

func configResetStat(c *localCall) error {
	c.srv.resetStats()
	c.w.OK()
	return nil
}

func configRewrite(c *localCall) error { return rewriteConfig(c, c.srv.cfg.Rewrite) }

func rewriteConfig(c *localCall, rewrite func(path string) error) error {
	path := c.srv.cfg.File()
	if path == "" {
		return command.Error("ERR The server is running without a config file")
	}
	if err := rewrite(path); err != nil {
		c.srv.log.Warn("CONFIG REWRITE failed", "err", err)
		return command.Error("ERR Rewriting config file: " + strings.TrimPrefix(err.Error(), "rewriting the config file: "))
	}
	c.srv.log.Info("the configuration file was rewritten", "file", path)
	c.w.OK()
	return nil
}

package admin

import (
	"fmt"
	"log/slog"
	"strings"

	"redoubt/command"
	"redoubt/config"
)

// CONFIG is a view on package config, which knows the directives, their forms
// and the texts of their errors.

func configCommands(s Server) []*Command {
	const flags = command.Admin | command.NoScript | command.Loading | command.Stale
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return []*Command{{
		Command: &command.Command{
			Name: "config", Group: command.Server, Since: "2.0.0", Arity: -2,
			Summary: "Holds the commands about the server's settings.",
		},
		Subs: []*Command{
			{Command: &command.Command{
				Name: "get", Group: command.Server, Since: "2.0.0", Arity: -3, Flags: flags,
				Syntax: "parameter...", Summary: "Shows the settings whose names match one of the patterns.",
			}, Run: func(c *Call) error { return configGet(s, c) }},
			{Command: &command.Command{
				Name: "set", Group: command.Server, Since: "2.0.0", Arity: -4, Flags: flags, Tips: everywhere,
				Syntax: "(parameter value)...", Summary: "Changes settings, all of them or none.",
			}, Run: func(c *Call) error { return configSet(s, c) }, Worker: true},
			{Command: &command.Command{
				Name: "resetstat", Group: command.Server, Since: "2.0.0", Arity: 2, Flags: flags, Tips: everywhere,
				Summary: "Sets the figures that INFO counts back to zero.",
			}, Run: func(c *Call) error { return configResetStat(s, c) }, Worker: true},
			{Command: &command.Command{
				Name: "rewrite", Group: command.Server, Since: "2.8.0", Arity: 2, Flags: flags, Tips: everywhere,
				Summary: "Writes the settings in force into the configuration file.",
			}, Run: func(c *Call) error { return configRewrite(s, c) }, Worker: true},
			Help(command.Server, "5.0.0", 0),
		},
	}}
}

func configGet(s Server, c *Call) error {
	patterns := make([]string, len(c.Args)-2)
	for i, a := range c.Args[2:] {
		patterns[i] = string(a)
	}
	found := s.Config().Match(patterns...)
	c.Reply.Map(len(found))
	for _, pair := range found {
		c.Reply.BulkString(pair[0])
		c.Reply.BulkString(pair[1])
	}
	return nil
}

func configSet(s Server, c *Call) error {
	if len(c.Args)%2 != 0 {
		return command.ErrSyntax
	}
	pairs := make([][2]string, 0, len(c.Args)/2-1)
	for i := 2; i < len(c.Args); i += 2 {
		pairs = append(pairs, [2]string{string(c.Args[i]), string(c.Args[i+1])})
	}
	if err := s.Config().SetAllFor(config.Caller{Local: c.Client.OnThisMachine(), Loading: s.Loading()}, pairs); err != nil {
		return command.Error(err.Error())
	}
	c.Reply.OK()
	return nil
}

func configResetStat(s Server, c *Call) error {
	s.ResetStats()
	c.Reply.OK()
	return nil
}

func configRewrite(s Server, c *Call) error {
	return RewriteConfig(c, s.Config(), s.Log(), s.Config().Rewrite)
}

// RewriteConfig implements CONFIG REWRITE: rewrite writes the configuration file.
func RewriteConfig(c *Call, cfg *config.Config, log *slog.Logger, rewrite func(path string) error) error {
	path := cfg.File()
	if path == "" {
		return command.Error("ERR The server is running without a config file")
	}
	if err := rewrite(path); err != nil {
		log.Warn("CONFIG REWRITE failed", "err", err)
		return command.Error("ERR Rewriting config file: " + strings.TrimPrefix(err.Error(), "rewriting the config file: "))
	}
	log.Info("the configuration file was rewritten", "file", path)
	return c.OK()
}

// Enabled returns the error of a command that its directive denies to the client. The
// directive allows the command to all clients (yes), to local ones (local), or to none (no).
func Enabled(c *Call, cfg *config.Config, name, directive string) error {
	switch cfg.Enum(directive) {
	case "yes":
		return nil
	case "local":
		if c.Client.OnThisMachine() {
			return nil
		}
	}
	return command.Error(fmt.Sprintf("ERR %s command not allowed. If the %s option is set to \"local\", you can run it "+
		"from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
		name, directive))
}

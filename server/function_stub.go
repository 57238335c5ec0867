package server

import "redoubt/command"

// functionCommands: there are no functions, and what a client can do without
// any succeeds.
func functionCommands() []*local {
	return []*local{{
		Command: &command.Command{
			Name: "function", Group: command.Scripting, Since: "7.0.0", Arity: -2,
			Summary: "Holds the commands about functions.",
		},
		subs: []*local{
			{Command: &command.Command{
				Name: "flush", Group: command.Scripting, Since: "7.0.0", Arity: -2, Flags: command.NoScript | command.Write,
				Tips:   []string{"request_policy:all_shards", "response_policy:all_succeeded"},
				Syntax: "[ASYNC|SYNC]", Summary: "Deletes all functions.",
			}, run: functionFlush},
			{Command: &command.Command{
				Name: "list", Group: command.Scripting, Since: "7.0.0", Arity: -2, Flags: command.NoScript,
				Tips:   []string{"nondeterministic_output_order"},
				Syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]", Summary: "Lists the libraries of functions.",
			}, run: functionList},
			helpCommand(command.Scripting, "7.0.0", command.CatScripting),
		},
	}}
}

func functionFlush(c *localCall) error {
	if len(c.args) > 3 {
		return subcommandError(c.args)
	}
	if len(c.args) == 3 && !isWord(c.args[2], "async") && !isWord(c.args[2], "sync") {
		return command.Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	c.w.OK()
	return nil
}

func functionList(c *localCall) error {
	for i := 2; i < len(c.args); i++ {
		switch {
		case isWord(c.args[i], "withcode"):
		case isWord(c.args[i], "libraryname"):
			if i++; i == len(c.args) {
				return command.Error("ERR library name argument was not given")
			}
		default:
			return command.Error("ERR Unknown argument " + string(c.args[i]))
		}
	}
	c.w.Array(0)
	return nil
}


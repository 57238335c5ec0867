package admin

import (
	"redoubt/command"
	"redoubt/script"
)

// scriptCommands returns the containers SCRIPT and FUNCTION. Their subcommands that must
// work while a script holds the keyspace latch are not run by the executor.
func scriptCommands(e *script.Engine) []*Command {
	const busy = command.NoScript | command.AllowBusy | command.Repeatable
	killTips := []string{"request_policy:all_shards", "response_policy:one_succeeded"}
	scripts := []*Command{
		{Command: &command.Command{
			Name: "debug", Group: command.Scripting, Since: "3.2.0", Arity: 3, Flags: command.NoScript | command.Repeatable,
			Syntax: "mode=<YES|SYNC|NO>", Summary: "Turns the debugger of Redis on, which Redoubt does not have, or off.",
			Complexity: "O(1)",
		}, Run: scriptDebug},
		{Command: &command.Command{
			Name: "kill", Group: command.Scripting, Since: "2.6.0", Arity: 2, Flags: busy, Tips: killTips,
			Summary:    "Ends the scripts that run, and undoes what they wrote.",
			Complexity: "O(1)",
		}, Run: func(c *Call) error { return answerKill(e, c, true) }},
	}
	functions := []*Command{
		{Command: &command.Command{
			Name: "kill", Group: command.Scripting, Since: "7.0.0", Arity: 2, Flags: busy, Tips: killTips,
			Summary:    "Ends the functions that run, and undoes what they wrote.",
			Complexity: "O(1)",
		}, Run: func(c *Call) error { return answerKill(e, c, false) }},
		{Command: &command.Command{
			Name: "stats", Group: command.Scripting, Since: "7.0.0", Arity: 2, Flags: busy,
			Tips:       []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
			Summary:    "Shows the function that has run for the longest time, and how many functions there are.",
			Complexity: "O(1)",
		}, Run: func(c *Call) error { e.WriteStats(c.Reply); return nil }},
	}
	for _, cmd := range e.ScriptCommands() {
		scripts = append(scripts, &Command{Command: cmd})
	}
	for _, cmd := range e.FunctionCommands() {
		functions = append(functions, &Command{Command: cmd})
	}
	return []*Command{
		{Command: &command.Command{
			Name: "script", Group: command.Scripting, Since: "2.6.0", Arity: -2,
			Summary: "Holds the commands about Lua scripts.",
		}, Subs: append(scripts, Help(command.Scripting, "5.0.0", command.CatScripting))},
		{Command: &command.Command{
			Name: "function", Group: command.Scripting, Since: "7.0.0", Arity: -2,
			Summary: "Holds the commands about functions.",
		}, Subs: append(functions, Help(command.Scripting, "7.0.0", command.CatScripting))},
	}
}

func answerKill(e *script.Engine, c *Call, eval bool) error {
	if err := e.Kill(eval); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// scriptDebug implements SCRIPT DEBUG: only NO succeeds, since there is no debugger.
func scriptDebug(c *Call) error {
	switch {
	case IsWord(c.Args[2], "no"):
		c.Reply.OK()
		return nil
	case IsWord(c.Args[2], "yes"), IsWord(c.Args[2], "sync"):
		return command.Error("ERR SCRIPT DEBUG is not supported: there is no Lua debugger in this server")
	}
	return command.Error("ERR Use SCRIPT DEBUG YES/SYNC/NO")
}

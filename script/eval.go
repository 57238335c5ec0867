package script

import (
	"crypto/sha1"
	"strings"

	"redoubt/command"
	"redoubt/number"
)

// EVAL and its kin, and SCRIPT.

// Commands returns the scripting commands that are run as transactions, without the
// subcommands of SCRIPT and FUNCTION.
func (e *Engine) Commands() []*command.Command {
	const flags = command.NoScript | command.Stale | command.SkipMonitor | command.NoMandatoryKeys | command.MovableKeys
	const write, read = flags | command.MayReplicate, flags | command.ReadOnly
	rw, ro := command.RW|command.Access|command.Update, command.RO|command.Access
	return []*command.Command{
		{
			Name: "eval", Group: command.Scripting, Since: "2.6.0", Arity: -3, Flags: write, Keys: command.KeyNum(2, rw),
			Syntax:     "script numkeys:integer [key...] [arg...]",
			Summary:    "Runs a Lua script, as one transaction.",
			Complexity: "That of the script",
			ReadsOnly:  e.bodyReads,
			Run:        func(c *command.Ctx) error { return e.eval(c, false) },
		},
		{
			Name: "evalsha", Group: command.Scripting, Since: "2.6.0", Arity: -3, Flags: write, Keys: command.KeyNum(2, rw),
			Syntax:     "sha1 numkeys:integer [key...] [arg...]",
			Summary:    "Runs a Lua script that the server has, named by its SHA-1 digest.",
			Complexity: "That of the script",
			ReadsOnly:  e.digestReads,
			Run:        func(c *command.Ctx) error { return e.evalSHA(c, false) },
		},
		{
			Name: "eval_ro", Group: command.Scripting, Since: "7.0.0", Arity: -3, Flags: read, Keys: command.KeyNum(2, ro),
			Syntax:     "script numkeys:integer [key...] [arg...]",
			Summary:    "Runs a Lua script that must not write.",
			Complexity: "That of the script",
			Run:        func(c *command.Ctx) error { return e.eval(c, true) },
		},
		{
			Name: "evalsha_ro", Group: command.Scripting, Since: "7.0.0", Arity: -3, Flags: read, Keys: command.KeyNum(2, ro),
			Syntax:     "sha1 numkeys:integer [key...] [arg...]",
			Summary:    "Runs a Lua script that the server has and that must not write.",
			Complexity: "That of the script",
			Run:        func(c *command.Ctx) error { return e.evalSHA(c, true) },
		},
		{
			Name: "fcall", Group: command.Scripting, Since: "7.0.0", Arity: -3, Flags: write, Keys: command.KeyNum(2, rw),
			Syntax:     "function numkeys:integer [key...] [arg...]",
			Summary:    "Calls a function of a library, as one transaction.",
			Complexity: "That of the function",
			ReadsOnly:  e.functionReads,
			Run:        func(c *command.Ctx) error { return e.fcall(c, false) },
		},
		{
			Name: "fcall_ro", Group: command.Scripting, Since: "7.0.0", Arity: -3, Flags: read, Keys: command.KeyNum(2, ro),
			Syntax:     "function numkeys:integer [key...] [arg...]",
			Summary:    "Calls a function of a library that must not write.",
			Complexity: "That of the function",
			Run:        func(c *command.Ctx) error { return e.fcall(c, true) },
		},
	}
}

// ScriptCommands returns the subcommands of SCRIPT that are run as transactions. They
// change only memory, and may be run again.
func (e *Engine) ScriptCommands() []*command.Command {
	return []*command.Command{
		{
			Name: "load", Group: command.Scripting, Since: "2.6.0", Arity: 3, Flags: command.NoScript | command.Stale | command.FromMaster,
			Tips:       []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
			Syntax:     "script",
			Summary:    "Compiles a script and keeps it for EVALSHA, without running it.",
			Complexity: "O(n) in the length of the script",
			Run:        e.scriptLoad,
		},
		{
			Name: "exists", Group: command.Scripting, Since: "2.6.0", Arity: -3, Flags: command.NoScript,
			Tips:       []string{"request_policy:all_shards", "response_policy:agg_logical_and"},
			Syntax:     "sha1...",
			Summary:    "Says of each digest whether the server has its script.",
			Complexity: "O(1) for each digest",
			Run:        e.scriptExists,
		},
		{
			Name: "flush", Group: command.Scripting, Since: "2.6.0", Arity: -2, Flags: command.NoScript | command.FromMaster,
			Tips:       []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
			Syntax:     "[flush-type=<ASYNC|SYNC>@6.2.0]",
			Summary:    "Forgets all scripts.",
			Complexity: "O(n) in the number of scripts",
			Run:        e.scriptFlush,
		},
	}
}

// numKeys reads the number of keys.
func numKeys(args [][]byte, bad error) (int, error) {
	n, ok := number.ParseInt(args[2])
	switch {
	case !ok:
		return 0, bad
	case n > int64(len(args)-3):
		return 0, errManyKeys
	case n < 0:
		return 0, errNegativeKeys
	}
	return int(n), nil
}

func (e *Engine) eval(c *command.Ctx, ro bool) error {
	numkeys, err := numKeys(c.Args, command.ErrNotInteger)
	if err != nil {
		return err
	}
	s, err := e.find(c, c.Args[1], false)
	if err != nil {
		return err
	}
	return e.execute(c, &s.program, numkeys, ro)
}

func (e *Engine) evalSHA(c *command.Ctx, ro bool) error {
	sha, ok := parseSHA(c.Args[1])
	if len(c.Args[1]) != 2*len(sha) {
		return errNoScript
	}
	numkeys, err := numKeys(c.Args, command.ErrNotInteger)
	if err != nil {
		return err
	}
	if ok {
		if s := e.cache.get(&sha); s != nil {
			return e.execute(c, &s.program, numkeys, ro)
		}
	}
	return errNoScript
}

// compileWork is the cost of compiling one byte, in the bytes of Tx.Heavy.
const compileWork = 32

// find finds a script by its text, or compiles it.
func (e *Engine) find(c *command.Ctx, body []byte, load bool) (*compiled, error) {
	sha := digest(sha1.Sum(body))
	s := e.cache.get(&sha)
	if s == nil {
		if c.Tx != nil && c.Tx.Heavy(int64(len(body))*compileWork) {
			return nil, c.Tx.Err()
		}
		var err error
		if s, err = compile(body, sha); err != nil {
			return nil, err
		}
	} else if !load || s.loaded.Load() {
		return s, nil
	}
	return e.cache.add(s, load), nil
}

func (e *Engine) scriptLoad(c *command.Ctx) error {
	s, err := e.find(c, c.Args[2], true)
	if err != nil {
		return err
	}
	c.Reply.BulkString(s.name)
	return nil
}

func (e *Engine) scriptExists(c *command.Ctx) error {
	c.Reply.Array(len(c.Args) - 2)
	for _, a := range c.Args[2:] {
		n := int64(0)
		if sha, ok := parseSHA(a); ok && e.cache.get(&sha) != nil {
			n = 1
		}
		c.Reply.Int(n)
	}
	return nil
}

func (e *Engine) scriptFlush(c *command.Ctx) error {
	if len(c.Args) > 3 || len(c.Args) == 3 && !isWord(c.Args[2], "async") && !isWord(c.Args[2], "sync") {
		return errScriptSync
	}
	e.cache.flush()
	e.evals.drop()
	c.Reply.OK()
	return nil
}

// bodyReads reports whether the script of an EVAL has the flag no-writes.
func (e *Engine) bodyReads(args [][]byte) bool {
	if len(args) < 2 || len(args[1]) < 2 || args[1][0] != '#' {
		return false
	}
	f, _, err := shebang(args[1])
	return err == nil && f&(compat|noWrites) == noWrites
}

func (e *Engine) digestReads(args [][]byte) bool {
	if e.cache.flagged.Load() == 0 || len(args) < 2 {
		return false
	}
	sha, ok := parseSHA(args[1])
	if !ok {
		return false
	}
	s := e.cache.get(&sha)
	return s != nil && s.flags&(compat|noWrites) == noWrites
}

func (e *Engine) functionReads(args [][]byte) bool {
	if len(args) < 2 {
		return false
	}
	f := e.registry.Load().function(args[1])
	return f != nil && f.flags&noWrites != 0
}

func isWord(arg []byte, word string) bool { return strings.EqualFold(string(arg), word) }

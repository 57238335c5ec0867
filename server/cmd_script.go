package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/script"
	"redoubt/wire"
)

// Scripts and functions: what of them is the server's. Package script has the
// rest.

// newScripts makes the engine for scripts.
func (srv *Server) newScripts() {
	var memory atomic.Int64 // read for every script
	if srv.cfg != nil {
		read := func() error { memory.Store(srv.cfg.Int("lua-memory-limit")); return nil }
		srv.cfg.OnChange("lua-memory-limit", read)
		_ = read()
	}
	srv.scripts = script.New(script.Options{
		Version: RedisVersion, VersionNum: redisVersionNum, Logger: srv.log, Limited: srv.clientLog,
		Unrestricted: &srv.debug.denyScripts,
		Threshold:    func() time.Duration { return time.Duration(srv.cfg.Int("busy-reply-threshold")) * time.Millisecond },
		Memory:       memory.Load,
	})
}

// redisVersionNum is RedisVersion with a byte for each number.
var redisVersionNum = func() (n int) {
	for part := range strings.SplitSeq(RedisVersion, ".") {
		b, _ := strconv.Atoi(part)
		n = n<<8 | b
	}
	return n
}()

// openSpace opens the keyspace of a store, and loads its functions.
func (srv *Server) openSpace(eng engine.Engine) (*keyspace.Space, error) {
	space, err := keyspace.Open(eng, srv.databases)
	if err == nil {
		err = srv.scripts.Open(space)
	}
	return space, err
}

// scriptCommands are the containers SCRIPT and FUNCTION. Those of their
// subcommands that must work while a script holds the whole keyspace are the
// server's own.
func (srv *Server) scriptCommands() []*local {
	e := srv.scripts
	const busy = command.NoScript | command.AllowBusy | command.Repeatable
	killTips := []string{"request_policy:all_shards", "response_policy:one_succeeded"}
	scripts := []*local{
		{Command: &command.Command{
			Name: "debug", Group: command.Scripting, Since: "3.2.0", Arity: 3, Flags: command.NoScript | command.Repeatable,
			Syntax: "mode=<YES|SYNC|NO>", Summary: "Turns the debugger of Redis on, which Redoubt does not have, or off.",
			Complexity: "O(1)",
		}, run: scriptDebug},
		{Command: &command.Command{
			Name: "kill", Group: command.Scripting, Since: "2.6.0", Arity: 2, Flags: busy, Tips: killTips,
			Summary:    "Ends the scripts that run, and undoes what they wrote.",
			Complexity: "O(1)",
		}, run: func(c *localCall) error { return answerKill(c, true) }},
	}
	functions := []*local{
		{Command: &command.Command{
			Name: "kill", Group: command.Scripting, Since: "7.0.0", Arity: 2, Flags: busy, Tips: killTips,
			Summary:    "Ends the functions that run, and undoes what they wrote.",
			Complexity: "O(1)",
		}, run: func(c *localCall) error { return answerKill(c, false) }},
		{Command: &command.Command{
			Name: "stats", Group: command.Scripting, Since: "7.0.0", Arity: 2, Flags: busy,
			Tips:       []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
			Summary:    "Shows the function that has run for the longest time, and how many functions there are.",
			Complexity: "O(1)",
		}, run: func(c *localCall) error { c.srv.scripts.WriteStats(c.w); return nil }},
	}
	for _, cmd := range e.ScriptCommands() {
		scripts = append(scripts, &local{Command: cmd})
	}
	for _, cmd := range e.FunctionCommands() {
		functions = append(functions, &local{Command: cmd})
	}
	return []*local{
		{Command: &command.Command{
			Name: "script", Group: command.Scripting, Since: "2.6.0", Arity: -2,
			Summary: "Holds the commands about Lua scripts.",
		}, subs: append(scripts, helpCommand(command.Scripting, "5.0.0", command.CatScripting))},
		{Command: &command.Command{
			Name: "function", Group: command.Scripting, Since: "7.0.0", Arity: -2,
			Summary: "Holds the commands about functions.",
		}, subs: append(functions, helpCommand(command.Scripting, "7.0.0", command.CatScripting))},
	}
}

// scriptFlags are a command's flags; of a script that says that it does not write
// those of a read.
func scriptFlags(cmd *command.Command, args [][]byte) command.Flags {
	if cmd.Group == command.Scripting && cmd.ReadsOnly != nil && cmd.ReadsOnly(args) {
		return cmd.Flags &^ (command.Write | command.MayReplicate)
	}
	return cmd.Flags
}

func answerKill(c *localCall, eval bool) error {
	if err := c.srv.scripts.Kill(eval); err != nil {
		return err
	}
	c.w.OK()
	return nil
}

// scriptDebug: there is no debugger. Turning it off always works.
func scriptDebug(c *localCall) error {
	switch {
	case isWord(c.args[2], "no"):
		c.w.OK()
		return nil
	case isWord(c.args[2], "yes"), isWord(c.args[2], "sync"):
		return command.Error("ERR SCRIPT DEBUG is not supported: there is no Lua debugger in this server")
	}
	return command.Error("ERR Use SCRIPT DEBUG YES/SYNC/NO")
}

// Hurried implements script.Hurried: on its carrier a session's mu is held.
func (c *caller) Hurried() bool { return c.carried }

// Stop implements script.Stoppable.
func (c *caller) Stop() *script.Stop { return c.stop }

// halfClosedGrace is how long the script of a client may go on, or its command wait for
// working memory, that has closed its side of the connection: it may still read, as one
// at the end of a shell's pipe does, but most often it has gone.
const halfClosedGrace = time.Second

// ended is told that the client has closed its side of the connection. mu is held.
func (s *session) ended() {
	if s.halfClosed = true; s.deferred != nil {
		s.deferred.stop.At(time.Now().Add(halfClosedGrace))
	}
}

// Recording implements script.Recorder: the session's statistics have a record of
// what its scripts ran.
func (c *caller) Recording() *script.Record {
	if c.s.scripted == nil {
		c.s.scripted = new(script.Record)
	}
	c.s.scripted.Verbose = c.s.srv.monitors.Load() > 0
	return c.s.scripted
}

// recordScripts adds what the scripts of a command ran to the statistics. It says
// whether the command's own error was counted with it.
func (s *session) recordScripts() (known bool) {
	r := s.scripted
	for i := range r.Commands {
		ran := &r.Commands[i]
		s.work.stats.recordMany(ran.Cmd, ran.Calls, ran.Failed, ran.Rejected, ran.Took)
	}
	for _, text := range r.Errors {
		s.srv.errors.add(text)
	}
	for _, l := range r.Lines {
		s.srv.feedScriptLine(l)
	}
	known = r.Known
	r.Reset()
	return known
}

// recordMany is record for several calls of one command. They count with their
// mean.
func (l *loopStats) recordMany(cmd *command.Command, calls, failed, rejected int64, took time.Duration) {
	c := &l.cmds[cmd.ID]
	c.failed.Add(failed)
	for range rejected {
		l.reject(cmd)
	}
	if calls == 0 {
		return
	}
	c.calls.Add(calls)
	c.nanos.Add(int64(took))
	if l.tracking.Load() {
		h := c.hist.Load()
		if h == nil {
			h = c.newHistogram()
		}
		h[bucketOf(took/time.Duration(calls))].Add(uint64(calls))
	}
}

// feedScriptLine shows a command that a script has run to every monitor.
func (srv *Server) feedScriptLine(l script.Line) {
	if l.Cmd.Flags&(command.SkipMonitor|command.Admin) != 0 {
		return
	}
	now := time.Now()
	line := fmt.Appendf(nil, "+%d.%06d [%d lua]", now.Unix(), now.Nanosecond()/1000, l.DB)
	for _, a := range l.Args {
		line = wire.AppendQuoted(append(line, ' '), string(a))
	}
	line = append(line, '\r', '\n')
	srv.monitorMu.RLock()
	defer srv.monitorMu.RUnlock()
	for _, m := range srv.monitorList {
		m.push(line, 0)
	}
}

// infoScripts are the lines of INFO memory about scripts.
func infoScripts(t *infoText) {
	f := t.srv.scripts.Figures()
	amount := func(name string, n int64) { t.nums(name, n, name+"_human", human(n)) }
	t.nums("used_memory_lua", f.EvalVMBytes, "used_memory_vm_eval", f.EvalVMBytes, "used_memory_lua_human", human(f.EvalVMBytes),
		"used_memory_scripts_eval", f.ScriptBytes, "number_of_cached_scripts", f.Scripts,
		"number_of_functions", f.Functions, "number_of_libraries", f.Libraries, "used_memory_vm_functions", f.FunctionVMBytes)
	amount("used_memory_vm_total", f.EvalVMBytes+f.FunctionVMBytes)
	t.num("used_memory_functions", f.FunctionBytes)
	amount("used_memory_scripts", f.ScriptBytes+f.FunctionBytes)
	t.nums("running_scripts", f.Running, "longest_running_script_ms", f.Longest.Milliseconds())
}

var (
	_ script.Recorder  = (*caller)(nil)
	_ script.Hurried   = (*caller)(nil)
	_ script.Stoppable = (*caller)(nil)
)

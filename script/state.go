package script

import (
	"sync"
	"sync/atomic"

	"redoubt/lua"
	"redoubt/lua/lib"
	"redoubt/wire"
)

// state is an interpreter with Redis's sandbox, and buffers that its runs reuse.
type state struct {
	*lua.State
	e   *Engine
	run run // the execution under way

	globals  *lua.Table
	random   random
	w        wire.Writer  // replies of commands
	args     [][]byte     // arguments of a command
	arena    []byte       // the bytes of args
	onLoop   func() error // made once, since a method value is an allocation
	onWorker func() error
	onGrant  func(int64) error

	// Of a state for functions.
	index           *lua.Table // the metatable of the globals
	functionGlobals lua.Value  // the globals of a function
	loadGlobals     lua.Value  // the globals of a library that is being loaded
	loading         *loading
	loaded          map[*library]map[string]lua.Value
	version         uint64 // of the registry that loaded was compared with
}

// pool keeps idle interpreters. It is a stack: the one used last is warm in the caches.
type pool struct {
	make func() *state
	made atomic.Int64

	mu   sync.Mutex
	idle []*state
}

// maxIdle is how many idle interpreters are kept; more exist only while as many scripts run.
const maxIdle = 16

func (p *pool) get() *state {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		st := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return st
	}
	p.mu.Unlock()
	p.made.Add(1)
	return p.make()
}

func (p *pool) put(st *state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, st)
	} else {
		p.made.Add(-1)
	}
}

// drop forgets the idle interpreters.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made.Add(-int64(len(p.idle)))
	p.idle = nil
}

// newState makes an interpreter with the globals that EVAL and functions have in common.
// The tables are not protected yet.
func (e *Engine) newState() (st *state, redis *lua.Table) {
	st = &state{State: lua.New(), e: e}
	st.onLoop, st.onWorker, st.onGrant = st.overBudget, st.tick, st.holdMore
	lib.Open(st.State)
	st.globals = st.Globals()
	st.Register(st.globals, "pcall", st.pcall)
	math := st.globals.GetStr("math").Table()
	st.Register(math, "random", st.mathRandom)
	st.Register(math, "randomseed", st.mathSeed)

	redis = st.NewTable(0, 32)
	st.addLog(redis)
	for name, f := range map[string]lua.Func{
		"call": st.redisCall, "pcall": st.redisPcall, "setresp": st.setResp, "sha1hex": sha1hex,
		"error_reply": st.errorReply, "status_reply": st.statusReply, "set_repl": setRepl, "acl_check_cmd": st.aclCheck,
	} {
		st.Register(redis, name, f)
	}
	for name, n := range map[string]float64{"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3} {
		set(redis, name, lua.Number(n))
	}
	set(st.globals, "redis", redis.Value())
	st.StringMeta().SetReadonly(true)
	return st, redis
}

// addLog adds the fields of redis that a library may also use while it is loaded.
func (st *state) addLog(redis *lua.Table) {
	st.Register(redis, "log", st.log)
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		set(redis, name, lua.Number(float64(i)))
	}
	set(redis, "REDIS_VERSION", lua.String(st.e.Version))
	set(redis, "REDIS_VERSION_NUM", lua.Number(float64(st.e.VersionNum)))
}

// newEvalState makes an interpreter for EVAL.
func (e *Engine) newEvalState() *state {
	st, redis := e.newState()
	st.Register(redis, "breakpoint", func(c *lua.Call) error { c.Return(lua.Bool(false)); return nil })
	st.Register(redis, "debug", func(*lua.Call) error { return nil })
	st.Register(redis, "replicate_commands", func(c *lua.Call) error { c.Return(lua.Bool(true)); return nil })
	st.refuseUnknown(st.globals)
	protect(st.globals)
	return st
}

// newFunctionState makes an interpreter for functions. Its globals are an empty
// table whose metatable leads to the globals of a function or, while a library is loaded, to
// the few that it may use then.
func (e *Engine) newFunctionState() *state {
	st, _ := e.newState()
	functions, load, redis := st.NewTable(0, 64), st.NewTable(0, 1), st.NewTable(0, 8)
	for k, v, ok, _ := st.globals.Next(lua.Nil); ok; k, v, ok, _ = st.globals.Next(k) {
		if k.Str() == "_G" {
			v = functions.Value()
		}
		set(functions, k.Str(), v)
	}
	for k, _, ok, _ := functions.Next(lua.Nil); ok; k, _, ok, _ = functions.Next(k) {
		set(st.globals, k.Str(), lua.Nil)
	}
	st.Register(redis, "register_function", st.registerFunction)
	st.addLog(redis)
	st.refuseUnknown(redis)
	set(load, "redis", redis.Value())
	st.refuseUnknown(load)
	st.refuseUnknown(functions)
	st.index = st.NewTable(0, 1)
	st.functionGlobals, st.loadGlobals = functions.Value(), load.Value()
	set(st.index, "__index", st.functionGlobals)
	st.globals.SetMeta(st.index)
	protect(load)
	protect(functions)
	protect(st.globals)
	st.loaded = make(map[*library]map[string]lua.Value)
	return st
}

// refuseUnknown makes reads of names that are not in the table fail.
func (st *state) refuseUnknown(t *lua.Table) {
	meta := st.NewTable(0, 1)
	st.Register(meta, "__index", func(c *lua.Call) error {
		if c.Len() != 2 {
			return c.Errorf("Wrong number of arguments to luaProtectedTableError")
		}
		name, ok := c.Arg(1).ToString()
		if !ok {
			return c.Errorf("Second argument to luaProtectedTableError must be a string or number")
		}
		return c.Errorf("Script attempted to access nonexistent global variable '%s'", name)
	})
	t.SetMeta(meta)
}

// protect makes a table read-only, with all tables that can be reached from it.
func protect(t *lua.Table) {
	if t.Readonly() {
		return
	}
	t.SetReadonly(true)
	for k, v, ok, _ := t.Next(lua.Nil); ok; k, v, ok, _ = t.Next(k) {
		if v.Kind() == lua.KindTable {
			protect(v.Table())
		}
	}
	if m := t.Meta(); m != nil {
		protect(m)
	}
}

// set sets a field of a sandbox table, which cannot fail: the table is not read-only, and no
// memory limit is set yet.
func set(t *lua.Table, name string, v lua.Value) { _ = t.SetStr(name, v) }

// pcall is Lua's pcall, except that it returns the text of an error that is a table with a
// text: before Redis 7 all errors of redis.call were texts.
func (st *state) pcall(c *lua.Call) error {
	if c.Len() == 0 {
		return c.ArgError(0, "value expected")
	}
	args := make([]lua.Value, c.Len()-1)
	for i := range args {
		args[i] = c.Arg(i + 1)
	}
	results, err := st.Call(c.Arg(0), args...)
	if err == nil {
		c.Return(lua.Bool(true))
		c.Return(results...)
		return nil
	}
	raised, ok := err.(*lua.Error)
	if !ok {
		return err // such an error cannot be caught
	}
	v := raised.Value
	if v.Kind() == lua.KindTable {
		if text := v.Table().GetStr("err"); text.Kind() == lua.KindString || text.Kind() == lua.KindNumber {
			v = text
		}
	}
	c.Return(lua.Bool(false), v)
	return nil
}

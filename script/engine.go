// Package script runs Lua for clients: EVAL and its kin, and functions.
//
// A script is a command like any other: a handler over a command.Ctx, which may be
// rolled back and run again. redis.call goes to Ctx.Do, so the commands of a script are
// part of its one execution. Effects outside of the execution, such as lines for the log,
// are held back until its end.
//
// Where a script runs:
//   - On an event loop first, with a small budget of instructions. Most scripts end
//     within it, and cost what their commands cost.
//   - When the budget is used up, or a command needs a worker, the execution is rolled
//     back and run again on a worker, without a limit. Only clients that use the same
//     keys wait. Such a script is in the list of running scripts, and can be killed: it is
//     then rolled back whole, even if it has written.
//   - A script that used up its budget lately goes to a worker at once.
//
// Interpreters (state.go) are kept in two pools, one for EVAL and one for
// functions, whose sandboxes differ a little. A script leaves nothing behind in
// its interpreter: globals are read-only, and KEYS and ARGV are set anew.
// Compiled scripts (cache.go) belong to no interpreter.
//
// Functions (library.go, registry.go): the sources of libraries are rows of the
// store. The compiled libraries are a registry in memory, which is replaced when a
// change is committed; a transaction that has changed libraries sees its own registry.
package script

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
)

// Options configure an Engine. All functions may be called on any goroutine.
type Options struct {
	// Version and VersionNum are REDIS_VERSION and REDIS_VERSION_NUM.
	Version    string
	VersionNum int
	// Threshold is busy-reply-threshold: how long a script may run before it is reported as slow.
	Threshold func() time.Duration
	// Memory is how many bytes a script may hold.
	Memory func() int64
	// Unrestricted, if set, lets scripts call commands with the flag NoScript, for tests.
	Unrestricted *atomic.Bool
	Logger       *slog.Logger
	// Limited gets lines that any script can cause; nil: Logger.
	Limited *slog.Logger
}

// Engine holds what all scripts share. Its methods may be called on any goroutine.
type Engine struct {
	Options
	table *command.Table

	cache     cache
	evals     pool
	functions pool
	running   running

	registry atomic.Pointer[registry]
	prepared prepared
	changing sync.Mutex // held while the registry is replaced
}

// New makes an engine. SetTable must be called before the first script is run.
func New(o Options) *Engine {
	e := &Engine{Options: o}
	if e.Unrestricted == nil {
		e.Unrestricted = new(atomic.Bool)
	}
	if e.Limited == nil {
		e.Limited = e.Logger
	}
	e.cache.init()
	e.running.init()
	e.evals.make = e.newEvalState
	e.functions.make = e.newFunctionState
	e.registry.Store(emptyRegistry())
	return e
}

// SetTable sets the commands that scripts can run.
func (e *Engine) SetTable(t *command.Table) { e.table = t }

// Open loads the libraries of a store, and subscribes to changes.
func (e *Engine) Open(space *keyspace.Space) error {
	list, err := space.Libraries()
	if err != nil {
		return err
	}
	e.changing.Lock()
	e.registry.Store(emptyRegistry()) // of a store that another process has written since
	e.changing.Unlock()
	e.publish(list)
	space.OnLibraries = e.publish
	return nil
}

// Figures are the statistics for INFO.
type Figures struct {
	Scripts, ScriptBytes                       int64
	Libraries, Functions, FunctionBytes        int64
	EvalStates, FunctionStates                 int64
	EvalVMBytes, FunctionVMBytes, EvictedEvals int64
	// Running is how many scripts workers run, and Longest for how long the oldest
	// of them has run.
	Running int64
	Longest time.Duration
}

// Figures returns the present statistics.
func (e *Engine) Figures() Figures {
	var f Figures
	f.Scripts, f.ScriptBytes, f.EvictedEvals = e.cache.figures()
	r := e.registry.Load()
	f.Libraries, f.Functions, f.FunctionBytes = int64(len(r.libraries)), int64(len(r.functions)), r.bytes
	f.EvalStates, f.FunctionStates = e.evals.made.Load(), e.functions.made.Load()
	f.EvalVMBytes, f.FunctionVMBytes = f.EvalStates*stateBytes, f.FunctionStates*stateBytes
	f.Running, f.Longest = e.running.figures()
	return f
}

// stateBytes is about how many bytes an interpreter takes.
const stateBytes = 40 << 10

package script

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/lua"
)

// program is a script or a function of a library.
type program struct {
	name  string
	eval  bool
	flags flags
	proto *lua.Proto // of a script
	lib   *library   // of a function
	// heavy is how many more calls go to a worker at once: set when a call has used up its
	// budget on an event loop.
	heavy atomic.Int32
}

const (
	// loopBudget is how many instructions a script may execute on an event loop: some ten
	// microseconds of work.
	loopBudget = 4000
	// heavyCalls is how many calls after a heavy one are taken for heavy, too.
	heavyCalls = 64
	// workerTick is after how many instructions a script on a worker calls tick.
	workerTick = 20000
	// minAlone is how long a script may hold the whole keyspace even if busy-reply-threshold
	// is shorter.
	minAlone = time.Second
)

// run is one execution of a program.
type run struct {
	c        *command.Ctx
	p        *program
	readOnly bool
	allowOOM bool
	oom      bool // memory was short when it began
	wrote    bool
	resp     int // the version that replies of commands have
	logs     []logLine
	logged   int
	job      *job // on a worker
	record   *Record
	slow     bool // the log has a line that the script runs for long
}

var (
	errLeft             = errors.New("the client of the script has gone")
	errExclusiveTimeout = errors.New("the script held the whole keyspace for too long")
)

// admit returns why a program may not be run now, or nil.
func (p *program) admit(c *command.Ctx, ro bool) error {
	if p.flags&compat != 0 {
		return nil
	}
	if ro && p.flags&noWrites == 0 {
		return errReadOnlyCall
	}
	if p.flags&noWrites == 0 && c.Caller != nil {
		if err := c.Caller.Writable(command.Write); err != nil {
			return err
		}
	}
	if p.flags&(noWrites|allowOOM) == 0 && c.Caller != nil && c.Caller.OutOfMemory() {
		return errOOMFlag
	}
	return nil
}

// execute runs a program with the arguments behind the number of keys. ro is set
// for the commands that only read.
func (e *Engine) execute(c *command.Ctx, p *program, numkeys int, ro bool) error {
	if err := p.admit(c, ro); err != nil {
		return err
	}
	if p.heavy.Load() > 0 && mustBeBrief(c) {
		p.heavy.Add(-1)
		c.Tx.Fail(keyspace.TakesLong)
		return keyspace.TakesLong
	}
	pool := &e.functions
	if p.eval {
		pool = &e.evals
	}
	st := pool.get()
	st.begin(c, p, ro)
	job := st.run.job
	defer func() { // also when a handler panics: the executor goes on
		if job != nil {
			e.running.remove(job)
		}
	}()
	err := st.enter(c.Args[3:3+numkeys], c.Args[3+numkeys:])
	if failed := c.Tx.Err(); failed != nil {
		err = failed
		if st.run.record != nil {
			st.run.record.Reset()
		}
	} else if len(st.run.logs) > 0 {
		st.flushLog()
	}
	st.end()
	pool.put(st)
	return err
}

// Brief is an optional interface of a command.Caller. MustBeBrief reports whether a command must
// not take long although it runs on a worker, since its caller holds up other work.
type Brief interface{ MustBeBrief() bool }

// mustBeBrief reports whether a script has a budget of instructions.
func mustBeBrief(c *command.Ctx) bool {
	if !c.Tx.Worker {
		return true
	}
	h, ok := c.Caller.(Brief)
	return ok && h.MustBeBrief()
}

// begin prepares an interpreter for an execution.
func (st *state) begin(c *command.Ctx, p *program, ro bool) {
	r := &st.run
	r.c, r.p = c, p
	r.readOnly = ro || p.flags&(compat|noWrites) == noWrites
	r.allowOOM = p.flags&(compat|allowOOM) == allowOOM
	r.oom = c.Caller != nil && c.Caller.OutOfMemory()
	r.wrote, r.resp, r.slow = false, 2, false
	if rec, ok := c.Caller.(Recorder); ok {
		r.record = rec.Recording()
	}
	st.random.seed(int32(c.Seed ^ c.Seed>>32))
	st.SetLimit(st.e.Memory())
	st.SetGrant(st.onGrant)
	if mustBeBrief(c) {
		st.SetBudget(loopBudget, st.onLoop)
	} else {
		r.job = st.e.running.add(c, p)
		st.SetBudget(workerTick, st.onWorker)
	}
}

// holdMore accounts for memory that the script holds.
func (st *state) holdMore(bytes int64) error {
	if tx := st.run.c.Tx; !tx.Take(bytes) {
		return tx.Err()
	}
	return nil
}

// end releases everything that belongs to the execution.
func (st *state) end() {
	r := &st.run
	clear(r.logs)
	*r = run{logs: r.logs[:0]}
	st.Reset()
	clear(st.args[:cap(st.args)])
}

// overBudget ends a script on an event loop, to be run again on a worker.
func (st *state) overBudget() error {
	st.run.p.heavy.Store(heavyCalls)
	st.run.c.Tx.Fail(keyspace.TakesLong)
	return keyspace.TakesLong
}

// tick is called every workerTick instructions of a script on a worker. It returns an error
// if the script must end.
func (st *state) tick() error {
	r := &st.run
	// Swap, not Load: a transaction goes on after its killed script.
	if r.job.stop.killed.Swap(false) {
		k := &killed{name: r.p.name}
		k.chunk, k.line = st.Where()
		return k
	}
	now := time.Now()
	if r.job.stop.Passed(now) {
		return errLeft
	}
	took := now.Sub(r.job.start)
	if tx := r.c.Tx; tx.Numbers == nil && tx.Space != nil {
		switch {
		case tx.OneState && took > max(st.e.Threshold(), minAlone):
			return errExclusiveTimeout
		case !tx.OneState && tx.Space.Wanted.Load() > 0:
			tx.Fail(keyspace.GivesWay)
			return keyspace.GivesWay
		}
	}
	if !r.slow && took > st.e.Threshold() {
		r.slow = true
		st.e.Limited.Warn("a script runs for long; "+killer(r.p.eval)+" ends it", "script", r.p.name, "for", took)
	}
	return nil
}

func killer(eval bool) string {
	if eval {
		return "SCRIPT KILL"
	}
	return "FUNCTION KILL"
}

// enter calls the program and writes its reply. An error that enter returns undoes
// everything. An error that the script raised does not: it is the reply.
func (st *state) enter(keys, args [][]byte) error {
	var fn lua.Value
	var err error
	if p := st.run.p; p.eval {
		fn = st.Load(p.proto)
	} else {
		fn, err = st.function(p)
	}
	if err == nil {
		var k, a lua.Value
		if k, a, err = st.strings(keys, args); err == nil {
			err = st.invoke(fn, k, a)
		}
	}
	if err == nil {
		return nil
	}
	if raised, ok := err.(*lua.Error); ok && st.run.c.Tx.Err() == nil {
		st.run.c.Reply.Error(st.failure(raised))
		st.known(raised.Value)
		return nil
	}
	switch {
	case st.run.c.Tx.Err() != nil:
		return err
	case errors.As(err, new(*killed)):
		st.e.Limited.Info("a script was killed by "+killer(st.run.p.eval)+"; what it wrote is undone", "script", st.run.p.name)
		return command.Error(err.Error())
	case errors.Is(err, errLeft):
		st.e.Limited.Info("a script was ended, since its client has gone; what it wrote is undone", "script", st.run.p.name)
		return command.Error("ERR " + err.Error())
	case errors.Is(err, errExclusiveTimeout):
		return exclusiveTimeoutError(st.run.p.name)
	case errors.Is(err, lua.ErrMemory) || errors.Is(err, errLargeReply):
		return memoryError(st.run.p.name, st.e.Memory())
	}
	return err
}

func (st *state) invoke(fn, keys, args lua.Value) error {
	var results []lua.Value
	var err error
	if st.run.p.eval {
		st.globals.SetReadonly(false)
		err = errors.Join(st.globals.SetStr("KEYS", keys), st.globals.SetStr("ARGV", args))
		st.globals.SetReadonly(true)
		if err == nil {
			results, err = st.Call(fn)
		}
	} else {
		results, err = st.Call(fn, keys, args)
	}
	if err != nil {
		return err
	}
	v := lua.Nil
	if len(results) > 0 {
		v = results[0]
	}
	w := st.run.c.Reply
	start := len(w.Buf)
	conv := converter{w: w, resp: st.run.resp, take: st.run.c.Tx.Take, held: start}
	if limit := st.e.Memory(); limit > 0 {
		conv.limit = start + int(limit)
	}
	st.known(v)
	if err := conv.value(v, 0); err != nil {
		w.Buf = w.Buf[:start]
		return err
	}
	return nil
}

// strings makes the tables of keys and arguments. Their strings share one allocation.
func (st *state) strings(keys, args [][]byte) (k, a lua.Value, err error) {
	size := 0
	for _, b := range keys {
		size += len(b)
	}
	for _, b := range args {
		size += len(b)
	}
	if err := st.Alloc(size); err != nil {
		return k, a, err
	}
	var b strings.Builder
	b.Grow(size)
	for _, s := range keys {
		b.Write(s)
	}
	for _, s := range args {
		b.Write(s)
	}
	all := b.String()
	table := func(list [][]byte) (lua.Value, error) {
		t := st.NewTable(len(list), 0)
		for i, s := range list {
			if err := t.SetInt(i+1, lua.String(all[:len(s)])); err != nil {
				return lua.Nil, err
			}
			all = all[len(s):]
		}
		return t.Value(), nil
	}
	if k, err = table(keys); err == nil {
		a, err = table(args)
	}
	return k, a, err
}

// failure returns the reply's text for an error that a script raised.
func (st *state) failure(e *lua.Error) string {
	msg := ""
	if e.Value.Kind() == lua.KindTable {
		text, ok := e.Value.Table().GetStr("err").ToString()
		if !ok {
			text = "ERR unknown error" // Redis itself crashes here
		}
		msg = cut(text)
	} else {
		msg = "ERR " + cut(describe(e.Value))
	}
	if e.Chunk != "" {
		msg = fmt.Sprintf("%s script: %s, on @%s:%d.", msg, st.run.p.name, e.Chunk, e.Line)
	}
	return errorText(msg)
}

// known notes that the error which is the script's reply came from a command, and is in the
// record already.
func (st *state) known(v lua.Value) {
	if st.run.record != nil && v.Kind() == lua.KindTable && v.Table().GetStr("ignore_error_stats_update").Truth() {
		st.run.record.Known = true
	}
}

// describe returns about what tostring does.
func describe(v lua.Value) string {
	if s, ok := v.ToString(); ok {
		return s
	}
	switch v.Kind() {
	case lua.KindNil:
		return "nil"
	case lua.KindBool:
		if v.Truth() {
			return "true"
		}
		return "false"
	}
	return v.TypeName()
}

func (st *state) flushLog() {
	for _, l := range st.run.logs {
		switch {
		case l.level >= 4:
			st.e.Logger.Warn(l.text, "script", st.run.p.name)
		case l.level >= 0:
			st.e.Logger.Info(l.text, "script", st.run.p.name)
		default:
			st.e.Logger.Debug(l.text, "script", st.run.p.name)
		}
	}
}

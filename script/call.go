package script

import (
	"math"
	"strconv"
	"strings"
	"time"

	"redoubt/command"
	"redoubt/lua"
	"redoubt/number"
)

// redis.call and redis.pcall.

func (st *state) redisCall(c *lua.Call) error  { return st.call(c, true) }
func (st *state) redisPcall(c *lua.Call) error { return st.call(c, false) }

func (st *state) call(c *lua.Call, raised bool) error {
	if st.run.c == nil {
		return raise(c, "redis.call/pcall can only be called inside a script invocation")
	}
	if j := st.run.job; j != nil && j.stop.wished() { // before a command that may take long
		if err := st.tick(); err != nil {
			return lua.Abort(err)
		}
	}
	if msg := st.gather(c); msg != "" {
		return st.deliver(c, st.errorTable("ERR "+msg), raised)
	}
	if msg := st.perform(); msg != "" {
		t := st.errorTable(msg)
		_ = t.SetStr("ignore_error_stats_update", lua.Bool(true))
		return st.deliver(c, t, raised)
	}
	if err := st.run.c.Tx.Err(); err != nil {
		return lua.Abort(err)
	}
	p := parser{st: st, b: st.w.Buf}
	v := p.value()
	if cap(st.w.Buf) > keepBytes {
		st.w.Buf = nil
	}
	if p.err != nil {
		return p.err
	}
	c.Return(v)
	return nil
}

// keepBytes is how large a buffer is kept for the next call.
const keepBytes = 64 << 10

// deliver returns an error to the script, or raises it.
func (st *state) deliver(c *lua.Call, t *lua.Table, raised bool) error {
	if raised {
		return raiseValue(c, t.Value())
	}
	c.Return(t.Value())
	return nil
}

// raise raises an error of the redis library as Redis does: as a table.
func raise(c *lua.Call, msg string) error {
	t := c.State().NewTable(0, 1)
	_ = t.SetStr("err", lua.String("ERR "+msg))
	return raiseValue(c, t.Value())
}

// raiseValue raises an error at the place of the caller.
func raiseValue(c *lua.Call, v lua.Value) error {
	chunk, line := c.Where(1)
	return &lua.Error{Value: v, Chunk: chunk, Line: line}
}

// errorTable makes the table that stands for an error.
func (st *state) errorTable(text string) *lua.Table {
	t := st.NewTable(0, 2)
	_ = t.SetStr("err", lua.String(strings.TrimRight(text, "\r\n"))) // a limit passed shows at the next allocation
	return t
}

// gather makes the arguments of a command, in buffers that are reused. It
// returns an error text if they are invalid.
func (st *state) gather(c *lua.Call) (msg string) {
	n := c.Len()
	if n == 0 {
		return msgNoArguments
	}
	st.args, st.arena = st.args[:0], st.arena[:0]
	size := 0
	for i := range n {
		switch v := c.Arg(i); v.Kind() {
		case lua.KindString:
			size += len(v.Str())
		case lua.KindNumber:
			size += 32
		default:
			return msgBadArgument
		}
	}
	if cap(st.arena) < size || cap(st.arena) > keepBytes && size <= keepBytes {
		st.arena = make([]byte, 0, max(size, 512))
	}
	for i := range n {
		at := len(st.arena)
		if v := c.Arg(i); v.Kind() == lua.KindString {
			st.arena = append(st.arena, v.Str()...)
		} else {
			st.arena = appendNumber(st.arena, v.Num())
		}
		st.args = append(st.args, st.arena[at:len(st.arena):len(st.arena)])
	}
	return ""
}

// appendNumber writes a number as an argument: whole numbers without an exponent.
func appendNumber(b []byte, f float64) []byte {
	const limit = math.MaxInt64 / 2
	switch {
	case f >= -limit && f <= limit && f == math.Trunc(f):
		return strconv.AppendInt(b, int64(f), 10)
	case math.IsNaN(f) && math.Signbit(f):
		return append(b, "-nan"...)
	}
	return number.AppendDouble(b, f)
}

// perform runs the command that gather made. The reply is in st.w; if the command
// was refused or failed, its error is returned instead.
func (st *state) perform() (failure string) {
	r := &st.run
	cmd := st.e.table.Find(st.args)
	if cmd != nil && len(cmd.Subs) > 0 && len(st.args) > 1 {
		cmd = nil
	}
	if failure = st.refuse(cmd); failure != "" {
		if r.record != nil {
			r.record.failed(cmd, true, failure)
		}
		return failure
	}
	if cmd.Flags&command.Write != 0 {
		r.wrote = true
	}
	st.w.Buf, st.w.Proto = st.w.Buf[:0], r.resp
	if r.record == nil {
		if err := r.c.Do(cmd, st.args, &st.w); err != nil && r.c.Tx.Err() == nil {
			return coded(command.Text(err))
		}
		return ""
	}
	if r.record.Verbose {
		r.record.line(cmd, r.c.Tx.DB, st.args)
	}
	start := time.Since(epoch)
	err := r.c.Do(cmd, st.args, &st.w)
	r.record.ran(cmd, time.Since(epoch)-start)
	if err != nil && r.c.Tx.Err() == nil {
		failure = coded(command.Text(err))
		r.record.failed(cmd, false, failure)
	}
	return failure
}

// epoch is an arbitrary time: time.Since of it costs less than time.Now.
var epoch = time.Now()

// refuse returns why the command that gather made must not be run, or "".
func (st *state) refuse(cmd *command.Command) string {
	r := &st.run
	switch {
	case cmd == nil:
		return "ERR " + msgUnknown
	case !cmd.ArityOK(len(st.args)):
		return "ERR " + msgArity
	case cmd.Flags&command.NoScript != 0 && !st.e.Unrestricted.Load():
		return "ERR " + msgNotAllowed
	}
	if caller := r.c.Caller; caller != nil {
		if err := caller.Permit(cmd, st.args); err != nil {
			return denial(err)
		}
	}
	if r.readOnly && cmd.Flags&(command.Write|command.MayReplicate) != 0 {
		return "ERR " + msgReadOnly
	}
	if cmd.Flags&command.Write != 0 && !r.wrote && r.c.Caller != nil {
		if err := r.c.Caller.Writable(cmd.Flags); err != nil {
			return command.Text(err)
		}
	}
	if r.oom && !r.allowOOM && !r.wrote && cmd.Flags&command.DenyOOM != 0 {
		return string(command.ErrOutOfMemory)
	}
	return ""
}

// denial is the text of an error of Caller.Permit.
func denial(err error) string {
	if d, ok := err.(interface{ Message() string }); ok {
		return "ERR " + msgACL + d.Message()
	}
	return command.Text(err)
}

// coded prefixes the code ERR to an error of one word.
func coded(text string) string {
	if strings.IndexByte(text, ' ') < 0 {
		return "ERR " + text
	}
	return text
}

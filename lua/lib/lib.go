// Package lib has the libraries that Redis gives its scripts besides Lua's
// own: cjson, cmsgpack, struct and bit.
//
// Scripts depend on what these libraries print, on their errors, and on what
// they do with input that nobody planned for, so all of that is as in Redis
// 7.2 on a 64-bit machine; testdata has what a real one answered. Two habits of
// the C code are visible and therefore kept:
//
//   - A C function of Lua may use 8,000 slots of its stack, and that is what ends
//     deep nesting and long lists of results. The slots are counted here, too.
//   - Numbers are cut to integers as the compiler of that machine does it, also
//     when they do not fit.
//
// What a function makes is announced to State.Alloc before it is made, and what
// it has made so far can be reached from its results, so that a script's limit
// of memory holds within one call, too.
package lib

import (
	"math"
	"strings"

	"redoubt/lua"
)

// maxStack is how many slots of its stack a function may use.
const maxStack = 8000

// Open adds the libraries to a state, as globals. Their tables are read-only.
//
// A script can change the settings of cjson for itself and, as in Redis, for
// scripts that the same state runs later, unless the owner of the state calls
// reset in between.
func Open(s *lua.State) (reset func()) {
	set := openJSON(s)
	openMsgpack(s)
	openStruct(s)
	openBit(s)
	return set.reset
}

// publish makes a library's table a global. Neither call can fail: the key is a
// string, and no limit of memory is set before the libraries are open.
func publish(s *lua.State, name string, t *lua.Table) {
	t.SetReadonly(true)
	_ = s.Globals().SetStr(name, t.Value())
}

// buffer collects the bytes of a result.
type buffer struct {
	s *lua.State
	b []byte
}

// room makes sure that n more bytes fit, and accounts for what that takes.
func (o *buffer) room(n int) error {
	if cap(o.b)-len(o.b) >= n {
		return nil
	}
	size := max(len(o.b)+n, 2*cap(o.b), 64)
	if err := o.s.Alloc(size); err != nil {
		return err
	}
	bigger := make([]byte, len(o.b), size)
	copy(bigger, o.b)
	o.b = bigger
	return nil
}

// result returns the bytes as a string.
func (o *buffer) result(c *lua.Call) error {
	if err := o.s.Alloc(len(o.b)); err != nil {
		return err
	}
	c.Return(lua.String(string(o.b)))
	return nil
}

// newTable makes an empty table. NewTable itself does not say that the limit is
// passed; the next allocation does.
func newTable(s *lua.State) (*lua.Table, error) {
	t := s.NewTable(0, 0)
	if err := s.Alloc(1); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, lua.ErrMemory
	}
	return t, nil
}

// appendString appends a copy of a string: a part of a large one would keep
// all of it.
func appendString(s *lua.State, out []lua.Value, part string) ([]lua.Value, error) {
	if err := s.Alloc(len(part)); err != nil {
		return out, err
	}
	return append(out, lua.String(string([]byte(part)))), nil
}

// truncate converts to a signed integer. What does not fit, and NaN, becomes
// the smallest one.
func truncate(f float64) int64 {
	if f >= -(1<<63) && f < 1<<63 {
		return int64(f)
	}
	return math.MinInt64
}

// truncate32 is truncate for 32 bits.
func truncate32(f float64) int32 {
	if f > -(1<<31)-1 && f < 1<<31 {
		return int32(f)
	}
	return math.MinInt32
}

// truncateUnsigned converts to an unsigned integer the way compilers do it that
// have only the signed conversion: from 2^63 on, what is above.
func truncateUnsigned(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(truncate(f-1<<63)) ^ 1<<63
	}
	return uint64(truncate(f))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlnum(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// cString is a string as C sees it: a zero byte ends it.
func cString(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// pace counts the steps of one call, over all its loops, and tells them to the
// state now and then, whose budget may end the script.
type pace struct{ steps int }

func (p *pace) step(s *lua.State) error {
	if p.steps++; p.steps&63 != 0 {
		return nil
	}
	return s.Work(64)
}

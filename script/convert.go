package script

import (
	"errors"
	"math"
	"strings"

	"redoubt/lua"
	"redoubt/wire"
)

// converter converts Lua values to replies.
type converter struct {
	w *wire.Writer
	// resp is the version that the script chose with setresp. Values are written in the
	// client's version, except booleans: if resp is 2 they are 1 and null.
	resp  int
	limit int // of bytes in w, 0: none
	// take, if set, accounts for the memory of the reply; held bytes are accounted for.
	take func(bytes int64) bool
	held int
}

// maxDepth is how deep a reply may be nested: as deep as Lua's stack is in Redis.
const maxDepth = 7990

// replyStep is how many bytes of a reply are written between two calls of take.
const replyStep = 16 << 10

var (
	errLargeReply = errors.New("the reply is too large")
	errHeldReply  = errors.New("the reply cannot be held") // the execution says why
)

func (c *converter) value(v lua.Value, depth int) error {
	if c.limit > 0 && len(c.w.Buf) > c.limit {
		return errLargeReply
	}
	if n := len(c.w.Buf); c.take != nil && n > c.held+replyStep {
		if !c.take(int64(n - c.held)) {
			return errHeldReply
		}
		c.held = n
	}
	if depth > maxDepth {
		c.w.Error(errStackLimit)
		return nil
	}
	switch v.Kind() {
	case lua.KindString:
		c.w.BulkString(v.Str())
	case lua.KindNumber:
		c.w.Int(truncate(v.Num()))
	case lua.KindBool:
		switch {
		case c.resp == 3:
			c.w.Bool(v.Truth())
		case v.Truth():
			c.w.Int(1)
		default:
			c.w.Null()
		}
	case lua.KindTable:
		return c.table(v.Table(), depth)
	default:
		c.w.Null()
	}
	return nil
}

// truncate converts as C does on the usual machines.
func truncate(f float64) int64 {
	if f >= -1<<63 && f < 1<<63 {
		return int64(f)
	}
	return math.MinInt64
}

// table writes a table: an array, unless a field such as err or map names another type.
// The fields are looked up in Redis's order.
func (c *converter) table(t *lua.Table, depth int) error {
	if v := t.GetStr("err"); v.Kind() == lua.KindString {
		c.w.Error(errorText(v.Str()))
		return nil
	}
	if v := t.GetStr("ok"); v.Kind() == lua.KindString {
		c.w.Status(oneLine(cut(v.Str())))
		return nil
	}
	if v := t.GetStr("double"); v.Kind() == lua.KindNumber {
		c.w.Double(v.Num())
		return nil
	}
	if v := t.GetStr("big_number"); v.Kind() == lua.KindString {
		c.bigNumber(oneLine(v.Str()))
		return nil
	}
	if v := t.GetStr("verbatim_string"); v.Kind() == lua.KindTable {
		format, text := v.Table().GetStr("format"), v.Table().GetStr("string")
		if format.Kind() == lua.KindString && text.Kind() == lua.KindString {
			c.w.Verbatim((cut(format.Str()) + "   ")[:3], text.Str())
			return nil
		}
	}
	if v := t.GetStr("map"); v.Kind() == lua.KindTable {
		c.w.Map(count(v.Table()))
		return c.pairs(v.Table(), depth, true)
	}
	if v := t.GetStr("set"); v.Kind() == lua.KindTable {
		c.w.Set(count(v.Table()))
		return c.pairs(v.Table(), depth, false)
	}
	n := 0
	for !t.GetInt(n + 1).IsNil() {
		n++
	}
	c.w.Array(n)
	for i := 1; i <= n; i++ {
		if err := c.value(t.GetInt(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pairs writes the keys of a table, and the values if it is a map.
func (c *converter) pairs(t *lua.Table, depth int, values bool) error {
	for k, v, ok, err := t.Next(lua.Nil); ok; k, v, ok, err = t.Next(k) {
		if err != nil {
			return err
		}
		if err := c.value(k, depth+1); err != nil {
			return err
		}
		if !values {
			continue
		}
		if err := c.value(v, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func count(t *lua.Table) (n int) {
	for k, _, ok, err := t.Next(lua.Nil); ok && err == nil; k, _, ok, err = t.Next(k) {
		n++
	}
	return n
}

func (c *converter) bigNumber(digits string) {
	if c.w.Proto != 3 {
		c.w.BulkString(digits)
		return
	}
	c.w.Buf = append(append(append(c.w.Buf, '('), digits...), '\r', '\n')
}

// cut returns a text up to its first zero byte, as C reads it.
func cut(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// oneLine replaces line breaks, which would end a reply.
func oneLine(s string) string { return lineBreaks.Replace(s) }

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// errorText returns the text of an error reply, without line breaks at its end.
func errorText(s string) string { return strings.TrimRight(cut(s), "\r\n") }

package lua

import (
	"math"
	"strings"
)

// event names a metamethod. The first six are the arithmetic operators, in the
// order of their instructions.
type event uint8

const (
	evAdd event = iota
	evSub
	evMul
	evDiv
	evMod
	evPow
	evUnm
	evConcat
	evLt
	evLe
	evCall
	evIndex // from here on a metatable remembers that it has none: see Table.flags
	evNewIndex
	evEq
	evLen
	events
)

var eventNames = [events]string{
	"__add", "__sub", "__mul", "__div", "__mod", "__pow", "__unm", "__concat", "__lt", "__le", "__call",
	"__index", "__newindex", "__eq", "__len",
}

var eventKeys = func() (keys [events]struct {
	key  Value
	hash uint32
}) {
	for i, n := range eventNames {
		keys[i].key, keys[i].hash = String(n), hashString(n)
	}
	return keys
}()

const maxMetaLoop = 100

// handler returns the metamethod of a metatable, which may be nil.
func (t *Table) handler(ev event) Value {
	if t == nil {
		return Nil
	}
	if ev >= evIndex {
		bit := uint8(1) << (ev - evIndex)
		if t.flags&bit != 0 {
			return Nil
		}
		v := t.getHashed(eventKeys[ev].key, eventKeys[ev].hash)
		if v.IsNil() {
			t.flags |= bit
		}
		return v
	}
	return t.getHashed(eventKeys[ev].key, eventKeys[ev].hash)
}

func (s *State) metatable(v Value) *Table {
	switch v.Kind() {
	case KindTable:
		return v.table().meta
	case KindString:
		return s.strings
	case KindUserdata:
		if v.p != nil {
			return v.userdata().meta
		}
	}
	return nil
}

func (s *State) metamethod(v Value, ev event) Value { return s.metatable(v).handler(ev) }

// index returns v[k]. reg is the register of v, for an error's text, or -1.
func (th *thread) index(v, k Value, reg int) (Value, error) {
	for range maxMetaLoop {
		var tm Value
		if v.isTable() {
			t := v.table()
			res := t.Get(k)
			if !res.IsNil() || t.meta == nil {
				return res, nil
			}
			if tm = t.meta.handler(evIndex); tm.IsNil() {
				return Nil, nil
			}
		} else if tm = th.st.metamethod(v, evIndex); tm.IsNil() {
			return Nil, th.typeError(v, "index", reg)
		}
		if tm.isFunction() {
			return th.callMeta(tm, v, k, Nil, 2)
		}
		v, reg = tm, -1
	}
	return Nil, th.runtimeError("loop in gettable")
}

// setIndex does v[k] = x.
func (th *thread) setIndex(v, k, x Value, reg int) error {
	for range maxMetaLoop {
		var tm Value
		if v.isTable() {
			t := v.table()
			if t.ro {
				return th.runtimeError(errReadonly.Error())
			}
			// As in Lua, a new key gets its place before __newindex is asked.
			slot, err := t.slot(k)
			if err != nil {
				return th.tableError(err)
			}
			if !slot.IsNil() || t.meta == nil {
				*slot = x
				return nil
			}
			if tm = t.meta.handler(evNewIndex); tm.IsNil() {
				*slot = x
				return nil
			}
		} else if tm = th.st.metamethod(v, evNewIndex); tm.IsNil() {
			return th.typeError(v, "index", reg)
		}
		if tm.isFunction() {
			_, err := th.callMeta(tm, v, k, x, 3)
			return err
		}
		v, reg = tm, -1
	}
	return th.runtimeError("loop in settable")
}

// tableError adds the place to an error of a table.
func (th *thread) tableError(err error) error {
	if err == ErrMemory {
		return err
	}
	if _, ok := err.(*abortError); ok {
		return err
	}
	return th.runtimeError(err.Error())
}

// arithmetic computes with numbers.
func arithmetic(ev event, x, y float64) float64 {
	switch ev {
	case evAdd:
		return x + y
	case evSub:
		return x - y
	case evMul:
		return x * y
	case evDiv:
		return x / y
	case evMod:
		return modulo(x, y)
	case evPow:
		return power(x, y)
	}
	return -x
}

// modulo is Lua's: the result has the sign of y. The formula is the one of
// Lua 5.1, for its roundings too.
func modulo(x, y float64) float64 {
	if x >= 0 && y > 0 && x <= 1<<53 && y <= 1<<53 && x == math.Trunc(x) && y == math.Trunc(y) {
		return float64(int64(x) % int64(y))
	}
	return x - math.Floor(x/y)*y
}

// textLen is the length of a string, for the budget: what is done with long
// strings is more than an instruction.
func textLen(v Value) int {
	if v.isString() {
		return int(v.n >> 8)
	}
	return 0
}

// arith computes x op y when they are not both numbers.
func (th *thread) arith(ev event, x, y Value, regX, regY int) (Value, error) {
	th.st.left -= textLen(x) + textLen(y)
	nx, okx := x.ToNumber()
	ny, oky := y.ToNumber()
	if okx && oky {
		return Number(arithmetic(ev, nx, ny)), nil
	}
	tm := th.st.metamethod(x, ev)
	if tm.IsNil() {
		tm = th.st.metamethod(y, ev)
	}
	if !tm.IsNil() {
		return th.callMeta(tm, x, y, Nil, 2)
	}
	if okx {
		x, regX = y, regY
	}
	return Nil, th.typeError(x, "perform arithmetic on", regX)
}

// length returns #v.
func (th *thread) length(v Value, reg int) (Value, error) {
	switch {
	case v.isTable():
		return Number(float64(v.table().Len())), nil
	case v.isString():
		return Number(float64(len(v.str()))), nil
	}
	if tm := th.st.metamethod(v, evLen); !tm.IsNil() {
		return th.callMeta(tm, v, Nil, Nil, 2)
	}
	return Nil, th.typeError(v, "get length of", reg)
}

// equal compares with __eq.
func (th *thread) equal(a, b Value) (bool, error) {
	th.st.left -= textLen(a) >> 6
	if RawEqual(a, b) {
		return true, nil
	}
	k := a.Kind()
	if k != b.Kind() || (k != KindTable && k != KindUserdata) {
		return false, nil
	}
	m1, m2 := th.st.metatable(a), th.st.metatable(b)
	tm := m1.handler(evEq)
	if tm.IsNil() {
		return false, nil
	}
	if m1 != m2 && !RawEqual(tm, m2.handler(evEq)) {
		return false, nil
	}
	v, err := th.callMeta(tm, a, b, Nil, 2)
	return v.Truth(), err
}

// less returns a < b.
func (th *thread) less(a, b Value) (bool, error) {
	if a.isNumber() && b.isNumber() {
		return a.float() < b.float(), nil
	}
	if a.isString() && b.isString() {
		th.st.left -= textLen(a) >> 6
		return a.str() < b.str(), nil
	}
	if a.Kind() == b.Kind() {
		if res, ok, err := th.order(evLt, a, b); ok {
			return res, err
		}
	}
	return false, th.orderError(a, b)
}

// lessEqual returns a <= b; without __le, not (b < a).
func (th *thread) lessEqual(a, b Value) (bool, error) {
	if a.isNumber() && b.isNumber() {
		return a.float() <= b.float(), nil
	}
	if a.isString() && b.isString() {
		th.st.left -= textLen(a) >> 6
		return a.str() <= b.str(), nil
	}
	if a.Kind() == b.Kind() {
		if res, ok, err := th.order(evLe, a, b); ok {
			return res, err
		}
		if res, ok, err := th.order(evLt, b, a); ok {
			return !res, err
		}
	}
	return false, th.orderError(a, b)
}

// order asks a metamethod, which both must share.
func (th *thread) order(ev event, a, b Value) (res, ok bool, err error) {
	tm := th.st.metamethod(a, ev)
	if tm.IsNil() || !RawEqual(tm, th.st.metamethod(b, ev)) {
		return false, false, nil
	}
	v, err := th.callMeta(tm, a, b, Nil, 2)
	return v.Truth(), true, err
}

func concatenable(v Value) bool { return v.isString() || v.isNumber() }

// concat puts R[b] .. ... .. R[c] together, from the right. Partial results
// take the place of the left operand, as in Lua.
func (th *thread) concat(base, b, c int) (Value, error) {
	for n := c; n > b; {
		st := th.stack[base : base+n+1]
		x, y := st[n-1], st[n]
		if !concatenable(x) || !concatenable(y) {
			v, err := th.concatMeta(x, y, n-1)
			if err != nil {
				return Nil, err
			}
			n--
			th.stack[base+n] = v
			continue
		}
		first := n - 1
		total := stringLen(x) + stringLen(y)
		for first > b && concatenable(st[first-1]) {
			first--
			total += stringLen(st[first])
		}
		v, err := th.joinStrings(st[first:n+1], total)
		if err != nil {
			return Nil, err
		}
		st[first] = v
		n = first
	}
	return th.stack[base+b], nil
}

func stringLen(v Value) int {
	if v.isString() {
		return int(v.n >> 8)
	}
	return 24 // a number is never longer
}

func (th *thread) joinStrings(parts []Value, total int) (Value, error) {
	if len(parts) == 2 && parts[0].isString() && parts[1].isString() {
		// One of them may be empty: no copy then.
		if parts[0].p == nil {
			return parts[1], nil
		}
		if parts[1].p == nil {
			return parts[0], nil
		}
	}
	if err := th.st.allocString(total); err != nil {
		return Nil, err
	}
	th.st.left -= total >> 6
	buf := make([]byte, 0, total)
	for _, v := range parts {
		if v.isString() {
			buf = append(buf, v.str()...)
		} else {
			buf = appendNumber(buf, v.float())
		}
	}
	return bytesValue(buf), nil
}

func (th *thread) concatMeta(x, y Value, reg int) (Value, error) {
	tm := th.st.metamethod(x, evConcat)
	if tm.IsNil() {
		tm = th.st.metamethod(y, evConcat)
	}
	if !tm.IsNil() {
		return th.callMeta(tm, x, y, Nil, 2)
	}
	if concatenable(x) {
		x, reg = y, reg+1
	}
	return Nil, th.typeError(x, "concatenate", reg)
}

// cutNUL returns a name up to a zero byte, as C prints it.
func cutNUL(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

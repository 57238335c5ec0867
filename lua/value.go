package lua

import (
	"math"
	"unsafe"
)

// Kind is the type of a Value.
type Kind uint8

// The kinds of values. Userdata is what newproxy makes, and Null.
const (
	KindNil Kind = iota
	KindBool
	KindNumber
	KindString
	KindTable
	KindFunction
	KindThread
	KindUserdata
)

var kindNames = [...]string{"nil", "boolean", "number", "string", "table", "function", "thread", "userdata"}

func (k Kind) String() string { return kindNames[k] }

// Value is any Lua value. It is two words, and making one never allocates:
//
//	          p                      n
//	number    &numMark               bits of the float
//	string    its first byte         KindString | length<<8
//	boolean   nil                    KindBool | 0 or 1<<8
//	nil       nil                    0
//	others    the object             its Kind
//
// Strings are therefore not interned: two equal strings may have different p.
// An empty string has p == nil. The pointer keeps the object alive for Go's
// collector, which is the only one there is.
type Value struct {
	p unsafe.Pointer
	n uint64
}

// numMark is never read: its address marks a Value as a number.
var numMark uint64

const (
	nFalse  = uint64(KindBool)
	nTrue   = uint64(KindBool) | 1<<8
	nString = uint64(KindString)
)

// Nil is the value nil, the zero Value.
var Nil Value

// Null is the light userdata of address zero, which cjson.null is.
var Null = Value{nil, uint64(KindUserdata)}

// Bool returns a boolean.
func Bool(b bool) Value {
	if b {
		return Value{nil, nTrue}
	}
	return Value{nil, nFalse}
}

// Number returns a number.
func Number(f float64) Value { return Value{unsafe.Pointer(&numMark), math.Float64bits(f)} }

// String returns a string of bytes. The bytes are shared, not copied.
func String(s string) Value {
	if len(s) == 0 {
		return Value{nil, nString}
	}
	return Value{unsafe.Pointer(unsafe.StringData(s)), nString | uint64(len(s))<<8}
}

// bytesValue returns a string of the bytes of b, which must not be changed later.
func bytesValue(b []byte) Value {
	if len(b) == 0 {
		return Value{nil, nString}
	}
	return Value{unsafe.Pointer(unsafe.SliceData(b)), nString | uint64(len(b))<<8}
}

func (v Value) isNumber() bool   { return v.p == unsafe.Pointer(&numMark) }
func (v Value) isString() bool   { return uint8(v.n) == uint8(KindString) && !v.isNumber() }
func (v Value) isTable() bool    { return v.n == uint64(KindTable) && !v.isNumber() }
func (v Value) isFunction() bool { return v.n == uint64(KindFunction) && !v.isNumber() }
func (v Value) float() float64   { return math.Float64frombits(v.n) }
func (v Value) str() string      { return unsafe.String((*byte)(v.p), int(v.n>>8)) }
func (v Value) table() *Table    { return (*Table)(v.p) }
func (v Value) fn() *function    { return (*function)(v.p) }

// Kind returns the type of the value.
func (v Value) Kind() Kind {
	if v.isNumber() {
		return KindNumber
	}
	return Kind(v.n)
}

// IsNil reports whether the value is nil.
func (v Value) IsNil() bool { return v.p == nil && v.n == 0 }

// Truth reports whether the value counts as true: all but nil and false do.
func (v Value) Truth() bool { return v.p != nil || (v.n != 0 && v.n != nFalse) }

// Num returns the number, or 0 when the value is none. It converts nothing.
func (v Value) Num() float64 {
	if !v.isNumber() {
		return 0
	}
	return v.float()
}

// Str returns the bytes of a string, or "" when the value is none. It converts
// nothing.
func (v Value) Str() string {
	if !v.isString() {
		return ""
	}
	return v.str()
}

// Table returns the table, or nil when the value is none.
func (v Value) Table() *Table {
	if !v.isTable() {
		return nil
	}
	return v.table()
}

// TypeName returns the name of the type, as type() does.
func (v Value) TypeName() string { return kindNames[v.Kind()] }

// ToNumber returns a number, or the number that a string represents.
func (v Value) ToNumber() (float64, bool) {
	if v.isNumber() {
		return v.float(), true
	}
	if v.isString() {
		return parseNumber(v.str())
	}
	return 0, false
}

// ToString returns a string, or a number as "%.14g" prints it.
func (v Value) ToString() (string, bool) {
	if v.isString() {
		return v.str(), true
	}
	if v.isNumber() {
		return formatNumber(v.float()), true
	}
	return "", false
}

// RawEqual compares without metamethods.
func RawEqual(a, b Value) bool {
	if a.isNumber() {
		return b.isNumber() && a.float() == b.float()
	}
	if a.n != b.n {
		return false
	}
	if a.p == b.p {
		return true
	}
	return uint8(a.n) == uint8(KindString) && !b.isNumber() && a.str() == b.str()
}

// function is a closure of a Proto, or a Go function.
type function struct {
	proto  *Proto
	upvals []*upvalue
	env    *Table // of the globals; nil for a Go function
	mark   uint32 // see memory.go; not written in a Go function, which several states may share

	goFn Func
	held Value // what a Go function refers to
	name string
	id   uint32 // for its address
}

// upvalue is a variable that a closure captured. While the variable still
// lives on a stack it is open: v points into that stack.
type upvalue struct {
	v      *Value
	closed Value
	index  int      // in the stack, while open
	next   *upvalue // the next open one, lower in the stack
	mark   uint32
}

// NewFunc returns a Go function. States may share it. Its name decides what
// tostring shows of it, since a real address would differ from run to run.
func NewFunc(name string, f Func) Value {
	return functionValue(&function{goFn: f, name: name, id: hashString(name)})
}

func functionValue(f *function) Value { return Value{unsafe.Pointer(f), uint64(KindFunction)} }

// userdata is what newproxy makes: an identity with a metatable.
type userdata struct {
	meta *Table
	id   uint32
	mark uint32
}

func (v Value) userdata() *userdata { return (*userdata)(v.p) }

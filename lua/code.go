package lua

import (
	"fmt"
	"math"
)

// The compiler emits code while it parses, in one pass and without a tree. So the depth
// of its recursion is the nesting of the source, which is limited, and does not depend on
// the length of the source. An expression that was read but is not used yet is an expr,
// whose register is chosen when its use is known.

const (
	noJump       = -1  // the end of a list of jumps
	noRegister   = 255 // of an opTestSet whose value is not used
	maxRegisters = 250
	maxLocals    = 200
	maxUpvalues  = 60
	maxLevels    = 200
)

// funcState is a function that is being compiled.
type funcState struct {
	p       *Proto
	prev    *funcState
	lex     *lexer
	block   *block
	free    int // first free register
	active  []int
	target  int // last instruction that is a jump target: instructions are not fused across it
	pending int // jumps to the next instruction
	index   map[constKey]int
}

type constKey struct {
	kind Kind
	bits uint64
	str  string
}

// block is a scope.
type block struct {
	prev    *block
	breaks  int // jumps out of it
	active  int // locals outside
	upvalue bool
	loop    bool
}

func (f *funcState) pc() int { return len(f.p.code) }

// emit appends an instruction and returns its index.
func (f *funcState) emit(op opcode, a, b, c, d int) int {
	f.flush()
	f.p.code = append(f.p.code, encode(op, a, b, c, d))
	f.p.lines = append(f.p.lines, int32(f.lex.lastLine))
	return len(f.p.code) - 1
}

// flush makes the next instruction the target of the pending jumps.
func (f *funcState) flush() {
	list := f.pending
	f.pending = noJump
	f.patchLists(list, f.pc(), noRegister, f.pc())
}

func (f *funcState) fixLine(line int) { f.p.lines[len(f.p.lines)-1] = int32(line) }

func (f *funcState) limit(n, limit int, what string) {
	if n <= limit {
		return
	}
	where := "main function"
	if f.p.defined != 0 {
		where = fmt.Sprintf("function at line %d", f.p.defined)
	}
	f.lex.fail(fmt.Sprintf("%s has more than %d %s", where, limit, what), 0)
}

// Registers.

func (f *funcState) checkStack(n int) {
	if need := f.free + n; need > int(f.p.maxStack) {
		if need >= maxRegisters {
			f.lex.failHere("function or expression too complex")
		}
		f.p.maxStack = uint8(need)
	}
}

func (f *funcState) reserve(n int) {
	f.checkStack(n)
	f.free += n
}

// release frees a register unless it is a local's.
func (f *funcState) release(reg int) {
	if reg >= len(f.active) && reg == f.free-1 {
		f.free--
	}
}

func (f *funcState) releaseExpr(e *expr) {
	if e.kind == xReg {
		f.release(e.info)
	}
}

// Constants.

func (f *funcState) constant(k constKey, v Value) int {
	if f.index == nil {
		f.index = make(map[constKey]int)
	}
	if i, ok := f.index[k]; ok {
		return i
	}
	if len(f.p.consts) > 1<<18-1 {
		f.lex.fail("constant table overflow", 0)
	}
	hash := uint32(0)
	if v.isString() {
		hash = hashString(v.str())
	}
	f.p.consts = append(f.p.consts, v)
	f.p.hashes = append(f.p.hashes, hash)
	f.index[k] = len(f.p.consts) - 1
	return len(f.p.consts) - 1
}

func (f *funcState) stringConst(s string) int {
	return f.constant(constKey{kind: KindString, str: s}, String(s))
}

func (f *funcState) numberConst(n float64) int {
	k := constKey{kind: KindNumber, bits: math.Float64bits(n)}
	if n == 0 {
		k.bits = 0 // Lua takes -0 for the 0 that came before it
	}
	return f.constant(k, Number(n))
}

func (f *funcState) otherConst(v Value) int {
	return f.constant(constKey{kind: v.Kind(), bits: v.n}, v)
}

// Jumps. Jumps to the same unknown target form a linked list through their field d.

func (f *funcState) jump() int {
	pending := f.pending
	f.pending = noJump
	at := f.emit(opJmp, 0, 0, 0, noJump)
	return f.join(at, pending)
}

// here marks the next instruction as the target of a jump.
func (f *funcState) here() int {
	f.target = f.pc()
	return f.pc()
}

func (f *funcState) nextJump(at int) int {
	d := f.p.code[at].d()
	if d == noJump {
		return noJump
	}
	return at + 1 + d
}

func (f *funcState) setJump(at, to int) { f.p.code[at].setD(to - (at + 1)) }

// join concatenates two lists.
func (f *funcState) join(l1, l2 int) int {
	if l2 == noJump {
		return l1
	}
	if l1 == noJump {
		return l2
	}
	last := l1
	for next := f.nextJump(last); next != noJump; next = f.nextJump(last) {
		last = next
	}
	f.setJump(last, l2)
	return l1
}

// needsValue reports whether a jump of the list does not carry a value with it.
func (f *funcState) needsValue(list int) bool {
	for ; list != noJump; list = f.nextJump(list) {
		if f.p.code[list].op() != opTestSet {
			return true
		}
	}
	return false
}

// retarget makes an opTestSet store its value into reg, or makes it a plain test. It
// returns false if the jump's test is no opTestSet.
func (f *funcState) retarget(at, reg int) bool {
	i := &f.p.code[at]
	if i.op() != opTestSet {
		return false
	}
	if reg != noRegister && reg != int(i.b()) {
		i.setA(reg)
	} else {
		i.setOp(opTest)
		i.setA(int(i.b()))
	}
	return true
}

func (f *funcState) dropValues(list int) {
	for ; list != noJump; list = f.nextJump(list) {
		f.retarget(list, noRegister)
	}
}

// patchLists sets the target of jumps that carry a value to values, of others to other.
func (f *funcState) patchLists(list, values, reg, other int) {
	for list != noJump {
		next := f.nextJump(list)
		if f.retarget(list, reg) {
			f.setJump(list, values)
		} else {
			f.setJump(list, other)
		}
		list = next
	}
}

func (f *funcState) patch(list, to int) {
	if to == f.pc() {
		f.patchHere(list)
		return
	}
	f.patchLists(list, to, noRegister, to)
}

func (f *funcState) patchHere(list int) {
	f.here()
	f.pending = f.join(f.pending, list)
}

// setNil emits code that sets n registers to nil.
func (f *funcState) setNil(from, n int) {
	if f.pc() > f.target && f.pc() > 0 {
		if last := &f.p.code[f.pc()-1]; last.op() == opLoadNil {
			if a, b := int(last.a()), int(last.b()); a <= from && from <= b+1 {
				if from+n-1 > b {
					last.setB(from + n - 1)
				}
				return
			}
		}
	}
	f.emit(opLoadNil, from, from+n-1, 0, 0)
}

func (f *funcState) ret(first, n int) {
	switch n {
	case 0:
		f.emit(opReturn0, 0, 0, 0, 0)
	case 1:
		f.emit(opReturn1, first, 0, 0, 0)
	default: // multi is -1
		f.emit(opReturn, first, n+1, 0, 0)
	}
}

package lua

import "math"

type exprKind uint8

const (
	xVoid   exprKind = iota // nothing
	xNil                    //
	xTrue                   //
	xFalse                  //
	xString                 // info: constant
	xNumber                 // num
	xLocal                  // info: register
	xUpval                  // info: upvalue
	xGlobal                 // info: constant with the name
	xIndex                  // info: register of the table, aux: register of the key
	xField                  // info: register of the table, aux: constant with the key
	xInt                    // info: register of the table, aux: the key
	xJump                   // info: the comparison
	xReloc                  // info: an instruction that can write to any register
	xReg                    // info: register
	xCall                   // info: the call
	xVararg                 // info: the opVararg
)

// multi asks for all results.
const multi = -1

// expr is an expression. yes and no are the lists of the jumps that leave it early, if it
// is true or false.
type expr struct {
	kind      exprKind
	info, aux int
	num       float64
	yes, no   int
}

func makeExpr(kind exprKind, info int) expr {
	return expr{kind: kind, info: info, yes: noJump, no: noJump}
}

func (e *expr) hasJumps() bool  { return e.yes != e.no }
func (e *expr) isNumeral() bool { return e.kind == xNumber && e.yes == noJump && e.no == noJump }

// setReturns sets how many values a call or ... returns.
func (f *funcState) setReturns(e *expr, n int) {
	switch e.kind {
	case xCall:
		f.p.code[e.info].setC(n + 1)
	case xVararg:
		i := &f.p.code[e.info]
		i.setB(n + 1)
		i.setA(f.free)
		f.reserve(1)
	}
}

func (f *funcState) setOneReturn(e *expr) {
	switch e.kind {
	case xCall:
		e.kind = xReg
		e.info = int(f.p.code[e.info].a())
	case xVararg:
		f.p.code[e.info].setB(2)
		e.kind = xReloc
	}
}

// discharge emits the read of a variable: afterwards the expression is a value.
func (f *funcState) discharge(e *expr) {
	switch e.kind {
	case xLocal:
		e.kind = xReg
	case xUpval:
		e.info = f.emit(opGetUpval, 0, e.info, 0, 0)
		e.kind = xReloc
	case xGlobal:
		e.info = f.emit(opGetGlobal, 0, 0, 0, e.info)
		e.kind = xReloc
	case xIndex:
		f.release(e.aux)
		f.release(e.info)
		e.info = f.emit(opGetIndex, 0, e.info, e.aux, 0)
		e.kind = xReloc
	case xField:
		f.release(e.info)
		e.info = f.emit(opGetField, 0, e.info, 0, e.aux)
		e.kind = xReloc
	case xInt:
		f.release(e.info)
		e.info = f.emit(opGetInt, 0, e.info, 0, e.aux)
		e.kind = xReloc
	case xCall, xVararg:
		f.setOneReturn(e)
	}
}

// dischargeTo emits code that stores the value, without that of its jumps, into a register.
func (f *funcState) dischargeTo(e *expr, reg int) {
	f.discharge(e)
	switch e.kind {
	case xNil:
		f.setNil(reg, 1)
	case xTrue:
		f.emit(opLoadBool, reg, 1, 0, 0)
	case xFalse:
		f.emit(opLoadBool, reg, 0, 0, 0)
	case xString:
		f.emit(opLoadK, reg, 0, 0, e.info)
	case xNumber:
		f.emit(opLoadK, reg, 0, 0, f.numberConst(e.num))
	case xReloc:
		f.p.code[e.info].setA(reg)
	case xReg:
		if reg != e.info {
			f.emit(opMove, reg, e.info, 0, 0)
		}
	default:
		return // nothing, or a comparison, whose jumps decide
	}
	e.kind, e.info = xReg, reg
}

// toReg emits code that stores the value into a register.
func (f *funcState) toReg(e *expr, reg int) {
	f.dischargeTo(e, reg)
	if e.kind == xJump {
		e.yes = f.join(e.yes, e.info)
	}
	if e.hasJumps() {
		no, yes := noJump, noJump
		if f.needsValue(e.yes) || f.needsValue(e.no) {
			skip := noJump
			if e.kind != xJump {
				skip = f.jump()
			}
			f.here()
			no = f.emit(opLoadBool, reg, 0, 1, 0)
			f.here()
			yes = f.emit(opLoadBool, reg, 1, 0, 0)
			f.patchHere(skip)
		}
		end := f.here()
		f.patchLists(e.no, end, reg, no)
		f.patchLists(e.yes, end, reg, yes)
	}
	*e = makeExpr(xReg, reg)
}

func (f *funcState) toNextReg(e *expr) {
	f.discharge(e)
	f.releaseExpr(e)
	f.reserve(1)
	f.toReg(e, f.free-1)
}

func (f *funcState) toAnyReg(e *expr) int {
	f.discharge(e)
	if e.kind == xReg {
		if !e.hasJumps() {
			return e.info
		}
		if e.info >= len(f.active) {
			f.toReg(e, e.info)
			return e.info
		}
	}
	f.toNextReg(e)
	return e.info
}

// toValue resolves the expression so far that only its register is open.
func (f *funcState) toValue(e *expr) {
	if e.hasJumps() {
		f.toAnyReg(e)
	} else {
		f.discharge(e)
	}
}

// constOf returns the index of a constant expression, if a comparison can have it as operand.
func (f *funcState) constOf(e *expr, others bool) (int, bool) {
	if e.hasJumps() {
		return 0, false
	}
	k := -1
	switch {
	case e.kind == xNumber:
		k = f.numberConst(e.num)
	case !others:
		return 0, false
	case e.kind == xString:
		k = e.info
	case e.kind == xNil:
		k = f.otherConst(Nil)
	case e.kind == xTrue:
		k = f.otherConst(Bool(true))
	case e.kind == xFalse:
		k = f.otherConst(Bool(false))
	}
	return k, k >= 0 && k < 256
}

// store assigns to a variable.
func (f *funcState) store(v, e *expr) {
	switch v.kind {
	case xLocal:
		f.releaseExpr(e)
		f.toReg(e, v.info)
		return
	case xUpval:
		f.emit(opSetUpval, f.toAnyReg(e), v.info, 0, 0)
	case xGlobal:
		f.emit(opSetGlobal, f.toAnyReg(e), 0, 0, v.info)
	case xIndex:
		r := f.toAnyReg(e)
		f.emit(opSetIndex, v.info, v.aux, r, 0)
	case xField:
		r := f.toAnyReg(e)
		f.emit(opSetField, v.info, r, 0, v.aux)
	case xInt:
		r := f.toAnyReg(e)
		f.emit(opSetInt, v.info, r, 0, v.aux)
	}
	f.releaseExpr(e)
}

// method compiles e:name, which leaves the function and self in registers.
func (f *funcState) method(e *expr, name string) {
	f.toAnyReg(e)
	f.releaseExpr(e)
	fn := f.free
	f.reserve(2)
	f.emit(opSelf, fn, e.info, 0, f.stringConst(name))
	*e = makeExpr(xReg, fn)
}

// indexed makes the expression t[k]; t must be in a register.
func (f *funcState) indexed(t, k *expr) {
	switch {
	case k.kind == xString && !k.hasJumps():
		t.kind, t.aux = xField, k.info
	case k.isNumeral() && k.num >= 1 && k.num < 1<<31-1 && k.num == math.Trunc(k.num):
		t.kind, t.aux = xInt, int(k.num)
	default:
		t.aux = f.toAnyReg(k)
		t.kind = xIndex
	}
}

// Conditions.

func (f *funcState) negate(e *expr) {
	i := &f.p.code[e.info]
	i.setA(int(i.a() ^ 1))
}

// jumpIf emits a jump that is taken if the truth of e is cond.
func (f *funcState) jumpIf(e *expr, cond int) int {
	if e.kind == xReloc {
		if i := f.p.code[e.info]; i.op() == opNot {
			f.p.code = f.p.code[:len(f.p.code)-1]
			f.p.lines = f.p.lines[:len(f.p.lines)-1]
			return f.emit(opTest, int(i.b()), 0, cond^1, noJump)
		}
	}
	if e.kind != xReg {
		f.reserve(1)
		f.dischargeTo(e, f.free-1)
	}
	f.releaseExpr(e)
	return f.emit(opTestSet, noRegister, e.info, cond, noJump)
}

// goIfTrue emits code that continues if e is true and jumps otherwise. A false constant
// is no plain jump: pending jumps to that jump would be joined with it, and carry the
// wrong value.
func (f *funcState) goIfTrue(e *expr) {
	f.discharge(e)
	at := noJump
	switch e.kind {
	case xString, xNumber, xTrue:
	case xJump:
		f.negate(e)
		at = e.info
	default:
		at = f.jumpIf(e, 0)
	}
	e.no = f.join(e.no, at)
	f.patchHere(e.yes)
	e.yes = noJump
}

// goIfFalse emits code that continues if e is false and jumps otherwise.
func (f *funcState) goIfFalse(e *expr) {
	f.discharge(e)
	at := noJump
	switch e.kind {
	case xNil, xFalse:
	case xJump:
		at = e.info
	default:
		at = f.jumpIf(e, 1)
	}
	e.yes = f.join(e.yes, at)
	f.patchHere(e.no)
	e.no = noJump
}

func (f *funcState) not(e *expr) {
	f.discharge(e)
	switch e.kind {
	case xNil, xFalse:
		e.kind = xTrue
	case xString, xNumber, xTrue:
		e.kind = xFalse
	case xJump:
		f.negate(e)
	default:
		if e.kind != xReg {
			f.reserve(1)
			f.dischargeTo(e, f.free-1)
		}
		f.releaseExpr(e)
		e.info = f.emit(opNot, 0, e.info, 0, 0)
		e.kind = xReloc
	}
	e.yes, e.no = e.no, e.yes
	f.dropValues(e.no)
	f.dropValues(e.yes)
}

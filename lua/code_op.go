package lua

import "math"

// operator is a binary operator; its number up to power is its distance from opAdd.
type operator int

const (
	oprAdd operator = iota
	oprSub
	oprMul
	oprDiv
	oprMod
	oprPow
	oprConcat
	oprNe
	oprEq
	oprLt
	oprLe
	oprGt
	oprGe
	oprAnd
	oprOr
	oprNone
)

// priority is the precedence of each operator towards its left and its right operand.
var priority = [...]struct{ left, right int }{
	oprAdd: {6, 6}, oprSub: {6, 6}, oprMul: {7, 7}, oprDiv: {7, 7}, oprMod: {7, 7},
	oprPow: {10, 9}, oprConcat: {5, 4},
	oprNe: {3, 3}, oprEq: {3, 3}, oprLt: {3, 3}, oprLe: {3, 3}, oprGt: {3, 3}, oprGe: {3, 3},
	oprAnd: {2, 2}, oprOr: {1, 1},
}

const unaryPriority = 8

func binaryOperator(t token) operator {
	switch t {
	case '+':
		return oprAdd
	case '-':
		return oprSub
	case '*':
		return oprMul
	case '/':
		return oprDiv
	case '%':
		return oprMod
	case '^':
		return oprPow
	case tokConcat:
		return oprConcat
	case tokNe:
		return oprNe
	case tokEq:
		return oprEq
	case '<':
		return oprLt
	case tokLe:
		return oprLe
	case '>':
		return oprGt
	case tokGe:
		return oprGe
	case tokAnd:
		return oprAnd
	case tokOr:
		return oprOr
	}
	return oprNone
}

func (f *funcState) unary(op token, e *expr) {
	switch op {
	case tokNot:
		f.not(e)
	case '-':
		if e.isNumeral() && e.num == e.num {
			e.num = -e.num
			return
		}
		f.toAnyReg(e)
		f.releaseExpr(e)
		*e = makeExpr(xReloc, f.emit(opUnm, 0, e.info, 0, 0))
	default: // #
		f.toAnyReg(e)
		f.releaseExpr(e)
		*e = makeExpr(xReloc, f.emit(opLen, 0, e.info, 0, 0))
	}
}

// infix is called when the left operand and the operator are read.
func (f *funcState) infix(op operator, e *expr) {
	switch op {
	case oprAnd:
		f.goIfTrue(e)
	case oprOr:
		f.goIfFalse(e)
	case oprConcat:
		f.toNextReg(e) // the operands must be in adjacent registers
	case oprAdd, oprSub, oprMul, oprDiv, oprMod, oprPow:
		if !e.isNumeral() {
			f.toAnyReg(e)
		}
	default:
		f.toValue(e)
		if !e.isConst() {
			f.toAnyReg(e)
		} else if e.kind == xNumber {
			f.numberConst(e.num) // now: of 0 and -0 the first one counts
		}
	}
}

// isConst reports whether the expression needs no register until it is used.
func (e *expr) isConst() bool {
	return !e.hasJumps() && (e.kind == xNumber || e.kind == xString || e.kind == xNil || e.kind == xTrue || e.kind == xFalse)
}

// postfix is called when the right operand is read too.
func (f *funcState) postfix(op operator, e1, e2 *expr) {
	if op >= oprNe && op <= oprGe && !e2.isConst() {
		f.toAnyReg(e2) // before a constant is loaded into the register behind its parts
	}
	switch op {
	case oprAnd:
		f.discharge(e2)
		e2.no = f.join(e2.no, e1.no)
		*e1 = *e2
	case oprOr:
		f.discharge(e2)
		e2.yes = f.join(e2.yes, e1.yes)
		*e1 = *e2
	case oprConcat:
		f.concat(e1, e2)
	case oprEq:
		f.compare(opEq, 1, e1, e2)
	case oprNe:
		f.compare(opEq, 0, e1, e2)
	case oprLt:
		f.compare(opLt, 1, e1, e2)
	case oprLe:
		f.compare(opLe, 1, e1, e2)
	case oprGt:
		f.compare(opLt, 1, e2, e1)
		*e1 = *e2
	case oprGe:
		f.compare(opLe, 1, e2, e1)
		*e1 = *e2
	default:
		f.arith(op, e1, e2)
	}
}

// concat makes one instruction of a chain of concatenations: they associate to the right, so the
// right operand's instruction is the last one emitted.
func (f *funcState) concat(e1, e2 *expr) {
	f.toValue(e2)
	if e2.kind == xReloc {
		if i := &f.p.code[e2.info]; i.op() == opConcat {
			f.releaseExpr(e1)
			i.setB(e1.info)
			e1.kind, e1.info = xReloc, e2.info
			return
		}
	}
	f.toNextReg(e2)
	f.releaseExpr(e2)
	f.releaseExpr(e1)
	at := f.emit(opConcat, 0, e1.info, e2.info, 0)
	*e1 = makeExpr(xReloc, at)
}

func (f *funcState) arith(op operator, e1, e2 *expr) {
	if fold(op, e1, e2) {
		return
	}
	var at int
	switch {
	case e2.isNumeral():
		k := f.numberConst(e2.num)
		r := f.toAnyReg(e1)
		f.releaseExpr(e1)
		at = f.emit(opAddK+opcode(op), 0, r, 0, k)
	case e1.isNumeral() && (op == oprAdd || op == oprMul):
		k := f.numberConst(e1.num)
		r := f.toAnyReg(e2)
		f.releaseExpr(e2)
		at = f.emit(opAddK+opcode(op), 0, r, 1, k)
	default:
		r2 := f.toAnyReg(e2)
		r1 := f.toAnyReg(e1)
		f.releaseBoth(e1, e2)
		at = f.emit(opAdd+opcode(op), 0, r1, r2, 0)
	}
	*e1 = makeExpr(xReloc, at)
}

func (f *funcState) releaseBoth(e1, e2 *expr) {
	if e1.kind == xReg && e2.kind == xReg && e1.info < e2.info {
		e1, e2 = e2, e1
	}
	f.releaseExpr(e1)
	f.releaseExpr(e2)
}

// fold evaluates an operation on numeric constants, except a division by zero and a result that
// is NaN: Lua leaves these to the run.
func fold(op operator, e1, e2 *expr) bool {
	if !e1.isNumeral() || !e2.isNumeral() {
		return false
	}
	if (op == oprDiv || op == oprMod) && e2.num == 0 {
		return false
	}
	r := arithmetic(event(op), e1.num, e2.num)
	if math.IsNaN(r) {
		return false
	}
	e1.num = r
	return true
}

// compare emits a jump that is taken if the comparison's result is cond.
func (f *funcState) compare(op opcode, cond int, e1, e2 *expr) {
	equal := op == opEq
	var at int
	if k, ok := f.constOf(e2, equal); ok {
		r := f.toAnyReg(e1)
		f.releaseExpr(e1)
		at = f.emit(op+(opEqK-opEq), cond, r, k, noJump)
	} else if k, ok := f.constOf(e1, equal); ok {
		r := f.toAnyReg(e2)
		f.releaseExpr(e2)
		if !equal {
			op += opGtK - opLtK
		}
		at = f.emit(op+(opEqK-opEq), cond, r, k, noJump)
	} else {
		r2 := f.toAnyReg(e2)
		r1 := f.toAnyReg(e1)
		f.releaseBoth(e1, e2)
		at = f.emit(op, cond, r1, r2, noJump)
	}
	*e1 = makeExpr(xJump, at)
}

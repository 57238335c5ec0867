package lua

import (
	"fmt"
	"strconv"
)

// Names of values in error texts. They are found when an error happens, by a
// walk through the code up to it: which instruction was the last to set the
// register? The walk takes every jump forwards that does not pass the error,
// as Lua's own does, so that even its mistakes are the same.

func place(chunk string, line int) string { return chunk + ":" + strconv.Itoa(line) + ": " }

// typeError returns the error that an operation is not possible with v. reg is the register of v
// in the running function, or -1.
func (th *thread) typeError(v Value, op string, reg int) error {
	fr := th.frame
	if reg >= 0 && fr.isLua() && reg < int(fr.fn.proto.maxStack) {
		if kind, name := fr.fn.proto.describe(fr.pc(), reg); kind != "" {
			return th.runtimeError(fmt.Sprintf("attempt to %s %s '%s' (a %s value)", op, kind, cutNUL(name), v.TypeName()))
		}
	}
	return th.runtimeError(fmt.Sprintf("attempt to %s a %s value", op, v.TypeName()))
}

func (th *thread) orderError(a, b Value) error {
	t1, t2 := a.TypeName(), b.TypeName()
	if t1[2] == t2[2] { // as Lua compares them
		return th.runtimeError(fmt.Sprintf("attempt to compare two %s values", t1))
	}
	return th.runtimeError(fmt.Sprintf("attempt to compare %s with %s", t1, t2))
}

// describe returns the kind and the name of the variable or field whose value is in a register at
// an instruction.
func (p *Proto) describe(pc, reg int) (kind, name string) {
	for {
		if name := p.localName(reg, pc); name != "" {
			return "local", name
		}
		at := p.setter(pc, reg)
		if at < 0 {
			return "", ""
		}
		i := p.code[at]
		switch i.op() {
		case opGetGlobal:
			return "global", p.consts[i.d()].str()
		case opMove:
			if i.b() < i.a() {
				reg = int(i.b())
				continue
			}
		case opGetField:
			return "field", p.consts[i.d()].str()
		case opGetInt, opGetIndex:
			return "field", "?"
		case opGetUpval:
			return "upvalue", p.upvals[i.b()].name
		case opSelf:
			return "method", p.consts[i.d()].str()
		}
		return "", ""
	}
}

// setter returns the instruction before pc that set a register last, or -1.
func (p *Proto) setter(pc, reg int) int {
	last := -1
	for at := 0; at < pc; at++ {
		i := p.code[at]
		op := i.op()
		a := int(i.a())
		switch {
		case op == opLoadNil:
			if a <= reg && reg <= int(i.b()) {
				last = at
			}
		case op == opSelf:
			if reg == a || reg == a+1 {
				last = at
			}
		case op == opCall || op == opTailCall:
			if reg >= a {
				last = at
			}
		case op == opTForCall:
			if reg >= a+2 {
				last = at
			}
		case op.setsA() && a == reg:
			last = at
		}
		if op.jumps() {
			if to := at + 1 + i.d(); to > at && to <= pc {
				at = to - 1
			}
		}
	}
	return last
}

// setsA reports whether an instruction writes to R[a].
func (op opcode) setsA() bool {
	switch op {
	case opSetUpval, opSetGlobal, opSetField, opSetInt, opSetIndex, opJmp, opEq, opLt, opLe, opEqK, opLtK, opLeK,
		opGtK, opGeK, opReturn, opReturn0, opReturn1, opSetList, opClose, opTForLoop:
		return false
	}
	return true
}

// calledAs returns the name by which the running function was called, and
// whether as a method.
func (th *thread) calledAs() (name string, method bool) {
	fr := th.frame
	up := fr.prev
	if up == nil || !up.isLua() || fr.isLua() && fr.tails > 0 {
		return "", false
	}
	p := up.fn.proto
	i := p.code[up.pc()]
	switch i.op() {
	case opCall, opTailCall, opTForCall:
		kind, name := p.describe(up.pc(), int(i.a()))
		return cutNUL(name), kind == "method"
	}
	return "", false
}

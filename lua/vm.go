package lua

import (
	"math"
	"unsafe"
)

// execute runs the Lua function of the running frame, and those it calls,
// until that frame returns. Calls of Lua functions do not recurse.
//
// The common case of every instruction is written out here; a case that can fail or
// call back is elsewhere, and needs the program counter stored first: fr.code = pc.
// After a step that may have moved the stack, regs is taken again.
//
// A number is stored into a register that already has one by its bits alone:
// that spares the write barrier of the pointer. This function is long because
// a Go switch is the fastest dispatch there is.
func (th *thread) execute() error {
	s := th.st
newFrame:
	fr := th.frame
	cl := fr.fn
	code := cl.proto.code
	consts := cl.proto.consts
	pc := fr.code
	regs := (*[window]Value)(th.stack[fr.base:])
	for {
		i := code[pc]
		pc++
		switch i.op() {
		case opMove:
			regs[i.a()] = regs[i.b()]
		case opLoadK:
			regs[i.a()] = consts[i.d()]
		case opLoadNil:
			for r := int(i.a()); r <= int(i.b()); r++ {
				regs[uint8(r)] = Nil
			}
		case opLoadBool:
			regs[i.a()] = Value{nil, nFalse | uint64(i.b())<<8}
			pc += int(i.c())
		case opGetUpval:
			regs[i.a()] = *cl.upvals[i.b()].v
		case opSetUpval:
			*cl.upvals[i.b()].v = regs[i.a()]
		case opGetGlobal:
			k := i.d()
			v := cl.env.getHashed(consts[k], cl.proto.hashes[k])
			if v.IsNil() && cl.env.meta != nil {
				fr.code = pc
				var err error
				if v, err = th.index(cl.env.Value(), consts[k], -1); err != nil {
					return err
				}
				regs = (*[window]Value)(th.stack[fr.base:])
			}
			regs[i.a()] = v
		case opSetGlobal:
			fr.code = pc
			if err := th.setField(cl.env.Value(), consts[i.d()], cl.proto.hashes[i.d()], regs[i.a()], -1); err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opGetField:
			k := i.d()
			v := regs[i.b()]
			if v.isTable() {
				t := v.table()
				if x := t.getHashed(consts[k], cl.proto.hashes[k]); !x.IsNil() || t.meta == nil {
					regs[i.a()] = x
					continue
				}
			}
			fr.code = pc
			x, err := th.index(v, consts[k], int(i.b()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = x
		case opGetInt:
			v := regs[i.b()]
			if v.isTable() {
				t := v.table()
				if x := t.GetInt(i.d()); !x.IsNil() || t.meta == nil {
					regs[i.a()] = x
					continue
				}
			}
			fr.code = pc
			x, err := th.index(v, Number(float64(i.d())), int(i.b()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = x
		case opGetIndex:
			v, k := regs[i.b()], &regs[i.c()]
			if v.isTable() {
				t := v.table()
				var x Value
				if k.isNumber() {
					f := k.float()
					if n := int(f); uint(n-1) < uint(len(t.arr)) && float64(n) == f {
						x = t.arr[n-1]
					} else {
						x = t.getFloat(f)
					}
				} else {
					x = t.Get(*k)
				}
				if !x.IsNil() || t.meta == nil {
					regs[i.a()] = x
					continue
				}
			}
			fr.code = pc
			x, err := th.index(v, *k, int(i.b()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = x
		case opSetField:
			fr.code = pc
			if err := th.setField(regs[i.a()], consts[i.d()], cl.proto.hashes[i.d()], regs[i.b()], int(i.a())); err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opSetInt:
			v := regs[i.a()]
			if v.isTable() {
				if t := v.table(); !t.ro && t.meta == nil && uint(i.d()-1) < uint(len(t.arr)) {
					t.arr[i.d()-1] = regs[i.b()]
					continue
				}
			}
			fr.code = pc
			if err := th.setIndex(v, Number(float64(i.d())), regs[i.b()], int(i.a())); err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opSetIndex:
			v, k := regs[i.a()], &regs[i.b()]
			if v.isTable() && k.isNumber() {
				f := k.float()
				if t := v.table(); !t.ro && t.meta == nil {
					if n := int(f); uint(n-1) < uint(len(t.arr)) && float64(n) == f {
						t.arr[n-1] = regs[i.c()]
						continue
					}
				}
			}
			fr.code = pc
			if err := th.setIndex(v, *k, regs[i.c()], int(i.a())); err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opNewTable:
			fr.code = pc
			t, err := s.newTable(unpackSize(i.b()), unpackSize(i.c()))
			if err != nil {
				return th.tableError(err)
			}
			regs[i.a()] = t.Value()
		case opSelf:
			k := i.d()
			v := regs[i.b()]
			regs[i.a()+1] = v
			if v.isTable() {
				t := v.table()
				if x := t.getHashed(consts[k], cl.proto.hashes[k]); !x.IsNil() || t.meta == nil {
					regs[i.a()] = x
					continue
				}
			}
			fr.code = pc
			x, err := th.index(v, consts[k], int(i.b()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = x

		case opAdd:
			x, y := &regs[i.b()], &regs[i.c()]
			if x.isNumber() && y.isNumber() {
				setNumber(&regs[i.a()], x.float()+y.float())
				continue
			}
			goto arithRR
		case opSub:
			x, y := &regs[i.b()], &regs[i.c()]
			if x.isNumber() && y.isNumber() {
				setNumber(&regs[i.a()], x.float()-y.float())
				continue
			}
			goto arithRR
		case opMul:
			x, y := &regs[i.b()], &regs[i.c()]
			if x.isNumber() && y.isNumber() {
				setNumber(&regs[i.a()], x.float()*y.float())
				continue
			}
			goto arithRR
		case opDiv:
			x, y := &regs[i.b()], &regs[i.c()]
			if x.isNumber() && y.isNumber() {
				setNumber(&regs[i.a()], x.float()/y.float())
				continue
			}
			goto arithRR
		case opMod:
			x, y := &regs[i.b()], &regs[i.c()]
			if x.isNumber() && y.isNumber() {
				setNumber(&regs[i.a()], modulo(x.float(), y.float()))
				continue
			}
			goto arithRR
		case opPow:
			x, y := &regs[i.b()], &regs[i.c()]
			if x.isNumber() && y.isNumber() {
				setNumber(&regs[i.a()], power(x.float(), y.float()))
				continue
			}
			goto arithRR
		case opAddK:
			if x := &regs[i.b()]; x.isNumber() {
				setNumber(&regs[i.a()], x.float()+consts[i.d()].float())
				continue
			}
			goto arithRK
		case opSubK:
			if x := &regs[i.b()]; x.isNumber() {
				setNumber(&regs[i.a()], x.float()-consts[i.d()].float())
				continue
			}
			goto arithRK
		case opMulK:
			if x := &regs[i.b()]; x.isNumber() {
				setNumber(&regs[i.a()], x.float()*consts[i.d()].float())
				continue
			}
			goto arithRK
		case opDivK:
			if x := &regs[i.b()]; x.isNumber() {
				setNumber(&regs[i.a()], x.float()/consts[i.d()].float())
				continue
			}
			goto arithRK
		case opModK:
			if x := &regs[i.b()]; x.isNumber() {
				setNumber(&regs[i.a()], modulo(x.float(), consts[i.d()].float()))
				continue
			}
			goto arithRK
		case opPowK:
			if x := &regs[i.b()]; x.isNumber() {
				setNumber(&regs[i.a()], power(x.float(), consts[i.d()].float()))
				continue
			}
			goto arithRK
		case opUnm:
			x := regs[i.b()]
			if x.isNumber() {
				setNumber(&regs[i.a()], -x.float())
				continue
			}
			fr.code = pc
			v, err := th.arith(evUnm, x, x, int(i.b()), int(i.b()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = v
		case opNot:
			regs[i.a()] = Bool(!regs[i.b()].Truth())
		case opLen:
			fr.code = pc
			v, err := th.length(regs[i.b()], int(i.b()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = v
		case opConcat:
			fr.code = pc
			v, err := th.concat(fr.base, int(i.b()), int(i.c()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = v

		case opJmp:
			goto jump
		case opEq:
			x, y := &regs[i.b()], &regs[i.c()]
			var res bool
			if x.isNumber() && y.isNumber() {
				res = x.float() == y.float()
			} else {
				fr.code = pc
				var err error
				if res, err = th.equal(*x, *y); err != nil {
					return err
				}
				regs = (*[window]Value)(th.stack[fr.base:])
			}
			if res == (i.a() != 0) {
				goto jump
			}
		case opLt:
			x, y := &regs[i.b()], &regs[i.c()]
			var res bool
			if x.isNumber() && y.isNumber() {
				res = x.float() < y.float()
			} else {
				fr.code = pc
				var err error
				if res, err = th.less(*x, *y); err != nil {
					return err
				}
				regs = (*[window]Value)(th.stack[fr.base:])
			}
			if res == (i.a() != 0) {
				goto jump
			}
		case opLe:
			x, y := &regs[i.b()], &regs[i.c()]
			var res bool
			if x.isNumber() && y.isNumber() {
				res = x.float() <= y.float()
			} else {
				fr.code = pc
				var err error
				if res, err = th.lessEqual(*x, *y); err != nil {
					return err
				}
				regs = (*[window]Value)(th.stack[fr.base:])
			}
			if res == (i.a() != 0) {
				goto jump
			}
		case opEqK:
			if RawEqual(regs[i.b()], consts[i.c()]) == (i.a() != 0) {
				goto jump
			}
		case opLtK, opLeK, opGtK, opGeK:
			x := &regs[i.b()]
			var res bool
			if x.isNumber() {
				f, k := x.float(), consts[i.c()].float()
				switch i.op() {
				case opLtK:
					res = f < k
				case opLeK:
					res = f <= k
				case opGtK:
					res = k < f
				default:
					res = k <= f
				}
			} else {
				fr.code = pc
				if i.op() == opLtK || i.op() == opLeK {
					return th.orderError(*x, consts[i.c()])
				}
				return th.orderError(consts[i.c()], *x)
			}
			if res == (i.a() != 0) {
				goto jump
			}
		case opTest:
			if regs[i.a()].Truth() == (i.c() != 0) {
				goto jump
			}
		case opTestSet:
			if v := regs[i.b()]; v.Truth() == (i.c() != 0) {
				regs[i.a()] = v
				goto jump
			}

		case opCall:
			a := int(i.a())
			n := int(i.b()) - 1
			if n < 0 {
				n = th.top - (fr.base + a) - 1
			}
			fr.code = pc
			if v := regs[i.a()]; v.isFunction() {
				fn := v.fn()
				if fn.proto == nil {
					if err := th.callGo(fn, fr.base+a, n, int(i.c())-1); err != nil {
						return err
					}
					regs = (*[window]Value)(th.stack[fr.base:])
					continue
				}
				if s.left -= 4; s.left < 0 {
					if err := s.tick(); err != nil {
						return err
					}
				}
				if err := th.enterLua(fn, fr.base+a, n, int(i.c())-1); err != nil {
					return err
				}
				goto newFrame
			}
			isLua, err := th.enter(fr.base+a, n, int(i.c())-1)
			if err != nil {
				return err
			}
			if isLua {
				goto newFrame
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opTailCall:
			a := int(i.a())
			n := int(i.b()) - 1
			if n < 0 {
				n = th.top - (fr.base + a) - 1
			}
			fr.code = pc
			isLua, err := th.tailCall(fr, fr.base+a, n)
			if err != nil {
				return err
			}
			if isLua {
				goto newFrame
			}
			regs = (*[window]Value)(th.stack[fr.base:]) // the results of a Go function; opReturn follows
		case opReturn, opReturn0, opReturn1:
			if th.open != nil {
				th.closeUpvalues(fr.base)
			}
			th.leave(fr, i)
			if fr.fresh {
				return nil
			}
			goto newFrame

		case opForPrep:
			fr.code = pc
			if err := th.prepareFor(regs, i.a()); err != nil {
				return err
			}
			pc += i.d()
		case opForLoop:
			a := i.a()
			step := regs[a+2].float()
			idx := regs[a].float() + step
			limit := regs[a+1].float()
			if step > 0 && idx <= limit || step <= 0 && limit <= idx {
				regs[a].n = math.Float64bits(idx)
				setNumber(&regs[a+3], idx)
				goto jump
			}
		case opTForCall:
			a := i.a()
			if f := regs[a]; (f.p == pairsStep.p || f.p == nextFunction.p) && regs[a+1].isTable() {
				if s.left -= 2; s.left >= 0 {
					if t := regs[a+1].table(); th.nextInto(t, regs, a, i.c()) {
						continue
					}
				}
			}
			fr.code = pc
			slot := fr.base + int(a) + 3
			if err := th.need(slot, 3); err != nil {
				return err
			}
			copy(th.stack[slot:slot+3], th.stack[slot-3:slot])
			isLua, err := th.enter(slot, 2, int(i.c()))
			if err != nil {
				return err
			}
			if isLua {
				goto newFrame
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opTForLoop:
			a := i.a()
			if v := regs[a+3]; !v.IsNil() {
				regs[a+2] = v
				goto jump
			}

		case opSetList:
			fr.code = pc
			if err := th.setList(fr, i); err != nil {
				return th.tableError(err)
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		case opClose:
			th.closeUpvalues(fr.base + int(i.a()))
		case opClosure:
			fr.code = pc
			fn, err := th.closure(cl, cl.proto.protos[i.d()], fr.base)
			if err != nil {
				return err
			}
			regs[i.a()] = fn
		case opVararg:
			if err := th.varargs(fr, int(i.a()), int(i.b())-1); err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
		}
		continue

	jump:
		if d := i.d(); d < 0 {
			pc += d
			if s.left += d; s.left < 0 {
				fr.code = pc
				if err := s.tick(); err != nil {
					return err
				}
			}
		} else {
			pc += d
		}
		continue

	arithRR:
		{
			fr.code = pc
			v, err := th.arith(event(i.op()-opAdd), regs[i.b()], regs[i.c()], int(i.b()), int(i.c()))
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = v
			continue
		}

	arithRK:
		{
			fr.code = pc
			x, y, rx, ry := regs[i.b()], consts[i.d()], int(i.b()), -1
			if i.c() != 0 {
				x, y, rx, ry = y, x, ry, rx
			}
			v, err := th.arith(event(i.op()-opAddK), x, y, rx, ry)
			if err != nil {
				return err
			}
			regs = (*[window]Value)(th.stack[fr.base:])
			regs[i.a()] = v
		}
	}
}

// setNumber stores a number.
func setNumber(v *Value, f float64) {
	if v.p != unsafe.Pointer(&numMark) {
		v.p = unsafe.Pointer(&numMark)
	}
	v.n = math.Float64bits(f)
}

package lua

// Instructions that are too long for the loop of execute.

// setField is setIndex for a string constant.
func (th *thread) setField(v, k Value, hash uint32, x Value, reg int) error {
	if v.isTable() {
		if t := v.table(); !t.ro {
			if n := t.findHashed(k, hash); n != nil && !n.val.IsNil() {
				n.val = x
				return nil
			}
		}
	}
	return th.setIndex(v, k, x, reg)
}

// leave ends the running call: its results replace the function.
func (th *thread) leave(fr *frame, i instr) {
	th.frame = fr.prev
	th.depth--
	first, n := fr.base+int(i.a()), 0
	switch i.op() {
	case opReturn1:
		if fr.want == 1 {
			th.stack[fr.slot] = th.stack[first]
			return
		}
		n = 1
	case opReturn:
		if n = int(i.b()) - 1; n < 0 {
			n = th.top - first
		}
	}
	dst := th.stack[fr.slot:]
	if fr.want == multi {
		copy(dst[:n], th.stack[first:first+n])
		th.top = fr.slot + n
		return
	}
	n = copy(dst[:min(n, fr.want)], th.stack[first:])
	for ; n < fr.want; n++ {
		dst[n] = Nil
	}
}

// tailCall replaces the running call by one of the function at slot, unless
// that is a Go function.
func (th *thread) tailCall(fr *frame, slot, n int) (isLua bool, err error) {
	s := th.st
	if s.left -= 4; s.left < 0 {
		if err := s.tick(); err != nil {
			return false, err
		}
	}
	v := th.stack[slot]
	if v.isFunction() && v.fn().proto == nil {
		return false, th.callGo(v.fn(), slot, n, multi)
	}
	if !v.isFunction() {
		tm := s.metamethod(v, evCall)
		if !tm.isFunction() || tm.fn().proto == nil {
			return th.enter(slot, n, multi)
		}
		if err := th.need(slot, n+2); err != nil {
			return false, err
		}
		copy(th.stack[slot+1:slot+n+2], th.stack[slot:slot+n+1])
		th.stack[slot] = tm
		n++
		v = tm
	}
	th.closeUpvalues(fr.base)
	copy(th.stack[fr.slot:], th.stack[slot:slot+n+1])
	fresh, tails, want, to := fr.fresh, fr.tails, fr.want, fr.slot
	th.pop()
	if err := th.enterLua(v.fn(), to, n, want); err != nil {
		return false, err
	}
	th.frame.fresh = fresh
	th.frame.tails = tails + 1
	return true, nil
}

// prepareFor checks the three values of a numeric for.
func (th *thread) prepareFor(regs *[window]Value, a uint8) error {
	for i, what := range [...]string{"initial value", "limit", "step"} {
		f, ok := regs[a+uint8(i)].ToNumber()
		if !ok {
			return th.runtimeError("'for' " + what + " must be a number")
		}
		regs[a+uint8(i)] = Number(f)
	}
	regs[a] = Number(regs[a].float() - regs[a+2].float())
	return nil
}

// nextInto does a step of a loop over pairs, without a call of next. It returns false if
// next must raise an error.
func (th *thread) nextInto(t *Table, regs *[window]Value, a, want uint8) bool {
	at, err := t.position(regs[a+2])
	if err != nil {
		return false
	}
	k, v, next, _ := t.after(at)
	t.chargeScan(next - at)
	regs[a+3] = k
	if want >= 2 {
		regs[a+4] = v
		for i := uint8(2); i < want; i++ {
			regs[a+3+i] = Nil
		}
	}
	return true
}

// setList stores values of a constructor.
func (th *thread) setList(fr *frame, i instr) error {
	at := fr.base + int(i.a())
	n := int(i.b())
	if n == 0 {
		n = th.top - at - 1
	}
	t := th.stack[at].table()
	last := i.d() + n
	if last > len(t.arr) {
		// The array is resized once for all values, as in Lua, and gets exactly this length.
		if err := t.resize(last, t.hashSize()); err != nil {
			return err
		}
	}
	copy(t.arr[i.d():last], th.stack[at+1:at+1+n])
	return nil
}

// closure makes a closure.
func (th *thread) closure(outer *function, p *Proto, base int) (Value, error) {
	s := th.st
	if err := s.alloc(closureBytes(p)); err != nil {
		return Nil, err
	}
	s.ids++
	fn := &function{proto: p, env: outer.env, id: s.ids}
	if len(p.upvals) > 0 {
		fn.upvals = make([]*upvalue, len(p.upvals))
		for i, u := range p.upvals {
			if u.inStack {
				fn.upvals[i] = th.capture(base + int(u.index))
			} else {
				fn.upvals[i] = outer.upvals[u.index]
			}
		}
	}
	return functionValue(fn), nil
}

// varargs copies ... to registers.
func (th *thread) varargs(fr *frame, a, want int) error {
	n := fr.varargs
	if want == multi {
		want = n
		th.top = fr.base + a + n
		th.st.left -= n
	}
	if err := th.need(fr.base+a, want); err != nil {
		return err
	}
	dst := th.stack[fr.base+a : fr.base+a+want]
	k := copy(dst, th.stack[fr.base-n:fr.base])
	for ; k < want; k++ {
		dst[k] = Nil
	}
	return nil
}

package lua

import "errors"

// errYield is returned through the VM by a yield; the frames stay as they are.
var errYield = errors.New("yield")

// Call calls a function. The results are valid until the next Call. The error is an
// *Error, or the error of Abort or of a limit; the latter still passes through pcall
// when a Go function that has called Call returns it.
func (s *State) Call(fn Value, args ...Value) ([]Value, error) {
	th := s.cur
	base := th.freeSlot()
	if err := th.need(base, len(args)+1); err != nil {
		return nil, err
	}
	th.stack[base] = fn
	copy(th.stack[base+1:], args)
	err := th.call(base, len(args), multi)
	if err != nil {
		if s.depth == 0 {
			err, _ = fatal(err)
		}
		return nil, err
	}
	return th.stack[base:th.top:th.top], nil
}

// freeSlot returns the first slot that the running call does not use.
func (th *thread) freeSlot() int {
	fr := th.frame
	if fr.isLua() {
		return fr.base + int(fr.fn.proto.maxStack)
	}
	return fr.base
}

// call calls the function at slot with the n values behind it, from Go. On an
// error the thread is as it was before.
func (th *thread) call(slot, n, want int) error {
	s := th.st
	if s.left -= 8; s.left < 0 {
		if err := s.tick(); err != nil {
			return err
		}
	}
	if s.depth >= maxGoDepth {
		if s.depth >= maxGoDepth+maxGoDepth/8 {
			return &Error{Value: String("error in error handling")}
		}
		if s.depth == maxGoDepth {
			s.depth++
			err := th.runtimeError("C stack overflow")
			s.depth--
			return err
		}
	}
	s.depth++
	fr, depth, calls := th.frame, th.depth, s.ncall
	err := th.start(slot, n, want)
	s.depth--
	if err != nil {
		th.closeUpvalues(slot)
		th.frame, th.depth, s.ncall = fr, depth, calls
	}
	return err
}

func (th *thread) start(slot, n, want int) error {
	isLua, err := th.enter(slot, n, want)
	if err != nil || !isLua {
		return err
	}
	th.frame.fresh = true
	return th.execute()
}

// enter begins a call of any value. A Go function runs at once; for a Lua function
// enter pushes a frame, which the VM must execute.
func (th *thread) enter(slot, n, want int) (isLua bool, err error) {
	v := th.stack[slot]
	if !v.isFunction() {
		tm := th.st.metamethod(v, evCall)
		if !tm.isFunction() {
			return false, th.typeError(v, "call", slot-th.frame.base)
		}
		if err := th.need(slot, n+2); err != nil {
			return false, err
		}
		copy(th.stack[slot+1:slot+n+2], th.stack[slot:slot+n+1])
		th.stack[slot] = tm
		n++
		v = tm
	}
	fn := v.fn()
	if fn.proto == nil {
		return false, th.callGo(fn, slot, n, want)
	}
	return true, th.enterLua(fn, slot, n, want)
}

// enterLua lays out the registers of a Lua function.
func (th *thread) enterLua(fn *function, slot, n, want int) error {
	p := fn.proto
	base := slot + 1
	params := int(p.params)
	if p.vararg {
		base += n
	}
	if err := th.need(base, int(p.maxStack)); err != nil {
		return err
	}
	varargs := 0
	if !p.vararg {
		for i := n; i < params; i++ {
			th.stack[base+i] = Nil
		}
	} else {
		// The fixed arguments move behind all of them, the others stay.
		th.st.left -= n
		args := th.stack[slot+1 : slot+1+n]
		regs := th.stack[base:]
		for i := range params {
			if i < n {
				regs[i] = args[i]
				args[i] = Nil
			} else {
				regs[i] = Nil
			}
		}
		varargs = max(n-params, 0)
		if params < int(p.maxStack) {
			regs[params] = Nil
		}
		if p.needsArg {
			t, err := th.argTable(args[n-varargs:])
			if err != nil {
				return err
			}
			regs[params] = t
		}
	}
	fr, err := th.push(fn, slot, base, want)
	if err != nil {
		return err
	}
	fr.varargs = varargs
	return nil
}

// argTable makes the table arg, a local variable of vararg functions in Lua 5.0.
func (th *thread) argTable(args []Value) (Value, error) {
	t, err := th.st.newTable(len(args), 1)
	if err != nil {
		return Nil, err
	}
	copy(t.arr, args)
	return t.Value(), t.set(String("n"), Number(float64(len(args))))
}

// callGo runs a Go function.
func (th *thread) callGo(fn *function, slot, n, want int) error {
	s := th.st
	if s.left -= 8 + n; s.left < 0 {
		if err := s.tick(); err != nil {
			return err
		}
	}
	end := slot + 1 + n
	if _, err := th.push(fn, slot, end, want); err != nil {
		return err
	}
	if s.ncall == len(s.calls) {
		s.calls = append(s.calls, &Call{st: s})
	}
	c := s.calls[s.ncall]
	s.ncall++
	c.th = th
	c.fn = fn
	c.args = th.stack[slot+1 : end : end]
	c.rets = c.rets[:0]
	err := fn.goFn(c)
	s.ncall--
	th.pop()
	if err != nil {
		if err == errYield {
			th.yieldAt, th.yieldWant = slot, want
			return err
		}
		return th.goError(err)
	}
	return th.putResults(slot, c.rets, want)
}

// goError converts an error of a Go function to one that Lua can catch.
func (th *thread) goError(err error) error {
	switch err.(type) {
	case *Error, *abortError:
		return err
	}
	if err == ErrMemory {
		return err
	}
	chunk, line := th.where(0)
	return &Error{Value: String(err.Error()), Chunk: chunk, Line: line}
}

// putResults stores the results of a call at slot, as many as the caller wants.
func (th *thread) putResults(slot int, rets []Value, want int) error {
	if want == 1 {
		if len(rets) > 0 {
			th.stack[slot] = rets[0]
		} else {
			th.stack[slot] = Nil
		}
		return nil
	}
	n := want
	if want == multi {
		n = len(rets)
		th.top = slot + n
		th.st.left -= n
	}
	if err := th.need(slot, n); err != nil {
		return err
	}
	dst := th.stack[slot : slot+n]
	k := copy(dst, rets)
	for i := k; i < n; i++ {
		dst[i] = Nil
	}
	return nil
}

// callMeta calls a metamethod for one result.
func (th *thread) callMeta(tm, a, b, c Value, n int) (Value, error) {
	slot := th.freeSlot()
	if err := th.need(slot, 4); err != nil {
		return Nil, err
	}
	st := th.stack[slot : slot+4]
	st[0], st[1], st[2], st[3] = tm, a, b, c
	if err := th.call(slot, n, 1); err != nil {
		return Nil, err
	}
	return th.stack[slot], nil
}

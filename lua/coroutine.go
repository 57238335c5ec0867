package lua

// A coroutine is a thread of its own, but runs on the Go stack of its resumer.
// It can yield only from Lua code that runs directly under resume: a pcall, a
// metamethod or a Go function in between occupies the Go stack.

var coroutineFunctions []goFunction

func init() {
	coroutineFunctions = functions(
		"create", coCreate,
		"resume", coResume,
		"running", coRunning,
		"status", coStatus,
		"wrap", coWrap,
		"yield", coYield,
	)
}

func (c *Call) checkThread() (*thread, error) {
	if v := c.Arg(0); v.Kind() == KindThread {
		return v.thread(), nil
	}
	return nil, c.ArgError(0, "coroutine expected")
}

func (c *Call) newCoroutine() (*thread, error) {
	fn := c.Arg(0)
	if !fn.isFunction() || fn.fn().proto == nil {
		return nil, c.ArgError(0, "Lua function expected")
	}
	if err := c.st.alloc(threadBytes); err != nil {
		return nil, err
	}
	th := c.st.newThread()
	th.env = c.th.env
	th.stack[0] = fn
	th.top = 1
	return th, nil
}

func coCreate(c *Call) error {
	th, err := c.newCoroutine()
	if err != nil {
		return err
	}
	c.Return(th.value())
	return nil
}

func coWrap(c *Call) error {
	th, err := c.newCoroutine()
	if err != nil {
		return err
	}
	c.st.ids++
	fn := &function{id: c.st.ids, goFn: func(c *Call) error {
		err := c.resume(th, c.args)
		if e, ok := err.(*Error); ok && concatenable(e.Value) {
			s, _ := e.Value.ToString()
			return c.th.errorAt(1, s)
		}
		return err
	}, name: "wrap", held: th.value()}
	c.Return(functionValue(fn))
	return nil
}

func coResume(c *Call) error {
	th, err := c.checkThread()
	if err != nil {
		return err
	}
	c.Return(Bool(true))
	if err := c.resume(th, c.args[1:]); err != nil {
		if _, ok := fatal(err); ok {
			return err
		}
		c.rets = c.rets[:0]
		c.Return(Bool(false), errorValue(err))
	}
	return nil
}

func (th *thread) state(current *thread) string {
	if th == current {
		return "running"
	}
	return [...]string{"suspended", "running", "normal", "dead"}[th.status]
}

// resume runs a coroutine until it yields or ends, and appends its values to the results of the
// call.
func (c *Call) resume(th *thread, args []Value) error {
	s := c.st
	if th == s.main && th != c.th {
		return &Error{Value: String("cannot resume normal coroutine")}
	}
	if th.status != suspended || th == c.th {
		return &Error{Value: String("cannot resume " + th.state(c.th) + " coroutine")}
	}
	if s.depth > maxGoDepth {
		return &Error{Value: String("C stack overflow")}
	}
	if err := s.Work(16); err != nil {
		return err
	}
	started := th.depth > 0
	if err := th.need(th.top, len(args)+1); err != nil {
		return err
	}
	s.depth++
	c.th.status, th.status = normal, running
	s.cur, th.goDepth = th, s.depth
	var err error
	if !started {
		copy(th.stack[1:], args)
		err = th.start(0, len(args), multi)
	} else if err = th.putResults(th.yieldAt, args, th.yieldWant); err == nil {
		err = th.execute()
	}
	s.cur = c.th
	c.th.status = running
	s.depth--
	switch err {
	case nil:
		th.status = dead
		if err := c.grow(th.top); err != nil {
			return err
		}
		c.Return(th.stack[:th.top]...)
		th.release()
		return nil
	case errYield:
		th.status = suspended
		if err := c.grow(len(th.yielded)); err != nil {
			return err
		}
		c.Return(th.yielded...)
		th.yielded = th.yielded[:0]
		return nil
	}
	th.status = dead
	th.closeUpvalues(0)
	th.release()
	return err
}

// release drops the stack of a dead coroutine.
func (th *thread) release() {
	th.frame, th.depth, th.top = &th.first, 0, 0
	th.first.next = nil
	th.stack = nil
}

func coYield(c *Call) error {
	th := c.th
	if th.isMain() || c.st.depth > th.goDepth {
		return th.runtimeError("attempt to yield across metamethod/C-call boundary")
	}
	if err := c.st.alloc(int64(len(c.args)) * valueSize); err != nil {
		return err
	}
	th.yielded = append(th.yielded[:0], c.args...)
	return errYield
}

func coStatus(c *Call) error {
	th, err := c.checkThread()
	if err != nil {
		return err
	}
	c.Return(String(th.state(c.th)))
	return nil
}

func coRunning(c *Call) error {
	if c.th.isMain() {
		c.Return(Nil)
	} else {
		c.Return(c.th.value())
	}
	return nil
}

package lua

// Assignments, declarations, return.

func (p *parser) functionStatement(line int) {
	p.next()
	var v, body expr
	p.variable(&v, p.name())
	self := false
	for p.tok == '.' {
		p.field(&v)
	}
	if p.tok == ':' {
		self = true
		p.field(&v)
	}
	p.function(&body, self, line)
	p.f.store(&v, &body)
	p.f.fixLine(line)
}

func (p *parser) localFunction() {
	f := p.f
	p.declare(p.name(), 0)
	v := makeExpr(xLocal, f.free)
	f.reserve(1)
	p.show(1)
	var body expr
	p.function(&body, false, p.line)
	f.store(&v, &body)
	// A debugger would see the variable only from here on, and so do the
	// names in error texts.
	f.p.locals[f.active[len(f.active)-1]].start = f.pc()
}

func (p *parser) local() {
	n := 0
	for {
		p.declare(p.name(), n)
		n++
		if !p.took(',') {
			break
		}
	}
	e := makeExpr(xVoid, 0)
	values := 0
	if p.took('=') {
		values = p.exprList(&e)
	}
	p.adjust(n, values, &e)
	p.show(n)
}

// adjust fits values, the last of which is e, to the number of variables.
func (p *parser) adjust(vars, values int, e *expr) {
	f := p.f
	extra := vars - values
	if e.kind == xCall || e.kind == xVararg {
		extra = max(extra+1, 0)
		f.setReturns(e, extra)
		if extra > 1 {
			f.reserve(extra - 1)
		}
		return
	}
	if e.kind != xVoid {
		f.toNextReg(e)
	}
	if extra > 0 {
		reg := f.free
		f.reserve(extra)
		f.setNil(reg, extra)
	}
}

func (p *parser) returnStatement() {
	f := p.f
	p.next()
	if p.blockEnds() || p.tok == ';' {
		f.ret(0, 0)
		return
	}
	var e expr
	n := p.exprList(&e)
	switch {
	case e.kind == xCall || e.kind == xVararg:
		f.setReturns(&e, multi)
		if e.kind == xCall && n == 1 {
			f.p.code[e.info].setOp(opTailCall)
		}
		f.ret(len(f.active), multi)
	case n == 1:
		f.ret(f.toAnyReg(&e), 1)
	default:
		f.toNextReg(&e)
		f.ret(len(f.active), n)
	}
}

// exprStatement is a call or an assignment.
func (p *parser) exprStatement() {
	a := assignment{}
	p.primary(&a.v)
	if a.v.kind == xCall {
		p.f.p.code[a.v.info].setC(1) // no results
		return
	}
	p.assign(&a, 1)
}

// assignment is a variable to be assigned to, with those before it.
type assignment struct {
	prev *assignment
	v    expr
}

func (p *parser) assign(a *assignment, n int) {
	switch a.v.kind {
	case xLocal, xUpval, xGlobal, xIndex, xField, xInt:
	default:
		p.failHere("syntax error")
	}
	f := p.f
	var e expr
	if p.took(',') {
		next := assignment{prev: a}
		p.primary(&next.v)
		if next.v.kind == xLocal {
			p.conflict(a, &next.v)
		}
		f.limit(n, maxLevels-p.level, "variables in assignment")
		p.assign(&next, n+1)
	} else {
		p.expect('=')
		values := p.exprList(&e)
		if values == n {
			f.setOneReturn(&e)
			f.store(&a.v, &e)
			return
		}
		p.adjust(n, values, &e)
		if values > n {
			f.free -= values - n
		}
	}
	e = makeExpr(xReg, f.free-1)
	f.store(&a.v, &e)
}

// conflict saves a local that is about to be assigned to while a variable to
// its left is an index of it or by it: a[i], a = 1, 2 means the former a.
func (p *parser) conflict(a *assignment, v *expr) {
	f := p.f
	spare, found := f.free, false
	for ; a != nil; a = a.prev {
		switch a.v.kind {
		case xIndex, xField, xInt:
			if a.v.info == v.info {
				found = true
				a.v.info = spare
			}
			if a.v.kind == xIndex && a.v.aux == v.info {
				found = true
				a.v.aux = spare
			}
		}
	}
	if found {
		f.emit(opMove, spare, v.info, 0, 0)
		f.reserve(1)
	}
}

package lua

const listBatch = 50 // values of a constructor that wait in registers

func (p *parser) expr(e *expr) { p.subExpr(e, 0) }

func (p *parser) exprToNextReg() {
	var e expr
	p.expr(&e)
	p.f.toNextReg(&e)
}

// exprList reads expressions; all but the last are in registers, side by side.
func (p *parser) exprList(e *expr) int {
	n := 1
	p.expr(e)
	for p.took(',') {
		p.f.toNextReg(e)
		p.expr(e)
		n++
	}
	return n
}

// subExpr reads operators that bind stronger than limit, and returns the first one that
// does not.
func (p *parser) subExpr(e *expr, limit int) operator {
	p.enter()
	switch t := p.tok; t {
	case tokNot, '-', '#':
		p.next()
		p.subExpr(e, unaryPriority)
		p.f.unary(t, e)
	default:
		p.simple(e)
	}
	op := binaryOperator(p.tok)
	for op != oprNone && priority[op].left > limit {
		p.next()
		p.f.infix(op, e)
		var e2 expr
		next := p.subExpr(&e2, priority[op].right)
		p.f.postfix(op, e, &e2)
		op = next
	}
	p.leave()
	return op
}

func (p *parser) simple(e *expr) {
	switch p.tok {
	case tokNumber:
		*e = makeExpr(xNumber, 0)
		e.num = p.num
	case tokString:
		*e = makeExpr(xString, p.f.stringConst(p.str))
	case tokNil:
		*e = makeExpr(xNil, 0)
	case tokTrue:
		*e = makeExpr(xTrue, 0)
	case tokFalse:
		*e = makeExpr(xFalse, 0)
	case tokDots:
		if !p.f.p.vararg {
			p.failHere("cannot use '...' outside a vararg function")
		}
		p.f.p.needsArg = false
		*e = makeExpr(xVararg, p.f.emit(opVararg, 0, 1, 0, 0))
	case '{':
		p.constructor(e)
		return
	case tokFunction:
		p.next()
		p.function(e, false, p.line)
		return
	default:
		p.primary(e)
		return
	}
	p.next()
}

// prefix reads a name or an expression in parentheses.
func (p *parser) prefix(e *expr) {
	switch p.tok {
	case '(':
		line := p.line
		p.next()
		p.expr(e)
		p.closing(')', '(', line)
		p.f.discharge(e)
	case tokName:
		p.variable(e, p.name())
	default:
		p.failHere("unexpected symbol")
	}
}

func (p *parser) primary(e *expr) {
	f := p.f
	p.prefix(e)
	for {
		switch p.tok {
		case '.':
			p.field(e)
		case '[':
			f.toAnyReg(e)
			var k expr
			p.index(&k)
			f.indexed(e, &k)
		case ':':
			p.next()
			name := p.name()
			f.method(e, name)
			p.args(e)
		case '(', tokString, '{':
			f.toNextReg(e)
			p.args(e)
		default:
			return
		}
	}
}

func (p *parser) field(e *expr) {
	p.f.toAnyReg(e)
	p.next()
	k := makeExpr(xString, p.f.stringConst(p.name()))
	p.f.indexed(e, &k)
}

func (p *parser) index(k *expr) {
	p.next()
	p.expr(k)
	p.f.toValue(k)
	p.expect(']')
}

func (p *parser) args(e *expr) {
	f := p.f
	line := p.line
	var a expr
	switch p.tok {
	case '(':
		if line != p.lastLine {
			p.failHere("ambiguous syntax (function call x new statement)")
		}
		p.next()
		if p.tok == ')' {
			a = makeExpr(xVoid, 0)
		} else {
			p.exprList(&a)
			f.setReturns(&a, multi)
		}
		p.closing(')', '(', line)
	case '{':
		p.constructor(&a)
	case tokString:
		a = makeExpr(xString, f.stringConst(p.str))
		p.next()
	default:
		p.failHere("function arguments expected")
	}
	base := e.info
	n := multi
	if a.kind != xCall && a.kind != xVararg {
		if a.kind != xVoid {
			f.toNextReg(&a)
		}
		n = f.free - (base + 1)
	}
	*e = makeExpr(xCall, f.emit(opCall, base, n+1, 2, 0))
	f.fixLine(line)
	f.free = base + 1
}

// variable resolves a name: a local, an upvalue or a global.
func (p *parser) variable(e *expr, name string) {
	kind, info := p.f.resolve(name, true)
	if kind == xGlobal {
		info = p.f.stringConst(name)
	}
	*e = makeExpr(kind, info)
}

func (f *funcState) resolve(name string, base bool) (exprKind, int) {
	if f == nil {
		return xGlobal, 0
	}
	for i := len(f.active) - 1; i >= 0; i-- {
		if f.p.locals[f.active[i]].name == name {
			if !base {
				f.markUpvalue(i)
			}
			return xLocal, i
		}
	}
	kind, info := f.prev.resolve(name, false)
	if kind == xGlobal {
		return kind, info
	}
	return xUpval, f.upvalue(name, kind, info)
}

// markUpvalue notes that the block of a local must close it.
func (f *funcState) markUpvalue(reg int) {
	b := f.block
	for b != nil && b.active > reg {
		b = b.prev
	}
	if b != nil {
		b.upvalue = true
	}
}

func (f *funcState) upvalue(name string, kind exprKind, info int) int {
	for i, u := range f.p.upvals {
		if u.inStack == (kind == xLocal) && int(u.index) == info {
			return i
		}
	}
	f.limit(len(f.p.upvals)+1, maxUpvalues, "upvalues")
	f.p.upvals = append(f.p.upvals, upvalueRef{name, kind == xLocal, uint8(info)})
	return len(f.p.upvals) - 1
}

// function reads parameters and body.
func (p *parser) function(e *expr, self bool, line int) {
	p.open(line)
	p.expect('(')
	if self {
		p.declare("self", 0)
		p.show(1)
	}
	p.params()
	p.expect(')')
	p.chunkBody()
	p.closing(tokEnd, tokFunction, line)
	child := p.close()
	f := p.f
	f.p.protos = append(f.p.protos, child)
	*e = makeExpr(xReloc, f.emit(opClosure, 0, 0, 0, len(f.p.protos)-1))
}

func (p *parser) params() {
	f := p.f
	n := 0
	for more := p.tok != ')'; more; more = p.took(',') {
		switch p.tok {
		case tokName:
			p.declare(p.name(), n)
			n++
		case tokDots:
			p.next()
			p.declare("arg", n)
			n++
			f.p.vararg, f.p.needsArg = true, true
		default:
			p.failHere("<name> or '...' expected")
		}
		if f.p.vararg {
			break
		}
	}
	p.show(n)
	f.p.params = uint8(len(f.active))
	if f.p.vararg {
		f.p.params-- // arg is none
	}
	f.reserve(len(f.active))
}

// constructor reads { ... }.
func (p *parser) constructor(e *expr) {
	f := p.f
	line := p.line
	at := f.emit(opNewTable, 0, 0, 0, 0)
	*e = makeExpr(xReloc, at)
	f.toNextReg(e)
	c := listState{table: e.info, item: makeExpr(xVoid, 0)}
	p.expect('{')
	for p.tok != '}' {
		p.closeItem(&c)
		switch {
		case p.tok == '[' || (p.tok == tokName && p.peek() == '='):
			p.recordItem(&c)
		default:
			p.expr(&c.item)
			c.items++
			c.waiting++
		}
		if !p.took(',') && !p.took(';') {
			break
		}
	}
	p.closing('}', '{', line)
	p.lastItem(&c)
	f.p.code[at].setB(packSize(c.items))
	f.p.code[at].setC(packSize(c.fields))
}

// listState is a constructor that is being read.
type listState struct {
	table                  int
	item                   expr // the last value read, not yet in a register
	items, fields, waiting int
}

func (p *parser) recordItem(c *listState) {
	f := p.f
	free := f.free
	t := makeExpr(xReg, c.table)
	var k, v expr
	if p.tok == tokName {
		k = makeExpr(xString, f.stringConst(p.name()))
	} else {
		p.index(&k)
	}
	c.fields++
	p.expect('=')
	f.indexed(&t, &k)
	p.expr(&v)
	f.store(&t, &v)
	f.free = free
}

func (p *parser) closeItem(c *listState) {
	if c.item.kind == xVoid {
		return
	}
	f := p.f
	f.toNextReg(&c.item)
	c.item.kind = xVoid
	if c.waiting == listBatch {
		f.emit(opSetList, c.table, c.waiting, 0, c.items-c.waiting)
		f.free = c.table + 1
		c.waiting = 0
	}
}

func (p *parser) lastItem(c *listState) {
	f := p.f
	if c.waiting == 0 {
		return
	}
	if c.item.kind == xCall || c.item.kind == xVararg {
		f.setReturns(&c.item, multi)
		f.emit(opSetList, c.table, 0, 0, c.items-c.waiting)
		f.free = c.table + 1
		c.items-- // how many there are is not known
		return
	}
	if c.item.kind != xVoid {
		f.toNextReg(&c.item)
	}
	f.emit(opSetList, c.table, c.waiting, 0, c.items-c.waiting)
	f.free = c.table + 1
}

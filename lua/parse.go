package lua

import (
	"errors"
	"fmt"
)

// parser reads statements; parse_expr.go has the expressions.
type parser struct {
	lexer
	f         *funcState
	chunkname string
	level     int // nesting of blocks and expressions
}

// Compile compiles a chunk of source to a function. Error texts begin with the chunk
// name, "name:line: ". An error has Lua's text.
func Compile(source, chunkname string) (*Proto, error) {
	return compile(source, chunkname, chunkname, 0)
}

// compile takes two names: one for its own errors, one for those of the VM. level is the
// nesting of the calls around, from which the limit of nesting counts.
func compile(source, syntaxName, chunkname string, level int) (p *Proto, err error) {
	ps := &parser{chunkname: chunkname, level: level, lexer: lexer{src: source, chunk: syntaxName, line: 1, lastLine: 1}}
	defer func() {
		if r := recover(); r != nil {
			se, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			p, err = nil, errors.New(se.msg)
		}
	}()
	ps.open(0)
	ps.f.p.vararg = true
	ps.skipShebang()
	ps.next()
	ps.chunkBody()
	ps.check(tokEOF)
	return ps.close(), nil
}

func (p *parser) skipShebang() {
	if p.char() == '#' {
		for c := p.char(); c >= 0 && c != '\n' && c != '\r'; c = p.char() {
			p.pos++
		}
	}
}

// open begins a function, close ends it.
func (p *parser) open(line int) {
	p.f = &funcState{
		p:       &Proto{chunk: p.chunkname, defined: line, maxStack: 2},
		prev:    p.f,
		lex:     &p.lexer,
		target:  -1,
		pending: noJump,
	}
}

func (p *parser) close() *Proto {
	f := p.f
	p.dropLocals(0)
	f.ret(0, 0)
	f.index = nil
	p.f = f.prev
	f.p.measure()
	return f.p
}

func (p *parser) enter() {
	if p.level++; p.level > maxLevels {
		p.fail("chunk has too many syntax levels", 0)
	}
}

func (p *parser) leave() { p.level-- }

// Tokens.

func (p *parser) failExpected(t token) { p.failHere("'" + t.String() + "' expected") }

func (p *parser) check(t token) {
	if p.tok != t {
		p.failExpected(t)
	}
}

func (p *parser) expect(t token) {
	p.check(t)
	p.next()
}

func (p *parser) took(t token) bool {
	if p.tok != t {
		return false
	}
	p.next()
	return true
}

// closing reads the token that closes another one, which was read in the given line.
func (p *parser) closing(t, opened token, line int) {
	if p.took(t) {
		return
	}
	if line == p.line {
		p.failExpected(t)
	}
	p.failHere(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", t, opened, line))
}

func (p *parser) name() string {
	p.check(tokName)
	s := p.str
	p.next()
	return s
}

// Locals. They become visible when all locals of their statement are declared.

func (p *parser) declare(name string, n int) {
	f := p.f
	f.limit(len(f.active)+n+1, maxLocals, "local variables")
	if len(f.p.locals) >= 32767 {
		p.fail("too many local variables", 0)
	}
	f.p.locals = append(f.p.locals, localVar{name: name})
}

func (p *parser) show(n int) {
	f := p.f
	for i := len(f.p.locals) - n; n > 0; i, n = i+1, n-1 {
		f.p.locals[i].start = f.pc()
		f.active = append(f.active, i)
	}
}

func (p *parser) dropLocals(to int) {
	f := p.f
	for len(f.active) > to {
		last := len(f.active) - 1
		f.p.locals[f.active[last]].end = f.pc()
		f.active = f.active[:last]
	}
}

func (p *parser) enterBlock(b *block, loop bool) {
	*b = block{prev: p.f.block, breaks: noJump, active: len(p.f.active), loop: loop}
	p.f.block = b
}

func (p *parser) leaveBlock() {
	f := p.f
	b := f.block
	f.block = b.prev
	p.dropLocals(b.active)
	if b.upvalue {
		f.emit(opClose, b.active, 0, 0, 0)
	}
	f.free = len(f.active)
	f.patchHere(b.breaks)
}

// Statements.

func (p *parser) chunkBody() {
	p.enter()
	for last := false; !last && !p.blockEnds(); {
		last = p.statement()
		p.took(';')
		p.f.free = len(p.f.active)
	}
	p.leave()
}

func (p *parser) blockEnds() bool {
	switch p.tok {
	case tokElse, tokElseif, tokEnd, tokEOF, tokUntil:
		return true
	}
	return false
}

func (p *parser) blockBody() {
	var b block
	p.enterBlock(&b, false)
	p.chunkBody()
	p.leaveBlock()
}

// statement reads a statement, and reports whether it must be the last one of its block.
func (p *parser) statement() bool {
	line := p.line
	switch p.tok {
	case tokIf:
		p.ifStatement(line)
	case tokWhile:
		p.while(line)
	case tokDo:
		p.next()
		p.blockBody()
		p.closing(tokEnd, tokDo, line)
	case tokFor:
		p.forStatement(line)
	case tokRepeat:
		p.repeat(line)
	case tokFunction:
		p.functionStatement(line)
	case tokLocal:
		p.next()
		if p.took(tokFunction) {
			p.localFunction()
		} else {
			p.local()
		}
	case tokReturn:
		p.returnStatement()
		return true
	case tokBreak:
		p.next()
		p.breakStatement()
		return true
	default:
		p.exprStatement()
	}
	return false
}

// condition reads a condition and returns the jumps that are taken if it is false.
func (p *parser) condition() int {
	var e expr
	p.expr(&e)
	if e.kind == xNil {
		e.kind = xFalse
	}
	p.f.goIfTrue(&e)
	return e.no
}

func (p *parser) ifStatement(line int) {
	f := p.f
	escape := noJump
	test := func() int {
		p.next()
		no := p.condition()
		p.expect(tokThen)
		p.blockBody()
		return no
	}
	no := test()
	for p.tok == tokElseif {
		escape = f.join(escape, f.jump())
		f.patchHere(no)
		no = test()
	}
	if p.tok == tokElse {
		escape = f.join(escape, f.jump())
		f.patchHere(no)
		p.next()
		p.blockBody()
	} else {
		escape = f.join(escape, no)
	}
	f.patchHere(escape)
	p.closing(tokEnd, tokIf, line)
}

func (p *parser) while(line int) {
	p.next()
	start := p.f.here()
	exit := p.condition()
	var b block
	p.enterBlock(&b, true)
	p.expect(tokDo)
	p.blockBody()
	p.f.patch(p.f.jump(), start)
	p.closing(tokEnd, tokWhile, line)
	p.leaveBlock()
	p.f.patchHere(exit)
}

func (p *parser) repeat(line int) {
	f := p.f
	start := f.here()
	var loop, scope block
	p.enterBlock(&loop, true)
	p.enterBlock(&scope, false)
	p.next()
	p.chunkBody()
	p.closing(tokUntil, tokRepeat, line)
	exit := p.condition()
	if !scope.upvalue {
		p.leaveBlock()
		f.patch(exit, start)
	} else {
		// The variables must be closed on both ways out.
		p.breakStatement()
		f.patchHere(exit)
		p.leaveBlock()
		f.patch(f.jump(), start)
	}
	p.leaveBlock()
}

func (p *parser) breakStatement() {
	f := p.f
	b, upvalue := f.block, false
	for b != nil && !b.loop {
		upvalue = upvalue || b.upvalue
		b = b.prev
	}
	if b == nil {
		p.failHere("no loop to break")
	}
	if upvalue {
		f.emit(opClose, b.active, 0, 0, 0)
	}
	b.breaks = f.join(b.breaks, f.jump())
}

func (p *parser) forStatement(line int) {
	var b block
	p.enterBlock(&b, true)
	p.next()
	name := p.name()
	switch p.tok {
	case '=':
		p.numericFor(name, line)
	case ',', tokIn:
		p.genericFor(name)
	default:
		p.failHere("'=' or 'in' expected")
	}
	p.closing(tokEnd, tokFor, line)
	p.leaveBlock()
}

func (p *parser) numericFor(name string, line int) {
	f := p.f
	base := f.free
	p.declare("(for index)", 0)
	p.declare("(for limit)", 1)
	p.declare("(for step)", 2)
	p.declare(name, 3)
	p.expect('=')
	p.exprToNextReg()
	p.expect(',')
	p.exprToNextReg()
	if p.took(',') {
		p.exprToNextReg()
	} else {
		f.emit(opLoadK, f.free, 0, 0, f.numberConst(1))
		f.reserve(1)
	}
	p.forBody(base, line, 1, true)
}

func (p *parser) genericFor(name string) {
	f := p.f
	base := f.free
	p.declare("(for generator)", 0)
	p.declare("(for state)", 1)
	p.declare("(for control)", 2)
	p.declare(name, 3)
	n := 1
	for p.took(',') {
		p.declare(p.name(), 3+n)
		n++
	}
	p.expect(tokIn)
	line := p.line
	var e expr
	p.adjust(3, p.exprList(&e), &e)
	f.checkStack(3) // for the call of the generator
	p.forBody(base, line, n, false)
}

func (p *parser) forBody(base, line, n int, numeric bool) {
	f := p.f
	// Only the three hidden locals are visible so far.
	hidden := len(f.p.locals) - n - 3
	for i := range 3 {
		f.p.locals[hidden+i].start = f.pc()
		f.active = append(f.active, hidden+i)
	}
	p.expect(tokDo)
	prep := 0
	if numeric {
		prep = f.emit(opForPrep, base, 0, 0, noJump)
	} else {
		prep = f.jump()
	}
	var b block
	p.enterBlock(&b, false)
	p.show(n)
	f.reserve(n)
	p.blockBody()
	p.leaveBlock()
	f.patchHere(prep)
	if numeric {
		f.patch(f.emit(opForLoop, base, 0, 0, noJump), prep+1)
		f.fixLine(line)
		return
	}
	f.emit(opTForCall, base, 0, n, 0)
	f.fixLine(line)
	f.patch(f.emit(opTForLoop, base, 0, 0, noJump), prep+1)
	f.fixLine(line)
}

package oracle

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"redoubt/lua/internal/corpus"
)

// generator writes random programs that end, whatever they do. Most of them
// fail somewhere: then the text of the error is compared.
type generator struct {
	*rand.Rand
	b      strings.Builder
	locals []string
	depth  int
	loops  int
	vararg bool
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) name() string {
	if len(g.locals) > 0 && g.IntN(8) > 0 {
		return g.locals[g.IntN(len(g.locals))]
	}
	return g.pick("t", "u", "gl", "x", "n")
}

func (g *generator) line(format string, a ...any) {
	fmt.Fprintf(&g.b, format, a...)
	g.b.WriteString(g.pick("\n", "\n", " "))
}

// block writes statements in a scope of their own.
func (g *generator) block(n int) {
	locals := len(g.locals)
	g.depth++
	for range n {
		g.statement()
	}
	g.depth--
	g.locals = g.locals[:locals]
}

func (g *generator) statement() {
	kind := g.IntN(14)
	if g.depth > 3 && kind >= 7 {
		kind = g.IntN(7)
	}
	switch kind {
	case 0, 1:
		name := "v" + strconv.Itoa(g.IntN(6))
		g.line("local %s = %s", name, g.expr(3))
		g.locals = append(g.locals, name)
	case 2:
		g.line("%s = %s", g.variable(), g.expr(3))
	case 3:
		g.line("%s, %s = %s", g.variable(), g.variable(), g.exprs(3))
	case 4:
		g.line("out(%s)", g.exprs(3))
	case 5:
		g.line("out(pcall(function(...) return %s end, %s))", g.expr(3), g.exprs(2))
	case 6:
		g.line("if %s then out(%s) end", g.expr(2), g.expr(2))
	case 7:
		g.line("if %s then", g.expr(2))
		g.block(2)
		if g.IntN(2) == 0 {
			g.line("else")
			g.block(2)
		}
		g.line("end")
	case 8:
		if g.loops > 1 {
			g.statement()
			return
		}
		g.loops++
		v := "i" + strconv.Itoa(g.IntN(3))
		g.line("for %s = %s, %s do", v, g.pick("1", "0.5", "3", "-1"), g.pick("2", "4", "3.7", "n"))
		g.line("tick()")
		g.locals = append(g.locals, v)
		g.block(2)
		g.locals = g.locals[:len(g.locals)-1]
		if g.IntN(4) == 0 {
			g.line("if %s then break end", g.expr(1))
		}
		g.line("end")
		g.loops--
	case 9:
		if g.loops > 1 {
			g.statement()
			return
		}
		g.loops++
		g.line("for k, v in %s(%s) do", g.pick("pairs", "ipairs", "next,"), g.pick("t", "u", "{3, 1, 2}", "{x = 1, y = {}}", g.name()))
		g.line("tick()")
		g.locals = append(g.locals, "k", "v")
		g.block(2)
		g.locals = g.locals[:len(g.locals)-2]
		g.line("end")
		g.loops--
	case 10:
		name := "f" + strconv.Itoa(g.IntN(3))
		vararg := g.vararg
		g.vararg = g.IntN(2) == 0
		params := g.pick("", "a", "a, b")
		all := params
		if g.vararg {
			all = strings.TrimPrefix(params+", ...", ", ")
		}
		g.line("local function %s(%s)", name, all)
		locals := g.locals
		if params != "" {
			g.locals = append(append([]string(nil), locals...), strings.Split(params, ", ")...)
		}
		// No function calls another by a name that may be its own: programs
		// must end.
		g.block(2)
		g.line("return %s", g.exprs(2))
		g.line("end")
		g.locals = locals
		g.vararg = vararg
		g.line("out(pcall(%s, %s))", name, g.exprs(2))
	case 11:
		g.line("do")
		g.block(3)
		g.line("end")
	case 12:
		g.line("out(coroutine.wrap(function(...) local c = coroutine.yield(%s) return c, %s end)(%s))", g.atom(), g.pick("...", "c", "1"), g.expr(1))
	default:
		g.line("t = setmetatable({%s}, {%s = %s})", g.exprs(2), g.pick("__index", "__newindex", "__call", "__add", "__concat", "__lt", "__le", "__eq", "__len", "__unm", "__tostring", "__metatable"),
			g.pick("function(a, b, c) return b end", "function(a, b) return 1 end", "u", "function() return nil end", "5"))
	}
}

func (g *generator) variable() string {
	switch g.IntN(4) {
	case 0:
		return g.name() + "." + g.pick("x", "y", "z")
	case 1:
		// No table or function: the order of such keys is that of their addresses.
		return g.name() + "[" + g.pick("1", "2", "n", "x", "'k'", "#t + 1", "true", "0.5", "10", "str("+g.name()+")") + "]"
	}
	return g.name()
}

func (g *generator) exprs(n int) string {
	list := make([]string, 1+g.IntN(n))
	for i := range list {
		list[i] = g.expr(2)
	}
	return strings.Join(list, ", ")
}

func (g *generator) atom() string {
	if g.vararg && g.IntN(12) == 0 {
		return "..."
	}
	switch g.IntN(5) {
	case 0:
		return g.pick("nil", "true", "false")
	case 1:
		return g.number(0)
	case 2:
		return g.text(0)
	}
	return g.name()
}

// expr is of any type. The others are of the type that they say, mostly: one
// in twenty is not.
func (g *generator) expr(depth int) string {
	if depth <= 0 {
		return g.atom()
	}
	d := depth - 1
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.number(depth)
	case 3, 4:
		return g.text(depth)
	case 5, 6:
		return g.truth(depth)
	case 7, 8:
		return g.table(depth)
	case 9:
		return g.expr(d) + " " + g.pick("and", "or") + " " + g.expr(d)
	case 10:
		return "(function(...) return " + g.pick("...", "(...)", "select('#', ...)", "{...}") + " end)(" + g.exprs(2) + ")"
	}
	return g.atom()
}

func (g *generator) number(depth int) string {
	if g.IntN(20) == 0 {
		return g.atom()
	}
	d := depth - 1
	if depth <= 0 {
		return g.pick("0", "1", "2", "-3", "0.5", "1e15", "10", "255", "1e300", "(1/0)", "n", "n", "'10'", "0x1f")
	}
	switch g.IntN(9) {
	case 0, 1, 2:
		return g.number(d) + " " + g.pick("+", "-", "*", "/", "%", "+", "-") + " " + g.number(d)
	case 3:
		return "-" + g.pick(" ", "") + "(" + g.number(d) + ")"
	case 4:
		return "#" + g.pick(g.text(0), "("+g.text(d)+")", "("+g.table(d)+")", "t")
	case 5:
		return g.pick("math.floor(", "math.abs(", "math.ceil(", "tonumber(", "math.max(1, ", "math.min(2, ") + g.number(d) + ")"
	case 6:
		return "(" + g.number(d) + ")"
	case 7:
		return g.pick("t[1]", "u.x", "t[n]", "(select('#', "+g.exprs(2)+"))", "("+g.text(d)+"):len()", "("+g.text(d)+"):byte()")
	}
	return g.number(0)
}

func (g *generator) text(depth int) string {
	if g.IntN(20) == 0 {
		return g.atom()
	}
	d := depth - 1
	if depth <= 0 {
		return g.pick(`"a"`, `"10"`, `"0x1f"`, `""`, `"hello world"`, `'b\0c'`, `" 7 "`, "x", "x", "u.y", "[[long]]")
	}
	switch g.IntN(8) {
	case 0, 1:
		return g.text(d) + " .. " + g.pick(g.text(d), g.number(d))
	case 2:
		return "string." + g.pick("upper", "lower", "reverse") + "(" + g.text(d) + ")"
	case 3:
		return "(" + g.text(d) + "):sub(" + g.number(d) + ", " + g.pick("-1", "2", g.number(0)) + ")"
	case 4:
		return g.pick("str(", "type(") + g.expr(d) + ")"
	case 5:
		return "string.format('" + g.pick("%s %s", "%5s|%-4s", "%d %s", "%g %q", "%.3f %s", "%x %.2s", "%5.1f %c") + "', " + g.number(d) + ", " + g.pick(g.text(d), g.number(0)) + ")"
	case 6:
		return "(string.gsub(" + g.text(d) + ", " + g.pick("'%w'", "'l+'", "'(.)(.)'", "'%s*'", "''", "'[a-h]'", "'%d-'") + ", " + g.pick("'%0%0'", "'<%1>'", "string.upper", "{a = 1, l = 'L'}", "''") + "))"
	}
	return "table.concat({" + g.number(d) + ", " + g.text(d) + "}, ',')"
}

func (g *generator) truth(depth int) string {
	if g.IntN(20) == 0 || depth <= 0 {
		return g.atom()
	}
	d := depth - 1
	switch g.IntN(6) {
	case 0, 1:
		return g.number(d) + " " + g.pick("<", "<=", ">", ">=", "==", "~=") + " " + g.number(d)
	case 2:
		return g.text(d) + " " + g.pick("<", "<=", ">", ">=", "==", "~=") + " " + g.text(d)
	case 3:
		return "not " + g.atom()
	case 4:
		return g.truth(d) + " " + g.pick("and", "or") + " " + g.truth(d)
	}
	return g.expr(d) + " " + g.pick("==", "~=") + " " + g.expr(d)
}

func (g *generator) table(depth int) string {
	if g.IntN(20) == 0 || depth <= 0 {
		return g.pick("t", "u", "{}", "{1, 2}", g.atom())
	}
	d := depth - 1
	switch g.IntN(4) {
	case 0:
		return "{" + g.exprs(4) + "}"
	case 1:
		return "{" + g.expr(d) + ", " + g.pick("x = ", "[2] = ", "y = ", "[n] = ") + g.expr(d) + "; " + g.expr(d) + "}"
	case 2:
		return "{x = " + g.expr(d) + ", [" + g.text(d) + "] = " + g.expr(d) + ", z = 1}"
	}
	return g.pick("t", "u")
}

// program writes a whole one. What it shows is collected by out.
func (g *generator) program() string {
	g.b.Reset()
	g.locals, g.depth, g.loops, g.vararg = nil, 0, 0, true
	g.line("local shown, count, ticks = {}, 0, 0")
	g.line("local function tick() ticks = ticks + 1 if ticks > 1000 then error('enough', 0) end end")
	g.line("local function show(v) if type(v) == 'table' then local s = {} for k, x in next, v do if type(k) ~= 'string' and type(k) ~= 'number' and type(k) ~= 'boolean' then return 'keys' end s[#s + 1] = tostring(type(k) == 'table' or k) .. '=' .. tostring(type(x) == 'table' or type(x) == 'function' or x) end return '{' .. table.concat(s, ' ') .. '}' elseif type(v) == 'number' then return string.format('%%.14g', v) elseif type(v) == 'function' then return 'function' end return tostring(v) end")
	g.line("local function out(...) count = count + 1 if count > 100 then error('enough', 0) end local s = {} for i = 1, select('#', ...) do s[i] = show((select(i, ...))) end shown[#shown + 1] = table.concat(s, ',') end")
	// Addresses differ, so nothing may depend on them.
	g.line("local function str(v) local k = type(v) if k == 'table' or k == 'function' or k == 'thread' then return k end return tostring(v) end")
	g.line("local t, u, x, n = {1, 2, 3}, {x = 1, y = 'z'}, 'str', 3")
	g.line("local ok, e = pcall(function(...)")
	for range 3 {
		g.statement()
	}
	g.line("end, 1, 'two', nil)")
	g.line("out(ok, e, t, u, x, n)")
	for range 3 {
		g.line("out(pcall(function(...)")
		g.block(2)
		g.line("end, 2, {}))")
	}
	g.line("return table.concat(shown, ';'), ok, e")
	return g.b.String()
}

// Random programs give the same here and there. REDOUBT_SEED repeats a run,
// REDOUBT_PROGRAMS says how many.
func TestRandomPrograms(t *testing.T) {
	r := start(t)
	seed := rand.Uint64()
	if s := os.Getenv("REDOUBT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	count := 5000
	if s := os.Getenv("REDOUBT_PROGRAMS"); s != "" {
		var err error
		if count, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	h := corpus.NewHost(t, testdata+"harness.lua")
	h.State.SetLimit(64 << 20)
	bad := 0
	for i := range count {
		src := g.program()
		want := r.run(t, src)
		if got := h.Run(src); got != want {
			same := 0
			for same < len(got) && same < len(want) && got[same] == want[same] {
				same++
			}
			same = max(same-60, 0)
			t.Errorf("program %d:\n%s\n got ...%.300s\nwant ...%.300s", i, src, got[min(same, len(got)):], want[min(same, len(want)):])
			if bad++; bad == 5 {
				break
			}
		}
	}
}

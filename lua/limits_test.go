package lua_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"redoubt/internal/race"
	"redoubt/lua"
)

// prelude makes the names that the hostile scripts use.
const prelude = `
local big = string.rep("x", 100000)
local list = {}
for i = 1, 1000 do list[i] = i end
`

// endless are scripts that never end by themselves. pcall around them must not
// help.
var endless = map[string]string{
	"while":              `while true do end`,
	"repeat":             `repeat until false`,
	"for":                `for i = 1, math.huge do end`,
	"for step":           `for i = 2, 1, 0 do end`,
	"generic for":        `for _ in function() return 1 end do end`,
	"next for":           `local t = {1} while true do for k in pairs(t) do end end`,
	"recursion":          `local function f() return f() end f()`,
	"pcall loop":         `while true do pcall(function() while true do end end) end`,
	"xpcall loop":        `while true do xpcall(function() while true do end end, function() while true do end end) end`,
	"error loop":         `while true do pcall(error, "x") end`,
	"mutual tail":        `local a, b function a() return b() end function b() return a() end a()`,
	"tail call of Go":    `local function f() return pcall(f) end while true do f() end`,
	"__index":            `local t = setmetatable({}, {__index = function(t, k) return 1 end}) while true do local _ = t.x end`,
	"__call":             `local t = setmetatable({}, {__call = function(t) return t() end}) t()`,
	"__lt":               `local m = {__lt = function() while true do end end} local a = setmetatable({}, m) return a < a`,
	"__concat":           `local m = {__concat = function() while true do end end} return setmetatable({}, m) .. "x"`,
	"__tostring":         `tostring(setmetatable({}, {__tostring = function() while true do end end}))`,
	"__eq":               `local m = {__eq = function() while true do end end} return setmetatable({}, m) == setmetatable({}, m)`,
	"coroutine":          `local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end`,
	"in a coroutine":     `coroutine.wrap(function() while true do end end)()`,
	"coroutines":         `while true do coroutine.resume(coroutine.create(function() end)) end`,
	"resume of the dead": `local co = coroutine.create(function() end) while true do coroutine.resume(co) end`,
	"sort":               `table.sort(list, function(a, b) while true do end end)`,
	"sorts":              `while true do table.sort(list) end`,
	"gsub function":      `string.gsub("x", "x", function() while true do end end)`,
	"gsub":               `while true do string.gsub(big, "x", "y") end`,
	"gmatch":             `for w in string.gmatch(big, "()") do while true do end end`,
	"backtracking":       `string.find(string.rep("a", 40), string.rep("a?", 40) .. string.rep("a", 40) .. "b")`,
	"backtracking .*":    `string.find(big, ".*.*.*.*b")`,
	"backtracking .-":    `string.find(big, ".-.-.-.-b")`,
	"match of nothing":   `while true do string.match(big, "y") end`,
	"plain find":         `while true do string.find(big, "y", 1, true) end`,
	"rep":                `while true do string.rep("x", 1000) end`,
	"rep of nothing":     `while true do string.rep("", 2^31 - 1) end`,
	"concat":             `while true do local _ = table.concat(list, ",") end`,
	"..":                 `while true do local _ = big .. "x" end`,
	"format":             `while true do string.format("%s", big) end`,
	"sub":                `while true do string.sub(big, 2) end`,
	"upper":              `while true do string.upper(big) end`,
	"reverse":            `while true do string.reverse(big) end`,
	"byte":               `while true do string.byte(big, 1, 5000) end`,
	"char":               `while true do string.char(unpack(list, 1, 100, 1)) end`,
	"comparison":         `local a, b = big .. "1", big .. "2" while true do local _ = a == b end`,
	"less":               `local a, b = big .. "1", big .. "2" while true do local _ = a < b end`,
	"tonumber":           `local n = string.rep("1", 10000) while true do tonumber(n) end`,
	"coercion":           `local n = string.rep("1", 10000) while true do local _ = n + 0 end`,
	"hash of a string":   `local t = {} while true do t[big] = 1 end`,
	"unpack":             `while true do unpack(list) end`,
	"select":             `while true do select("#", unpack(list)) end`,
	"varargs":            `local function f(...) return ... end while true do f(unpack(list)) end`,
	"insert":             `while true do table.insert(list, 1, 1) table.remove(list, 1) end`,
	"insert far":         `table.insert({}, -2^31, 1)`,
	"maxn":               `while true do table.maxn(list) end`,
	"foreach":            `while true do table.foreach(list, function() end) end`,
	"foreachi":           `while true do table.foreachi(list, function() end) end`,
	"next":               `while true do next(list) end`,
	"next over nothing":  `local t = {} for i = 1, 1e5 do t[i] = 1 end for i = 1, 1e5 do t[i] = nil end while true do next(t) end`,
	"loadstring":         `while true do loadstring("return 1") end`,
	"loadstring errors":  `while true do loadstring("return +") end`,
	"load":               `load(function() while true do end end)`,
	"load forever":       `load(function() return ";" end)`,
	"setmetatable":       `while true do setmetatable({}, {}) end`,
	"random":             `while true do math.random() end`,
	"tostring":           `while true do tostring({}) end`,
	"closures":           `while true do local _ = function() return list end end`,
	"tables":             `while true do local _ = {{}, {}, {}} end`,
	"newproxy":           `while true do newproxy(true) end`,
	"length":             `while true do local _ = #list end`,
	"getfenv":            `while true do getfenv(1) end`,
	"collectgarbage":     `while true do collectgarbage() end`,
}

// forms are ways to wrap a script. The race detector, which is slow and has
// nothing to find here, gets the last one only.
func forms(list ...string) []string {
	if race.Enabled {
		return list[len(list)-1:]
	}
	return list
}

var errStop = errors.New("the budget is used up")

// Not parallel: the CPU time between two calls of the hook is measured.
func TestBudgetEndsEverything(t *testing.T) {
	for name, src := range endless {
		for _, form := range forms("%s", "while true do pcall(function() %s end) end", "coroutine.wrap(function() %s end)()") {
			t.Run(name, func(t *testing.T) {
				p, err := lua.Compile(prelude+fmt.Sprintf(form, src), "endless")
				if err != nil {
					t.Fatal(err)
				}
				s := lua.New()
				s.SetLimit(64 << 20)
				calls := 0
				var last, longest time.Duration
				s.SetBudget(10000, func() error {
					now := cpuTime(t)
					if calls > 0 {
						longest = max(longest, now-last)
					}
					last = now
					if calls++; calls >= 20 {
						return errStop
					}
					return nil
				})
				_, err = s.Call(s.Load(p))
				if err != errStop {
					t.Fatalf("ended with %v after %d", err, calls)
				}
				// Mostly it is well below a millisecond.
				if longest > time.Second {
					t.Errorf("%v between two calls of the hook", longest)
				}
			})
		}
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hungry are scripts that want all memory there is.
var hungry = map[string]string{
	"array":              `local t = {} while true do t[#t + 1] = 1 end`,
	"hash":               `local t, i = {}, 0 while true do i = i + 1 t["k" .. i] = i end`,
	"floats":             `local t, i = {}, 0 while true do i = i + 0.5 t[i] = i end`,
	"tables":             `local t = {} while true do t = {t} end`,
	"insert":             `local t = {} while true do table.insert(t, 1) end`,
	"doubling":           `local s = "x" while true do s = s .. s end`,
	"concat":             `local s = {} for i = 1, 1000 do s[i] = string.rep("x", 1000) end while true do s = {table.concat(s), table.concat(s), table.concat(s)} end`,
	"strings":            `local t = {} for i = 1, math.huge do t[i] = "x" .. i end`,
	"rep":                `string.rep("x", 2^31 - 1)`,
	"rep of much":        `string.rep(string.rep("x", 1e6), 1e6)`,
	"reps":               `local t = {} for i = 1, math.huge do t[i] = string.rep("x", 1000 + i) end`,
	"subs":               `local s, t = string.rep("x", 1e6), {} for i = 1, math.huge do t[i] = s:sub(2) end`,
	"uppers":             `local s, t = string.rep("x", 1e6), {} for i = 1, math.huge do t[i] = s:upper() end`,
	"reverse":            `local s, t = string.rep("x", 1e6), {} for i = 1, math.huge do t[i] = s:reverse() end`,
	"format":             `local s = "x" while true do s = string.format("%s%s", s, s) end`,
	"format q":           `local s = "\0" while true do s = string.format("%q", s) end`,
	"gsub":               `local s = "x" while true do s = s:gsub("x", "xx") end`,
	"gsub held":          `local function f() return (("x"):rep(1e6):gsub("x", function() return f() end)) end f()`,
	"gsub much":          `("x"):rep(1e6):gsub("x", ("y"):rep(1e6))`,
	"captures":           `local t, s = {}, ("x"):rep(1e6) for i = 1, math.huge do t[i] = s:match("(.*)") end`,
	"chars":              `local t = {} for i = 1, math.huge do t[i] = string.char(65, 66, 67, i % 256) end`,
	"closures":           `local t = {} while true do local x = {} t[#t + 1] = function() return x end end`,
	"upvalue chain":      `local f while true do local g = f f = function() return g end end`,
	"coroutines":         `local t = {} while true do local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co) t[#t + 1] = co end`,
	"unstarted":          `local t = {} while true do t[#t + 1] = coroutine.wrap(function() end) end`,
	"stack of coroutine": `local function f(n) local a, b, c, d = n, n, n, n if n == 0 then coroutine.yield() end f(n - 1) return a end local t = {} while true do local co = coroutine.create(f) coroutine.resume(co, 10000) t[#t + 1] = co end`,
	"proxies":            `local t = {} while true do t[#t + 1] = newproxy(true) end`,
	"chunks":             `local t = {} local s = ("x = 1 "):rep(1000) while true do t[#t + 1] = loadstring(s) end`,
	"constants":          `local t = {} for i = 1, math.huge do t[i] = loadstring("return '" .. ("x"):rep(10000) .. i .. "'") end`,
	"load":               `load(function() return "x = 1 " end)`,
	"errors":             `local s = string.rep("x", 1e5) local t = {} while true do local _, e = pcall(error, s) local _, f = pcall(function() error(s) end) t[#t + 1] = f end`,
	"errors nested":      `local s = string.rep("x", 1e5) while true do local _, e = pcall(function() error(s) end) s = e .. e end`,
	"tostring":           `local t = {} for i = 1, math.huge do t[i] = tostring(i + 0.5) end`,
	"varargs":            `local function f(...) local t = {...} return t, f(t, ...) end f()`,
	"constructor":        `local t = {} while true do t[#t + 1] = {1, 2, 3, x = 1, y = 2, 4, 5} end`,
	"metatables":         `local t = {} while true do t = setmetatable({}, {__index = t}) end`,
	"key strings":        `local t = {} for i = 1, math.huge do t[("x"):rep(1000) .. i] = true end`,
	"gmatch":             `local t = {} for i = 1, math.huge do t[i] = ("x"):rep(10000 + i):gmatch("x") end`,
	"globals":            `for i = 1, math.huge do _G["g" .. i] = {} end`,
	"sparse":             `local t = {} for i = 1, math.huge do t[i * 1000] = i end`,
	"wide array":         `local t = {} for i = 1, math.huge do t[i] = {unpack({}, 1, 1000)} end`,
}

func TestMemoryLimitHolds(t *testing.T) {
	// One after the other: each is measured.
	const limit = 4 << 20
	for name, src := range hungry {
		for _, form := range forms("%s", "while true do pcall(function() coroutine.wrap(function() %s end)() end) end") {
			p, err := lua.Compile(fmt.Sprintf(form, src), "hungry")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			s := lua.New()
			s.SetLimit(limit)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err = s.Call(s.Load(p))
			if err != lua.ErrMemory {
				t.Errorf("%s (%s): ended with %v", name, form, err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 4*limit {
				t.Errorf("%s: %d MB are held at its end", name, held>>20)
			}
			runtime.KeepAlive(s)
		}
	}
}

// What a script lets go of is not counted: it may allocate without end.
func TestGarbageIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		`for i = 1, 3e5 do local t = {1, 2, 3} end return 1`,
		`local s for i = 1, 3e5 do s = "some string " .. i end return 1`,
		`for i = 1, 3e4 do local s = string.rep("x", 1000) end return 1`,
		`local t for i = 1, 1e5 do t = {x = t and t.y} end return 1`,
		`for i = 1, 1e4 do coroutine.wrap(function() coroutine.yield(1) end)() end return 1`,
		`for i = 1, 1e4 do loadstring("return 1")() end return 1`,
		`local big = string.rep("x", 5e5) local t = {} for i = 1, 2000 do t[i] = big end for i = 1, 1e5 do local x = {} end return 1`,
		`local function f(n) if n > 0 then return 1 + f(n - 1) end return 0 end for i = 1, 100 do f(1000) end return 1`,
		`local t = {} for i = 1, 1e4 do t[i] = i end for j = 1, 300 do for i = 1, 100 do t[i] = tostring(i + j) end end return 1`,
	} {
		p, err := lua.Compile(src, "garbage")
		if err != nil {
			t.Fatal(err)
		}
		s := lua.New()
		s.SetLimit(2 << 20)
		if _, err := s.Call(s.Load(p)); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// After an error of any kind the state is as good as new.
func TestStateSurvivesErrors(t *testing.T) {
	t.Parallel()
	s := lua.New()
	check := func() {
		t.Helper()
		p, err := lua.Compile("local t = {} for i = 1, 100 do t[i] = i end return #t, coroutine.wrap(function() return 5 end)()", "ok")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Call(s.Load(p))
		if err != nil || len(r) != 2 || r[0].Num() != 100 || r[1].Num() != 5 {
			t.Fatalf("%v %v", r, err)
		}
	}
	for _, src := range []string{
		"error('x')", "local function f() return f() + 1 end f()", "while true do end",
		"string.rep('x', 2^31-1)", "coroutine.wrap(function() while true do end end)()",
		"coroutine.wrap(function() error('x') end)()", "local t = {} while true do t[#t+1] = {} end",
		"pcall(function() while true do end end)", "local function f() pcall(f) error() end f()",
	} {
		p, err := lua.Compile(src, "bad")
		if err != nil {
			t.Fatal(err)
		}
		s.SetLimit(8 << 20)
		n := 0
		s.SetBudget(1000, func() error {
			if n++; n > 1000 {
				return errStop
			}
			return nil
		})
		if _, err := s.Call(s.Load(p)); err == nil {
			t.Errorf("%s: no error", src)
		}
		s.Reset()
		s.SetBudget(1, nil)
		s.SetLimit(0)
		check()
		s.Reset()
	}
}

func TestAbortPassesPcall(t *testing.T) {
	t.Parallel()
	s := lua.New()
	s.Register(s.Globals(), "abort", func(c *lua.Call) error { return lua.Abort(errStop) })
	for _, src := range []string{
		"abort()", "pcall(abort)", "pcall(pcall, abort)", "xpcall(abort, function() end)",
		"coroutine.resume(coroutine.create(function() abort() end))", "coroutine.wrap(function() pcall(abort) end)()",
		"table.sort({1, 2, 3}, abort)", "string.gsub('x', 'x', abort)", "return setmetatable({}, {__index = abort}).x",
		"return tostring(setmetatable({}, {__tostring = abort}))", "load(abort)", "table.foreach({1}, abort)",
		"xpcall(error, abort)", "for _ in abort do end",
	} {
		p, err := lua.Compile(src, "abort")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Call(s.Load(p)); err != errStop {
			t.Errorf("%s: %v", src, err)
		}
		s.Reset()
	}
}

func TestDeepNestingIsAnError(t *testing.T) {
	t.Parallel()
	const n = 50000
	for _, src := range []string{
		strings.Repeat("(", n), strings.Repeat("{", n), strings.Repeat("do ", n), "return " + strings.Repeat("- ", n) + "1",
		"return " + strings.Repeat("not ", n) + "1", strings.Repeat("function f() ", n), strings.Repeat("if x then ", n),
		"return " + strings.Repeat("a..", n) + "a", "return " + strings.Repeat("2^", n) + "2", strings.Repeat("a[", n),
		strings.Repeat("f(", n), strings.Repeat("while x do ", n), strings.Repeat("repeat ", n),
	} {
		if _, err := lua.Compile(src, "deep"); err == nil {
			t.Errorf("%.20s... compiles", src)
		}
	}
	for _, src := range []string{
		"return x" + strings.Repeat("()", n), "return x" + strings.Repeat(".y", n), "return 1" + strings.Repeat("+x", n),
		"return " + strings.Repeat("x,", 100) + "1", "return {" + strings.Repeat("x,", n) + "}", strings.Repeat("x=1 ", n),
	} {
		if _, err := lua.Compile(src, "long"); err != nil {
			t.Errorf("%.20s...: %v", src, err)
		}
	}
}

// The steps inside of one call of a library count by what they cost: a long set of
// characters, or a comparison of long strings, is no single step.
func TestWorkOfPatternsIsCounted(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"set":            `(("x"):rep(2e4)):find("[" .. ("a"):rep(2e4) .. "]*z")`,
		"back reference": `(("a"):rep(2e4) .. "b"):find("^(.-)%1c")`,
	} {
		p, err := lua.Compile(src, "work")
		if err != nil {
			t.Fatal(err)
		}
		s, ticks := lua.New(), 0
		s.SetBudget(20000, func() error { ticks++; return nil })
		if _, err := s.Call(s.Load(p)); err != nil {
			t.Fatal(err)
		}
		if ticks < 100 {
			t.Errorf("%s: the hook was called %d times", name, ticks)
		}
	}
}

// A string that a library builds is not copied over and over while it grows: a script
// reaches its limit of memory soon. Not parallel: what is allocated is measured.
func TestGrowingStringIsCopiedSeldom(t *testing.T) {
	const limit = 64 << 20
	for name, src := range map[string]string{
		"gsub":   `(("x"):rep(1e5)):gsub("x", ("y"):rep(1e5))`,
		"concat": `local s, t = ("x"):rep(1e5), {} for i = 1, 2000 do t[i] = s end table.concat(t)`,
	} {
		p, err := lua.Compile(src, "grow")
		if err != nil {
			t.Fatal(err)
		}
		s := lua.New()
		s.SetLimit(limit)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := s.Call(s.Load(p)); err != lua.ErrMemory {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / limit; n > 12 {
			t.Errorf("%s: %d times its limit was allocated", name, n)
		}
	}
}

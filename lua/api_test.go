package lua_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"redoubt/lua"
)

func compile(t testing.TB, src string) *lua.Proto {
	t.Helper()
	p, err := lua.Compile(src, "script")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func call(t testing.TB, s *lua.State, src string, args ...lua.Value) []lua.Value {
	t.Helper()
	r, err := s.Call(s.Load(compile(t, src)), args...)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return r
}

// A table does what a Go map does, and a traversal meets every entry once,
// whatever is changed or removed on the way.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := lua.New()
	keys := []lua.Value{lua.Bool(true), lua.Bool(false), lua.String(""), lua.Number(0.5), lua.Number(-1), lua.Number(1e300), lua.Number(0)}
	for i := range 60 {
		keys = append(keys, lua.Number(float64(i)), lua.String(strings.Repeat("k", i)), s.NewTable(0, 0).Value())
	}
	for range 300 {
		table := s.NewTable(rnd.IntN(5), rnd.IntN(5))
		model := map[lua.Value]float64{}
		used := keys[:1+rnd.IntN(len(keys))]
		for range rnd.IntN(300) {
			k := used[rnd.IntN(len(used))]
			if rnd.IntN(3) == 0 {
				if err := table.Set(k, lua.Nil); err != nil {
					t.Fatal(err)
				}
				delete(model, k)
				continue
			}
			v := rnd.Float64()
			if err := table.Set(k, lua.Number(v)); err != nil {
				t.Fatal(err)
			}
			model[k] = v
		}
		for _, k := range used {
			if want, ok := model[k]; ok != !table.Get(k).IsNil() || table.Get(k).Num() != want {
				t.Fatalf("at %v: %v, want %v", k, table.Get(k), want)
			}
		}
		if n := table.Len(); n > 0 && table.GetInt(n).IsNil() || !table.GetInt(n+1).IsNil() {
			t.Fatalf("%d is no border", n)
		}
		seen := 0
		for k, v, ok, err := table.Next(lua.Nil); ok || err != nil; k, v, ok, err = table.Next(k) {
			if err != nil {
				t.Fatal(err)
			}
			if want, there := model[k]; !there || v.Num() != want {
				t.Fatalf("the traversal gives %v = %v, want %v", k, v, want)
			}
			seen++
			change := lua.Nil
			if rnd.IntN(2) == 0 {
				change = lua.Number(-1)
			}
			if err := table.Set(k, change); err != nil {
				t.Fatal(err)
			}
		}
		if seen != len(model) {
			t.Fatalf("the traversal met %d of %d", seen, len(model))
		}
	}
}

func TestTableErrors(t *testing.T) {
	t.Parallel()
	s := lua.New()
	table := s.NewTable(0, 0)
	for _, c := range []struct {
		err  error
		want string
	}{
		{table.Set(lua.Nil, lua.Number(1)), "table index is nil"},
		{table.Set(lua.Number(math.NaN()), lua.Number(1)), "table index is NaN"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	if _, _, _, err := table.Next(lua.String("x")); err == nil || err.Error() != "invalid key to 'next'" {
		t.Error(err)
	}
	table.SetReadonly(true)
	for _, err := range []error{
		table.Set(lua.Number(1), lua.Nil), table.SetInt(1, lua.Nil), table.SetStr("x", lua.Nil),
	} {
		if err == nil || err.Error() != "Attempt to modify a readonly table" {
			t.Error(err)
		}
	}
}

// Every way to write finds out that a table is read-only.
func TestReadonly(t *testing.T) {
	t.Parallel()
	s := lua.New()
	ro := s.NewTable(2, 2)
	for i, k := range []lua.Value{lua.Number(1), lua.Number(2), lua.String("x")} {
		if err := ro.Set(k, lua.Number(float64(3-i))); err != nil {
			t.Fatal(err)
		}
	}
	ro.SetReadonly(true)
	if err := s.Globals().SetStr("ro", ro.Value()); err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{
		"ro.x = 1", "ro.y = 1", "ro[1] = 1", "ro[3] = 1", "local k = 1 ro[k] = 2", "local k = 'x' ro[k] = 2", "ro.x = nil",
		"rawset(ro, 'x', 1)", "table.insert(ro, 1)", "table.insert(ro, 1, 1)", "table.remove(ro)", "table.sort(ro)", "setmetatable(ro, {})",
		"setmetatable({}, {__newindex = ro}).z = 1", "function ro.f() end", "ro.x, ro.y = 1, 2",
	} {
		_, err := s.Call(s.Load(compile(t, src)))
		if err == nil || !strings.HasSuffix(err.Error(), "Attempt to modify a readonly table") {
			t.Errorf("%s: %v", src, err)
		}
	}
	if ro.GetStr("x").Num() != 1 || ro.GetInt(1).Num() != 3 {
		t.Error("it was changed")
	}
}

func TestGoFunctions(t *testing.T) {
	t.Parallel()
	s := lua.New()
	g := s.Globals()
	s.Register(g, "swap", func(c *lua.Call) error {
		c.Return(c.Arg(1), c.Arg(0))
		return nil
	})
	s.Register(g, "twice", func(c *lua.Call) error {
		for range 2 {
			r, err := c.State().Call(c.Arg(0), c.Arg(1))
			if err != nil {
				return err
			}
			c.Return(r...)
		}
		return nil
	})
	s.Register(g, "where", func(c *lua.Call) error {
		chunk, line := c.Where(1)
		c.Return(lua.String(chunk), lua.Number(float64(line)))
		return nil
	})
	s.Register(g, "fail", func(c *lua.Call) error { return c.Errorf("failed with %d", 5) })
	s.Register(g, "plain", func(c *lua.Call) error { return errors.New("plain") })
	s.Register(g, "int", func(c *lua.Call) error {
		n, err := c.CheckInt(1)
		c.Return(lua.Number(float64(n)))
		return err
	})
	r := call(t, s, "local a, b = swap(1, 2) return a, b, swap(3)")
	if len(r) != 4 || r[0].Num() != 2 || r[1].Num() != 1 || !r[2].IsNil() || r[3].Num() != 3 {
		t.Error(r)
	}
	r = call(t, s, "return twice(function(x) return x, x + 1 end, 5)")
	if len(r) != 4 || r[3].Num() != 6 {
		t.Error(r)
	}
	r = call(t, s, "\n\nreturn where()")
	if r[0].Str() != "script" || r[1].Num() != 3 {
		t.Error(r)
	}
	for src, want := range map[string]string{
		"fail()":                         "script:1: failed with 5",
		"plain()":                        "plain",
		"int(1)":                         "script:1: bad argument #2 to 'int' (number expected, got no value)",
		"int(1, {})":                     "script:1: bad argument #2 to 'int' (number expected, got table)",
		"local t = {i = int} t:i({})":    "script:1: bad argument #1 to 'i' (number expected, got table)",
		"twice(fail)":                    "failed with 5",
		"\ntwice(function() fail() end)": "script:2: failed with 5",
	} {
		_, err := s.Call(s.Load(compile(t, src)))
		var e *lua.Error
		if !errors.As(err, &e) || e.Error() != want {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
}

// An error knows where it was raised, also when its value is no text.
func TestErrorPlace(t *testing.T) {
	t.Parallel()
	s := lua.New()
	for src, line := range map[string]int{
		"\nerror('x')": 2, "\n\nerror({})": 3, "\nerror('x', 0)": 2, "\n\nlocal x = nil + 1": 3, "\nfoo.bar()": 2, "\nstring.rep()": 2,
		"local function f()\nerror('x', 2)\nend\nf()": 2, "coroutine.wrap(function()\nerror({})\nend)()": 2,
	} {
		_, err := s.Call(s.Load(compile(t, src)))
		var e *lua.Error
		if !errors.As(err, &e) || e.Chunk != "script" || e.Line != line {
			t.Errorf("%q: %+v, want line %d", src, e, line)
		}
		s.Reset()
	}
}

// Reset brings back what a script can change without a table.
func TestReset(t *testing.T) {
	t.Parallel()
	s := lua.New()
	first := call(t, s, "return math.random(1000000)")[0].Num()
	s.Reset()
	if again := call(t, s, "setfenv(0, {}) return math.random(1000000)")[0].Num(); again != first {
		t.Errorf("%v, then %v", first, again)
	}
	s.Reset()
	if r := call(t, s, "return loadstring('return type(math)')()"); r[0].Str() != "table" {
		t.Error("setfenv(0) outlives its script")
	}
}

// What a script sees of addresses does not depend on what ran before.
func TestAddressesAreDeterministic(t *testing.T) {
	t.Parallel()
	const src = `local out, t = {}, {}
		for i = 1, 20 do t[{}] = i t[function() end] = -i end
		t[string.rep] = 0 t[string.gmatch("x", "x")] = 100
		for k, v in pairs(t) do out[#out + 1] = tostring(k) .. v end
		return table.concat(out, ",")`
	s := lua.New()
	want := call(t, s, src)[0].Str()
	s.Reset()
	call(t, s, "local t = {} for i = 1, 50 do t[i] = {} end")
	s.Reset()
	for _, st := range []*lua.State{s, lua.New()} {
		if got := call(t, st, src)[0].Str(); got != want {
			t.Errorf("%s\nthen %s", want, got)
		}
	}
}

// A tiny script allocates nothing.
func TestTinyScriptAllocatesNothing(t *testing.T) {
	s := lua.New()
	s.Register(s.Globals(), "f", func(c *lua.Call) error {
		c.Return(c.Arg(0))
		return nil
	})
	fn := s.Load(compile(t, "local a = f('x') if a == 'x' then return f(a) end return 0"))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Call(fn); err != nil {
			t.Fatal(err)
		}
		s.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNumbersAsText(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "-0", 1: "1", -1: "-1", 0.1: "0.1", 1e14: "1e+14", 99999999999999: "99999999999999",
		1e15: "1e+15", 1e-5: "1e-05", 123456.75: "123456.75", 1.0 / 3: "0.33333333333333", math.Inf(1): "inf", math.Inf(-1): "-inf",
		2e300: "2e+300", 0.0001: "0.0001",
	} {
		if got, ok := lua.Number(f).ToString(); !ok || got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
	for _, bad := range []string{"", " ", "x", "1x", "0x", "1e", "--1", "1 2", "0xg", "1_0", "infx", "0b1", "+-1"} {
		if f, ok := lua.String(bad).ToNumber(); ok {
			t.Errorf("%q is %v", bad, f)
		}
	}
}

// A table that a library makes past the limit is there, and the script ends with its
// next allocation.
func TestNewTablePastTheLimit(t *testing.T) {
	t.Parallel()
	s := lua.New()
	s.SetLimit(1)
	for range 100 {
		if s.NewTable(4, 4) == nil {
			t.Fatal("no table")
		}
	}
	if err := s.Alloc(1); err == nil {
		t.Error("nobody found that there is too much")
	}
}

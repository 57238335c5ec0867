package lua_test

import (
	"testing"

	"redoubt/lua"
)

// A script of the usual size: a few lines, two calls of Go.
func BenchmarkTiny(b *testing.B) {
	p, err := lua.Compile(`
local v = call('GET', KEYS[1])
if v == ARGV[1] then
  return call('SET', KEYS[1], ARGV[2])
end
return 0`, "bench")
	if err != nil {
		b.Fatal(err)
	}
	s := lua.New()
	g := s.Globals()
	s.Register(g, "call", func(c *lua.Call) error {
		c.Return(lua.String("old"))
		return nil
	})
	keys, argv := s.NewTable(1, 0), s.NewTable(2, 0)
	for _, err := range []error{
		keys.SetInt(1, lua.String("key")), argv.SetInt(1, lua.String("old")), argv.SetInt(2, lua.String("new")),
		g.SetStr("KEYS", keys.Value()), g.SetStr("ARGV", argv.Value()),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
	fn := s.Load(p)
	s.SetLimit(1 << 30)
	s.SetBudget(1000, func() error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Call(fn); err != nil {
			b.Fatal(err)
		}
		s.Reset()
	}
}

func BenchmarkCompile(b *testing.B) {
	const source = `
local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then
  return redis.call('SET', KEYS[1], ARGV[2])
end
return 0`
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lua.Compile(source, "bench"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		lua.New()
	}
}

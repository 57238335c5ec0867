package lib_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"redoubt/lua"
)

// run compiles and runs a script that gets one string as ARGV[1] and may hold
// so many bytes, 0 for as many as it likes.
func (l libs) run(limit int64, script, arg string) ([]lua.Value, error) {
	l.t.Helper()
	p, err := lua.Compile(script, "user_script")
	if err != nil {
		l.t.Fatalf("compile %q: %v", script, err)
	}
	argv := l.s.NewTable(1, 0)
	if err := argv.SetInt(1, lua.String(arg)); err != nil {
		l.t.Fatal(err)
	}
	if err := l.s.Globals().SetStr("ARGV", argv.Value()); err != nil {
		l.t.Fatal(err)
	}
	f := l.s.Load(p)
	l.s.SetLimit(limit)
	return l.s.Call(f)
}

// bombs are small scripts that would make something large.
var bombs = []struct{ name, script, arg string }{
	{"arrays", "return #cjson.decode(ARGV[1])", "[" + strings.Repeat("[],", 200_000) + "1]"},
	{"nested arrays", "return #cjson.decode(ARGV[1])", "[" + strings.Repeat("[[[[[[[[1]]]]]]]],", 20_000) + "1]"},
	{"objects", "return #cjson.decode(ARGV[1])", "[" + strings.Repeat(`{"a":1},`, 100_000) + "1]"},
	{"deep objects", "return #cjson.decode(ARGV[1])", "[" + strings.Repeat(strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)+",", 100) + "1]"},
	{"holes", "local c = cjson.new() c.encode_sparse_array(false, 0) return #c.encode({[2^30] = 1})", ""},
	{"escapes", "return #cjson.encode({ARGV[1], ARGV[1], ARGV[1], ARGV[1]})", strings.Repeat("\x01", 200_000)},
	{"itself", "local t = {} for i = 1, 8 do t[i] = t end return #cmsgpack.pack(t)", ""},
	{"itself as a map", "local t = {} for i = 1, 8 do t[-i] = t end return #cmsgpack.pack(t)", ""},
	{"the same again", "local t = {} for i = 1, 40 do t = {t, t} end return #cjson.encode(t)", ""},
	{"the same again as objects", "local t = {} for i = 1, 40 do t = {a = t, b = t} end return #cjson.encode(t)", ""},
	{"tables of functions", "local t = {} for i = 1, 1e6 do t[i] = cjson.new() end", ""},
	{"packed arrays", "return #cmsgpack.unpack(ARGV[1])", "\xdd\x00\x03\x00\x00" + strings.Repeat("\x90", 3<<16)},
	{"packed maps", "return #cmsgpack.unpack(ARGV[1])", "\xdd\x00\x01\x00\x00" + strings.Repeat("\x81\x01\x01", 1<<16)},
	{"packed keys", "return cmsgpack.unpack(ARGV[1]).x", "\xdf\x00\x01\x00\x00" + strings.Repeat("\x90\x01", 1<<16)},
	{"one value of a stream", "return (cmsgpack.unpack_one(ARGV[1]))", "\xdd\x00\x03\x00\x00" + strings.Repeat("\x90", 3<<16) + "\x01"},
	{"strings", "return #struct.pack('sss', ARGV[1], ARGV[1], ARGV[1])", strings.Repeat("x", 500_000)},
}

// TestMemory: a call that would make more than the script may hold ends the
// script, and pcall does not save it. It ends before the memory is taken.
func TestMemory(t *testing.T) {
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			l := open(t)
			before := allocated()
			_, err := l.run(1<<20, "return pcall(function() "+b.script+" end)", b.arg)
			if !errors.Is(err, lua.ErrMemory) {
				t.Errorf("%v, want ErrMemory", err)
			}
			// What was thrown away counts here as well, hence the factor.
			if taken := allocated() - before; taken > 32<<20 {
				t.Errorf("took %d bytes", taken)
			}
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestMemoryAtEveryLimit: whatever the limit, a script either runs as ever or
// ends for want of memory.
func TestMemoryAtEveryLimit(t *testing.T) {
	t.Parallel()
	const script = `
local v = cjson.decode(ARGV[1])
local text = cjson.encode({v, v, {a = v}})
local packed = cmsgpack.pack(v, text, {[{v}] = v})
local a, b, c = cmsgpack.unpack(packed)
return cjson.encode(a) .. struct.pack('s', b) .. bit.tohex(#packed)`
	arg := "[" + strings.Repeat(`{"k":["value",[1,2,3],{"x":null}]},`, 30) + `"end"]`
	want, err := open(t).run(0, script, arg)
	if err != nil {
		t.Fatal(err)
	}
	ran, ended := 0, 0
	for limit := int64(1 << 10); limit < 1<<21; limit += limit/16 + 7 {
		switch got, err := open(t).run(limit, script, arg); {
		case err == nil && equal(got[0], want[0]):
			ran++
		case errors.Is(err, lua.ErrMemory):
			ended++
		default:
			t.Fatalf("limit %d: %v, %v", limit, got, err)
		}
	}
	if ran < 10 || ended < 10 {
		t.Errorf("ran %d times, ended %d times", ran, ended)
	}
}

// TestBudget: a script that is told to end does so within a call.
func TestBudget(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for _, b := range bombs {
		if b.name == "escapes" || b.name == "strings" {
			continue // are over before anybody asks
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			l.s.SetBudget(1000, func() error { return stop })
			if _, err := l.run(64<<20, "return pcall(function() "+b.script+" end)", b.arg); !errors.Is(err, stop) {
				t.Errorf("%v, want to be stopped", err)
			}
		})
	}
}

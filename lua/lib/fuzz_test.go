package lib_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redoubt/lua"
	"redoubt/lua/lib"
)

// libs gives access to the functions of a fresh state.
type libs struct {
	t testing.TB
	s *lua.State
}

func open(t testing.TB) libs {
	s := lua.New()
	lib.Open(s)
	return libs{t, s}
}

// call calls a function by its name, as in "cjson.encode".
func (l libs) call(name string, args ...lua.Value) ([]lua.Value, error) {
	l.t.Helper()
	library, fn, _ := strings.Cut(name, ".")
	f := l.s.Globals().GetStr(library).Table().GetStr(fn)
	if f.Kind() != lua.KindFunction {
		l.t.Fatalf("no function %s", name)
	}
	res, err := l.s.Call(f, args...)
	return slices.Clone(res), err
}

// equal compares what can come out of a decoder. Tables as keys are only counted.
func equal(a, b lua.Value) bool {
	ta, tb := a.Table(), b.Table()
	if ta == nil || tb == nil {
		return lua.RawEqual(a, b)
	}
	n := 0
	for k := lua.Nil; ; n++ {
		key, v, ok, err := ta.Next(k)
		if err != nil {
			return false
		}
		if !ok {
			return n == count(tb)
		}
		if key.Kind() != lua.KindTable && !equal(v, tb.Get(key)) {
			return false
		}
		k = key
	}
}

func count(t *lua.Table) (n int) {
	for k := lua.Nil; ; n++ {
		key, _, ok, err := t.Next(k)
		if err != nil || !ok {
			return n
		}
		k = key
	}
}

func allEqual(a, b []lua.Value) bool { return slices.EqualFunc(a, b, equal) }

// FuzzCJSONDecode: what is decoded can be encoded again, and encoding that once
// more changes nothing; only infinite numbers and NaN cannot.
func FuzzCJSONDecode(f *testing.F) {
	for _, s := range []string{
		`[1,2.5,"a\u20ac\ud83d\ude00",null,true,{}]`, `{"a":{"b":[[]]},"c":-0}`, `0x1p4`, `-inf`, `nan(1)`, `"\ud800"`, `[1,`,
		"12\x00", `{"a":1,"a":2}`, `[1e999]`, ` [ ] `, `"` + "\x01\xff" + `"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := open(t)
		v1, err := l.call("cjson.decode", lua.String(text))
		if err != nil {
			return
		}
		e1, err := l.call("cjson.encode", v1...)
		if err != nil {
			if !strings.Contains(err.Error(), "must not be NaN or Inf") {
				t.Fatalf("encode what %q means: %v", text, err)
			}
			return
		}
		v2, err := l.call("cjson.decode", e1...)
		if err != nil {
			t.Fatalf("decode %q, which %q was encoded to: %v", e1[0].Str(), text, err)
		}
		e2, err := l.call("cjson.encode", v2...)
		if err != nil {
			t.Fatalf("encode %q again: %v", e1[0].Str(), err)
		}
		v3, err := l.call("cjson.decode", e2...)
		if err != nil || !allEqual(v2, v3) {
			t.Fatalf("%q became %q became %q (%v)", text, e1[0].Str(), e2[0].Str(), err)
		}
	})
}

// FuzzCmsgpackUnpack: what was unpacked and packed unpacks to the same again.
func FuzzCmsgpackUnpack(f *testing.F) {
	for _, s := range []string{
		"\x01\xa1a\xc0\x91\x02\xc3", "\x82\xa1a\x01\x02\xca\x3f\x80\x00\x00", "\xdd\xff\xff\xff\xff", "\xdf\x00\x00\x00\x01\x90\x01",
		"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xdb\x00\x00\x00\x01a", "\xc1", strings.Repeat("\x91", 50) + "\x01", "\x81\xc0\x01",
		"\x93\x01\xc0\x03",
	} {
		f.Add(s, 0, 0)
	}
	f.Fuzz(func(t *testing.T, data string, limit, offset int) {
		l := open(t)
		_, _ = l.call("cmsgpack.unpack_limit", lua.String(data), lua.Number(float64(limit)), lua.Number(float64(offset)))
		_, _ = l.call("cmsgpack.unpack_one", lua.String(data), lua.Number(float64(offset)))
		v0, err := l.call("cmsgpack.unpack", lua.String(data))
		if err != nil || len(v0) == 0 {
			return
		}
		// The first packing cuts what is too deep.
		p1, err := l.call("cmsgpack.pack", v0...)
		if err != nil {
			return // too many values
		}
		v1, err := l.call("cmsgpack.unpack", p1...)
		if err != nil {
			if !strings.Contains(err.Error(), "table index is nil") { // a key that was too deep
				t.Fatalf("unpack %q, which %q was packed to: %v", p1[0].Str(), data, err)
			}
			return
		}
		p2, err := l.call("cmsgpack.pack", v1...)
		if err != nil {
			t.Fatalf("pack %q again: %v", p1[0].Str(), err)
		}
		v2, err := l.call("cmsgpack.unpack", p2...)
		if err != nil || !allEqual(v1, v2) && strings.IndexByte(p1[0].Str(), 0xcb) < 0 { // NaN equals nothing
			t.Fatalf("%q became %q became %q (%v)", data, p1[0].Str(), p2[0].Str(), err)
		}
	})
}

var plainFormat = regexp.MustCompile(`^([bBhHlLTfdxs<> ]|[iI][1-8]|![1248]|c[1-9])*$`)

// FuzzStructUnpack: what a plain format reads it also writes.
func FuzzStructUnpack(f *testing.F) {
	data := strings.Repeat("\x01\x02\xff\x00", 16)
	for _, s := range []string{"bBhHlLTiIfdxs", "<i3>I7!8Bl", "c3sBc0", "i33", "!3", "c99999999999", "Z", "i0i9i32"} {
		f.Add(s, data, 1)
	}
	f.Fuzz(func(t *testing.T, format, data string, at int) {
		l := open(t)
		_, _ = l.call("struct.size", lua.String(format))
		_, _ = l.call("struct.unpack", lua.String(format), lua.String(data), lua.Number(float64(at)))
		v1, err := l.call("struct.unpack", lua.String(format), lua.String(data))
		if err != nil || !plainFormat.MatchString(format) {
			return
		}
		v1 = v1[:len(v1)-1]
		for _, v := range v1 {
			if n := v.Num(); !(math.Abs(n) < 1<<53) {
				return // was rounded
			}
		}
		p, err := l.call("struct.pack", append([]lua.Value{lua.String(format)}, v1...)...)
		if err != nil {
			t.Fatalf("pack what %q reads in %q: %v", format, data, err)
		}
		v2, err := l.call("struct.unpack", lua.String(format), p[0])
		if err != nil || !allEqual(v1, v2[:len(v2)-1]) {
			t.Fatalf("%q reads %v in %q, but %v in %q (%v)", format, v1, data, v2, p[0].Str(), err)
		}
	})
}

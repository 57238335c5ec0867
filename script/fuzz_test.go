package script

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"testing"

	"redoubt/wire"
)

// FuzzArguments gives numbers and strings to a script, which passes them on to a
// command: whatever they are, the command gets the same string, and of a number a
// text that reads back as the same number.
func FuzzArguments(f *testing.F) {
	for _, n := range []float64{0, 1, -1, 0.1, 1e20, 1 << 62, -1 << 63, 5e-324, math.MaxFloat64, math.Inf(1)} {
		f.Add(n, []byte("x"))
	}
	f.Add(math.NaN(), []byte("\x00\xff\r\n"))
	b := newBench(f)
	f.Fuzz(func(t *testing.T, n float64, s []byte) {
		b.t = t
		var bits [8]byte
		binary.BigEndian.PutUint64(bits[:], math.Float64bits(n))
		b.calls = nil
		// The number goes as its bytes, so that no text of it is read before.
		b.eval("redis.call('any', ARGV[1], (struct.unpack('>d', ARGV[2])))", string(s), string(bits[:]))
		if len(b.calls) != 1 || len(b.calls[0]) != 3 {
			t.Fatalf("%q", b.calls)
		}
		if b.calls[0][1] != string(s) {
			t.Errorf("%q became %q", s, b.calls[0][1])
		}
		text := b.calls[0][2]
		if math.IsNaN(n) {
			if text != "nan" && text != "-nan" {
				t.Errorf("NaN became %s", text)
			}
			return
		}
		back, err := strconv.ParseFloat(text, 64)
		if err != nil || back != n {
			t.Errorf("%v became %s", n, text)
		}
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				t.Errorf("%v became %s", n, text)
			}
		}
	})
}

// FuzzReplies gives a script a reply of a command and has it return that: its
// client gets the same reply, where Lua can tell it from others.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{"i\x01", "b\x03abc", "s\x02ok", "a\x02i\x01i\x02", "a\x01a\x01b\x01x", "d\x05", "t", "m\x01b\x01ki\x01", "S\x01b\x01k", "v\x03xyz", "B\x05"} {
		f.Add([]byte(s))
	}
	b := newBench(f)
	f.Fuzz(func(t *testing.T, plan []byte) {
		b.t = t
		var reply wire.Writer
		reply.Proto = 3
		build(&reply, &plan, 0)
		b.do = func(_ [][]byte, w *wire.Writer) error {
			w.Buf = append(w.Buf, reply.Buf...)
			return nil
		}
		got, err := b.call(3, "eval", "redis.setresp(3) return redis.call('any')", "0")
		if err != nil || got != string(reply.Buf) {
			t.Errorf("%q became %q, %v", reply.Buf, got, err)
		}
	})
}

// build writes the reply that a plan says: of kinds that survive Lua.
func build(w *wire.Writer, plan *[]byte, depth int) {
	kind, n := next(plan), int(next(plan))
	switch kind {
	case 'b':
		w.Bulk(take(plan, n))
	case 's':
		w.Status(string(bytes.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '.'
			}
			return r
		}, take(plan, n))))
	case 'a':
		if depth > 4 {
			w.Array(0)
			return
		}
		w.Array(n % 8)
		for range n % 8 {
			build(w, plan, depth+1)
		}
	case 'd':
		w.Double(float64(n) / 8)
	case 't':
		w.Bool(n%2 == 0)
	case 'm', 'S': // one element, since their order is Lua's
		if depth > 4 {
			w.Map(0)
			return
		}
		if kind == 'm' {
			w.Map(1)
			w.Bulk(take(plan, n))
			build(w, plan, depth+1)
		} else {
			w.Set(1)
			w.Bulk(take(plan, n))
		}
	case 'v':
		w.Verbatim("txt", string(take(plan, n)))
	case 'B':
		w.Buf = append(strconv.AppendInt(append(w.Buf, '('), int64(n)<<40, 10), '\r', '\n')
	default:
		w.Int(int64(n))
	}
}

func next(plan *[]byte) byte {
	if len(*plan) == 0 {
		return 0
	}
	c := (*plan)[0]
	*plan = (*plan)[1:]
	return c
}

func take(plan *[]byte, n int) []byte {
	n = min(n, len(*plan))
	s := (*plan)[:n]
	*plan = (*plan)[n:]
	return s
}

package lib_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
)

var (
	seed     = flag.Uint64("seed", 0, "seed of the random snippets; 0 takes one from the clock")
	snippets = flag.Int("snippets", 20000, "how many random snippets are compared with a real Redis")
)

// TestRandomSnippets compares with a real Redis.
func TestRandomSnippets(t *testing.T) {
	testserver.Oracle(t)
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	g := &generator{Rand: rand.New(rand.NewPCG(first, 1))}
	theirs, ours := newRedis(t), newInterpreter(t)
	for i := range *snippets {
		code := g.snippet()
		want := theirs.run(code)
		if got := ours.run(code); got != want {
			t.Fatalf("seed %d, snippet %d: %s\ngot  %s\nwant %s", first, i, code, got, want)
		}
	}
	t.Logf("%d snippets from seed %d, no difference", *snippets, first)
}

type generator struct{ *rand.Rand }

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) snippet() string {
	switch g.IntN(9) {
	case 0:
		return "return cjson.encode(" + g.value(4) + ")"
	case 1:
		return fmt.Sprintf("local c = cjson.new() c.encode_sparse_array(%s, %d, %d) c.encode_number_precision(%d) c.encode_invalid_numbers(%s) c.encode_max_depth(%d) return c.encode(%s)",
			g.one("true", "false"), g.IntN(4), g.IntN(12), 1+g.IntN(14), g.one("true", "false", "'null'"), 1+g.IntN(5), g.value(4))
	case 2:
		return "return cjson.decode(" + quote(g.mutate(g.json(4))) + ")"
	case 3:
		return fmt.Sprintf("local c = cjson.new() c.decode_invalid_numbers(%s) c.decode_max_depth(%d) return c.decode(%s)",
			g.one("true", "false"), 1+g.IntN(5), quote(g.mutate(g.json(4))))
	case 4:
		return "return cmsgpack.pack(" + g.values(3) + ")"
	case 5:
		return "return cmsgpack.unpack(cmsgpack.pack(" + g.values(3) + "))"
	case 6:
		s := quote(g.mutate(g.msgpack(4)))
		return g.one("return cmsgpack.unpack("+s+")", "return cmsgpack.unpack_one("+s+", "+g.number()+")",
			fmt.Sprintf("return cmsgpack.unpack_limit(%s, %d, %d)", s, g.IntN(5)-1, g.IntN(8)-1))
	case 7:
		format := quote(g.format())
		switch g.IntN(3) {
		case 0:
			return "return struct.size(" + format + ")"
		case 1:
			return "return struct.pack(" + format + ", " + g.values(1) + ", " + g.values(1) + ")"
		}
		return fmt.Sprintf("return struct.unpack(%s, %s, %d)", format, quote(g.bytes(40)), 1+g.IntN(4))
	}
	fn := g.one("tobit", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "bswap", "tohex")
	return "return bit." + fn + "(" + g.values(0) + ")"
}

// number gives a Lua expression. Zero is never negative in it: the compiler
// keeps one constant for both.
func (g *generator) number() string {
	switch g.IntN(10) {
	case 0:
		return strconv.Itoa(g.IntN(4))
	case 1:
		return fmt.Sprintf("2^%d", g.IntN(70))
	case 2:
		return fmt.Sprintf("-2^%d", g.IntN(70))
	case 3:
		return fmt.Sprintf("2^%d - 1", g.IntN(70))
	case 4:
		return g.one("1/0", "-1/0", "0/0", "0.5", "-1.5", "2.5", "1e300", "1e-300")
	case 5:
		return strconv.Itoa(g.IntN(100000) - 50000)
	case 6:
		return strconv.FormatFloat(float64(g.IntN(1000000))/float64(1+g.IntN(1000)), 'g', 1+g.IntN(17), 64)
	case 7:
		return strconv.FormatInt(g.Int64()>>g.IntN(60), 10)
	}
	for {
		f := math.Float64frombits(g.Uint64())
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', 17, 64)
		}
	}
}

func (g *generator) bytes(most int) string {
	b := make([]byte, g.IntN(most+1))
	for i := range b {
		switch g.IntN(4) {
		case 0:
			b[i] = byte(g.IntN(256))
		case 1:
			b[i] = byte(g.IntN(5))
		default:
			b[i] = byte(' ' + g.IntN(95))
		}
	}
	return string(b)
}

func (g *generator) value(depth int) string {
	switch n := g.IntN(10); {
	case n < 3:
		return g.number()
	case n < 5:
		return quote(g.bytes(12))
	case n == 5:
		return g.one("true", "false", "nil", "cjson.null", "'12'", "' 0x1f '")
	case n == 6 && g.IntN(6) == 0:
		return g.one("pcall", "coroutine.create(pcall)")
	case depth == 0:
		return g.number()
	}
	var parts []string
	for range g.IntN(5) {
		switch g.IntN(8) {
		case 0:
			parts = append(parts, fmt.Sprintf("[%d] = %s", g.IntN(16), g.value(depth-1)))
		case 1:
			parts = append(parts, fmt.Sprintf("[%s] = %s", g.one("1.5", "-1", "2^31", "2^32 + 1", "2^53", "1/0", "0.1"), g.value(depth-1)))
		case 2, 3:
			parts = append(parts, fmt.Sprintf("[%s] = %s", quote(g.bytes(6)), g.value(depth-1)))
		case 4:
			if g.IntN(10) == 0 {
				parts = append(parts, fmt.Sprintf("[%s] = %s", g.one("true", "false", "cjson.null"), g.value(depth-1)))
			}
		default:
			parts = append(parts, g.value(depth-1))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (g *generator) values(depth int) string {
	var all []string
	for range 1 + g.IntN(4) {
		all = append(all, g.value(depth))
	}
	return strings.Join(all, ", ")
}

func (g *generator) json(depth int) string {
	space := g.one("", "", "", " ", "\n\t")
	switch n := g.IntN(9); {
	case n < 2:
		return space + g.one("0", "-0", "1.5", "12e3", "0x1F", "0x.8p1", "1e-400", "1e400", "+3", "01", "inf", "-Infinity", "NaN", "-nan(a_1)", "1.", "-.5",
			strconv.FormatFloat(math.Float64frombits(g.Uint64()), 'g', -1, 64), strconv.Itoa(g.IntN(1000000)))
	case n < 4:
		s := `"`
		for range g.IntN(6) {
			s += g.one("a", "é", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u20aC`, `\ud83d\ude00`, `\ud83d`, `\udc00`, `\u00`, "\x7f", "\xff", "\x01", `\b\f\r\t`, "xyz")
		}
		return space + s + `"`
	case n == 4:
		return space + g.one("true", "false", "null", "tru", "nul")
	case depth == 0:
		return space + "1"
	case n < 7:
		var all []string
		for range g.IntN(4) {
			all = append(all, g.json(depth-1))
		}
		return space + "[" + strings.Join(all, ",") + space + "]"
	}
	var all []string
	for range g.IntN(4) {
		all = append(all, fmt.Sprintf("%s%q%s:%s", space, g.one("a", "b", "key", "k1", "k2", "", "longer key"), space, g.json(depth-1)))
	}
	return space + "{" + strings.Join(all, ",") + "}" + space
}

// mutate damages a text now and then.
func (g *generator) mutate(s string) string {
	for g.IntN(3) == 0 && s != "" {
		at := g.IntN(len(s))
		switch g.IntN(4) {
		case 0:
			s = s[:at]
		case 1:
			s = s[:at] + s[at+1:]
		case 2:
			s = s[:at] + g.one("[", "]", "{", "}", ",", ":", `"`, "\\", "1", "x", "\x00", " ", "\xc1", "\x91", "\x81", "-") + s[at:]
		case 3:
			s = s[:at] + string([]byte{byte(g.IntN(256))}) + s[at+1:]
		}
	}
	return s
}

func (g *generator) msgpack(depth int) string {
	var b strings.Builder
	for range 1 + g.IntN(2) {
		switch n := g.IntN(8); {
		case n < 2:
			b.WriteByte(byte(g.IntN(256)))
		case n < 4:
			kind := 0xca + g.IntN(10)
			b.WriteByte(byte(kind))
			b.WriteString(fixed(g, []int{4, 8, 1, 2, 4, 8, 1, 2, 4, 8}[kind-0xca]))
		case n == 4:
			s := g.bytes(10)
			b.WriteString(g.one(string([]byte{0xa0 | byte(len(s))}), string([]byte{0xd9, byte(len(s))}),
				string([]byte{0xda, 0, byte(len(s))}), string([]byte{0xdb, 0, 0, 0, byte(len(s))})) + s)
		case n == 5:
			b.WriteString(g.one("\xc0", "\xc2", "\xc3"))
		case depth > 0:
			n := g.IntN(4)
			pair := g.IntN(2)
			b.WriteString(g.one(string([]byte{byte(0x90 - 0x10*pair | n)}), string([]byte{byte(0xdc + 2*pair), 0, byte(n)}),
				string([]byte{byte(0xdd + 2*pair), 0, 0, 0, byte(n)})))
			for range n * (1 + pair) {
				b.WriteString(g.msgpack(depth - 1))
			}
		}
	}
	return b.String()
}

func fixed(g *generator, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint64())
	}
	return string(b)
}

func (g *generator) format() string {
	var b strings.Builder
	for range g.IntN(7) {
		b.WriteString(g.one("b", "B", "h", "H", "l", "L", "T", "i", "I", "f", "d", "x", "s", "c", "c0", "c3", "<", ">", "!", "!2", "!4", " ",
			"i"+strconv.Itoa(g.IntN(35)), "I"+strconv.Itoa(g.IntN(20)), "!"+strconv.Itoa(g.IntN(40)), "Z", "7"))
	}
	return b.String()
}

// quote gives a Lua literal.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, "\\%03d", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

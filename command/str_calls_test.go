package command

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// oracleMaxBulk is the limit of strings in the comparison: small enough to be
// reached often, large enough for chunked strings. It is Redis's least.
const oracleMaxBulk = 1 << 20

// callGen makes random calls of the commands on strings and bitmaps.
type callGen struct{ *rand.Rand }

func (g *callGen) pick(s ...string) string { return s[g.IntN(len(s))] }

func (g *callGen) key() string {
	if g.IntN(25) == 0 {
		return "list"
	}
	return g.pick("a", "b", "c", "d", "e")
}

func (g *callGen) keys(n int) (k []string) {
	for range n {
		k = append(k, g.key())
	}
	return k
}

func (g *callGen) value() string {
	switch g.IntN(12) {
	case 0, 1:
		return g.integer()
	case 2:
		return g.float()
	case 3:
		return ""
	case 4:
		b := make([]byte, g.IntN(60))
		for i := range b {
			b[i] = byte(g.IntN(256))
		}
		return string(b)
	case 5:
		return strings.Repeat(g.pick("\xff", "\x00", "ab", "\xff\xfe"), g.IntN(100))
	case 6:
		if g.IntN(8) == 0 {
			return strings.Repeat(g.pick("x", "\xff", "\x00", "ab"), g.pickInt(64<<10, 70_000, 65_537, 200_000, 32<<10))
		}
	}
	return g.pick("hello", "foobar", "ohmytext", "mynewtext", "x", "a longer text that is not embedded in Redis any more")
}

func (g *callGen) pickInt(n ...int) int { return n[g.IntN(len(n))] }

func (g *callGen) integer() string {
	switch g.IntN(8) {
	case 0:
		return g.pick("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "0", "-0",
			"+1", "01", " 1", "1 ", "", "x", "1.0", "1e3", "9999999999999999999999")
	case 1:
		return strconv.FormatInt(g.Int64()-g.Int64(), 10)
	}
	return strconv.Itoa(g.IntN(200) - 60)
}

func (g *callGen) float() string {
	switch g.IntN(8) {
	case 0:
		return g.pick("inf", "-inf", "+inf", "nan", "infinity", "INF", "0x10", "0x1.8p3", "0x.8", "0x", "1e", "1e+", "1e400", "1e4932",
			"1e4933", "1e-4950", "1e-4951", "1e-5000", " 1", "1 ", "1\x00", ".5", "5.", ".", "-.5", "--5", "+.5", "1e5000", "-0", "-1e-30",
			"3.0e3", "1e17", "1e18", "1e19", "1e20", "123456789012345678901234567890", "0.1", "1_0", "0e99999999999", "0x1p-16446")
	case 1:
		return strconv.FormatFloat(g.NormFloat64()*1e6, 'g', -1, 64)
	case 2:
		return fmt.Sprintf("%d.%d", g.IntN(1000)-500, g.Uint64())
	case 3:
		return fmt.Sprintf("%de%d", g.Uint64(), g.IntN(60)-40)
	}
	return strconv.FormatFloat(float64(g.IntN(20000)-10000)/100, 'f', -1, 64)
}

func (g *callGen) offset() string {
	switch g.IntN(10) {
	case 0:
		return g.pick("-1", "x", "1048575", "1048576", "8388607", "8388608", "4294967296", "524287", "1048570", "9223372036854775807")
	case 1:
		return strconv.Itoa(g.IntN(1 << 20))
	}
	return strconv.Itoa(g.IntN(300))
}

func (g *callGen) seconds() string {
	return g.pick("100000", "1000000", "0", "-1", "x", "9223372036854775807", "9223372036854775", "9223372036854776", "99999999", "1.5", "")
}

func (g *callGen) unix() string {
	return g.pick("33177117420", strconv.FormatInt(time.Now().Unix()+1000, 10), "0", "-1", "x", "9223372036854775807",
		"9223372036854775", "33177117420000")
}

func (g *callGen) expiry() []string {
	switch w := g.pick("ex", "PX", "exat", "PXAT", "keepttl", "PERSIST"); w {
	case "keepttl", "PERSIST":
		return []string{w}
	case "ex", "PX":
		return []string{w, g.seconds()}
	default:
		return []string{w, g.unix()}
	}
}

func (g *callGen) options(n int) (o []string) {
	for range g.IntN(n + 1) {
		switch g.IntN(5) {
		case 0:
			o = append(o, g.pick("nx", "XX"))
		case 1:
			o = append(o, "GET")
		case 2:
			o = append(o, g.pick("foo", "EX", "px", "KEEPTTL", "get", "PERSIST"))
		default:
			o = append(o, g.expiry()...)
		}
	}
	return o
}

func (g *callGen) field() (f []string) {
	kind := g.pick("i", "u") + strconv.Itoa(1+g.IntN(63))
	if g.IntN(12) == 0 {
		kind = g.pick("i64", "u64", "i65", "u63", "i0", "u", "x8", "", "i1", "u1", "i-1", "i08")
	}
	off := g.offset()
	if g.IntN(4) == 0 {
		off = "#" + off
	}
	switch g.IntN(4) {
	case 0:
		return []string{"GET", kind, off}
	case 1:
		return []string{"set", kind, off, g.integer()}
	case 2:
		return []string{"INCRBY", kind, off, g.integer()}
	}
	return append([]string{"OVERFLOW", g.pick("wrap", "SAT", "fail", "fail", "sat")}, g.pick("INCRBY", "SET"), kind, off, g.integer())
}

func (g *callGen) call() []string {
	c := g.wellFormed()
	if g.IntN(100) == 0 { // one argument too many or too few
		if g.IntN(2) == 0 {
			return append(c, g.pick("x", "1", "NX"))
		}
		return c[:len(c)-1]
	}
	return c
}

func (g *callGen) wellFormed() []string {
	k := g.key()
	switch g.IntN(34) {
	case 0:
		return []string{"GET", k}
	case 1, 2, 3:
		return append([]string{"SET", k, g.value()}, g.options(3)...)
	case 4:
		return []string{g.pick("SETNX", "GETSET"), k, g.value()}
	case 5:
		return []string{g.pick("SETEX", "PSETEX"), k, g.seconds(), g.value()}
	case 6:
		return []string{g.pick("GETDEL", "STRLEN"), k}
	case 7:
		return append([]string{"GETEX", k}, g.options(2)...)
	case 8, 9:
		return append([]string{"GETEX", k}, g.expiry()...)
	case 10:
		return append([]string{"MGET"}, g.keys(1+g.IntN(4))...)
	case 11:
		c := []string{g.pick("MSET", "MSETNX", "MSETNX")}
		for range 1 + g.IntN(3) {
			c = append(c, g.key(), g.value())
		}
		return c
	case 12, 13:
		return []string{"APPEND", k, g.value()}
	case 14:
		return []string{g.pick("GETRANGE", "SUBSTR"), k, g.integer(), g.integer()}
	case 15, 16:
		return []string{"SETRANGE", k, g.offset(), g.value()}
	case 17:
		return []string{g.pick("INCR", "DECR"), k}
	case 18:
		return []string{g.pick("INCRBY", "DECRBY"), k, g.integer()}
	case 19, 20:
		return []string{"INCRBYFLOAT", k, g.float()}
	case 21:
		c := []string{"LCS", k, g.key()}
		for range g.IntN(3) {
			c = append(c, strings.Fields(g.pick("LEN", "IDX", "WITHMATCHLEN", "MINMATCHLEN 2", "MINMATCHLEN x", "MINMATCHLEN", "IDX WITHMATCHLEN"))...)
		}
		return c
	case 22, 23:
		return []string{"SETBIT", k, g.offset(), g.pick("0", "1", "1", "2", "x", "-1")}
	case 24:
		return []string{"GETBIT", k, g.offset()}
	case 25:
		c := []string{"BITCOUNT", k}
		if g.IntN(3) > 0 {
			c = append(c, g.integer(), g.integer())
			if g.IntN(2) == 0 {
				c = append(c, g.pick("BIT", "byte", "bit", "hello"))
			}
		}
		return c
	case 26, 27:
		c := []string{"BITPOS", k, g.pick("0", "1", "0", "1", "2", "x")}
		for range g.IntN(3) {
			c = append(c, g.integer())
		}
		if len(c) == 5 && g.IntN(2) == 0 {
			c = append(c, g.pick("BIT", "byte", "bit", "hello"))
		}
		return c
	case 28, 29:
		return append([]string{"BITOP", g.pick("and", "OR", "xor", "NOT", "foo"), k}, g.keys(1+g.IntN(3))...)
	case 30:
		return append([]string{"BITFIELD_RO", k}, g.field()...)
	default:
		c := []string{"BITFIELD", k}
		for range g.IntN(4) {
			c = append(c, g.field()...)
		}
		return c
	}
}

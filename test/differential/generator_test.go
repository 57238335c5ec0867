package differential

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// op is one thing that every server is asked to do: a command, a whole SCAN
// from cursor 0 to cursor 0 (args are its options), or to let time pass.
type op struct {
	args []string
	scan bool
	wait time.Duration
}

// generator makes random operations. With a clock that nobody can stop (live)
// it stays away from everything whose outcome depends on a millisecond: keys
// expire far in the future, or have long been expired when the next command
// comes, and no two relative times are near each other.
//
// Some sequences are about large values, since those are stored in another
// way, and some know only two keys, so that more happens to each.
type generator struct {
	*rand.Rand
	live  bool
	newer bool // has what came after the Redis that we compare with
	large bool
	pool  []string // keys
	used  map[int]bool
	ops   []op
}

var (
	keyPool = []string{"a", "b", "c", "ab", "{t}1", "{t}2", "", "key with space", "bin\x00\xff\r\n", "*", "lcs1", "lcs2"}
	oddInts = []string{
		"", "-0", "+1", "01", " 1", "1 ", "1.5", "abc", "0x10", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
		"-9223372036854775809", "18446744073709551615", "99999999999999999999999", "1e3", "--1", "1\x00",
	}
	values = []string{
		"", "0", "1", "-1", "10", "9", "255", "hello", "HELLO world", "-0", "+1", "01", " 1", "9223372036854775807", "-9223372036854775808",
		"9223372036854775806", "9223372036854775808", "3.0", "3.25", "-1.5e-7", "1e5", "5e-1", "inf", "nan", "0x10", "\x00\xff\x80\x01", "\xff\xff\xff",
		"\x00\x00", "a\r\nb", "foobar", "ohmytext", "mynewtext", strings.Repeat("x", 44), strings.Repeat("x", 45), strings.Repeat("ab\x00", 100),
		"12345678901234567890", "1234567890123456789",
	}
	floats = []string{
		"0", "1", "-1", "0.1", "-0.1", "3.14159265358979323846", "1e5", "1e-5", "1e20", "-1e20", "1e-20", "2.5", "100.25", "0.30000000000000004",
		"9007199254740993", "1.", ".5", "+1", "-0", "5e-324", "inf", "-inf", "+infinity", "nan", "", "abc", "1e", " 1", "1 ", "0x10", "0x1p4", "1_0", "1,5",
		"1\x00",
	}
	patterns = []string{"*", "a*", "*b", "?", "??", "[ab]", "[^a]", "[a-c]*", "\\*", "{t}?", "", "a", "*\x00*", "**", "[xyz]*", "*a*b*"}
	// Around the places where large values are cut into pieces.
	edges = []int{8192, 16384, 65535, 65536, 65537, 69632, 73728, 131071, 131072, 70000, 200000}
)

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) key() string { return pick(g, g.pool) }

func (g *generator) value() string {
	if !g.large || !g.chance(10) {
		return pick(g, values)
	}
	n := pick(g, edges) + g.IntN(5) - 2
	if g.chance(2) {
		n = 1<<20 + g.IntN(1<<18) // more than an event loop does by itself
	}
	b := make([]byte, n)
	if g.chance(30) { // a value with holes
		for range 5 {
			b[g.IntN(n)] = byte(g.IntN(256))
		}
		return string(b)
	}
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	return string(b)
}

// edge says whether to go near such a place.
func (g *generator) edge() bool { return g.chance(5) || g.large && g.chance(40) }

func (g *generator) keys(most int) []string {
	keys := []string{g.key()}
	for g.IntN(most) > 0 && len(keys) < most {
		keys = append(keys, g.key())
	}
	return keys
}

func (g *generator) int(usual ...string) string {
	if g.chance(12) {
		return pick(g, oddInts)
	}
	return pick(g, usual)
}

// index is a position in a string, mostly a short one.
func (g *generator) index() string {
	n := g.IntN(14) - 4
	if g.edge() {
		n = pick(g, edges) + g.IntN(3) - 1
	}
	if g.chance(5) {
		n = -n
	}
	return g.int(strconv.Itoa(n))
}

func (g *generator) bitOffset() string {
	n := g.IntN(70)
	if g.edge() {
		n = pick(g, edges)*8 + g.IntN(17) - 8
	}
	if g.chance(5) {
		return pick(g, []string{"4294967296", "-1", "9999999999", "#1", "5000000000"})
	}
	return g.int(strconv.Itoa(n))
}

func (g *generator) db() string {
	return g.int("0", "1", "2", "3", "0", "1", "15", "16", "-1", "2147483648")
}

// word writes an option in some case.
func (g *generator) word(s string) string {
	switch g.IntN(3) {
	case 0:
		return strings.ToLower(s)
	case 1:
		return strings.ToUpper(s)
	}
	b := []byte(strings.ToLower(s))
	for i := range b {
		if g.chance(50) && b[i] >= 'a' && b[i] <= 'z' {
			b[i] -= 32
		}
	}
	return string(b)
}

// span makes a relative time, given in seconds or milliseconds.
func (g *generator) span(seconds bool) string {
	n := 0
	switch {
	case g.live:
		for n == 0 || g.used[n] { // ten seconds apart from any other
			n = 100_000 + 10*g.IntN(1_000_000)
		}
		g.used[n] = true
	case seconds:
		n = 1 + g.IntN(20)
	default:
		n = 1 + g.IntN(20_000)
	}
	if g.live && !seconds {
		n *= 1000
	}
	huge := "9223372036854775"
	if g.live && !seconds { // would be accepted, and compared with itself a moment later
		huge = "9223372036854775807"
	}
	return g.int(strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n), "0", "-1", "-100000", huge)
}

// moment makes an absolute time.
func (g *generator) moment(seconds bool) string {
	n := 33_177_117_420 + 1000*g.IntN(5)
	if !g.live && g.chance(70) {
		n = int(epoch/1000) + g.IntN(100)
	}
	if !seconds {
		n = n*1000 + g.IntN(3)*400
	}
	return g.int(strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n), "0", "-1", "1", "1000", "9223372036854775", "9223372036854776")
}

// epoch is when the injected clock begins, in milliseconds.
const epoch = 1_800_000_000_000

func (g *generator) timeOption() []string {
	switch pick(g, []string{"ex", "px", "exat", "pxat"}) {
	case "ex":
		return []string{g.word("ex"), g.span(true)}
	case "px":
		return []string{g.word("px"), g.span(false)}
	case "exat":
		return []string{g.word("exat"), g.moment(true)}
	}
	return []string{g.word("pxat"), g.moment(false)}
}

// options draws some of the words and time options, in any order.
func (g *generator) options(words ...string) (out []string) {
	for g.chance(55) && len(out) < 6 {
		switch {
		case g.chance(40):
			out = append(out, g.timeOption()...)
		case g.chance(95):
			out = append(out, g.word(pick(g, words)))
		default:
			out = append(out, g.value())
		}
	}
	return out
}

// sequence makes n operations or some more.
func (g *generator) sequence(n int) []op {
	g.ops, g.used = nil, make(map[int]bool)
	g.large, g.pool = g.chance(20), keyPool
	if g.chance(40) {
		g.pool = []string{g.key(), g.key()}
	}
	for len(g.ops) < n {
		switch p := g.IntN(1000); {
		case p < 250:
			g.cmd(g.stringCommand()...)
		case p < 400:
			g.cmd(g.hashCommand()...)
		case p < 500:
			g.cmd(g.setCommand()...)
		case p < 590:
			g.cmd(g.bitmapCommand()...)
		case p < 700:
			g.cmd(g.listCommand()...)
		case p < 720:
			g.streamCommands()
		case p < 810:
			g.cmd(g.zsetCommand()...)
		case p < 900:
			g.cmd(g.keyCommand()...)
		case p < 940:
			g.lcs()
		case p < 960:
			g.size()
		case p < 980:
			g.ops = append(g.ops, op{scan: true, args: g.scanOptions()})
		case g.live && p < 983:
			g.shortLife()
		case !g.live:
			waits := []time.Duration{1, 10, 400, 500, 600, 999, 1000, 1001, 5000, 20_000, 100_000}
			g.ops = append(g.ops, op{wait: pick(g, waits) * time.Millisecond})
		}
	}
	return g.ops
}

// cmd adds a command, now and then with an argument too many or too few.
func (g *generator) cmd(args ...string) {
	switch {
	case g.chance(1) && len(args) > 1:
		args = args[:1+g.IntN(len(args)-1)]
	case g.chance(1):
		args = append(args, g.value())
	}
	args[0] = g.word(args[0])
	g.ops = append(g.ops, op{args: args})
}

// purge makes every server forget expired keys: SETRANGE with nothing changes
// nothing, but it is a write, so it removes what is past its time.
func (g *generator) purge() {
	for _, k := range keyPool {
		g.ops = append(g.ops, op{args: []string{"SETRANGE", k, "0", ""}})
	}
}

func (g *generator) size() {
	g.purge()
	g.cmd("DBSIZE")
}

// shortLife lets a key expire in real time.
func (g *generator) shortLife() {
	k := g.key()
	g.ops = append(g.ops, op{args: []string{"SET", k, g.value(), "PX", "15"}}, op{wait: 40 * time.Millisecond})
	g.cmd(pick(g, []string{"GET", "STRLEN", "INCR", "TYPE", "PTTL", "PERSIST", "GETDEL", "EXISTS"}), k)
}

func (g *generator) lcs() {
	for _, k := range []string{"lcs1", "lcs2"} {
		v := make([]byte, g.IntN(30))
		for i := range v {
			v[i] = "abcd"[g.IntN(4)]
		}
		g.ops = append(g.ops, op{args: []string{"SET", k, string(v)}})
	}
	args := []string{"LCS", "lcs1", "lcs2"}
	for g.chance(60) && len(args) < 8 {
		switch g.IntN(8) {
		case 0:
			args = append(args, g.word("minmatchlen"), g.int("0", "1", "2", "3", "-1"))
		case 1, 2:
			args = append(args, g.word("withmatchlen"))
		case 3:
			args = append(args, g.word("len"))
		case 4:
			args = append(args, g.word(pick(g, []string{"minmatchlen", "foo"})))
		default:
			args = append(args, g.word("idx"))
		}
	}
	g.ops = append(g.ops, op{args: args})
}

func (g *generator) scanOptions() (out []string) {
	for g.chance(50) && len(out) < 6 {
		switch g.IntN(3) {
		case 0:
			out = append(out, g.word("count"), pick(g, []string{"1", "2", "5", "1000", "1", "2", "0", "-1", "abc"}))
		case 1:
			out = append(out, g.word("match"), pick(g, patterns))
		case 2:
			out = append(out, g.word("type"), g.word(pick(g, []string{"string", "string", "hash", "list", "zset"})))
		}
	}
	return out
}

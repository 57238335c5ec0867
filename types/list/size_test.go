package list

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/types/pack"
)

func TestEntrySize(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		e    string
		want int64
	}{
		{"", 2}, {"a", 3}, {x(63), 65}, {x(64), 67}, {x(125), 128}, {x(126), 130}, {x(4095), 4099}, {x(4096), 4103},
		{x(16377), 16384}, {x(16378), 16386},
		{"0", 2}, {"127", 2}, {"128", 3}, {"4095", 3}, {"4096", 4}, {"32767", 4}, {"32768", 5}, {"8388607", 5}, {"8388608", 6},
		{"2147483647", 6}, {"2147483648", 10}, {"9223372036854775807", 10}, {"9223372036854775808", 21},
		{"-1", 3}, {"-128", 3}, {"-4096", 3}, {"-4097", 4}, {"-32768", 4}, {"-32769", 5}, {"-8388608", 5}, {"-8388609", 6},
		{"-2147483648", 6}, {"-2147483649", 10}, {"-9223372036854775808", 10}, {"-9223372036854775809", 22},
		{"01", 4}, {"-0", 4}, {"-", 3}, {"1a", 4}, {"+1", 4}, {" 1", 4},
	} {
		if got := entrySize([]byte(c.e)); got != c.want {
			t.Errorf("%.30q of %d bytes: got %d, want %d", c.e, len(c.e), got, c.want)
		}
	}
}

// TestBound: the bound is never too small, for entries of every length.
func TestBound(t *testing.T) {
	t.Parallel()
	for n := range 20000 {
		b := pack.Buf(nil).Append([]byte(strings.Repeat("x", n)))
		if n < 300 {
			b = b.Append([]byte(strings.Repeat("y", n)), []byte("127"))
		}
		if size, bound := packedSize(b), packedBound(b); size > bound {
			t.Fatalf("length %d: size %d, bound %d", n, size, bound)
		}
	}
}

// TestLimits follows a list over its limit and back.
func TestLimits(t *testing.T) {
	t.Parallel()
	type step struct {
		f    func(l *List)
		want string
	}
	push := func(e ...string) func(l *List) { return func(l *List) { l.PushAll(false, elems(e...)) } }
	trim := func(keep int64) func(l *List) { return func(l *List) { l.Trim(0, l.Len()-keep) } }
	x := func(n int) string { return strings.Repeat("x", n) }
	many := func(e string, n int) []string {
		return strings.Split(strings.TrimSuffix(strings.Repeat(e+" ", n), " "), " ")
	}
	for name, c := range map[string]struct {
		setting int64
		steps   []step
	}{
		"count": {3, []step{
			{push("a", "b", "c"), "listpack"}, {push("d"), "quicklist"}, {trim(2), "quicklist"}, {trim(1), "listpack"}, {trim(0), "none"},
		}},
		"none is one": {0, []step{{push("a"), "listpack"}, {push("b"), "quicklist"}, {trim(1), "quicklist"}}},
		"count and bytes": {1000, []step{
			// 7 + 8185 = 8192: the entries count with their plain length.
			{push(x(8185)), "listpack"}, {push(""), "quicklist"},
		}},
		"count, too long":  {1000, []step{{push(x(8186)), "quicklist"}}},
		"4096 bytes":       {-1, []step{{push(x(4089)), "listpack"}}},
		"4096 bytes, more": {-1, []step{{push(x(4090)), "quicklist"}, {push("a"), "quicklist"}}},
		"the least of sizes": {-9, []step{
			{push(x(60000)), "listpack"}, {push(x(5536)), "quicklist"},
		}},
		// 1000 integers of 2 bytes each: 2007 of 4096. Half is reached by 1020.
		"integers": {-1, []step{
			{push(many("7", 2000)...), "listpack"}, {push(many("7", 44)...), "listpack"}, {push("1"), "listpack"},
			{push("12"), "quicklist"}, {trim(1021), "quicklist"}, {trim(1020), "listpack"},
		}},
		"set makes room first": {3, []step{
			{push("a", "b", "c"), "listpack"}, {func(l *List) { l.Set(0, []byte("z")) }, "quicklist"},
		}},
		"set a small one": {-1, []step{
			{push(x(5000), "a"), "quicklist"}, {func(l *List) { l.Set(0, []byte("z")) }, "listpack"},
		}},
		"set goes to and fro": {-1, []step{
			{push(x(3000)), "listpack"}, {func(l *List) { l.Set(0, []byte(x(2000))) }, "listpack"},
			{func(l *List) { l.Set(0, []byte(x(2090))) }, "quicklist"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newStore(t, true)
			for i, st := range c.steps {
				do(t, s, "k", c.setting, st.f)
				if got := encoding(t, s, "k"); got != st.want {
					t.Fatalf("step %d: %s, want %s", i, got, st.want)
				}
				checkRows(t, s, "k")
			}
		})
	}
	if got := fmt.Sprint(limitOf(-1), limitOf(-2), limitOf(-5), limitOf(-6)); got != "{4096 0} {8192 0} {65536 0} {65536 0}" {
		t.Error(got)
	}
}

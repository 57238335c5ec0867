package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"redoubt/keyspace"
	"redoubt/wire"
)

// What generic commands note: events in order, each with its database, and how
// many changes. Recorded from Redis 7.2.6; TestGenericLikeRedis compares many more.
func TestGenericEffects(t *testing.T) {
	t.Parallel()
	b := &keyBench{bench: newBench(t)}
	for _, c := range []struct {
		call    string
		changes int
		events  []string
	}{
		{"SET a 1", 1, []string{"0 new a", "0 set a"}},
		{"SET b 1", 1, []string{"0 new b", "0 set b"}},
		{"EXISTS a x", 0, []string{"0 keymiss x"}},
		{"TYPE x", 0, []string{"0 keymiss x"}},
		{"OBJECT ENCODING x", 0, nil},
		{"RENAME a b", 1, []string{"0 new b", "0 rename_from a", "0 rename_to b"}},
		{"RENAME b b", 0, nil},
		{"RENAMENX b c", 1, []string{"0 new c", "0 rename_from b", "0 rename_to c"}},
		{"EXPIRE c 100", 1, []string{"0 expire c"}},
		{"PERSIST c", 1, []string{"0 persist c"}},
		{"PERSIST c", 0, nil},
		{"MOVE c 2", 1, []string{"2 new c", "0 move_from c", "2 move_to c"}},
		{"MOVE c 2", 0, nil},
		{"COPY c d", 0, []string{"0 keymiss c"}},
		{"SET c 1", 1, []string{"0 new c", "0 set c"}},
		{"COPY c d DB 3", 1, []string{"3 new d", "3 copy_to d"}},
		{"COPY c d DB 3 REPLACE", 1, []string{"3 new d", "3 copy_to d"}},
		{"PEXPIREAT c 1", 1, []string{"0 del c"}},
		{"SET c 1", 1, []string{"0 new c", "0 set c"}},
		{"DEL c c x", 1, []string{"0 del c"}},
		{"UNLINK x", 0, nil},
		{"SWAPDB 2 3", 1, nil},
		{"SWAPDB 2 2", 1, nil},
		{"MSET a 1 b 2 c 3", 3, []string{"0 new a", "0 set a", "0 new b", "0 set b", "0 new c", "0 set c"}},
		{"FLUSHDB", 3, nil},
		{"FLUSHDB", 0, nil},
		{"FLUSHALL", 2, nil},
	} {
		reply, o := b.runIn(strings.Fields(c.call)...)
		if reply[0] == '-' || o.changes != c.changes || !slices.Equal(o.events, c.events) {
			t.Errorf("%s: reply %q, %d changes, events %q; want %d, %q", c.call, reply, o.changes, o.events, c.changes, c.events)
		}
	}
}

// What may take long asks for a worker instead of holding an event loop up.
func TestHeavyCallsAskForAWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("SET", "big", strings.Repeat("x", 3<<20))
	for _, call := range [][]string{{"COPY", "big", "other"}, {"SCAN", "0", "COUNT", "1000000"}, {"SCAN", "0", "COUNT", "9223372036854775807"}} {
		raw := make([][]byte, len(call))
		for i, a := range call {
			raw[i] = []byte(a)
		}
		c := &Ctx{Cmd: b.table.Find(raw), Args: raw, Limits: &b.limits, Reply: &wire.Writer{Proto: 2}, Tx: b.begin()}
		c.Tx.Worker = false
		if err := c.Cmd.Run(c); err != nil || !errors.Is(c.Tx.Err(), keyspace.TakesLong) {
			t.Errorf("%s: %v, %v", call, err, c.Tx.Err())
		}
		b.batch.Reset()
		b.fx.Reset()
	}
	if reply, _ := b.run("COPY", "big", "other"); string(reply) != ":1\r\n" {
		t.Errorf("on a worker: %q", reply)
	}
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{ // as C's strtoul reads them
		"0": 0, "17": 17, "": 0, "+5": 5, "-0": 0, "-1": uint64(1<<64 - 1), "18446744073709551615": uint64(1<<64 - 1),
		"-18446744073709551615": 1, "007": 7, "5\x00junk": 5, "\x00": 0,
		"18446744073709551616": nil, "x": nil, " 1": nil, "1 ": nil, "0x1": nil, "1.0": nil, "-": nil, "+": nil, "--1": nil, "+-1": nil,
		"1_0": nil, "99999999999999999999999": nil,
	} {
		n, ok := parseCursor([]byte(text))
		if got := fmt.Sprint(n); ok != (want != nil) || ok && got != fmt.Sprint(want) {
			t.Errorf("%q: got %s, %v; want %v", text, got, ok, want)
		}
	}
}

func TestScanSeesEveryKeyOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 500 {
		b.run("SET", fmt.Sprint("k", i), "v")
	}
	for _, count := range []string{"1", "7", "100", "1000"} {
		seen := make(map[string]int)
		cursor := "0"
		for pages := 0; ; pages++ {
			reply, _ := b.run("SCAN", cursor, "COUNT", count)
			part := strings.Split(string(reply), "\r\n") // *2 $n cursor *n $n key $n key ...
			cursor = part[2]
			for i := 5; i < len(part); i += 2 {
				seen[part[i]]++
			}
			if cursor == "0" {
				break
			}
			if pages > 1000 {
				t.Fatal("the scan does not end")
			}
		}
		if len(seen) != 500 {
			t.Errorf("count %s: %d keys", count, len(seen))
		}
		for k, n := range seen {
			if n != 1 {
				t.Errorf("count %s: %s came %d times", count, k, n)
			}
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	c := &Command{Name: "thing", Subs: []*Command{
		{Name: "get", Syntax: "key [COUNT count:integer]", Summary: strings.Repeat("word ", 30)},
		{Name: "help", Summary: "not listed twice"},
		{Name: "reset", Summary: "Resets it."},
	}}
	got := Help(c, []byte("thing"))
	if got[0] != "THING <subcommand> [<arg> [value] [opt] ...]. Subcommands are:" || got[1] != "GET <key> [COUNT <count>]" {
		t.Errorf("begins with %q", got[:2])
	}
	want := []string{"RESET", "    Resets it.", "HELP", "    Print this help."}
	if !slices.Equal(got[len(got)-4:], want) {
		t.Errorf("ends with %q", got[len(got)-4:])
	}
	words := 0
	for _, l := range got[2 : len(got)-4] {
		if len(l) > 79 || !strings.HasPrefix(l, "    word") {
			t.Errorf("line %q", l)
		}
		words += strings.Count(l, "word")
	}
	if words != 30 {
		t.Errorf("%d words are left of 30", words)
	}
}

func TestObjectUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("SET", "k", "5")
	for _, c := range []struct {
		lfu        bool
		call, want string
	}{
		{false, "idletime", ":7\r\n"}, {false, "freq", "-" + string(ErrNoLFU) + "\r\n"}, {false, "refcount", ":2147483647\r\n"},
		{true, "idletime", "-" + string(ErrLFU) + "\r\n"}, {true, "freq", ":9\r\n"}, {true, "refcount", ":1\r\n"},
	} {
		args := [][]byte{[]byte("object"), []byte(c.call), []byte("k")}
		ctx := &Ctx{Cmd: b.table.Find(args), Args: args, Tx: b.begin(), Limits: &Limits{LFU: c.lfu}, Reply: &wire.Writer{Proto: 2}, Usage: fixedUsage{}}
		if err := ctx.Cmd.Run(ctx); err != nil {
			ctx.Reply.Error(Text(err))
		}
		if got := string(ctx.Reply.Buf); got != c.want {
			t.Errorf("%s with LFU %v: got %q, want %q", c.call, c.lfu, got, c.want)
		}
		b.fx.Reset()
	}
}

type fixedUsage struct{}

func (fixedUsage) Idle([]byte) int64 { return 7 }
func (fixedUsage) Freq([]byte) int64 { return 9 }
func (fixedUsage) Touch([]byte)      {}

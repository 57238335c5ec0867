package command

import (
	"strings"
	"testing"

	"redoubt/internal/race"
)

// TestHotPathAllocations: the commands that most calls are make no garbage.
func TestHotPathAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector drops what is pooled, at random")
	}
	b := newBench(t)
	b.run("SET", "k", strings.Repeat("v", 128))
	b.run("SET", "n", "100000")
	tx := b.begin()
	tx.Listening = 0
	for _, call := range [][]string{
		{"GET", "k"}, {"SET", "k", strings.Repeat("w", 128)}, {"SET", "n", "12345"}, {"INCR", "n"}, {"STRLEN", "k"}, {"GETRANGE", "k", "3", "5"},
		{"GETBIT", "k", "100"}, {"SETBIT", "k", "100", "1"}, {"APPEND", "k", "x"}, {"SET", "k", "v", "EX", "100"}, {"MGET", "k", "n"}, {"BITCOUNT", "k"},
	} {
		allocs := b.allocations(tx, call)
		limit := 0.0
		if call[0] == "BITCOUNT" {
			limit = 2 // a closure
		}
		if allocs > limit {
			t.Errorf("%.40q makes %v allocations", call, allocs)
		}
	}
	tx.Rows.View.Close()
}

// TestCompareAndSet covers what no Redis here has: IFEQ and IFNE on strings in
// chunks, with holes.
func TestCompareAndSet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	expect := func(want string, call ...string) {
		t.Helper()
		if got, _ := b.run(call...); string(got) != want {
			t.Errorf("%.60q: %.60q, want %q", call, got, want)
		}
	}
	holes := strings.Repeat("\x00", 100_000) + "x" + strings.Repeat("\x00", 5)
	expect(":100006\r\n", "SETRANGE", "k", "100000", "x\x00\x00\x00\x00\x00")
	expect("$-1\r\n", "SET", "k", "v", "IFEQ", strings.Repeat("\x00", 100_006))
	expect("$-1\r\n", "SET", "k", "v", "IFEQ", holes[:100_005])
	expect("$-1\r\n", "SET", "k", "v", "IFEQ", "\x01"+holes[1:])
	expect("$-1\r\n", "SET", "k", "v", "IFEQ", holes[:100_005]+"\x01")
	expect("$-1\r\n", "SET", "k", "v", "IFNE", holes)
	expect("+OK\r\n", "SET", "k", "v", "IFEQ", holes)
	expect("$1\r\nv\r\n", "GET", "k")
}

// TestSetEvents: an expiry that a SET gives is an event, not a change.
func TestSetEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, o := b.run("SET", "k", "v", "EX", "100")
	if got := strings.Join(o.events, ","); got != "new k,set k,expire k" || o.changes != 1 {
		t.Errorf("events %s, %d changes", got, o.changes)
	}
	_, o = b.run("BITFIELD", "f", "SET", "u8", "0", "1", "INCRBY", "u8", "0", "1", "GET", "u8", "0")
	if got := strings.Join(o.events, ","); got != "new f,setbit f" || o.changes != 2 {
		t.Errorf("events %s, %d changes", got, o.changes)
	}
}

package command

import (
	"errors"
	"strings"
	"testing"

	"redoubt/internal/race"
	"redoubt/keyspace"
	"redoubt/wire"
)

// TestListAllocations: the commands on the ends of a list make no garbage, in
// either form.
func TestListAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector drops what is pooled, at random")
	}
	b := newBench(t)
	b.limits.ListSize = -2
	for _, key := range []string{"small", "large", "other"} {
		b.run("RPUSH", key, "one", "two", "three")
	}
	b.run("RPUSH", "large", strings.Repeat("x", 10_000), "1")
	b.run("LPUSH", "large", "2", "3")
	tx := b.begin()
	tx.Listening = 0
	for _, key := range []string{"small", "large"} {
		for _, call := range [][]string{
			{"LPUSH", key, "an element"}, {"RPUSH", key, "12345"}, {"LPOP", key}, {"RPOP", key}, {"LLEN", key}, {"LINDEX", key, "-1"},
			{"LSET", key, "1", "x"}, {"LRANGE", key, "0", "0"}, {"LMOVE", key, "other", "LEFT", "RIGHT"}, {"LMOVE", key, key, "LEFT", "RIGHT"},
		} {
			allocs := b.allocations(tx, call)
			if allocs > 0 {
				t.Errorf("%.40q makes %v allocations", call, allocs)
			}
		}
	}
	tx.Rows.View.Close()
}

// TestListEvents: what is noted, and what counts as a change.
func TestListEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.limits.ListSize = 3
	for _, c := range []struct {
		call    string
		events  string
		changes int
	}{
		{"RPUSH k a b c", "new k,rpush k", 3},
		{"LPUSH k d e", "lpush k", 2},
		{"RPUSHX none a", "", 0},
		{"LSET k 0 x", "lset k", 1},
		{"LINSERT k AFTER a y", "linsert k", 1},
		{"LINSERT k AFTER nothing y", "", 0},
		{"LREM k 0 nothing", "", 0},
		{"LREM k 0 x", "lrem k", 1},
		{"LTRIM k 0 -1", "ltrim k", 0},
		{"LTRIM k 1 -2", "ltrim k", 2},
		{"LPOP k 0", "", 0},
		{"LMOVE k to LEFT LEFT", "new to,lpush to,lpop k", 1},
		{"LMOVE k k RIGHT LEFT", "lpush k,rpop k", 1},
		{"RPOPLPUSH k to", "lpush to,rpop k", 1},
		{"LPOP k 5", "lpop k,del k", 1},
		{"LMPOP 2 k to RIGHT COUNT 1", "rpop to", 1},
		{"BLPOP k to 0", "lpop to,del to", 1},
		{"RPUSH k a", "new k,rpush k", 1},
		{"BLMOVE k to LEFT RIGHT 0", "new to,rpush to,lpop k,del k", 1},
		{"LTRIM to 1 0", "ltrim to,del to", 1},
		{"LPOP k", "", 0},
	} {
		_, o := b.run(strings.Fields(c.call)...)
		if got := strings.Join(o.events, ","); got != c.events || o.changes != c.changes {
			t.Errorf("%s: events %q, %d changes", c.call, got, o.changes)
		}
	}
}

// TestListBlocks: what a command says that finds nothing.
func TestListBlocks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		call    string
		timeout int64
		keys    string
		null    string // the reply where it may not wait
	}{
		{"BLPOP a b 0", 0, "a b", "*-1\r\n"},
		{"BRPOP a 1.5", 1500, "a", "*-1\r\n"},
		{"BLPOP a 0.0001", 1, "a", "*-1\r\n"},
		{"BLPOP a 1e3", 1_000_000, "a", "*-1\r\n"},
		{"BLMOVE a b LEFT LEFT 2", 2000, "a", "$-1\r\n"},
		{"BRPOPLPUSH a b 0.25", 250, "a", "$-1\r\n"},
		{"BLMPOP 3 2 a b LEFT COUNT 5", 3000, "a b", "*-1\r\n"},
	} {
		for _, noBlock := range []bool{false, true} {
			ctx := &Ctx{Limits: &b.limits, Reply: &wire.Writer{Proto: 2}, Tx: b.begin(), NoBlock: noBlock}
			for _, a := range strings.Fields(c.call) {
				ctx.Args = append(ctx.Args, []byte(a))
			}
			ctx.Cmd = b.table.Find(ctx.Args)
			err := ctx.Cmd.Run(ctx)
			b.commit(ctx.Tx)
			var block *Block
			switch {
			case noBlock:
				if err != nil || string(ctx.Reply.Buf) != c.null {
					t.Errorf("%s: %q, %v", c.call, ctx.Reply.Buf, err)
				}
			case !errors.As(err, &block):
				t.Errorf("%s: %v", c.call, err)
			default:
				var keys []string
				for _, k := range block.Keys {
					keys = append(keys, string(k))
				}
				if block.Timeout != c.timeout || strings.Join(keys, " ") != c.keys || block.Type != keyspace.List {
					t.Errorf("%s: %+v", c.call, block)
				}
			}
		}
	}
}

func TestSecondsToWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := &Ctx{Tx: b.begin()}
	defer c.Tx.Rows.View.Close()
	for _, x := range []struct {
		arg  string
		want int64
		err  error
	}{
		{"0", 0, nil}, {"1", 1000, nil}, {"0.001", 1, nil}, {"0.0011", 2, nil}, {"1.1", 1100, nil}, {"-0.0001", 0, nil}, {"0x10", 16000, nil},
		{"9000000000000", 9_000_000_000_000_000, nil}, {"-1", 0, ErrTimeoutSign}, {"-0.001", 0, nil}, {"-0.002", 0, ErrTimeoutSign}, {"-inf", 0, ErrTimeoutSign},
		{"9223372036854775.807", 0, ErrTimeoutRange}, {"9223372036854775808", 0, ErrTimeoutRange}, {"inf", 0, ErrTimeoutRange},
		{"1e300", 0, ErrTimeoutRange}, {"nan", 0, ErrTimeoutFloat}, {"", 0, ErrTimeoutFloat}, {"1s", 0, ErrTimeoutFloat},
	} {
		got, err := secondsToWait(c, []byte(x.arg))
		if !errors.Is(err, x.err) || got != x.want {
			t.Errorf("%s: %d, %v", x.arg, got, err)
		}
	}
}

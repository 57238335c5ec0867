package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/wire"
)

// runWaiting runs a command that may wait, and returns its reply and what it waits
// for.
func runWaiting(b *bench, args [][]byte) (string, *Block) {
	b.t.Helper()
	c := &Ctx{Cmd: b.table.Find(args), Args: args, Limits: &b.limits, Reply: &wire.Writer{Proto: 2}}
	c.Tx = b.begin()
	mark := c.Tx.Start()
	err := c.Cmd.Run(c)
	var block *Block
	if errors.As(err, &block) {
		c.Tx.Rollback(mark)
	} else if err != nil {
		b.t.Fatalf("%q: %v", args, err)
	}
	b.commit(c.Tx)
	return string(c.Reply.Buf), block
}

func fields(line string) (args [][]byte) {
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return args
}

// A reader that waits goes on with the ID that $ stood for when it came, and with
// everything else as it was.
func TestXreadWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.limits.Limits = types.DefaultLimits
	b.run("XADD", "s", "5-1", "f", "v")
	b.run("XGROUP", "CREATE", "s", "g", "$")
	for _, test := range []struct {
		call, keys, then string
		timeout          int64
		gone             bool
	}{
		{"XREAD BLOCK 0 STREAMS s $", "s", "XREAD BLOCK 0 STREAMS s 5-1", 0, false},
		{"XREAD COUNT 2 BLOCK 100 STREAMS a s b $ $ 7-7", "a s b", "XREAD COUNT 2 BLOCK 100 STREAMS a s b 0-0 5-1 7-7", 100, false},
		{"XREAD BLOCK 3 STREAMS s 9-9", "s", "", 3, false},
		{"XREADGROUP GROUP g c BLOCK 4 STREAMS s >", "s", "", 4, true},
	} {
		args := fields(test.call)
		reply, block := runWaiting(b, args)
		if block == nil {
			t.Errorf("%s: %q", test.call, reply)
			continue
		}
		if block.Type != keyspace.Stream || block.Timeout != test.timeout || block.Gone != test.gone || block.Keep != test.gone {
			t.Errorf("%s: %+v", test.call, block)
		}
		if got := string(bytes.Join(block.Keys, []byte{' '})); got != test.keys {
			t.Errorf("%s waits for %s", test.call, got)
		}
		if got := string(bytes.Join(block.Args, []byte{' '})); got != test.then {
			t.Errorf("%s goes on with %s", test.call, got)
		}
		if got := string(bytes.Join(args, []byte{' '})); got != test.call {
			t.Errorf("%s became %s", test.call, got)
		}
	}
	// What came meanwhile is found.
	_, block := runWaiting(b, fields("XREAD BLOCK 0 STREAMS s $"))
	b.run("XADD", "s", "5-2", "f", "w")
	if reply, again := runWaiting(b, block.Args); again != nil || !strings.Contains(reply, "5-2") || strings.Contains(reply, "5-1") {
		t.Errorf("%q, %v", reply, again)
	}
	// A history is answered at once, also if it is empty.
	if reply, block := runWaiting(b, fields("XREADGROUP GROUP g c BLOCK 0 STREAMS s 9")); block != nil || reply != "*1\r\n*2\r\n$1\r\ns\r\n*0\r\n" {
		t.Errorf("%q, %v", reply, block)
	}
}

// A large reply goes out in parts, with the right number in front, whether that is
// known from the start or not.
func TestXrangeInParts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.limits.Limits = types.DefaultLimits
	const entries = 2000
	value := strings.Repeat("v", 200)
	for i := range entries {
		b.run("XADD", "s", fmt.Sprint(i+1), "f", value)
	}
	b.run("XADD", "t", "1-1", "f", value)
	b.run("XGROUP", "CREATE", "s", "g", "0")
	b.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
	for _, test := range []struct {
		call string
		want int
	}{
		{"XRANGE s - +", entries},
		{"XREVRANGE s + -", entries},
		{"XRANGE s - + COUNT 1500", 1500},
		{"XRANGE s 11 +", entries - 10},
		{"XRANGE s 11 + COUNT 900", 900},
		{"XRANGE s 11 1510 COUNT 99999", 1500},
		{"XREVRANGE s 1510 11", 1500},
		{"XREVRANGE s 1510 11 COUNT 700", 700},
		{"XRANGE s 11 20", 10},
		{"XREAD STREAMS s 0", 1},
		{"XREAD COUNT 1500 STREAMS s 10", 1},
		{"XREAD STREAMS nokey s t s 0 1990 0 500", 3},
		{"XINFO STREAM s FULL COUNT 0", 18},
	} {
		args := fields(test.call)
		var out []byte
		parts := 0
		c := &Ctx{Cmd: b.table.Find(args), Args: args, Limits: &b.limits, Reply: &wire.Writer{Proto: 2}}
		c.Sink = func(w *wire.Writer) error {
			out, w.Buf, parts = append(out, w.Buf...), w.Buf[:0], parts+1
			return nil
		}
		c.Tx = b.begin()
		if err := c.Cmd.Run(c); err != nil {
			t.Fatal(err)
		}
		b.commit(c.Tx)
		out = append(out, c.Reply.Buf...)
		want, _ := b.run(strings.Fields(test.call)...)
		if !bytes.Equal(out, want) || !bytes.HasPrefix(out, fmt.Appendf(nil, "*%d\r\n", test.want)) {
			t.Errorf("%s: %.40q and so on, %d bytes; in one piece %.40q, %d bytes", test.call, out, len(out), want, len(want))
		}
		if len(want) > 200_000 && parts < 2 {
			t.Errorf("%s: came in %d parts", test.call, parts)
		}
	}
}

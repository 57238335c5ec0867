package server

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"redoubt/command"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/str"
)

// The subcommands of DEBUG that look at data or make some. They are handlers
// like those of package command, on commands that are in no table.

// internal runs a command that clients cannot call and waits until what its
// reply tells is durable. In a transaction or script it is a part of that one, whose
// latches nobody else could have; its error is then returned and not written.
func (c *localCall) internal(cmd *command.Command, args [][]byte) error {
	if !c.srv.ready.Load() {
		return command.ErrLoading
	}
	if c.within != nil {
		return c.within(cmd, args, c.w)
	}
	call := executor.Call{Cmd: cmd, Args: args, DB: c.s.db, Reply: c.w, NoTouch: true}
	return c.srv.waitDurable(c.srv.exec.RunAlone(&call))
}

// onKey runs f on an existing key, the second argument of a DEBUG.
func (c *localCall) onKey(f func(x *command.Ctx, m keyspace.Meta, encoding string) error) error {
	encoding := c.srv.table.Original([]byte("object|encoding"))
	return c.internal(&command.Command{
		Name: "debug", Flags: command.ReadOnly, Keys: command.OneKey(2, command.RO), Run: func(x *command.Ctx) error {
			m := x.Tx.Find(x.Args[2])
			if !m.Exists() {
				return command.ErrNoSuchKey
			}
			// OBJECT ENCODING knows the word; its reply is a bulk string.
			inner, reply := *x, *x.Reply
			reply.Buf = nil
			inner.Reply = &reply
			inner.Args = [][]byte{[]byte("object"), []byte("encoding"), x.Args[2]}
			if err := encoding.Run(&inner); err != nil {
				return err
			}
			_, word, _ := strings.Cut(strings.TrimSpace(string(reply.Buf)), "\r\n")
			return f(x, m, word)
		},
	}, c.args)
}

func debugObjectOf(c *localCall) error {
	return c.onKey(func(x *command.Ctx, m keyspace.Meta, encoding string) error {
		// A value has no address. It gets a name that stays while the key does.
		h := fnv.New64a()
		h.Write(x.Args[2])
		size := int64(len(m.Body))
		if m.External() {
			size = m.Ref().Size
		}
		idle := x.Usage.Idle(x.Args[2])
		x.Reply.Status(fmt.Sprintf("Value at:0x%012x refcount:1 encoding:%s serializedlength:%d lru:%d lru_seconds_idle:%d",
			h.Sum64()>>16, encoding, size, (x.Tx.Now/1000-idle)&(1<<24-1), idle))
		return nil
	})
}

func debugListpack(c *localCall) error {
	return c.onKey(func(x *command.Ctx, m keyspace.Meta, encoding string) error {
		if encoding != "listpack" {
			return command.Error("ERR Not a listpack encoded object.")
		}
		x.Reply.Status(fmt.Sprintf("A packed value of %d bytes", len(m.Body)))
		return nil
	})
}

// populateStep is how many keys are made in one execution.
const populateStep = 1000

func debugPopulate(c *localCall) error {
	count, ok := number.ParseInt(c.args[2])
	if !ok || count < 0 {
		return command.ErrNotPositive
	}
	prefix, size := "key", int64(0)
	if len(c.args) > 3 {
		prefix = string(c.args[3])
	}
	if len(c.args) > 4 {
		if size, ok = number.ParseInt(c.args[4]); !ok || size < 0 {
			return command.ErrNotPositive
		}
	}
	if size > c.srv.maxBulk.Load() {
		return command.ErrTooLong
	}
	start := len(c.w.Buf)
	step := max(1, min(populateStep, (16<<20)/max(1, size)))
	for from := int64(0); from < count; from += step {
		to := min(count, from+step)
		err := c.internal(&command.Command{
			Name: "debug", Flags: command.Write | command.Alone, Run: func(x *command.Ctx) error {
				for i := from; i < to; i++ {
					populate(x.Tx, prefix, i, size)
				}
				return nil
			},
		}, nil)
		if err != nil || len(c.w.Buf) > start { // an error was written
			return err
		}
	}
	return c.ok()
}

func populate(tx *keyspace.Tx, prefix string, i, size int64) {
	key := fmt.Appendf(nil, "%s:%d", prefix, i)
	if tx.Find(key).Exists() {
		return
	}
	value := fmt.Appendf(nil, "value:%d", i)
	if size > 0 {
		value = append(make([]byte, 0, size), value[:min(size, int64(len(value)))]...)[:size]
	}
	str.Set(tx, key, keyspace.Meta{}, value, 0)
}

// parseMemory reads a number of bytes with a unit, as directives have it.
func parseMemory(s string) (uint64, bool) {
	digits := strings.TrimRight(strings.ToLower(s), "bkmg")
	unit, ok := map[string]uint64{
		"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000_000, "mb": 1 << 20, "g": 1000_000_000, "gb": 1 << 30,
	}[strings.ToLower(s[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 33)
	return n * unit, ok && err == nil
}

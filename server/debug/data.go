package debug

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/server/admin"
	"redoubt/types/str"
)

// The subcommands of DEBUG that read or create data. They are handlers
// like those of package command, on commands that are in no table.

// onKey runs f on an existing key, the second argument of a DEBUG command.
func onKey(c *admin.Call, f func(x *command.Ctx, m keyspace.Meta, encoding string) error) error {
	encoding := c.Table.Original([]byte("object|encoding"))
	return c.Client.Execute(&command.Command{
		Name: "debug", Flags: command.ReadOnly, Keys: command.OneKey(2, command.RO), Run: func(x *command.Ctx) error {
			m := x.Tx.Find(x.Args[2])
			if !m.Exists() {
				return command.ErrNoSuchKey
			}
			// The encoding comes from OBJECT ENCODING; its reply is a bulk string.
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
	}, c.Args)
}

func objectOf(c *admin.Call) error {
	return onKey(c, func(x *command.Ctx, m keyspace.Meta, encoding string) error {
		// A value has no address: a hash of its key stands for that.
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

func listpack(c *admin.Call) error {
	return onKey(c, func(x *command.Ctx, m keyspace.Meta, encoding string) error {
		if encoding != "listpack" {
			return command.Error("ERR Not a listpack encoded object.")
		}
		x.Reply.Status(fmt.Sprintf("A packed value of %d bytes", len(m.Body)))
		return nil
	})
}

// populateStep is how many keys are made in one execution.
const populateStep = 1000

func (d *Debugger) populate(c *admin.Call) error {
	count, ok := number.ParseInt(c.Args[2])
	if !ok || count < 0 {
		return command.ErrNotPositive
	}
	prefix, size := "key", int64(0)
	if len(c.Args) > 3 {
		prefix = string(c.Args[3])
	}
	if len(c.Args) > 4 {
		if size, ok = number.ParseInt(c.Args[4]); !ok || size < 0 {
			return command.ErrNotPositive
		}
	}
	if size > d.Server.MaxBulk() {
		return command.ErrTooLong
	}
	start := len(c.Reply.Buf)
	step := max(1, min(populateStep, (16<<20)/max(1, size)))
	for from := int64(0); from < count; from += step {
		to := min(count, from+step)
		err := c.Client.Execute(&command.Command{
			Name: "debug", Flags: command.Write | command.Exclusive, Run: func(x *command.Ctx) error {
				for i := from; i < to; i++ {
					addString(x.Tx, prefix, i, size)
				}
				return nil
			},
		}, nil)
		if err != nil || len(c.Reply.Buf) > start { // an error was written
			return err
		}
	}
	return c.OK()
}

func addString(tx *keyspace.Tx, prefix string, i, size int64) {
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

// parseMemory parses a number of bytes with a unit, as in directives.
func parseMemory(s string) (uint64, bool) {
	digits := strings.TrimRight(strings.ToLower(s), "bkmg")
	unit, ok := map[string]uint64{
		"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000_000, "mb": 1 << 20, "g": 1000_000_000, "gb": 1 << 30,
	}[strings.ToLower(s[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 33)
	return n * unit, ok && err == nil
}

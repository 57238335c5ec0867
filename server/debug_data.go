package server

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
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
// reply tells is durable.
func (c *localCall) internal(cmd *command.Command, args [][]byte) error {
	if !c.srv.ready.Load() {
		return command.ErrLoading
	}
	call := executor.Call{Cmd: cmd, Args: args, DB: c.s.db, Reply: c.w, NoTouch: true}
	return c.srv.waitDurable(c.srv.exec.RunAlone(&call))
}

// digest is the hash of a set of values: the order does not matter.
type digest [sha1.Size]byte

func (d *digest) add(b []byte) {
	for i := range d {
		d[i] ^= b[i]
	}
}

func (d *digest) String() string { return hex.EncodeToString(d[:]) }

// field feeds one field of a hash with its length, so that no two different
// sequences of fields are the same bytes.
func field(h hash.Hash, b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
}

// digestValue feeds a value: type, expiry and content. A value with rows of its
// own is fed without its id, which is another one after COPY or a restore.
//
// A type whose equal values may have different rows (packed and unfolded, or
// lists that start at another index) must get a case here.
func digestValue(tx *keyspace.Tx, h hash.Hash, m keyspace.Meta) {
	var n [8]byte
	h.Write([]byte{byte(m.Type)})
	binary.BigEndian.PutUint64(n[:], uint64(m.Expire))
	h.Write(n[:])
	if !m.External() {
		field(h, m.Body)
		return
	}
	r := m.Ref()
	binary.BigEndian.PutUint64(n[:], uint64(r.Size))
	h.Write(n[:])
	eachRow(tx, r, func(key, value []byte) bool {
		field(h, key)
		field(h, value)
		return true
	})
}

// eachRow visits the sub rows of a value, without the part of their keys that
// they share.
func eachRow(tx *keyspace.Tx, r keyspace.Ref, visit func(key, value []byte) bool) {
	next := r
	next.ID++
	it := tx.IterRows(keyspace.AppendRowKey(nil, r, keyspace.SubRow), keyspace.AppendRowKey(nil, next, keyspace.SubRow), false)
	defer tx.CloseRows(it)
	for it.Next() {
		if !visit(it.Key()[keyspace.RowKeyHead:], it.Value()) {
			return
		}
	}
}

func debugDigest(c *localCall) error {
	return c.internal(&command.Command{
		Name: "debug", Flags: command.ReadOnly | command.OneState, Run: func(x *command.Ctx) error {
			var sum digest
			h := sha1.New()
			for db := range x.Tx.Space.Databases() {
				x.Tx.DB = db
				x.Tx.Walk(0, nil, func(_ uint16, key []byte, m keyspace.Meta) bool {
					if m.Exists() {
						h.Reset()
						field(h, strconv.AppendInt(nil, int64(db), 10))
						field(h, key)
						digestValue(x.Tx, h, m)
						sum.add(h.Sum(nil))
					}
					return x.Tx.Err() == nil
				})
			}
			x.Reply.Status(sum.String())
			return nil
		},
	}, nil)
}

func debugDigestValue(c *localCall) error {
	return c.internal(&command.Command{
		Name: "debug", Flags: command.ReadOnly, Keys: command.KeyRange(2, -1, 1, command.RO), Run: func(x *command.Ctx) error {
			x.Reply.Array(len(x.Args) - 2)
			for _, key := range x.Args[2:] {
				var sum digest
				if m := x.Tx.Find(key); m.Exists() {
					h := sha1.New()
					digestValue(x.Tx, h, m)
					sum.add(h.Sum(nil))
				}
				x.Reply.Status(sum.String())
			}
			return nil
		},
	}, c.args)
}

// onKey runs f on an existing key, the second argument of a DEBUG.
func (c *localCall) onKey(f func(x *command.Ctx, m keyspace.Meta, encoding string) error) error {
	encoding := c.srv.table.Lookup([]byte("object")).Sub([]byte("encoding"))
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
	step := max(1, min(populateStep, (16<<20)/max(1, size)))
	for from := int64(0); from < count; from += step {
		to := min(count, from+step)
		c.w.Buf = c.w.Buf[:0]
		err := c.internal(&command.Command{
			Name: "debug", Flags: command.Write | command.Alone, Run: func(x *command.Ctx) error {
				for i := from; i < to; i++ {
					populate(x.Tx, prefix, i, size)
				}
				return nil
			},
		}, nil)
		if err != nil || len(c.w.Buf) > 0 { // an error was written
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

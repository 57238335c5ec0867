package command

import (
	"fmt"
	"math"
	"slices"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/rdb"
	"redoubt/types/hash"
	"redoubt/types/list"
	sets "redoubt/types/set"
	"redoubt/types/str"
	"redoubt/types/stream"
	"redoubt/types/zset"
)

const restoreSyntax = "key ttl:integer serialized-value:string [REPLACE]@3.0.0 [ABSTTL]@5.0.0 [IDLETIME seconds:integer]@5.0.0 " +
	"[FREQ frequency:integer]@5.0.0"

var restore = &Command{
	Name: "restore", Group: Generic, Since: "2.6.0", Arity: -4,
	Flags: Write | DenyOOM | NoTouch, Categories: CatDangerous, Keys: OneKey(1, OW|Update),
	Syntax:  restoreSyntax,
	Summary: "Makes a key of what DUMP returned for another one, here or in Redis.",
	Run:     restoreKey,
}

var restoreAsking = &Command{
	Name: "restore-asking", Group: Server, Since: "3.0.0", Arity: -4,
	Flags: Write | DenyOOM | Asking | SysCmd | NoTouch, Categories: CatKeyspace | CatDangerous, Keys: OneKey(1, OW|Update),
	Syntax:  restoreSyntax,
	Summary: "Is RESTORE between the nodes of a cluster.",
	Run:     restoreKey,
}

// restoreOptions are the options behind the payload.
type restoreOptions struct {
	replace, absolute bool
	idle, freq        int64 // -1: not given
}

func parseRestore(args [][]byte) (o restoreOptions, err error) {
	o.idle, o.freq = -1, -1
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case isWord(args[i], "replace"):
			o.replace = true
		case isWord(args[i], "absttl"):
			o.absolute = true
		case isWord(args[i], "idletime") && more && o.freq < 0:
			i++
			n, ok := number.ParseInt(args[i])
			if !ok {
				return o, ErrNotInteger
			}
			if n < 0 {
				return o, ErrRestoreIdle
			}
			o.idle = n
		case isWord(args[i], "freq") && more && o.idle < 0:
			i++
			n, ok := number.ParseInt(args[i])
			if !ok {
				return o, ErrNotInteger
			}
			if n < 0 || n > 255 {
				return o, ErrRestoreFreq
			}
			o.freq = n
		default:
			return o, ErrSyntax
		}
	}
	return o, nil
}

func restoreKey(c *Ctx) error {
	key, payload := c.Args[1], c.Args[3]
	o, err := parseRestore(c.Args[4:])
	if err != nil {
		return err
	}
	old := c.Tx.Find(key)
	if old.Exists() && !o.replace {
		return ErrBusyKey
	}
	ttl, ok := number.ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	if ttl < 0 {
		return ErrRestoreTTL
	}
	if c.Tx.Heavy(int64(len(payload))) { // the checksum reads all of it
		return nil
	}
	v, err := rdb.Open(payload, rdb.Options{MaxString: c.Limits.MaxBulk, SkipChecksum: c.Limits.SkipChecksum})
	if err != nil {
		return payloadError(err)
	}
	if ttl > 0 && !o.absolute {
		ttl = min(ttl, math.MaxInt64-c.Tx.Now) + c.Tx.Now
	}
	if v.Kind != rdb.String && c.Tx.Heavy(int64(len(payload))/restoreSize*restoreWork) {
		return nil
	}
	if old.Exists() {
		c.Tx.Remove(key, old)
	}
	if ttl > 0 && ttl <= c.Tx.Past() {
		return restoreDead(c, v, old.Exists())
	}
	if err := restoreValue(c, key, v, ttl); err != nil {
		return payloadError(err)
	}
	c.Tx.Changed(keyspace.Generic, "restore", key)
	c.Usage.Touch(key)
	if a, ok := c.Usage.(ager); ok && (o.idle >= 0 || o.freq >= 0) {
		a.Age(key, max(0, o.idle), o.freq)
	}
	switch {
	case v.Kind == rdb.Module:
		c.propagateChannel(key, old.Exists())
	case ttl > 0 && !o.absolute && c.Tx.Propagates():
		args := slices.Clone(c.Args[1:])
		args[1] = decimal(ttl)
		c.propagate(string(c.Args[0]), append(args, []byte("ABSTTL"))...)
	}
	c.Reply.OK()
	return nil
}

// ager is a Usage that can set how a key was used on another server.
type ager interface {
	// Age sets the seconds since the key's last use or, unless freq is negative, its access counter.
	Age(key []byte, idle, freq int64)
}

// restoreWork is the cost of an element, in the unit of Tx.Heavy. restoreSize is about the least
// number of bytes that an element has in a payload.
const (
	restoreWork = 64
	restoreSize = 8
)

// restoreDead checks a value that has expired already: it is not stored.
func restoreDead(c *Ctx, v *rdb.Value, deleted bool) error {
	var err error
	if v.Kind == rdb.Module {
		err = checkChannel(v)
	} else {
		err = v.Skip()
	}
	if err != nil {
		return payloadError(err)
	}
	if deleted {
		c.Tx.Changed(keyspace.Generic, "del", c.Args[1])
		c.propagate("DEL", c.Args[1])
	}
	c.Reply.OK()
	return nil
}

// errTwice is returned when a value of a file is stored as a key; see rdb.Value.Streamed.
var errTwice = fmt.Errorf("%w: an element comes twice", rdb.ErrFormat)

// RestoreKey stores a value at a key that does not exist, in the execution of c, of which it uses
// Tx and Limits only. A value of a file that is being read goes to the rows without being in
// memory as a whole. After an error the execution must be rolled back.
func RestoreKey(c *Ctx, key []byte, v *rdb.Value, expire int64) error {
	if err := restoreValue(c, key, v, expire); err != nil {
		return err
	}
	return c.Tx.Err()
}

// IsChannel reports whether a module's value in a file is a channel.
func IsChannel(v *rdb.Value) bool {
	name, _ := v.ModuleName()
	return v.Kind == rdb.Module && name == channelModule
}

// restoreValue makes a key, which does not exist, what the payload says. Elements
// go from the payload to the rows one by one.
func restoreValue(c *Ctx, key []byte, v *rdb.Value, expire int64) (err error) {
	tx, limits := c.Tx, &c.Limits.Limits
	switch v.Kind {
	case rdb.String:
		return restoreString(c, key, v, expire)
	case rdb.List:
		l := list.Create(tx, key, limits)
		defer l.Release()
		if err = v.List(func(b []byte) error { l.Append(b); return tx.Err() }); err != nil {
			return err
		}
		l.Save()
	case rdb.Set:
		s := sets.Create(tx, key, limits)
		defer s.Release()
		err = v.Set(func(b []byte) error {
			if !s.Add(b) && tx.Err() == nil {
				return errTwice
			}
			return tx.Err()
		})
		if err != nil {
			return err
		}
		s.Save()
	case rdb.ZSet:
		z := zset.Create(tx, key, limits)
		defer z.Release()
		err = v.ZSet(func(b []byte, f float64) error {
			if !v.Streamed() { // then they were looked at
				z.Insert(b, f)
			} else if added, _ := z.Add(b, f); !added && tx.Err() == nil {
				return errTwice
			}
			return tx.Err()
		})
		if err != nil {
			return err
		}
		z.Save()
	case rdb.Hash:
		h := hash.Create(tx, key, limits)
		defer h.Release()
		err = v.Hash(func(field, value []byte, at int64) error {
			if at != 0 && at <= tx.Past() { // it is gone already
				return tx.Err()
			}
			if !h.Set(field, value, at) && tx.Err() == nil {
				return errTwice
			}
			return tx.Err()
		})
		if err != nil {
			return err
		}
		h.Save()
	case rdb.Stream:
		if err := restoreStream(c, key, v); err != nil {
			return err
		}
	case rdb.Module:
		if err := restoreChannel(c, key, v); err != nil {
			return err
		}
	}
	if expire == 0 {
		return nil
	}
	if old := tx.Find(key); old.Exists() { // not a hash whose fields are all gone
		m := old
		m.Expire = expire
		tx.Store(key, old, m)
	}
	return nil
}

// restoreString stores a string: a short one as SET would, a long one in pieces.
func restoreString(c *Ctx, key []byte, v *rdb.Value, expire int64) error {
	var w *str.Writer
	var whole []byte
	err := v.String(func(size int64, piece []byte) error {
		if size == int64(len(piece)) {
			whole = piece
			str.Put(c.Tx, key, keyspace.Meta{}, piece, expire)
			return c.Tx.Err()
		}
		if w == nil {
			w = str.NewWriter(c.Tx, key)
		}
		w.Write(piece)
		return c.Tx.Err()
	})
	switch {
	case err != nil:
		return err
	case w != nil:
		w.Store(keyspace.Meta{}, expire)
	case whole == nil:
		str.Put(c.Tx, key, keyspace.Meta{}, nil, expire)
	}
	return nil
}

// streamWriter makes a stream of what is visited.
type streamWriter struct {
	c     *Ctx
	s     *stream.Stream
	group *stream.Group
	one   *stream.Consumer
}

func restoreStream(c *Ctx, key []byte, v *rdb.Value) error {
	w := streamWriter{c: c, s: stream.Create(c.Tx, key, &c.Limits.Limits)}
	defer w.s.Release()
	if err := v.Stream(&w); err != nil {
		return err
	}
	w.endGroup()
	w.s.Save()
	return c.Tx.Err()
}

func (w *streamWriter) Entry(id rdb.ID, fields [][]byte) error {
	if err := w.s.Add(stream.ID(id), fields); err != nil {
		return err
	}
	return w.c.Tx.Err()
}

func (w *streamWriter) Info(i rdb.StreamInfo) error {
	w.s.SetID(stream.ID(i.Last), i.Added, stream.ID(i.MaxDeleted))
	return w.c.Tx.Err()
}

func (w *streamWriter) Group(name []byte, last rdb.ID, read int64) error {
	w.endGroup()
	if w.group = w.s.CreateGroup(name, stream.ID(last), read); w.group == nil {
		return rdb.ErrFormat
	}
	return w.c.Tx.Err()
}

func (w *streamWriter) endGroup() {
	if w.group != nil {
		w.group.Save()
	}
}

func (w *streamWriter) Consumer(name []byte, seen, active int64) error {
	if w.group.Consumer(name) != nil {
		return rdb.ErrFormat
	}
	w.one = w.group.AddConsumer(name)
	w.one.Seen, w.one.Active = seen, active
	return nil
}

func (w *streamWriter) Pending(id rdb.ID, delivered int64, count uint64) error {
	w.group.Assign(stream.Pending{}, false, w.one, stream.Pending{ID: stream.ID(id), Time: delivered, Count: int64(count)})
	return w.c.Tx.Err()
}

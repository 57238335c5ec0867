package command

import (
	"slices"
	"sync"

	"redoubt/keyspace"
	"redoubt/rdb"
	"redoubt/types/hash"
	"redoubt/types/list"
	sets "redoubt/types/set"
	"redoubt/types/str"
	"redoubt/types/stream"
	"redoubt/types/zset"
)

// DumpCommands are the commands that carry values from one server to another.
var DumpCommands = []*Command{dump, restore, restoreAsking}

var dump = &Command{
	Name: "dump", Group: Generic, Since: "2.6.0", Arity: 2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Returns the value of a key in the format that RESTORE reads, here and in Redis.",
	Run: func(c *Ctx) error {
		m := c.Tx.Read(c.Args[1])
		if !m.Exists() {
			c.Reply.Null()
			return nil
		}
		// The reply begins with the payload's length, which is known last. So the payload is written
		// behind a gap and moved down behind the length.
		w, start := c.Reply, len(c.Reply.Buf)
		var gap [bulkHead]byte
		buf := AppendDump(c.Tx, append(w.Buf, gap[:]...), c.Args[1], m)
		if c.Tx.Err() != nil {
			return nil
		}
		n := len(buf) - start - bulkHead
		w.Buf = buf[:start]
		w.BulkHead(n)
		at := len(w.Buf)
		copy(buf[at:], buf[start+bulkHead:])
		w.Buf = buf[:at+n]
		w.BulkEnd()
		return nil
	},
}

// trailer is an upper bound of the bytes behind the value in a payload.
const trailer = 16

// bulkHead is room for the head of any bulk string.
const bulkHead = 24

// encoders are reused: an encoder that has compressed something is large.
var encoders = sync.Pool{New: func() any { return &rdb.Encoder{Compress: true} }}

// AppendDump appends the value of a key, as DUMP replies it, to a buffer. m is what Find returned
// for the key, which exists. If the execution fails the contents of the buffer are undefined.
func AppendDump(tx *keyspace.Tx, buf, key []byte, m keyspace.Meta) []byte {
	if tx.Heavy(dumpWork(m)) {
		return buf
	}
	e := encoders.Get().(*rdb.Encoder)
	e.Reset(buf)
	size, charged := cap(buf), 0
	charge := func(n int) bool {
		more := n - charged
		if more <= 0 {
			return true
		}
		charged = n
		return tx.Take(int64(more))
	}
	// The payload is in memory as a whole, and twice while the buffer grows: it grows here, after
	// the memory was accounted for.
	held := func() bool {
		if n := cap(e.Buf); n > size {
			old := size
			if size = n; !charge(n + old) {
				return false
			}
		}
		if size < largeDump || size-len(e.Buf) > size/16 {
			return true
		}
		next := size + size/4
		if !charge(next + size) {
			return false
		}
		e.Buf = slices.Grow(e.Buf, next-len(e.Buf))
		size = cap(e.Buf)
		return true
	}
	defer func() {
		e.Reset(nil)
		encoders.Put(e)
	}()
	if err := encodeValue(tx, e, key, m, true, held); err != nil {
		tx.Fail(err)
	}
	return e.End()
}

// EncodeKey passes the value of a key to the Encoder of a Writer, a large one in portions. m is
// what Find returned for the key, which exists. active allows the times at which consumers of
// streams were last active to be written.
func EncodeKey(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, active bool) error {
	held := tx.Held()
	defer func() { tx.Release(held) }()
	err := encodeValue(tx, e, key, m, active, func() bool { return e.Spill() && tx.Err() == nil })
	if err == nil {
		err = tx.Err()
	}
	return err
}

// encodeValue passes a value to an Encoder. It calls held between elements, and ends when held
// returns false.
func encodeValue(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, active bool, held func() bool) error {
	switch m.Type {
	case keyspace.String:
		dumpString(tx, e, m, held)
	case keyspace.List:
		return dumpList(tx, e, key, m, held)
	case keyspace.Set:
		return dumpSet(tx, e, key, m, held)
	case keyspace.ZSet:
		return dumpZSet(tx, e, key, m, held)
	case keyspace.Hash:
		return dumpHash(tx, e, key, m, held)
	case keyspace.Stream:
		return dumpStream(tx, e, key, m, active, held)
	case keyspace.Channel:
		return dumpChannel(tx, e, key, m, held)
	}
	return nil
}

// largeDump is the size from which on the memory of a payload is accounted for before it grows.
const largeDump = 1 << 20

// dumpWork is the cost of encoding a value, in the unit of Tx.Heavy.
func dumpWork(m keyspace.Meta) int64 {
	switch {
	case !m.External():
		return int64(len(m.Body))
	case m.Type == keyspace.String:
		return m.Ref().Size
	}
	return m.Ref().Size * restoreWork
}

func dumpString(tx *keyspace.Tx, e *rdb.Encoder, m keyspace.Meta, held func() bool) {
	v := str.Value{Meta: m}
	if b, ok := v.Inline(); ok {
		e.String(b)
		return
	}
	e.BeginString(v.Len())
	if !e.Streams() {
		taken := tx.Taken()
		if !tx.Take(v.Len() + int64(cap(e.Buf))) {
			return
		}
		tx.Give(taken)                                   // held takes it again
		e.Buf = slices.Grow(e.Buf, int(v.Len())+trailer) // there is room for all of it
		if !held() {
			return
		}
	}
	end := int64(0)
	zeros := func(to int64) bool {
		for more := true; more && end < to; {
			n := min(to-end, zeroPiece)
			e.Zeros(n)
			end += n
			more = !e.Streams() || held()
		}
		return tx.Err() == nil
	}
	v.Walk(tx, 0, v.Len(), func(at int64, piece []byte) bool {
		if !zeros(at) {
			return false
		}
		e.Piece(piece)
		end = at + int64(len(piece))
		return !e.Streams() || held()
	})
	zeros(v.Len())
}

// zeroPiece is the number of zeros that are written at a time.
const zeroPiece = 64 << 10

func dumpList(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, held func() bool) error {
	l, err := list.Of(tx, key, m)
	if err != nil {
		return err
	}
	e.BeginList()
	e.Sized(l.Len())
	l.Walk(0, l.Len(), false, func(b []byte) bool {
		e.Element(b)
		return held()
	})
	return nil
}

func dumpSet(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, held func() bool) error {
	s, err := sets.Of(tx, key, m)
	if err != nil {
		return err
	}
	e.BeginSet()
	e.Sized(s.Len())
	s.Each(func(b []byte) bool {
		e.Element(b)
		return held()
	})
	return nil
}

// dumpZSet writes the highest score first, the order that Redis loads fastest.
func dumpZSet(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, held func() bool) error {
	z, err := zset.Of(tx, key, m)
	if err != nil {
		return err
	}
	defer z.Release()
	e.BeginZSet()
	e.Sized(z.Len())
	z.Walk(zset.Whole, true, func(b []byte, score float64) bool {
		e.Member(b, score)
		return held()
	})
	return nil
}

func dumpHash(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, held func() bool) error {
	h, err := hash.Of(tx, key, m)
	if err != nil {
		return err
	}
	defer h.Release()
	if times := m.FieldTimes(); times.Next != 0 {
		e.BeginTimedHash(times.Next)
	} else {
		e.BeginHash()
	}
	e.Sized(h.Len())
	h.Each(func(field []byte, f hash.Entry) bool {
		e.Field(field, f.Value, f.At)
		return held()
	})
	return nil
}

func dumpStream(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, active bool, held func() bool) error {
	s, err := stream.Of(tx, key, m)
	if err != nil {
		return err
	}
	var fields [][]byte
	entries := func(to func(id rdb.ID, fields [][]byte)) {
		s.Each(stream.ID{}, stream.MaxID, false, func(id stream.ID, entry stream.Entry) bool {
			fields = fields[:0]
			n, items := entry.Pairs()
			for range 2 * n {
				item, _ := items.Next()
				fields = append(fields, item)
			}
			to(rdb.ID(id), fields)
			return held()
		})
	}
	var nodes rdb.NodeCounter
	if e.Streams() && s.Len() > manyEntries { // read twice, not held
		entries(nodes.Add)
	}
	e.BeginStream(active && consumersDiffer(s))
	if n := nodes.Nodes(); n > 0 {
		e.Sized(n)
	}
	entries(e.Entry)
	e.EndEntries(rdb.StreamInfo{
		Length: s.Len(), Last: rdb.ID(s.Last), First: rdb.ID(s.First), MaxDeleted: rdb.ID(s.MaxDeleted), Added: s.Added,
	})
	e.Sized(s.Groups())
	s.EachGroup(func(g *stream.Group) bool {
		e.BeginGroup(g.Name, rdb.ID(g.Last), g.EntriesRead)
		e.Sized(g.Pending())
		g.EachPending(nil, stream.ID{}, stream.MaxID, func(p stream.Pending) bool {
			e.GroupPending(rdb.ID(p.ID), p.Time, uint64(p.Count))
			return !e.Streams() || held()
		})
		e.EndPending()
		e.Sized(g.Consumers())
		g.EachConsumer(func(c *stream.Consumer) bool {
			e.BeginConsumer(c.Name, c.Seen, c.Active)
			e.Sized(c.Pending())
			g.EachPending(c, stream.ID{}, stream.MaxID, func(p stream.Pending) bool {
				e.ConsumerPending(rdb.ID(p.ID))
				return !e.Streams() || held()
			})
			return tx.Err() == nil
		})
		return tx.Err() == nil
	})
	return nil
}

// manyEntries is the number of entries from which on a stream is read twice, not kept in memory.
const manyEntries = 1000

// NeedsVersion is the lowest version of the RDB format that can store a value, if it is not a
// channel, without loss.
func NeedsVersion(tx *keyspace.Tx, key []byte, m keyspace.Meta) int {
	switch m.Type {
	case keyspace.Hash:
		if m.FieldTimes().Next != 0 {
			return rdb.VersionRedis74
		}
	case keyspace.Stream:
		held := tx.Held()
		defer tx.Release(held)
		s, err := stream.Of(tx, key, m)
		if err != nil {
			tx.Fail(err)
		} else if consumersDiffer(s) {
			return rdb.VersionRedis72
		}
	}
	return rdb.VersionRedis70
}

// consumersDiffer reports whether some consumer was last active at another time than it was last
// seen. The format of Redis 7.0 has only one of the two times.
func consumersDiffer(s *stream.Stream) (differ bool) {
	s.EachGroup(func(g *stream.Group) bool {
		g.EachConsumer(func(c *stream.Consumer) bool {
			differ = differ || c.Active != c.Seen
			return !differ
		})
		return !differ
	})
	return differ
}

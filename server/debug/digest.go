package debug

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"strconv"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/server/admin"
	"redoubt/types/channel"
	hashes "redoubt/types/hash"
	"redoubt/types/list"
	"redoubt/types/set"
	"redoubt/types/str"
	streams "redoubt/types/stream"
	"redoubt/types/zset"
)

// DEBUG DIGEST and DIGEST-VALUE.
//
// Two values have the same digest if no read command can tell them apart, whatever
// their layout: packed or in rows, cut into chunks, under any id. So a digest is computed
// from the types' view, not from rows. For sets and hashes, whose elements have no order,
// the hashes of the elements are combined independently of order.

// digest is the hash of a set of values: the order does not matter.
type digest [sha1.Size]byte

func (d *digest) add(b []byte) {
	for i := range d {
		d[i] ^= b[i]
	}
}

func (d *digest) String() string { return hex.EncodeToString(d[:]) }

// digester computes digests in one execution.
type digester struct {
	tx    *keyspace.Tx
	whole hash.Hash // of a value
	part  hash.Hash // of an element
	sum   [sha1.Size]byte
}

func newDigester(tx *keyspace.Tx) *digester {
	return &digester{tx: tx, whole: sha1.New(), part: sha1.New()}
}

// field feeds one field with its length, so that different sequences of fields never
// feed the same bytes.
func field(h hash.Hash, b []byte) {
	feedInt(h, uint64(len(b)))
	h.Write(b)
}

func feedInt(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

// key returns the digest of an existing key with its name and database.
func (d *digester) key(db int, key []byte, m keyspace.Meta) []byte {
	d.whole.Reset()
	field(d.whole, strconv.AppendInt(nil, int64(db), 10))
	field(d.whole, key)
	d.feed(key, m)
	return d.whole.Sum(d.sum[:0])
}

// value returns the digest of a value without its key.
func (d *digester) value(key []byte, m keyspace.Meta) []byte {
	d.whole.Reset()
	d.feed(key, m)
	return d.whole.Sum(d.sum[:0])
}

// feed feeds type, expiry and content.
func (d *digester) feed(key []byte, m keyspace.Meta) {
	h := d.whole
	h.Write([]byte{byte(m.Type)})
	feedInt(h, uint64(m.Expire))
	var err error
	switch m.Type {
	case keyspace.String:
		err = d.str(m)
	case keyspace.List:
		err = d.list(key, m)
	case keyspace.Set:
		err = d.set(key, m)
	case keyspace.ZSet:
		err = d.zset(key, m)
	case keyspace.Hash:
		err = d.hash(key, m)
	case keyspace.Stream:
		err = d.stream(key, m)
	case keyspace.Channel:
		err = d.channel(key, m)
	default:
		err = fmt.Errorf("%w: a value of type %d", engine.ErrCorrupt, m.Type)
	}
	if err != nil {
		d.tx.Fail(err)
	}
}

// strPiece is how much of a string is read at a time.
const strPiece = 64 << 10

func (d *digester) str(m keyspace.Meta) error {
	v, err := str.Of(m)
	if err != nil {
		return err
	}
	feedInt(d.whole, uint64(v.Len()))
	if b, inline := v.Inline(); inline {
		d.whole.Write(b)
		return nil
	}
	var piece []byte
	for at := int64(0); at < v.Len() && d.tx.Err() == nil; at += strPiece {
		held := d.tx.Held()
		piece = v.AppendRange(d.tx, piece[:0], at, min(v.Len(), at+strPiece))
		d.tx.Release(held)
		d.whole.Write(piece)
	}
	return nil
}

func (d *digester) list(key []byte, m keyspace.Meta) error {
	l, err := list.Of(d.tx, key, m)
	if err != nil {
		return err
	}
	feedInt(d.whole, uint64(l.Len()))
	l.Walk(0, l.Len(), false, func(e []byte) bool {
		field(d.whole, e)
		return true
	})
	return nil
}

// unordered feeds a set of elements independently of their order. each feeds d.part with
// an element and then calls its argument, for every element.
func (d *digester) unordered(each func(element func())) {
	var all digest
	n := uint64(0)
	var sum [sha1.Size]byte
	d.part.Reset()
	each(func() {
		all.add(d.part.Sum(sum[:0]))
		n++
		d.part.Reset()
	})
	feedInt(d.whole, n)
	d.whole.Write(all[:])
}

func (d *digester) set(key []byte, m keyspace.Meta) error {
	s, err := set.Of(d.tx, key, m)
	if err != nil {
		return err
	}
	d.unordered(func(element func()) {
		s.Each(func(member []byte) bool {
			field(d.part, member)
			element()
			return true
		})
	})
	return nil
}

func (d *digester) hash(key []byte, m keyspace.Meta) error {
	h, err := hashes.Of(d.tx, key, m)
	if err != nil {
		return err
	}
	defer h.Release()
	d.unordered(func(element func()) {
		h.Each(func(name []byte, e hashes.Entry) bool {
			field(d.part, name)
			field(d.part, e.Value)
			feedInt(d.part, uint64(e.At))
			element()
			return true
		})
	})
	return nil
}

func (d *digester) zset(key []byte, m keyspace.Meta) error {
	z, err := zset.Of(d.tx, key, m)
	if err != nil {
		return err
	}
	defer z.Release()
	feedInt(d.whole, uint64(z.Len()))
	z.Each(func(member []byte, score float64) bool {
		field(d.whole, member)
		feedInt(d.whole, math.Float64bits(score))
		return true
	})
	return nil
}

// stream feeds entries and groups. The times at which consumers were seen are left out,
// since they are no content.
func (d *digester) stream(key []byte, m keyspace.Meta) error {
	s, err := streams.Of(d.tx, key, m)
	if err != nil {
		return err
	}
	id := func(ids ...streams.ID) {
		for _, i := range ids {
			feedInt(d.whole, i.Ms)
			feedInt(d.whole, i.Seq)
		}
	}
	top := streams.ID{Ms: math.MaxUint64, Seq: math.MaxUint64}
	feedInt(d.whole, uint64(s.Len()))
	feedInt(d.whole, uint64(s.Added))
	id(s.Last, s.MaxDeleted)
	s.Each(streams.ID{}, top, false, func(at streams.ID, e streams.Entry) bool {
		id(at)
		field(d.whole, e)
		return true
	})
	feedInt(d.whole, uint64(s.Groups()))
	s.EachGroup(func(g *streams.Group) bool {
		field(d.whole, g.Name)
		id(g.Last)
		feedInt(d.whole, uint64(g.EntriesRead))
		feedInt(d.whole, uint64(g.Consumers()))
		g.EachConsumer(func(c *streams.Consumer) bool {
			field(d.whole, c.Name)
			return true
		})
		feedInt(d.whole, uint64(g.Pending()))
		g.EachPending(nil, streams.ID{}, top, func(p streams.Pending) bool {
			id(p.ID)
			feedInt(d.whole, uint64(p.Time))
			feedInt(d.whole, uint64(p.Count))
			field(d.whole, p.Consumer)
			return true
		})
		return true
	})
	return nil
}

func (d *digester) channel(key []byte, m keyspace.Meta) error {
	c, err := channel.Of(d.tx, key, m, nil)
	if err != nil {
		return err
	}
	defer c.Release()
	ints := func(list ...int64) {
		for _, n := range list {
			feedInt(d.whole, uint64(n))
		}
	}
	i, n := c.Image(), int64(0)
	ints(i.Last, i.Expire, i.MaxLen, i.MaxBytes)
	c.Each(func(m *channel.Message) bool {
		n++
		ints(m.Position, m.Born, m.Death)
		field(d.whole, m.ID)
		if !m.Trimmed() {
			field(d.whole, m.Content)
		}
		return true
	})
	ints(n)
	c.EachSubscriber(func(s *channel.Subscriber) bool {
		field(d.whole, s.Name)
		ints(s.At, s.Death())
		return true
	})
	return nil
}

func digestAll(c *admin.Call) error {
	return c.Client.Execute(&command.Command{
		Name: "debug", Flags: command.ReadOnly | command.OneState, Run: func(x *command.Ctx) error {
			var sum digest
			d := newDigester(x.Tx)
			for db := range x.Tx.Space.Databases() {
				x.Tx.DB = db
				x.Tx.Walk(0, nil, func(_ uint16, key []byte, m keyspace.Meta) bool {
					if m.Exists() {
						held := x.Tx.Held()
						sum.add(d.key(db, key, m))
						x.Tx.Release(held)
					}
					return x.Tx.Err() == nil
				})
			}
			x.Reply.Status(sum.String())
			return nil
		},
	}, nil)
}

func digestValue(c *admin.Call) error {
	return c.Client.Execute(&command.Command{
		Name: "debug", Flags: command.ReadOnly, Keys: command.KeyRange(2, -1, 1, command.RO), Run: func(x *command.Ctx) error {
			d := newDigester(x.Tx)
			x.Reply.Array(len(x.Args) - 2)
			for _, key := range x.Args[2:] {
				var sum digest
				held := x.Tx.Held()
				if m := x.Tx.Find(key); m.Exists() {
					sum.add(d.value(key, m))
				}
				x.Tx.Release(held)
				x.Reply.Status(sum.String())
			}
			return nil
		},
	}, c.Args)
}

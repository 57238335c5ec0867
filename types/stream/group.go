package stream

import (
	"bytes"
	"encoding/binary"

	"redoubt/keyspace"
)

// Group is a consumer group: each entry is delivered to one consumer, and is
// pending until that consumer acknowledges it.
type Group struct {
	Name []byte
	// Last is the ID of the entry delivered last.
	Last ID
	// EntriesRead is the number of entries delivered, counted from the first one
	// ever added, or NotCounted.
	EntriesRead int64

	s            *Stream
	number       uint32
	pending      int64
	top          ID // no ID above it is pending
	consumers    uint32
	nextConsumer uint32
	changed      bool
	known        []*Consumer          // the consumers that were looked up
	byName       map[string]*Consumer // known by name, above manyKnown
}

const groupSize = 4 + idSize + 8 + 8 + idSize + 4 + 4

// Pending is the number of pending entries, and Consumers the number of consumers of
// the group.
func (g *Group) Pending() int64   { return g.pending }
func (g *Group) Consumers() int64 { return int64(g.consumers) }

// Group returns a group, or nil if the group or the stream does not exist.
func (s *Stream) Group(name []byte) *Group {
	if s.groups == 0 {
		return nil
	}
	v, found := s.tx.GetRow(s.done(append(s.row(rowGroup), name...)))
	if !found {
		return nil
	}
	return s.group(name, v)
}

func (s *Stream) group(name, v []byte) *Group {
	if len(v) != groupSize {
		s.corrupt("a group's row is malformed")
		return nil
	}
	return &Group{
		Name: bytes.Clone(name), s: s, number: binary.BigEndian.Uint32(v),
		Last: decodeID(v[4:]), EntriesRead: int64(binary.BigEndian.Uint64(v[20:])),
		pending: int64(binary.BigEndian.Uint64(v[28:])), top: decodeID(v[36:]),
		consumers: binary.BigEndian.Uint32(v[52:]), nextConsumer: binary.BigEndian.Uint32(v[56:]),
	}
}

// EachGroup visits the groups in the order of their names until visit returns false.
// visit must not write.
func (s *Stream) EachGroup(visit func(g *Group) bool) {
	if s.groups == 0 {
		return
	}
	it := s.tx.IterKind(s.ref, keyspace.SubRow, []byte{rowGroup}, []byte{rowGroup + 1}, false)
	defer s.tx.CloseRows(it)
	for it.Next() {
		if g := s.group(rest(it.Key())[1:], it.Value()); g == nil || !visit(g) {
			return
		}
	}
}

// CreateGroup creates a group that reads on after an ID; a missing key becomes a stream.
// CreateGroup returns nil if a group of that name exists.
func (s *Stream) CreateGroup(name []byte, last ID, read int64) *Group {
	if s.Group(name) != nil {
		return nil
	}
	s.start()
	s.nextGroup++
	s.groups++
	s.changed = true
	return &Group{Name: bytes.Clone(name), s: s, number: s.nextGroup, Last: last, EntriesRead: read, changed: true}
}

// SetID makes the group read on after an ID.
func (g *Group) SetID(last ID, read int64) { g.Last, g.EntriesRead, g.changed = last, read, true }

// Destroy removes the group with its consumers and pending entries.
func (g *Group) Destroy() {
	s := g.s
	s.tx.DeleteRow(s.done(append(s.row(rowGroup), g.Name...)))
	s.drop(g.prefix(rowConsumer), int64(g.consumers))
	s.drop(g.prefix(rowPending), g.pending)
	s.drop(g.prefix(rowOwned), g.pending)
	s.groups--
	s.changed = true
}

// Save stores the rows of the group and of its consumers that have changed.
func (g *Group) Save() {
	if g.changed {
		var buf [groupSize]byte
		b := binary.BigEndian.AppendUint32(buf[:0], g.number)
		b = binary.BigEndian.AppendUint64(appendID(b, g.Last), uint64(g.EntriesRead))
		b = appendID(binary.BigEndian.AppendUint64(b, uint64(g.pending)), g.top)
		b = binary.BigEndian.AppendUint32(b, g.consumers)
		b = binary.BigEndian.AppendUint32(b, g.nextConsumer)
		g.s.tx.PutRow(g.s.done(append(g.s.row(rowGroup), g.Name...)), b)
		g.changed = false
	}
	for _, c := range g.known {
		if c.changed {
			c.save()
		}
	}
}

// prefix is the prefix of the keys of the group's rows of a kind.
func (g *Group) prefix(kind byte) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, g.number)
}

// rowOf begins the key of a row of the group.
func (g *Group) rowOf(kind byte) []byte {
	return binary.BigEndian.AppendUint32(g.s.row(kind), g.number)
}

// Consumer is one of the readers of a group.
type Consumer struct {
	Name []byte
	// Seen is the time of the last attempt to read, Active that of the last delivery,
	// or -1. Both are in Unix milliseconds.
	Seen, Active int64

	g       *Group
	number  uint32
	pending int64
	changed bool
}

const consumerSize = 4 + 8 + 8 + 8

// Pending is the number of pending entries of the consumer.
func (c *Consumer) Pending() int64 { return c.pending }

// Consumer returns a consumer, or nil if there is none.
func (g *Group) Consumer(name []byte) *Consumer {
	if c, ok := g.cached(name); ok || g.consumers == 0 {
		return c
	}
	v, found := g.s.tx.GetRow(g.s.done(append(g.rowOf(rowConsumer), name...)))
	if !found {
		return nil
	}
	c := g.consumer(name, v)
	if c != nil {
		g.remember(c)
	}
	return c
}

func (g *Group) consumer(name, v []byte) *Consumer {
	if len(v) != consumerSize {
		g.s.corrupt("a consumer's row is malformed")
		return nil
	}
	return &Consumer{
		Name: bytes.Clone(name), g: g, number: binary.BigEndian.Uint32(v),
		Seen: int64(binary.BigEndian.Uint64(v[4:])), Active: int64(binary.BigEndian.Uint64(v[12:])),
		pending: int64(binary.BigEndian.Uint64(v[20:])),
	}
}

// manyKnown is the most consumers in memory that are searched one by one.
const manyKnown = 16

func (g *Group) cached(name []byte) (*Consumer, bool) {
	if g.byName != nil {
		c, ok := g.byName[string(name)]
		return c, ok
	}
	for _, c := range g.known {
		if bytes.Equal(c.Name, name) {
			return c, true
		}
	}
	return nil, false
}

func (g *Group) remember(c *Consumer) {
	g.known = append(g.known, c)
	if g.byName == nil && len(g.known) > manyKnown {
		g.byName = make(map[string]*Consumer)
		for _, k := range g.known {
			g.byName[string(k.Name)] = k
		}
	} else if g.byName != nil {
		g.byName[string(c.Name)] = c
	}
}

// AddConsumer creates a consumer, which must not exist.
func (g *Group) AddConsumer(name []byte) *Consumer {
	g.nextConsumer++
	g.consumers++
	g.changed = true
	c := &Consumer{Name: bytes.Clone(name), g: g, number: g.nextConsumer, Seen: g.s.tx.Now, Active: -1, changed: true}
	g.remember(c)
	return c
}

// EachConsumer visits the consumers in the order of their names until visit returns
// false. visit must not write.
func (g *Group) EachConsumer(visit func(c *Consumer) bool) {
	if g.consumers == 0 {
		return
	}
	p := g.prefix(rowConsumer)
	it := g.s.tx.IterKind(g.s.ref, keyspace.SubRow, p, successor(p), false)
	defer g.s.tx.CloseRows(it)
	for it.Next() {
		if c := g.consumer(rest(it.Key())[len(p):], it.Value()); c == nil || !visit(c) {
			return
		}
	}
}

// See notes that the consumer tries to read.
func (c *Consumer) See() { c.Seen, c.changed = c.g.s.tx.Now, true }

func (c *Consumer) act() { c.Active, c.changed = c.g.s.tx.Now, true }

func (c *Consumer) save() {
	var buf [consumerSize]byte
	b := binary.BigEndian.AppendUint32(buf[:0], c.number)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Seen))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Active))
	b = binary.BigEndian.AppendUint64(b, uint64(c.pending))
	g := c.g
	g.s.tx.PutRow(g.s.done(append(g.rowOf(rowConsumer), c.Name...)), b)
	c.changed = false
}

// Delete removes the consumer with its pending entries.
func (c *Consumer) Delete() {
	g, s := c.g, c.g.s
	if c.pending == g.pending {
		s.drop(g.prefix(rowPending), g.pending)
	} else if !s.tx.Heavy(c.pending * rowWork) {
		c.eachOwned(ID{}, MaxID, func(ids []ID) bool {
			for _, id := range ids {
				s.tx.DeleteRow(g.pendingRow(id))
			}
			return true
		})
	}
	s.drop(c.prefix(), c.pending)
	s.tx.DeleteRow(s.done(append(g.rowOf(rowConsumer), c.Name...)))
	g.pending -= c.pending
	g.consumers--
	g.changed, c.changed = true, false
}

// prefix is the prefix of the keys of the consumer's own rows of pending entries.
func (c *Consumer) prefix() []byte {
	return binary.BigEndian.AppendUint32(c.g.prefix(rowOwned), c.number)
}

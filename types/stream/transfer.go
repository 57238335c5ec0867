package stream

import (
	"bytes"

	"redoubt/keyspace"
	"redoubt/types"
)

// Making a stream out of what another server had, for RESTORE. Reading one as a
// whole, for DUMP, is done by Each, EachGroup, Group.EachConsumer and
// Group.EachPending.

// Builder makes a new stream. Entries come first, in the order of their IDs, then
// the groups, each with its consumers and then what is pending.
type Builder struct {
	s      Stream
	limits types.Limits
	group  *Group
}

// NewBuilder begins a stream that will be the key's.
func NewBuilder(tx *keyspace.Tx, key []byte, l types.Limits) *Builder {
	b := &Builder{s: Stream{tx: tx, key: key}, limits: l}
	b.s.Create()
	return b
}

// Entry adds an entry; pairs are its fields and values in turn. It says false if
// the ID is not above the one before.
func (b *Builder) Entry(id ID, pairs [][]byte) bool {
	return b.s.Add(id, pairs, &b.limits) == nil
}

// Group adds a group; read may be NotCounted. It says false if there is one of
// that name.
func (b *Builder) Group(name []byte, last ID, read int64) bool {
	b.endGroup()
	b.group = b.s.CreateGroup(name, last, read)
	if b.group == nil {
		return false
	}
	b.group.Save()
	return true
}

// Consumer adds a consumer to the group that was added last; active is -1 if it
// never got anything. It says false if there is one of that name.
func (b *Builder) Consumer(name []byte, seen, active int64) bool {
	if b.group == nil || b.group.Consumer(name) != nil {
		return false
	}
	c := b.group.AddConsumer(name)
	c.Seen, c.Active = seen, active
	return true
}

// Pending adds a pending entry to the group that was added last. It says false if
// the consumer does not exist or the entry is pending already.
func (b *Builder) Pending(p Pending) bool {
	if b.group == nil {
		return false
	}
	c := b.group.Consumer(p.Consumer)
	if c == nil {
		return false
	}
	held := b.s.tx.Held()
	_, pending := b.group.Find(p.ID)
	b.s.release(held)
	if pending {
		return false
	}
	p.Consumer = bytes.Clone(p.Consumer)
	b.group.Assign(Pending{}, false, c, p)
	return true
}

func (b *Builder) endGroup() {
	if b.group != nil {
		b.group.Save()
		b.group = nil
	}
}

// Store ends the stream and makes it the key's. old is what Find returned for the
// key, of whatever type. It says false if last is below the last entry, or added
// below the number of entries; a negative added stands for that number.
func (b *Builder) Store(old keyspace.Meta, expire int64, last, maxDeleted ID, added int64) bool {
	b.endGroup()
	s := &b.s
	if added < 0 {
		added = s.Len()
	}
	if last.Less(s.Last) || added < s.Len() {
		return false
	}
	s.Last, s.MaxDeleted, s.Added = last, maxDeleted, added
	m := keyspace.Meta{Type: keyspace.Stream, Encoding: keyspace.Rows, Expire: expire, Body: s.body()}
	s.tx.Store(s.key, old, m)
	return true
}

package channel

import (
	"bytes"

	"redoubt/keyspace"
)

// Reading a whole channel, and rebuilding one, for DUMP, RESTORE and digests.

// Image is the state of a channel besides its messages and subscribers.
type Image struct {
	Settings
	// Last is the position of the newest message.
	Last int64
	// Kept: the clock was set, so the channel is kept even when it is empty.
	Kept bool
	// Secret is the key of handles and of the id index.
	Secret [secretSize]byte
}

// WithSecret returns the image with another secret.
func (i Image) WithSecret(secret []byte) Image {
	copy(i.Secret[:], secret)
	return i
}

// Image returns the state of the channel besides its messages and subscribers.
func (c *Channel) Image() Image {
	return Image{Settings: c.settings, Last: c.last, Kept: c.flags&flagKept != 0, Secret: c.secret}
}

// Trimmed reports whether only the id of the message is left, Timed whether the message
// has a score row.
func (m *Message) Trimmed() bool { return m.flags&msgTrimmed != 0 }
func (m *Message) Timed() bool   { return m.flags&msgTimed != 0 }

// Each visits the live messages, including trimmed ones, in the order of positions until
// visit returns false. Nothing may be written meanwhile.
func (c *Channel) Each(visit func(m *Message) bool) {
	if !c.Exists() {
		return
	}
	it := c.tx.IterKind(c.ref, keyspace.SubRow, []byte{rowMessage}, []byte{rowMessage + 1}, false)
	defer c.tx.CloseRows(it)
	for it.Next() {
		key := rest(it.Key())
		if len(key) != 9 {
			c.tx.Fail(corrupt("the key of a message's row is % x", it.Key()))
			return
		}
		m, ok := c.decodeMessage(decodePosition(key[1:]), it.Value())
		if !ok || m.Death > c.tx.Now && !visit(&m) {
			return
		}
	}
}

// maxTime is later than any time of a message or a subscriber, in Unix milliseconds.
const maxTime = 1 << 50

// maxPosition is beyond any position that a channel reaches.
const maxPosition = 1 << 62

// Builder rebuilds a channel from an image, messages in the order of positions, then
// subscribers. Dead messages and subscribers are left out.
type Builder struct {
	c        *Channel
	position int64 // of the previous message
	readable bool  // a readable message was added
}

// NewBuilder begins a channel at a key that does not exist. It returns false if the image
// is invalid.
func NewBuilder(tx *keyspace.Tx, key []byte, i Image) (*Builder, bool) {
	s := i.Settings
	if i.Last < -MaxClock || i.Last > maxPosition || s.Expire < 0 || s.Expire > MaxExpire || s.MaxLen < 0 || s.MaxBytes < 0 {
		return nil, false
	}
	c := idle.Get().(*Channel)
	c.tx, c.key = tx, key
	c.ref = tx.NewRef(key, 0)
	c.settings, c.secret, c.buckets, c.dirty = s, i.Secret, 1, true
	c.last, c.first, c.chain = i.Last, i.Last+1, i.Last+1
	if i.Kept {
		c.flags = flagKept
	}
	return &Builder{c: c, position: -MaxClock - 1}, true
}

// Message adds a message. It returns false if the message is invalid or contradicts those
// before it.
func (b *Builder) Message(position, born, death int64, id, content []byte, trimmed, timed bool) bool {
	c := b.c
	switch {
	case position <= b.position, position > c.last, !ValidName(id), born < 0, born > maxTime, death < 0, death > maxTime:
		return false
	case trimmed && (b.readable || len(content) > 0):
		return false
	}
	b.position, b.readable = position, b.readable || !trimmed
	if death <= c.tx.Now {
		return true
	}
	held := c.tx.Held()
	hash := c.hash(id)
	_, found, entries := c.lookup(id, hash)
	if found {
		return false
	}
	m := Message{Position: position, ID: id, Content: content, Born: born, Death: death}
	if timed || death < c.latest {
		m.flags |= msgTimed
		c.tx.PutRow(c.dueMessageRow(death, position), nil)
	} else {
		c.latest = death
	}
	c.chain = min(c.chain, position)
	c.rows++
	if trimmed {
		m.flags |= msgTrimmed
	} else {
		c.first = min(c.first, position)
		c.ref.Size++
		c.bytes += int64(len(id) + len(content))
	}
	c.addID(hash, position, entries)
	c.putMessage(&m)
	c.noteDeath(death)
	c.tx.Release(held)
	return true
}

// Subscriber adds a subscriber. It returns false if the subscriber is invalid or a
// duplicate.
func (b *Builder) Subscriber(name []byte, at, death int64) bool {
	c := b.c
	if !ValidName(name) || at > c.last || at < -MaxClock-1 || death < 0 || death > maxTime {
		return false
	}
	held := c.tx.Held()
	defer c.tx.Release(held)
	if _, found := c.row(name); found {
		return false
	}
	if death <= c.tx.Now {
		return true
	}
	c.subscribers++
	s := Subscriber{Name: bytes.Clone(name), At: at, death: death}
	c.addDue(&s)
	c.putSubscriber(&s)
	c.noteDeath(death)
	return true
}

// Store stores the channel at the key unless the channel is empty.
func (b *Builder) Store() { b.c.Save() }

// Release returns the builder's Channel to the pool.
func (b *Builder) Release() { b.c.Release() }

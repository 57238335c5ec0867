package channel

import (
	"encoding/binary"

	"redoubt/keyspace"
)

// Message is a message as a visitor sees it. Its bytes are valid until the next visit.
type Message struct {
	Position    int64
	ID, Content []byte

	// Born is when the message was published, Death when it dies, in Unix milliseconds.
	Born, Death int64

	flags byte
}

// The flags of a message's row.
const (
	// msgTimed: the message has a score row.
	msgTimed = 0x01
	// msgTrimmed: the message cannot be read any more, and its content is gone.
	msgTrimmed = 0x02
	msgKnown   = msgTimed | msgTrimmed
)

const messageHead = 1 + 8 + 8 + 1

func appendMessage(b []byte, m *Message) []byte {
	b = binary.BigEndian.AppendUint64(append(b, m.flags), uint64(m.Born))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Death))
	return append(append(append(b, byte(len(m.ID))), m.ID...), m.Content...)
}

// decodeMessage reads the row of a message.
func (c *Channel) decodeMessage(position int64, row []byte) (m Message, ok bool) {
	if len(row) < messageHead || row[0]&^msgKnown != 0 || len(row) < messageHead+int(row[17]) {
		c.tx.Fail(corrupt("the row of the message at %d begins with % x", position, row[:min(len(row), messageHead)]))
		return m, false
	}
	m = Message{Position: position, flags: row[0], Born: int64(binary.BigEndian.Uint64(row[1:])), Death: int64(binary.BigEndian.Uint64(row[9:]))}
	n := messageHead + int(row[17])
	m.ID, m.Content = row[messageHead:n:n], row[n:]
	return m, true
}

// message reads the message at a position.
func (c *Channel) message(position int64) (m Message, found bool) {
	row, found := c.tx.GetRow(c.messageRow(position))
	if !found {
		return m, false
	}
	return c.decodeMessage(position, row)
}

// Publish adds a message, unless a live one has the same id. It returns the position of
// the message with the id, and whether that message is new. life is the lifetime in
// milliseconds; 0 stands for the channel's.
func (c *Channel) Publish(id, content []byte, life int64, seed uint64) (position int64, created bool) {
	if c.tx.Heavy(int64(len(content))) {
		return 0, false
	}
	c.create(seed)
	c.expire(purgeStep)
	hash := c.hash(id)
	position, found, entries := c.lookup(id, hash)
	if found || c.tx.Err() != nil {
		return position, false
	}
	m := Message{ID: id, Content: content, Born: c.tx.Now}
	if life > 0 {
		m.flags, m.Death = msgTimed, c.tx.Now+life
	} else if m.Death = c.tx.Now + c.life(); m.Death < c.latest && c.chain <= c.last {
		m.flags = msgTimed // an older message dies later
	}
	for _, hook := range c.rules.Hooks {
		c.ensureHook(hook, m.Death)
	}
	c.last++
	c.rows++
	c.ref.Size++
	c.bytes += int64(len(id) + len(content))
	c.dirty = true
	m.Position = c.last
	c.addID(hash, c.last, entries)
	c.putMessage(&m)
	if m.flags&msgTimed != 0 {
		c.tx.PutRow(c.dueMessageRow(m.Death, c.last), nil)
	} else {
		c.latest = m.Death
	}
	c.noteDeath(m.Death)
	c.trim()
	c.tx.Awaken(c.key)
	return c.last, true
}

// putMessage writes the row of a message.
func (c *Channel) putMessage(m *Message) {
	c.val = appendMessage(c.val[:0], m)
	c.tx.PutRow(c.messageRow(m.Position), c.val)
}

// limited reports whether there are more messages, or bytes, than the settings allow. The
// newest message is kept however large it is.
func (c *Channel) limited() bool {
	s := &c.settings
	return s.MaxLen > 0 && c.ref.Size > s.MaxLen || s.MaxBytes > 0 && c.bytes > s.MaxBytes && c.ref.Size > 1
}

// trim makes the oldest messages unreadable until the settings hold. Their ids stay
// known until their time.
func (c *Channel) trim() {
	if !c.limited() {
		return
	}
	c.expireAll() // dead messages do not count against the limits
	work := int64(0)
	for c.limited() {
		held := c.tx.Held()
		m, found := c.firstFrom(c.first)
		if work += rowWork; !found || c.tx.Heavy(work) {
			return
		}
		c.ref.Size--
		c.bytes -= int64(len(m.ID) + len(m.Content))
		c.first, c.dirty = m.Position+1, true
		m.flags |= msgTrimmed
		m.Content = nil
		c.putMessage(&m)
		c.tx.Release(held)
	}
}

// rowWork is the cost of reading a row, in the unit of keyspace.Tx.Heavy.
const rowWork = 64

// firstFrom returns the first message from a position on.
func (c *Channel) firstFrom(position int64) (m Message, found bool) {
	var lo, hi [9]byte
	key, row, found := c.tx.EdgeKind(c.ref, keyspace.SubRow, messagesFrom(lo[:0], position), messagesFrom(hi[:0], c.last+1), false)
	if !found {
		return m, false
	}
	return c.decodeMessage(decodePosition(key[1:]), row)
}

// eachFrom visits the messages from a position on, dead and trimmed ones too, until visit
// returns false. Nothing may be written meanwhile.
func (c *Channel) eachFrom(position int64, visit func(m *Message) bool) {
	var lo, hi [9]byte
	it := c.tx.IterKind(c.ref, keyspace.SubRow, messagesFrom(lo[:0], position), messagesFrom(hi[:0], c.last+1), false)
	defer c.tx.CloseRows(it)
	for it.Next() {
		key := rest(it.Key())
		if len(key) != 9 {
			c.tx.Fail(corrupt("the key of a message's row is % x", it.Key()))
			return
		}
		m, ok := c.decodeMessage(decodePosition(key[1:]), it.Value())
		if !ok || !visit(&m) {
			return
		}
	}
}

// Fetch visits up to count live messages after a position, in order, and stops early at
// fetchBytes. It returns the position of the last one visited, or of the channel's newest
// message if there was none, their number, and whether there are more.
func (c *Channel) Fetch(after int64, count int, visit func(m *Message)) (last int64, n int, more bool) {
	if after >= c.last {
		return after, 0, false
	}
	size, dead := int64(0), int64(0)
	c.eachFrom(max(after+1, c.first), func(m *Message) bool {
		if m.Death <= c.tx.Now {
			dead += rowWork
			return !c.tx.Heavy(size + dead)
		}
		if n == count || n > 0 && size+int64(len(m.Content)) > fetchBytes {
			more = true
			return false
		}
		size += int64(len(m.Content)) + rowWork
		if c.tx.Heavy(size + dead) {
			return false
		}
		n++
		last = m.Position
		visit(m)
		return true
	})
	if n == 0 {
		last = c.last
	}
	return last, n, more
}

// fetchBytes is about the most that a fetch of several messages returns.
const fetchBytes = 1 << 20

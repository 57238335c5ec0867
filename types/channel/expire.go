package channel

import (
	"encoding/binary"

	"redoubt/keyspace"
)

// purgeStep is the number of dead messages and subscribers that a command removes before
// its own work: enough that a channel which is written to gets rid of them.
const purgeStep = 32

// ExpireParts removes about limit messages and subscribers that are past their time, and
// returns how many. The sweeper calls it for a key if keyspace.Tx.Expire reported that
// parts of it are due. If there may be more, the time of the next sweep stays in the
// past.
func ExpireParts(tx *keyspace.Tx, key []byte, m keyspace.Meta, limit int) int {
	c, err := Of(tx, key, m, nil)
	if err != nil {
		tx.Fail(err)
		return 0
	}
	defer c.Release()
	n := c.expire(limit)
	if c.Save() {
		tx.Note(keyspace.Generic, "del", key)
	}
	return n
}

// expire removes about limit dead messages and subscribers, if the time of the next
// sweep has come.
func (c *Channel) expire(limit int) (n int) {
	if c.next == 0 || c.next > c.tx.Now || !c.Exists() {
		return 0
	}
	n, first := c.purge(limit)
	if first == 0 { // there may be more; next stays in the past
		return n
	}
	c.dirty = true
	if c.next = 0; first < never {
		c.next = first + c.delay()
	}
	return n
}

// expireAll removes all dead messages and subscribers, before the time of the sweep too.
func (c *Channel) expireAll() {
	if c.next == 0 || c.next-maxDelay > c.tx.Now {
		return // nothing is past its time
	}
	for c.tx.Err() == nil {
		if _, first := c.purge(purgeMany); first != 0 {
			return
		}
	}
}

// purgeMany is the limit of each step of expireAll.
const purgeMany = 1024

// purge removes about limit dead messages and subscribers. first is the time of the next
// death, never, or 0 if there may be more dead ones.
func (c *Channel) purge(limit int) (n int, first int64) {
	n, first = c.expireDue(limit)
	if first > 0 {
		in, next := c.expireChain(max(0, limit-n))
		n, first = n+in, min(first, next)
	}
	if n > 0 {
		c.tx.Note(keyspace.ChannelEv, "cexpired", c.key)
	}
	return n, first
}

// never is later than any time.
const never = 1<<63 - 1

// expireDue removes what is due by the score rows. rest is the time of the next score
// row, never, or 0 if there may be more that are due.
func (c *Channel) expireDue(limit int) (n int, rest int64) {
	c.page, rest = c.page[:0], never
	page := c.page
	it := c.tx.IterKind(c.ref, keyspace.ScoreRow, nil, nil, false)
	for it.Next() {
		key := it.Key()[keyspace.RowKeyHead:]
		if len(key) < 9 {
			c.tx.Fail(corrupt("the key of a score row ends with % x", key))
			break
		}
		if at := int64(binary.BigEndian.Uint64(key)); at > c.tx.Now {
			rest = at
			break
		}
		if n >= limit {
			rest = 0
			break
		}
		if key[8] == dueSubscriber {
			c.eachName(it.Value(), func([]byte) { n++ })
		} else {
			n++
		}
		page = append(append(page, byte(len(key))), key...)
	}
	c.tx.CloseRows(it)
	c.page = page
	died := false
	for len(page) > 0 && c.tx.Err() == nil {
		key := page[1 : 1+page[0]]
		page = page[1+page[0]:]
		held := c.tx.Held()
		switch key[8] {
		case dueMessage:
			if m, found := c.message(decodePosition(key[9:])); found {
				c.removeMessage(c.remains(&m))
			}
		case dueSubscriber:
			c.removePage(key)
			died = true
		}
		c.tx.DeleteRow(append(c.part(c.key1, keyspace.ScoreRow), key...))
		c.tx.Release(held)
	}
	if died {
		c.tx.Awaken(c.key) // calls that wait as a removed subscriber get an error
	}
	return n, rest
}

// removePage removes the subscribers that a score row names, but not the score row.
func (c *Channel) removePage(key []byte) {
	names, _ := c.tx.GetRow(append(c.part(c.key1, keyspace.ScoreRow), key...))
	c.val = append(c.val[:0], names...)
	c.eachName(c.val, func(name []byte) {
		if s, found := c.row(name); found {
			c.removeRow(&s)
		}
	})
}

// expireChain removes dead messages among those that die in the order of positions. next
// is the time of the next death, never, or 0 if there may be more dead ones.
func (c *Channel) expireChain(limit int) (n int, next int64) {
	var dead []remains
	from, seen, first := c.chain, 0, int64(never)
	c.eachFrom(c.chain, func(m *Message) bool {
		if first = never; m.flags&msgTimed == 0 {
			if m.Death > c.tx.Now {
				first = m.Death
				return false
			}
			if n == limit {
				first = 0
				return false
			}
			n++
			dead = append(dead, c.remains(m))
		}
		if seen++; seen > 4*limit+purgeStep {
			first = 0
			return false
		}
		from = m.Position + 1
		return true
	})
	if first == never {
		from = c.last + 1
	}
	held := c.tx.Held()
	for _, r := range dead {
		c.removeMessage(r)
		c.tx.Release(held)
	}
	if from != c.chain {
		c.chain, c.dirty = from, true
	}
	return n, first
}

// lastDeath is the latest time of death of all messages and subscribers.
func (c *Channel) lastDeath() int64 {
	// If latest is in the future, the message that dies then is still stored.
	last := c.latest
	if due, _, found := c.tx.EdgeKind(c.ref, keyspace.ScoreRow, nil, nil, true); found && len(due) > 8 {
		last = max(last, int64(binary.BigEndian.Uint64(due)))
	}
	return last
}

// remains is what removeMessage needs to know of a message.
type remains struct {
	position, bytes int64
	hash            uint32
	trimmed         bool
}

func (c *Channel) remains(m *Message) remains {
	return remains{m.Position, int64(len(m.ID) + len(m.Content)), c.hash(m.ID), m.flags&msgTrimmed != 0}
}

// removeMessage removes a message, but not its score row.
func (c *Channel) removeMessage(r remains) {
	if !r.trimmed {
		c.ref.Size--
		c.bytes -= r.bytes
	}
	if r.position == c.first {
		c.first++
	}
	c.rows--
	c.tx.DeleteRow(c.messageRow(r.position))
	c.removeID(r.hash, r.position)
	c.dirty = true
}

// Dead returns the positions of readable messages, and the number of subscribers, that are
// past their time and not removed yet.
func (c *Channel) Dead() (messages []int64, subscribers int64) {
	if !c.Exists() {
		return nil, 0
	}
	it := c.tx.IterKind(c.ref, keyspace.ScoreRow, nil, binary.BigEndian.AppendUint64(nil, uint64(c.tx.Now)+1), false)
	for it.Next() {
		key := it.Key()[keyspace.RowKeyHead:]
		switch {
		case len(key) == 17 && key[8] == dueMessage:
			if at := decodePosition(key[9:]); at >= c.first {
				messages = append(messages, at)
			}
		case len(key) == 11 && key[8] == dueSubscriber:
			c.eachName(it.Value(), func([]byte) { subscribers++ })
		}
	}
	c.tx.CloseRows(it)
	c.eachFrom(c.chain, func(m *Message) bool {
		if m.flags&msgTimed != 0 {
			return true
		}
		if m.Death <= c.tx.Now && m.Position >= c.first {
			messages = append(messages, m.Position)
		}
		return m.Death <= c.tx.Now
	})
	return messages, subscribers
}

// Backlog is the number of live messages after a position. dead is what Dead returned.
func (c *Channel) Backlog(after int64, dead []int64) int64 {
	from := max(after+1, c.first)
	if from > c.last {
		return 0
	}
	n := c.last - from + 1
	if c.ref.Size != c.last-c.first+1 { // there are holes
		n = c.countFrom(from)
	}
	for _, at := range dead {
		if at >= from {
			n--
		}
	}
	return n
}

// countFrom counts the messages from a position on.
func (c *Channel) countFrom(position int64) (n int64) {
	var lo, hi [9]byte
	if n, ok := c.tx.CountKind(c.ref, keyspace.SubRow, messagesFrom(lo[:0], position), messagesFrom(hi[:0], c.last+1)); ok {
		return n
	}
	c.eachFrom(position, func(*Message) bool {
		n++
		return !c.tx.Heavy(n * rowWork)
	})
	return n
}

package channel

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"redoubt/keyspace"
)

// Subscriber is a reader of the channel with its position.
type Subscriber struct {
	Name []byte
	// At is the position of the last message that was acknowledged.
	At int64

	death int64
	page  uint16 // of the score row that names the subscriber
}

// Death is when the subscriber dies unless it is renewed, in Unix milliseconds.
func (s *Subscriber) Death() int64 { return s.death }

const subscriberSize = 8 + 8 + 2

func (c *Channel) subscriberRow(name []byte) []byte {
	c.key1 = append(append(c.part(c.key1, keyspace.SubRow), rowSubscriber), name...)
	return c.key1
}

func (c *Channel) decodeSubscriber(name, row []byte) (s Subscriber, ok bool) {
	if len(row) != subscriberSize {
		c.tx.Fail(corrupt("the row of the subscriber %.64q has %d bytes", name, len(row)))
		return s, false
	}
	return Subscriber{
		Name: name, At: int64(binary.BigEndian.Uint64(row)), death: int64(binary.BigEndian.Uint64(row[8:])), page: binary.BigEndian.Uint16(row[16:]),
	}, true
}

func (c *Channel) putSubscriber(s *Subscriber) {
	var v [subscriberSize]byte
	binary.BigEndian.PutUint64(v[:], uint64(s.At))
	binary.BigEndian.PutUint64(v[8:], uint64(s.death))
	binary.BigEndian.PutUint16(v[16:], s.page)
	c.tx.PutRow(c.subscriberRow(s.Name), v[:])
}

// row reads the row of a subscriber, which may be dead.
func (c *Channel) row(name []byte) (s Subscriber, found bool) {
	if !c.Exists() {
		return s, false
	}
	row, found := c.tx.GetRow(c.subscriberRow(name))
	if !found {
		return s, false
	}
	return c.decodeSubscriber(name, row)
}

// Subscriber returns a live subscriber, or ErrNoSubscriber.
func (c *Channel) Subscriber(name []byte) (s Subscriber, err error) {
	s, found := c.row(name)
	if !found || s.death <= c.tx.Now {
		return s, ErrNoSubscriber
	}
	return s, nil
}

// Subscribe creates a subscriber at a position. If there is a live one of that name, it
// is renewed instead, and created is false.
func (c *Channel) Subscribe(name []byte, at int64, seed uint64) (s Subscriber, created bool) {
	c.create(seed)
	c.expire(purgeStep)
	s, found := c.row(name)
	if found && s.death > c.tx.Now {
		c.Renew(&s)
		return s, false
	}
	if found {
		c.removeDue(&s)
	} else {
		c.subscribers++
		c.dirty = true
	}
	s = Subscriber{Name: name, At: at}
	c.live(&s, c.life())
	return s, true
}

// Renew extends a subscriber's life to the channel's lifetime from now. The life is up to
// a sixteenth longer, so that frequent renewals seldom write.
func (c *Channel) Renew(s *Subscriber) { c.renew(s, c.life()) }

func (c *Channel) renew(s *Subscriber, life int64) {
	if s.death >= c.tx.Now+life {
		return
	}
	c.removeDue(s)
	c.live(s, life)
}

// live sets the time of death of a subscriber that no score row names, rounded so that
// others share it.
func (c *Channel) live(s *Subscriber, life int64) {
	step := int64(1) << (bits.Len64(uint64(max(1, life/32))) - 1)
	s.death = (c.tx.Now + life + 2*step - 1) &^ (step - 1)
	c.addDue(s)
	c.putSubscriber(s)
	c.noteDeath(s.death)
}

// pageNames is about the most names in a score row, if all subscribers die at the same
// time. Most channels have two or three times of death, since every call renews its
// subscriber.
const pageNames = 128

// addDue writes a subscriber's name into a score row for its time.
func (c *Channel) addDue(s *Subscriber) {
	s.page = uint16(c.hash(s.Name) % min(c.subscribers/pageNames+1, 1<<16))
	key := c.dueSubscriberRow(s.death, s.page)
	names, _ := c.tx.GetRow(key)
	c.val = append(append(append(c.val[:0], names...), byte(len(s.Name))), s.Name...)
	c.tx.PutRow(key, c.val)
}

// removeDue takes a subscriber's name out of its score row.
func (c *Channel) removeDue(s *Subscriber) {
	key := c.dueSubscriberRow(s.death, s.page)
	names, _ := c.tx.GetRow(key)
	c.val = c.val[:0]
	c.eachName(names, func(name []byte) {
		if !bytes.Equal(name, s.Name) {
			c.val = append(append(c.val, byte(len(name))), name...)
		}
	})
	switch {
	case c.tx.Err() != nil:
	case len(c.val)+1+len(s.Name) != len(names):
		c.tx.Fail(corrupt("the subscriber %.64q is not in the score row of its time", s.Name))
	case len(c.val) == 0:
		c.tx.DeleteRow(key)
	default:
		c.tx.PutRow(key, c.val)
	}
}

// eachName visits the names in a score row of subscribers.
func (c *Channel) eachName(names []byte, visit func(name []byte)) {
	for len(names) > 0 {
		end := 1 + int(names[0])
		if end == 1 || end > len(names) {
			c.tx.Fail(corrupt("the names in a score row end with % x", names[:min(len(names), 64)]))
			return
		}
		visit(names[1:end])
		names = names[end:]
	}
}

// Ack moves a subscriber forward to a position, and renews it. moved is false if the
// subscriber was there already or beyond.
func (c *Channel) Ack(s *Subscriber, position int64) (moved bool) {
	if moved = position > s.At; moved {
		s.At = position
		c.putSubscriber(s)
	}
	c.Renew(s)
	return moved
}

// Unsubscribe removes a subscriber. It returns false if there was no live one.
func (c *Channel) Unsubscribe(name []byte) bool {
	s, found := c.row(name)
	if !found {
		return false
	}
	c.removeSubscriber(&s)
	if s.death == c.end {
		c.end = c.lastDeath()
	}
	c.tx.Awaken(c.key) // a call that waits as that subscriber gets an error
	return s.death > c.tx.Now
}

func (c *Channel) removeSubscriber(s *Subscriber) {
	c.removeDue(s)
	c.removeRow(s)
}

// removeRow removes a subscriber that no score row names any more.
func (c *Channel) removeRow(s *Subscriber) {
	c.tx.DeleteRow(c.subscriberRow(s.Name))
	c.subscribers--
	c.dirty = true
}

// ensureHook makes sure that a subscriber which a rule names exists, before the message that is
// about to be published, and that it lives at least as long as the message.
func (c *Channel) ensureHook(name string, death int64) {
	s, found := c.row([]byte(name))
	life := max(c.life(), death-c.tx.Now)
	if found && s.death > c.tx.Now {
		c.renew(&s, life)
		return
	}
	if found {
		c.removeDue(&s)
	} else {
		c.subscribers++
		c.dirty = true
	}
	s = Subscriber{Name: []byte(name), At: c.last}
	c.live(&s, life)
	c.tx.Note(keyspace.ChannelEv, "csubscribe", c.key)
}

// EachSubscriber visits the live subscribers, in the order of their names, until visit
// returns false. Nothing may be written meanwhile.
func (c *Channel) EachSubscriber(visit func(s *Subscriber) bool) {
	if !c.Exists() {
		return
	}
	it := c.tx.IterKind(c.ref, keyspace.SubRow, []byte{rowSubscriber}, []byte{rowSubscriber + 1}, false)
	defer c.tx.CloseRows(it)
	for it.Next() {
		s, ok := c.decodeSubscriber(rest(it.Key())[1:], it.Value())
		if !ok || s.death > c.tx.Now && !visit(&s) {
			return
		}
	}
}

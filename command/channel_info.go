package command

import (
	"redoubt/types/channel"
)

var chinfo = &Command{
	Name: "chinfo", Group: Channel, Since: "0.2.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "channel:key [FULL]",
	Summary:    "Tells the clock of a channel, how much it holds, and with FULL how far each of its subscribers is.",
	Complexity: "O(1), with FULL O(N*log(M)) where N is the number of subscribers and M that of messages",
	Run: func(c *Ctx) error {
		full := len(c.Args) == 3 && isWord(c.Args[2], "full")
		if len(c.Args) > 2 && !full {
			return ErrSyntax
		}
		if err := checkNames(c.Args[1:2]); err != nil {
			return err
		}
		ch, err := channel.Read(c.Tx, c.Args[1], c.Limits.Channels)
		if err != nil {
			return err
		}
		defer ch.Release()
		if !ch.Exists() {
			return ErrNoSuchKey
		}
		work := int64(0)
		if full {
			work = ch.Subscribers() * subscriberWork
		}
		if c.Tx.Heavy(work) {
			return nil
		}
		c.replyChannel(ch, full)
		return nil
	},
}

// subscriberWork is the cost of finding a subscriber's backlog, in the unit of Tx.Heavy.
const subscriberWork = 512

// infoFields is the number of fields that CHINFO replies without FULL.
const infoFields = 10

func (c *Ctx) replyChannel(ch *channel.Channel, full bool) {
	dead, deadSubscribers := ch.Dead()
	subscribers := ch.Subscribers() - deadSubscribers
	s := ch.Settings()
	c.Reply.Map(infoFields + int(bit(full)))
	c.replyPair("clock", channel.Clock(ch.Last()))
	c.replyPair("messages", ch.Len()-int64(len(dead)))
	c.replyPair("bytes", ch.Bytes())
	c.replyPair("ids", ch.IDs())
	c.replyOldest(ch, ch.First()-1)
	c.replyPair("subscribers", subscribers)
	c.replyPair("expire", ch.Expire())
	c.replyPair("maxlen", s.MaxLen)
	c.replyPair("maxbytes", s.MaxBytes)
	if !full {
		return
	}
	type reader struct {
		name      []byte
		at, death int64
	}
	var readers []reader
	ch.EachSubscriber(func(s *channel.Subscriber) bool {
		readers = append(readers, reader{append([]byte(nil), s.Name...), s.At, s.Death()})
		return c.Tx.Take(subscriberWork)
	})
	c.Reply.BulkString("subscriptions")
	c.Reply.Array(len(readers))
	for _, r := range readers {
		held := c.Tx.Held()
		c.Reply.Map(6)
		c.Reply.BulkString("name")
		c.Reply.Bulk(r.name)
		c.replyPair("clock", channel.Clock(r.at))
		c.replyPair("backlog", ch.Backlog(r.at, dead))
		c.replyOldest(ch, r.at)
		c.replyPair("ttl", r.death-c.Tx.Now)
		c.Tx.Release(held)
		if !c.Spill() {
			return
		}
	}
}

// replyOldest replies with the clock and the age of the first live message behind a position,
// null if there is none.
func (c *Ctx) replyOldest(ch *channel.Channel, after int64) {
	found, clock, age := false, int64(0), int64(0)
	ch.Fetch(after, 1, func(m *channel.Message) {
		found, clock, age = true, channel.Clock(m.Position), c.Tx.Now-m.Born
	})
	for _, f := range []struct {
		name  string
		value int64
	}{{"oldest", clock}, {"oldest-age", age}} {
		c.Reply.BulkString(f.name)
		if found {
			c.Reply.Int(f.value)
		} else {
			c.Reply.Null()
		}
	}
}

var chlist = &Command{
	Name: "chlist", Group: Channel, Since: "0.2.0", Arity: 2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "channel:key",
	Summary:    "Lists the subscribers of a channel.",
	Complexity: "O(N) where N is the number of subscribers",
	Run: func(c *Ctx) error {
		if err := checkNames(c.Args[1:2]); err != nil {
			return err
		}
		ch, err := channel.Read(c.Tx, c.Args[1], c.Limits.Channels)
		if err != nil {
			return err
		}
		defer ch.Release()
		if c.Tx.Heavy(ch.Subscribers() * 64) {
			return nil
		}
		_, dead := ch.Dead()
		c.Reply.Array(int(ch.Subscribers() - dead))
		ch.EachSubscriber(func(s *channel.Subscriber) bool {
			c.Reply.Bulk(s.Name)
			return c.Spill()
		})
		return nil
	},
}

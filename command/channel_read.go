package command

import (
	"redoubt/keyspace"
	"redoubt/types/channel"
	"redoubt/wire"
)

// CHFETCH, CHACK and CHREAD: reading as a subscriber of a channel.
//
// A fetch does not move the subscriber, so a client that crashes gets the same messages again.
// It returns a handle with which they are acknowledged, all at once. A fetch is a write, since
// it renews the subscriber's lifetime, but mostly it writes no row.

var chfetch = &Command{
	Name: "chfetch", Group: Channel, Since: "0.2.0", Arity: -3,
	Flags: Write | Blocking, Keys: OneKey(1, RW|Access),
	Syntax: "channel:key subscriber [COUNT count:integer] [BLOCK milliseconds:integer] [AFTER handle]",
	Summary: "Returns the messages that a subscriber of a channel has not acknowledged, or those behind a handle, and may wait for one; " +
		"with a handle that acknowledges them.",
	Complexity: "O(N) where N is the number of messages returned",
	Run:        func(c *Ctx) error { return runFetch(c, "after") },
}

var chread = &Command{
	Name: "chread", Group: Channel, Since: "0.2.0", Arity: -3,
	Flags: Write | Blocking, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "channel:key subscriber [COUNT count:integer] [BLOCK milliseconds:integer] [ACK handle]",
	Summary:    "Acknowledges the messages that a subscriber of a channel has fetched, and returns the next ones as CHFETCH does.",
	Complexity: "O(N) where N is the number of messages returned",
	Run:        func(c *Ctx) error { return runFetch(c, "ack") },
}

var chack = &Command{
	Name: "chack", Group: Channel, Since: "0.2.0", Arity: 4,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "channel:key subscriber handle",
	Summary:    "Acknowledges the messages that a subscriber of a channel has fetched with a handle, and all before them.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		ch, s, err := c.subscriber()
		if err != nil {
			return err
		}
		defer ch.Release()
		moved, err := c.acknowledge(ch, &s, c.Args[3])
		if err != nil {
			return err
		}
		ch.Save()
		c.Reply.Int(bit(moved))
		return nil
	},
}

// subscriber finds the subscriber of the second argument in the channel of the first one.
func (c *Ctx) subscriber() (ch *channel.Channel, s channel.Subscriber, err error) {
	if err = checkNames(c.Args[1:3]); err != nil {
		return nil, s, err
	}
	if ch, err = channel.Open(c.Tx, c.Args[1], c.Limits.Channels); err != nil {
		return nil, s, err
	}
	if s, err = ch.Subscriber(c.Args[2]); err != nil {
		ch.Release()
		return nil, s, err
	}
	return ch, s, nil
}

// acknowledge moves a subscriber up to a handle.
func (c *Ctx) acknowledge(ch *channel.Channel, s *channel.Subscriber, handle []byte) (moved bool, err error) {
	at, err := ch.ParseHandle(handle, s.Name)
	if err != nil {
		return false, err
	}
	if moved = ch.Ack(s, at); moved {
		c.Tx.Changed(keyspace.ChannelEv, "cack", c.Args[1])
	}
	return moved, nil
}

// fetchArgs are the options of CHFETCH and CHREAD.
type fetchArgs struct {
	count  int64
	block  int64
	blocks bool
	handle []byte
}

// defaultCount is the number of messages that are fetched without COUNT, maxCount the largest
// COUNT.
const (
	defaultCount = 64
	maxCount     = 1_000_000
)

// parseFetch reads the options; word is the keyword before the handle.
func parseFetch(c *Ctx, word string) (o fetchArgs, err error) {
	o.count = defaultCount
	for i := 3; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return o, ErrSyntax
		}
		arg := c.Args[i+1]
		switch option := c.Args[i]; {
		case isWord(option, "count"):
			if o.count, err = integer(arg); err == nil && (o.count < 1 || o.count > maxCount) {
				err = rangeError(1, maxCount)
			}
		case isWord(option, "block"):
			o.blocks = true
			if o.block, err = integer(arg); err != nil {
				err = ErrTimeout
			} else if o.block < 0 {
				err = ErrTimeoutSign
			} else if o.block > maxBlock {
				err = ErrTimeoutRange
			}
		case isWord(option, word):
			o.handle = arg
		default:
			err = ErrSyntax
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// maxBlock is the longest blocking time in milliseconds, about a year; 0 is for ever.
const maxBlock = 366 * 24 * 60 * 60 * 1000

func runFetch(c *Ctx, word string) error {
	o, err := parseFetch(c, word)
	if err != nil {
		return err
	}
	ch, s, err := c.subscriber()
	if err != nil {
		return err
	}
	defer ch.Release()
	after := s.At
	switch {
	case o.handle == nil:
	case word == "ack":
		if _, err = c.acknowledge(ch, &s, o.handle); err != nil {
			return err
		}
		after = s.At
	default:
		if after, err = ch.ParseHandle(o.handle, s.Name); err != nil {
			return err
		}
		after = max(after, s.At)
	}
	ch.Renew(&s)
	w := c.Reply
	fetchHead(w)
	start := len(w.Buf)
	last, n, more := ch.Fetch(after, int(o.count), func(m *channel.Message) {
		w.Array(3)
		w.Int(channel.Clock(m.Position))
		w.Bulk(m.ID)
		w.Bulk(m.Content)
	})
	if n == 0 && o.blocks && !c.NoBlock {
		if after == s.At && last > after {
			ch.Ack(&s, last) // all of them have expired
		}
		ch.Save()
		return &Block{Timeout: o.block, Type: keyspace.Channel, Keys: c.Args[1:2], Gone: true, Keep: true, Shares: true}
	}
	ch.Save()
	insertHead(w, start, func(w *wire.Writer) { w.Array(n) })
	c.fetchTail(ch, &s, last, last > after, more)
	return nil
}

// fetchHead begins the reply of a fetch, up to the messages.
func fetchHead(w *wire.Writer) {
	if w.Proto == 2 {
		w.Array(3)
		return
	}
	w.Map(3)
	w.BulkString("messages")
}

// fetchTail ends the reply of a fetch: whether there are more messages, and the handle, or null
// if there is nothing to acknowledge.
func (c *Ctx) fetchTail(ch *channel.Channel, s *channel.Subscriber, last int64, handle, more bool) {
	w := c.Reply
	if w.Proto == 2 {
		w.Int(bit(more))
	} else {
		w.BulkString("more")
		w.Bool(more)
		w.BulkString("handle")
	}
	if !handle {
		w.Null()
		return
	}
	var b [channel.HandleSize]byte
	w.Bulk(ch.AppendHandle(b[:0], s.Name, last))
}

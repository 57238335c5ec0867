package command

import (
	"redoubt/keyspace"
	"redoubt/types/channel"
)

// ChannelCommands are the commands on channels, which Redis does not have: messages that are
// stored until they expire, and subscribers that fetch and acknowledge them. docs/adr/0027 has
// the reasons.
var ChannelCommands = []*Command{
	chpublish, chsubscribe, chunsubscribe, chfetch, chread, chack, chinfo, chlist, chconfig,
}

var chpublish = &Command{
	Name: "chpublish", Group: Channel, Since: "0.2.0", Arity: -4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "channel:key message-id content [EXPIRE milliseconds:integer]",
	Summary:    "Adds a message to a channel, unless one with the same id was added before and is not past its time.",
	Complexity: "O(1), and O(1) for each client that waits and gets the message",
	Run: func(c *Ctx) error {
		if err := checkNames(c.Args[1:3]); err != nil {
			return err
		}
		life := int64(0)
		switch {
		case len(c.Args) == 4:
		case len(c.Args) == 6 && isWord(c.Args[4], "expire"):
			var err error
			if life, err = lifetime(c, c.Args[5], 1); err != nil {
				return err
			}
		default:
			return ErrSyntax
		}
		ch, err := channel.Open(c.Tx, c.Args[1], c.Limits.Channels)
		if err != nil {
			return err
		}
		defer ch.Release()
		at, created := ch.Publish(c.Args[2], c.Args[3], life, c.Seed)
		ch.Save()
		if created {
			c.Tx.Changed(keyspace.ChannelEv, "cpublish", c.Args[1])
		}
		c.Reply.Array(2)
		c.Reply.Int(channel.Clock(at))
		c.Reply.Int(bit(created))
		return nil
	},
}

var chsubscribe = &Command{
	Name: "chsubscribe", Group: Channel, Since: "0.2.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "channel:key subscriber [FROM from=<FIRST|NOW|clock:integer>]",
	Summary:    "Makes a subscriber of a channel, behind its newest message or elsewhere, or renews the life of one that is there.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		if err := checkNames(c.Args[1:3]); err != nil {
			return err
		}
		ch, err := channel.Open(c.Tx, c.Args[1], c.Limits.Channels)
		if err != nil {
			return err
		}
		defer ch.Release()
		at := ch.Last()
		switch {
		case len(c.Args) == 3:
		case len(c.Args) == 5 && isWord(c.Args[3], "from"):
			if at, err = place(ch, c.Args[4]); err != nil {
				return err
			}
		default:
			return ErrSyntax
		}
		s, created := ch.Subscribe(c.Args[2], at, c.Seed)
		ch.Save()
		if created {
			c.Tx.Changed(keyspace.ChannelEv, "csubscribe", c.Args[1])
		}
		c.Reply.Array(2)
		c.Reply.Int(channel.Clock(s.At))
		c.Reply.Int(bit(created))
		return nil
	},
}

// place reads where a new subscriber begins: the position behind which it reads.
func place(ch *channel.Channel, arg []byte) (int64, error) {
	switch {
	case isWord(arg, "now"):
		return ch.Last(), nil
	case isWord(arg, "first"):
		return ch.First() - 1, nil
	}
	clock, err := integer(arg)
	if err != nil {
		return 0, err
	}
	if clock < -channel.MaxClock || clock > channel.MaxClock {
		return 0, errClock
	}
	// Messages that were removed, or are not published yet, cannot be read.
	return max(ch.PositionOf(clock), ch.First()-1), nil
}

var chunsubscribe = &Command{
	Name: "chunsubscribe", Group: Channel, Since: "0.2.0", Arity: 3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Syntax:     "channel:key subscriber",
	Summary:    "Removes a subscriber from a channel.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		if err := checkNames(c.Args[1:3]); err != nil {
			return err
		}
		ch, err := channel.Open(c.Tx, c.Args[1], c.Limits.Channels)
		if err != nil {
			return err
		}
		defer ch.Release()
		removed := ch.Unsubscribe(c.Args[2])
		gone := ch.Save()
		if removed {
			c.Tx.Changed(keyspace.ChannelEv, "cunsubscribe", c.Args[1])
		}
		c.noteGone(gone, c.Args[1])
		c.Reply.Int(bit(removed))
		return nil
	},
}

var chconfig = &Command{
	Name: "chconfig", Group: Channel, Since: "0.2.0", Arity: -2,
	Flags: Write | DenyOOM, Keys: OneKey(1, RW|Update),
	Syntax: "channel:key [EXPIRE milliseconds:integer] [MAXLEN count:integer] [MAXBYTES bytes:integer] [CLOCK clock:integer]",
	Summary: "Sets how long what is published in a channel from now on lives, how much the channel holds, and where an empty one begins; " +
		"or tells the settings.",
	Complexity: "O(1), or O(N) where N is the number of messages that are beyond the new limits",
	ReadsOnly:  func(args [][]byte) bool { return len(args) == 2 },
	Run: func(c *Ctx) error {
		if err := checkNames(c.Args[1:2]); err != nil {
			return err
		}
		ch, err := channel.Open(c.Tx, c.Args[1], c.Limits.Channels)
		if err != nil {
			return err
		}
		defer ch.Release()
		if len(c.Args) == 2 {
			s := ch.Settings()
			c.Reply.Map(3)
			c.replyPair("expire", s.Expire)
			c.replyPair("maxlen", s.MaxLen)
			c.replyPair("maxbytes", s.MaxBytes)
			return nil
		}
		if err := configure(c, ch); err != nil {
			return err
		}
		gone := ch.Save()
		c.Tx.Changed(keyspace.ChannelEv, "cconfig", c.Args[1])
		c.noteGone(gone, c.Args[1])
		c.Reply.OK()
		return nil
	},
}

// configure reads the options of CHCONFIG and applies them. 0 removes a setting.
func configure(c *Ctx, ch *channel.Channel) error {
	s := ch.Settings()
	for i := 2; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return ErrSyntax
		}
		var err error
		switch word, arg := c.Args[i], c.Args[i+1]; {
		case isWord(word, "expire"):
			s.Expire, err = lifetime(c, arg, 0)
		case isWord(word, "maxlen"):
			s.MaxLen, err = limit(arg)
		case isWord(word, "maxbytes"):
			s.MaxBytes, err = limit(arg)
		case isWord(word, "clock"):
			var clock int64
			if clock, err = integer(arg); err != nil {
				return err
			}
			if clock < -channel.MaxClock || clock > channel.MaxClock {
				return errClock
			}
			err = ch.SetClock(clock, c.Seed)
		default:
			err = ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	ch.Configure(s, c.Seed)
	return nil
}

// limit reads a limit; 0 is no limit.
func limit(arg []byte) (int64, error) {
	n, err := integer(arg)
	if err == nil && n < 0 {
		err = ErrNotPositive
	}
	return n, err
}

// lifetime reads a lifetime in milliseconds, which must not be below least.
func lifetime(c *Ctx, arg []byte, least int64) (int64, error) {
	n, err := integer(arg)
	if err == nil && (n < least || n > channel.MaxExpire) {
		err = ExpireError(c.Cmd.FullName)
	}
	return n, err
}

// checkNames checks the names of a channel and of what is in it.
func checkNames(names [][]byte) error {
	for _, name := range names {
		if !channel.ValidName(name) {
			return errChannelName
		}
	}
	return nil
}

func (c *Ctx) replyPair(name string, n int64) {
	c.Reply.BulkString(name)
	c.Reply.Int(n)
}

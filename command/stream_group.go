package command

import (
	"redoubt/keyspace"
	"redoubt/types/stream"
)

// XGROUP makes and removes groups and their consumers.

var xgroup = &Command{
	Name: "xgroup", Group: Stream, Since: "5.0.0", Arity: -2,
	Summary: "Manages the groups of a stream and their consumers.",
	Subs:    []*Command{xgroupCreate, xgroupCreateConsumer, xgroupDelConsumer, xgroupDestroy, xgroupHelp, xgroupSetID},
}

var xgroupCreate = &Command{
	Name: "create", Group: Stream, Since: "5.0.0", Arity: -5,
	Flags: Write | DenyOOM, Keys: OneKey(2, RW|Insert),
	Syntax:     "key group id-selector=<id|new-id=$> [MKSTREAM] [ENTRIESREAD entries-read:integer]",
	Summary:    "Makes a group that reads what comes after an ID, or from now on, and the stream as well if asked to.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		make, read, err := groupOptions(c, true)
		if err != nil {
			return err
		}
		s, err := stream.Open(c.Tx, c.Args[2], &c.Limits.Limits)
		switch {
		case err != nil:
			return err
		case !s.Exists() && !make:
			return errXgroupKey
		case len(c.Args) > 8:
			return subcommandSyntaxError(c.Args)
		}
		id := s.Last
		if !isDollar(c.Args[4]) {
			if id, err = streamID(c.Args[4], 0); err != nil {
				return err
			}
		}
		g := s.CreateGroup(c.Args[3], id, read)
		if g == nil {
			return errBusyGroup
		}
		g.Save()
		s.Save()
		c.Tx.Changed(keyspace.StreamEv, "xgroup-create", c.Args[2])
		c.Reply.OK()
		return nil
	},
}

var xgroupSetID = &Command{
	Name: "setid", Group: Stream, Since: "5.0.0", Arity: -5,
	Flags: Write, Keys: OneKey(2, RW|Update),
	Syntax:     "key group id-selector=<id|new-id=$> [ENTRIESREAD entriesread:integer'entries-read']",
	Summary:    "Makes a group go on behind another ID.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		_, read, err := groupOptions(c, false)
		if err != nil {
			return err
		}
		s, g, err := c.openGroup()
		if err != nil {
			return err
		}
		if len(c.Args) != 5 && len(c.Args) != 7 {
			return subcommandSyntaxError(c.Args)
		}
		id := s.Last
		if !isDollar(c.Args[4]) {
			if id, err = edgeID(c.Args[4], 0); err != nil {
				return err
			}
		}
		g.SetID(id, read)
		g.Save()
		c.Tx.Changed(keyspace.StreamEv, "xgroup-setid", c.Args[2])
		c.Reply.OK()
		return nil
	},
}

var xgroupDestroy = &Command{
	Name: "destroy", Group: Stream, Since: "5.0.0", Arity: 4,
	Flags: Write, Keys: OneKey(2, RW|Delete),
	Syntax:     "key group",
	Summary:    "Removes a group with all that is pending in it.",
	Complexity: "O(N) where N is the number of entries pending in the group",
	Run: func(c *Ctx) error {
		s, err := c.openStream()
		if err != nil {
			return err
		}
		g := s.Group(c.Args[3])
		if g == nil {
			c.Reply.Int(0)
			return nil
		}
		g.Destroy()
		s.Save() // which also wakes clients that wait for the group
		c.Tx.Changed(keyspace.StreamEv, "xgroup-destroy", c.Args[2])
		c.Reply.Int(1)
		return nil
	},
}

var xgroupCreateConsumer = &Command{
	Name: "createconsumer", Group: Stream, Since: "6.2.0", Arity: 5,
	Flags: Write | DenyOOM, Keys: OneKey(2, RW|Insert),
	Syntax:     "key group consumer",
	Summary:    "Makes a consumer in a group.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		_, g, err := c.openGroup()
		if err != nil {
			return err
		}
		if g.Consumer(c.Args[4]) != nil {
			c.Reply.Int(0)
			return nil
		}
		c.consumer(g, c.Args[4], c.Args[2])
		g.Save()
		c.Reply.Int(1)
		return nil
	},
}

var xgroupDelConsumer = &Command{
	Name: "delconsumer", Group: Stream, Since: "5.0.0", Arity: 5,
	Flags: Write, Keys: OneKey(2, RW|Delete),
	Syntax:     "key group consumer",
	Summary:    "Removes a consumer from a group, and tells how many entries it had pending.",
	Complexity: "O(N) where N is the number of entries that the consumer has pending",
	Run: func(c *Ctx) error {
		_, g, err := c.openGroup()
		if err != nil {
			return err
		}
		consumer := g.Consumer(c.Args[4])
		if consumer == nil {
			c.Reply.Int(0)
			return nil
		}
		pending := consumer.Pending()
		consumer.Delete()
		g.Save()
		c.Tx.Changed(keyspace.StreamEv, "xgroup-delconsumer", c.Args[2])
		c.Reply.Int(pending)
		return nil
	},
}

var xgroupHelp = &Command{
	Name: "help", Group: Stream, Since: "5.0.0", Arity: 2,
	Flags:   Loading | Stale,
	Summary: "Lists the subcommands of XGROUP.",
	Run:     writeHelp,
}

func isDollar(arg []byte) bool { return len(arg) > 0 && arg[0] == '$' && len(cString(arg)) == 1 }

// groupOptions reads the options behind the ID: whether to make the stream, which
// only CREATE knows, and how many entries the group has read.
func groupOptions(c *Ctx, create bool) (make bool, read int64, err error) {
	read = stream.NotCounted
	for i := 5; i < len(c.Args); i++ {
		switch {
		case create && isWord(c.Args[i], "mkstream"):
			make = true
		case isWord(c.Args[i], "entriesread") && i+1 < len(c.Args):
			i++
			if read, err = integer(c.Args[i]); err != nil {
				return false, 0, err
			}
			if read < 0 && read != stream.NotCounted {
				return false, 0, errEntriesRead
			}
		default:
			return false, 0, subcommandSyntaxError(c.Args)
		}
	}
	return make, read, nil
}

// openStream finds the stream of a subcommand, which must exist.
func (c *Ctx) openStream() (*stream.Stream, error) {
	s, err := stream.Open(c.Tx, c.Args[2], &c.Limits.Limits)
	if err == nil && !s.Exists() {
		return nil, errXgroupKey
	}
	return s, err
}

// openGroup finds the stream and the group of a subcommand, which must exist.
func (c *Ctx) openGroup() (*stream.Stream, *stream.Group, error) {
	s, err := c.openStream()
	if err != nil {
		return nil, nil, err
	}
	g := s.Group(c.Args[3])
	if g == nil {
		return nil, nil, noGroupOfError(c.Args[3], c.Args[2])
	}
	return s, g, nil
}

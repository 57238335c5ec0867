package command

import (
	"redoubt/types/stream"
)

// XINFO describes streams, groups and consumers.

var xinfo = &Command{
	Name: "xinfo", Group: Stream, Since: "5.0.0", Arity: -2,
	Summary: "Tells about a stream, its groups and their consumers.",
	Subs:    []*Command{xinfoConsumers, xinfoGroups, xinfoHelp, xinfoStream},
}

var xinfoHelp = &Command{
	Name: "help", Group: Stream, Since: "5.0.0", Arity: 2,
	Flags:   Loading | Stale,
	Summary: "Lists the subcommands of XINFO.",
	Run:     writeHelp,
}

var xinfoConsumers = &Command{
	Name: "consumers", Group: Stream, Since: "5.0.0", Arity: 4,
	Flags: ReadOnly, Keys: OneKey(2, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key group",
	Summary:    "Lists the consumers of a group.",
	Complexity: "O(N) where N is the number of consumers",
	Run: func(c *Ctx) error {
		s, err := c.streamToTell()
		if err != nil {
			return err
		}
		g := s.Group(c.Args[3])
		if g == nil {
			return noGroupOfError(c.Args[3], c.Args[2])
		}
		w := c.Reply
		w.Array(int(g.Consumers()))
		g.EachConsumer(func(k *stream.Consumer) bool {
			inactive := int64(-1)
			if k.Active != -1 {
				inactive = c.Tx.Now - k.Active
			}
			w.Map(4)
			w.BulkString("name")
			w.Bulk(k.Name)
			w.BulkString("pending")
			w.Int(k.Pending())
			w.BulkString("idle")
			w.Int(max(c.Tx.Now-k.Seen, 0))
			w.BulkString("inactive")
			w.Int(inactive)
			return c.Spill()
		})
		return nil
	},
}

var xinfoGroups = &Command{
	Name: "groups", Group: Stream, Since: "5.0.0", Arity: 3,
	Flags: ReadOnly, Keys: OneKey(2, RO|Access),
	Syntax:     "key",
	Summary:    "Lists the groups of a stream.",
	Complexity: "O(N) where N is the number of groups",
	Run: func(c *Ctx) error {
		s, err := c.streamToTell()
		if err != nil {
			return err
		}
		w := c.Reply
		w.Array(int(s.Groups()))
		s.EachGroup(func(g *stream.Group) bool {
			w.Map(6)
			w.BulkString("name")
			w.Bulk(g.Name)
			w.BulkString("consumers")
			w.Int(g.Consumers())
			w.BulkString("pending")
			w.Int(g.Pending())
			w.BulkString("last-delivered-id")
			writeID(w, g.Last)
			c.replyProgress(g)
			return c.Spill()
		})
		return nil
	},
}

var xinfoStream = &Command{
	Name: "stream", Group: Stream, Since: "5.0.0", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(2, RO|Access),
	Syntax:     "key [FULL [COUNT count:integer]]",
	Summary:    "Tells about a stream; with FULL also what is in it and in its groups.",
	Complexity: "O(1); with FULL O(N) where N is the number of entries, groups, consumers and pending entries told",
	Run: func(c *Ctx) error {
		s, err := c.streamToTell()
		if err != nil {
			return err
		}
		args, count := c.Args[3:], int64(10)
		switch {
		case len(args) == 0:
			c.replyStream(s, 10)
			return c.replyEnds(s)
		case len(args) != 1 && len(args) != 3, !isWord(args[0], "full"), len(args) == 3 && !isWord(args[1], "count"):
			return subcommandSyntaxError(c.Args)
		case len(args) == 3:
			if count, err = integer(args[2]); err != nil {
				return err
			}
			if count < 0 {
				count = 10
			}
		}
		c.replyStream(s, 9)
		c.replyAll(s, count)
		return nil
	},
}

// streamToTell finds the stream that a subcommand describes.
func (c *Ctx) streamToTell() (*stream.Stream, error) {
	s, err := stream.Read(c.Tx, c.Args[2])
	if err == nil && !s.Exists() {
		err = ErrNoSuchKey
	}
	return s, err
}

// replyStream begins a map with the fields that both forms have.
func (c *Ctx) replyStream(s *stream.Stream, fields int) {
	w := c.Reply
	w.Map(fields)
	w.BulkString("length")
	w.Int(s.Len())
	w.BulkString("radix-tree-keys")
	w.Int(s.Nodes())
	w.BulkString("radix-tree-nodes")
	w.Int(treeNodes(s.Nodes()))
	w.BulkString("last-generated-id")
	writeID(w, s.Last)
	w.BulkString("max-deleted-entry-id")
	writeID(w, s.MaxDeleted)
	w.BulkString("entries-added")
	w.Int(s.Added)
	w.BulkString("recorded-first-entry-id")
	writeID(w, s.First)
}

// treeNodes estimates the number of nodes of Redis's radix tree for a stream of this size. There
// is no such tree here, but the number grows as monitoring expects.
func treeNodes(keys int64) int64 {
	if keys < 2 {
		return keys + 1
	}
	return 2*keys + 2
}

// replyEnds ends the short form: the first and the last entry.
func (c *Ctx) replyEnds(s *stream.Stream) error {
	w := c.Reply
	w.BulkString("groups")
	w.Int(s.Groups())
	for _, end := range []string{"first-entry", "last-entry"} {
		w.BulkString(end)
		some := false
		s.Each(stream.ID{}, stream.MaxID, end == "last-entry", func(id stream.ID, e stream.Entry) bool {
			some = true
			c.replyEntry(id, e)
			return false
		})
		if !some {
			w.Null()
		}
	}
	return nil
}

// replyProgress writes how far a group has read.
func (c *Ctx) replyProgress(g *stream.Group) {
	w := c.Reply
	w.BulkString("entries-read")
	if g.EntriesRead != stream.NotCounted {
		w.Int(g.EntriesRead)
	} else {
		w.Null()
	}
	w.BulkString("lag")
	if lag, ok := g.Lag(); ok {
		w.Int(lag)
	} else {
		w.Null()
	}
}

// replyAll ends the full form, with at most so many entries and pending entries; 0 is all.
func (c *Ctx) replyAll(s *stream.Stream, count int64) {
	w := c.Reply
	w.BulkString("entries")
	c.replyEntries(s, stream.ID{}, stream.MaxID, count, false)
	w.BulkString("groups")
	w.Array(int(s.Groups()))
	s.EachGroup(func(g *stream.Group) bool {
		w.Map(7)
		w.BulkString("name")
		w.Bulk(g.Name)
		w.BulkString("last-delivered-id")
		writeID(w, g.Last)
		c.replyProgress(g)
		w.BulkString("pel-count")
		w.Int(g.Pending())
		w.BulkString("pending")
		c.replyPendings(g, nil, g.Pending(), count)
		w.BulkString("consumers")
		w.Array(int(g.Consumers()))
		g.EachConsumer(func(k *stream.Consumer) bool {
			w.Map(5)
			w.BulkString("name")
			w.Bulk(k.Name)
			w.BulkString("seen-time")
			w.Int(k.Seen)
			w.BulkString("active-time")
			w.Int(k.Active)
			w.BulkString("pel-count")
			w.Int(k.Pending())
			w.BulkString("pending")
			c.replyPendings(g, k, k.Pending(), count)
			return c.Spill()
		})
		return c.Spill()
	})
}

// replyPendings writes the pending entries of a group or, if a consumer is given, of that
// consumer, whose name is then left out.
func (c *Ctx) replyPendings(g *stream.Group, k *stream.Consumer, total, count int64) {
	w, n := c.Reply, int64(0)
	if count == 0 || count > total {
		count = total
	}
	w.Array(int(count))
	g.EachPending(k, stream.ID{}, stream.MaxID, func(p stream.Pending) bool {
		if n++; k == nil {
			w.Array(4)
			writeID(w, p.ID)
			w.Bulk(p.Consumer)
		} else {
			w.Array(3)
			writeID(w, p.ID)
		}
		w.Int(p.Time)
		w.Int(p.Count)
		return n < count && c.Spill()
	})
}

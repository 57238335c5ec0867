package command

import (
	"redoubt/types/stream"
	"redoubt/wire"
)

// Entries that were delivered to consumers and are not acknowledged yet.

var xack = &Command{
	Name: "xack", Group: Stream, Since: "5.0.0", Arity: -4,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key group id...",
	Summary:    "Tells that entries are done: they are no longer pending in the group.",
	Complexity: "O(1) for each ID",
	Run: func(c *Ctx) error {
		s, err := stream.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		g := s.Group(c.Args[2])
		if g == nil {
			c.Reply.Int(0)
			return nil
		}
		ids, err := streamIDs(c.Args[3:])
		if err != nil {
			return err
		}
		g.Prefetch(ids, false)
		n := 0
		for _, id := range ids {
			if g.Ack(id) {
				n++
			}
		}
		g.Save()
		c.Tx.FX.Changes += n
		c.Reply.Int(int64(n))
		return nil
	},
}

var xpending = &Command{
	Name: "xpending", Group: Stream, Since: "5.0.0", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key group [filters=([IDLE min-idle-time:integer]@6.2.0 start end count:integer [consumer])]",
	Summary:    "Tells what is pending in a group: in short, or entry by entry.",
	Complexity: "O(C) for the short form, where C is the number of consumers; else O(log(N)+M), where N is the number of entries pending and M that of those looked at",
	Run: func(c *Ctx) error {
		n := len(c.Args)
		if n != 3 && (n < 6 || n > 9) {
			return ErrSyntax
		}
		o := pendingArgs{}
		if n > 3 {
			var err error
			if o, err = parsePending(c.Args[3:]); err != nil {
				return err
			}
		}
		_, g, err := c.readGroupOf()
		if err != nil {
			return err
		}
		if n == 3 {
			c.pendingSummary(g)
		} else {
			c.pendingList(g, &o)
		}
		return nil
	},
}

// pendingArgs say which of the pending entries to list.
type pendingArgs struct {
	idle, count int64
	from, to    stream.ID
	consumer    []byte
}

func parsePending(args [][]byte) (o pendingArgs, err error) {
	if isWord(args[0], "idle") {
		if o.idle, err = integer(args[1]); err != nil {
			return o, err
		}
		if len(args) < 5 {
			return o, ErrSyntax
		}
		args = args[2:]
	}
	if o.count, err = integer(args[2]); err != nil {
		return o, err
	}
	if o.from, err = startID(args[0]); err != nil {
		return o, err
	}
	if o.to, err = endID(args[1]); err != nil {
		return o, err
	}
	if len(args) > 3 {
		o.consumer = args[3]
	}
	return o, nil
}

func (c *Ctx) pendingSummary(g *stream.Group) {
	w := c.Reply
	w.Array(4)
	w.Int(g.Pending())
	if g.Pending() == 0 {
		w.Null()
		w.Null()
		w.NullArray()
		return
	}
	first, last := g.PendingEnds()
	writeID(w, first)
	writeID(w, last)
	start, n := len(w.Buf), 0
	g.EachConsumer(func(k *stream.Consumer) bool {
		if k.Pending() > 0 {
			n++
			w.Array(2)
			w.Bulk(k.Name)
			w.BulkInt(k.Pending())
		}
		return true
	})
	insertHead(w, start, func(w *wire.Writer) { w.Array(n) })
}

func (c *Ctx) pendingList(g *stream.Group, o *pendingArgs) {
	w := c.Reply
	var consumer *stream.Consumer
	if o.consumer != nil {
		if consumer = g.Consumer(o.consumer); consumer == nil {
			w.Array(0)
			return
		}
	}
	start, n := len(w.Buf), int64(0)
	if o.count > 0 {
		g.EachPending(consumer, o.from, o.to, func(p stream.Pending) bool {
			idle := c.Tx.Now - p.Time
			if o.idle != 0 && idle < o.idle {
				return true
			}
			n++
			w.Array(4)
			writeID(w, p.ID)
			w.Bulk(p.Consumer)
			w.Int(max(idle, 0))
			w.Int(p.Count)
			return n < o.count
		})
	}
	insertHead(w, start, func(w *wire.Writer) { w.Array(int(n)) })
}

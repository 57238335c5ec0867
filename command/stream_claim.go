package command

import (
	"math"

	"redoubt/types/stream"
	"redoubt/wire"
)

// Taking over entries that were delivered to other consumers.

var xclaim = &Command{
	Name: "xclaim", Group: Stream, Since: "5.0.0", Arity: -6,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Tips: []string{"nondeterministic_output"},
	Syntax: "key group consumer min-idle-time id... [IDLE ms:integer] [TIME unix-time-milliseconds:unix-time] " +
		"[RETRYCOUNT count:integer] [FORCE] [JUSTID] [LASTID lastid]",
	Summary:    "Gives pending entries to another consumer of the group, if they were left for long enough.",
	Complexity: "O(1) for each ID",
	Run: func(c *Ctx) error {
		s, g, err := c.readGroupOf()
		if err != nil {
			return err
		}
		idle, err := integer(c.Args[4])
		if err != nil {
			return claimError("min-idle-time", "XCLAIM")
		}
		o, err := parseClaim(c)
		if err != nil {
			return err
		}
		moved := g.Last.Less(o.last)
		if moved {
			g.SetID(o.last, g.EntriesRead)
		}
		consumer := c.consumer(g, c.Args[3], c.Args[1])
		g.Prefetch(o.ids, true)
		start, n := len(c.Reply.Buf), 0
		for _, id := range o.ids {
			switch c.claim(s, g, consumer, id, max(idle, 0), &o) {
			case claimed:
				n++
				moved = false
				c.Tx.FX.Changes++
			case claimGone:
				moved = false
				c.Tx.FX.Changes++
			}
		}
		if moved {
			c.Tx.FX.Changes++
			c.propagateGroup(c.Args[1], g)
		}
		g.Save()
		insertHead(c.Reply, start, func(w *wire.Writer) { w.Array(n) })
		return nil
	},
}

// readGroupOf finds the stream and the group that XCLAIM, XAUTOCLAIM and XPENDING name,
// which must exist. It counts as a hit or a miss.
func (c *Ctx) readGroupOf() (*stream.Stream, *stream.Group, error) {
	s, err := stream.Read(c.Tx, c.Args[1])
	if err != nil {
		return nil, nil, err
	}
	g := s.Group(c.Args[2])
	if g == nil {
		return nil, nil, noGroupError(c.Args[1], c.Args[2], "")
	}
	return s, g, nil
}

// claimArgs are the options of XCLAIM.
type claimArgs struct {
	ids           []stream.ID
	time          int64 // what counts as the time of delivery
	retries       int64 // what the number of deliveries becomes, or -1
	force, justID bool
	last          stream.ID
}

func parseClaim(c *Ctx) (o claimArgs, err error) {
	at := 5
	for ; at < len(c.Args); at++ {
		id, ok := stream.ParseID(c.Args[at], 0)
		if !ok {
			break
		}
		o.ids = append(o.ids, id)
	}
	o.time, o.retries = -1, -1
	for ; at < len(c.Args); at++ {
		more := at+1 < len(c.Args)
		switch arg := c.Args[at]; {
		case isWord(arg, "force"):
			o.force = true
			continue
		case isWord(arg, "justid"):
			o.justID = true
			continue
		case more && isWord(arg, "idle"):
			if o.time, err = integer(c.Args[at+1]); err != nil {
				return o, claimError("IDLE option", "XCLAIM")
			}
			o.time = c.Tx.Now - o.time
		case more && isWord(arg, "time"):
			if o.time, err = integer(c.Args[at+1]); err != nil {
				return o, claimError("TIME option", "XCLAIM")
			}
		case more && isWord(arg, "retrycount"):
			if o.retries, err = integer(c.Args[at+1]); err != nil {
				return o, claimError("RETRYCOUNT option", "XCLAIM")
			}
		case more && isWord(arg, "lastid"):
			if o.last, err = streamID(c.Args[at+1], 0); err != nil {
				return o, err
			}
		default:
			return o, Error("ERR Unrecognized XCLAIM option '" + string(cString(arg)) + "'")
		}
		at++
	}
	if o.time < 0 || o.time > c.Tx.Now {
		o.time = c.Tx.Now
	}
	return o, nil
}

// claimOutcome is the result of claiming an entry.
type claimOutcome int

const (
	claimRefused claimOutcome = iota
	claimed
	claimGone // it was deleted, and is no longer pending now
)

// claim makes an entry pending at a consumer, and writes it into the reply.
func (c *Ctx) claim(s *stream.Stream, g *stream.Group, k *stream.Consumer, id stream.ID, idle int64, o *claimArgs) claimOutcome {
	p, pending := g.Find(id)
	e, found := s.Get(id)
	switch {
	case !found && pending:
		c.propagateClaim(c.Args[1], g, k, p, g.Last)
		g.Drop(p)
		return claimGone
	case !found || !pending && !o.force:
		return claimRefused
	case pending && idle > 0 && c.Tx.Now-p.Time < idle:
		return claimRefused
	}
	next := stream.Pending{ID: id, Time: o.time, Count: 1}
	if pending {
		next.Count = p.Count
	}
	switch {
	case o.retries >= 0:
		next.Count = o.retries
	case !o.justID:
		next.Count++
	}
	g.Claim(p, pending, k, next)
	c.propagateClaim(c.Args[1], g, k, next, g.Last)
	if o.justID {
		writeID(c.Reply, id)
	} else {
		c.replyEntry(id, e)
	}
	return claimed
}

var xautoclaim = &Command{
	Name: "xautoclaim", Group: Stream, Since: "6.2.0", Arity: -6,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key group consumer min-idle-time start [COUNT count:integer] [JUSTID]",
	Summary:    "Looks through what is pending in a group and gives what was left for long enough to a consumer.",
	Complexity: "O(1) for each entry looked at, which are ten times COUNT at the most",
	Run: func(c *Ctx) error {
		idle, err := integer(c.Args[4])
		if err != nil {
			return claimError("min-idle-time", "XAUTOCLAIM")
		}
		from, err := startID(c.Args[5])
		if err != nil {
			return err
		}
		count := int64(100)
		o := claimArgs{time: c.Tx.Now, retries: -1}
		for i := 6; i < len(c.Args); i++ {
			switch {
			case isWord(c.Args[i], "count") && i+1 < len(c.Args):
				i++
				if count, err = integer(c.Args[i]); err != nil || count < 1 || count > math.MaxInt64/16 {
					return errXautoclaimN
				}
			case isWord(c.Args[i], "justid"):
				o.justID = true
			default:
				return ErrSyntax
			}
		}
		s, g, err := c.readGroupOf()
		if err != nil {
			return err
		}
		c.autoclaim(s, g, from, count, max(idle, 0), &o)
		g.Save()
		return nil
	},
}

// autoclaimTries is how many entries are examined for each entry that is wanted.
const autoclaimTries = 10

func (c *Ctx) autoclaim(s *stream.Stream, g *stream.Group, from stream.ID, count, idle int64, o *claimArgs) {
	w := c.Reply
	consumer := c.consumer(g, c.Args[3], c.Args[1])
	w.Array(3)
	start, n := len(w.Buf), 0
	var deleted []stream.ID
	tries := count * autoclaimTries
	next, more := from, true
	for page := int64(0); more && tries > 0 && count > 0 && c.Tx.Err() == nil; {
		// The next page: the entries that may be examined, and the one behind them.
		page = min(tries, 128)
		var ids []stream.ID
		g.EachPending(nil, next, stream.MaxID, func(p stream.Pending) bool {
			ids = append(ids, p.ID)
			return int64(len(ids)) <= page
		})
		i := 0
		for ; i < len(ids) && int64(i) < page && count > 0; i++ {
			tries--
			switch c.claim(s, g, consumer, ids[i], idle, o) {
			case claimed:
				n++
				count--
				c.Tx.FX.Changes++
			case claimGone:
				deleted = append(deleted, ids[i])
				count--
				c.Tx.FX.Changes++
			}
		}
		if more = i < len(ids); more {
			next = ids[i]
		}
	}
	if !more {
		next = stream.ID{}
	}
	insertHead(w, start, func(w *wire.Writer) {
		writeID(w, next)
		w.Array(n)
	})
	w.Array(len(deleted))
	for _, id := range deleted {
		writeID(w, id)
	}
}

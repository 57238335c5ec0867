package command

import (
	"math"
	"slices"

	"redoubt/keyspace"
	"redoubt/types/stream"
	"redoubt/wire"
)

// XREAD and XREADGROUP: reading the entries behind an ID, of several streams, and waiting for
// them.

var xread = &Command{
	Name: "xread", Group: Stream, Since: "5.0.0", Arity: -4,
	Flags:   ReadOnly | Blocking | MovableKeys,
	Keys:    []KeySpec{{Flags: RO | Access, Begin: Begin{Keyword: "STREAMS", From: 1}, Find: Find{Last: -1, Step: 1, Limit: 2}}},
	Syntax:  "[COUNT count:integer] [BLOCK milliseconds:integer] STREAMS streams=(key... id...)",
	Summary: "Reads the entries of streams whose IDs are above given ones, and may wait for such entries.",
	Complexity: "O(log(N)+M) for each stream, where N is the number of its entries and M that of those read; " +
		"O(1) for each client that waits when an entry is added",
	Run: func(c *Ctx) error { return runXread(c, false) },
}

var xreadgroup = &Command{
	Name: "xreadgroup", Group: Stream, Since: "5.0.0", Arity: -7,
	Flags: Write | Blocking | MovableKeys,
	Keys:  []KeySpec{{Flags: RO | Access, Begin: Begin{Keyword: "STREAMS", From: 4}, Find: Find{Last: -1, Step: 1, Limit: 2}}},
	Syntax: "GROUP group-block=(group consumer) [COUNT count:integer] [BLOCK milliseconds:integer] [NOACK] " +
		"STREAMS streams=(key... id...)",
	Summary: "Reads, for a consumer of a group, entries that no other consumer got, or again those that this one has pending; may wait for new ones.",
	Complexity: "O(log(N)+M) for each stream, where N is the number of its entries and M that of those read; " +
		"O(1) for each client that waits when an entry is added",
	Run: func(c *Ctx) error { return runXread(c, true) },
}

// readArgs are the arguments of both.
type readArgs struct {
	block           int64 // milliseconds, or -1 for not at all
	count           int64 // 0 for all
	noAck           bool
	group, consumer []byte
	keys, ids       [][]byte
	idsAt           int
}

func parseRead(c *Ctx, grouped bool) (o readArgs, err error) {
	o.block = -1
	args := c.Args
	for i := 1; i < len(args); i++ {
		more := len(args) - i - 1
		switch arg := args[i]; {
		case more > 0 && isWord(arg, "block"):
			if c.Script {
				return o, Error("ERR " + string(args[0]) + " command is not allowed with BLOCK option from scripts")
			}
			i++
			if o.block, err = milliseconds(args[i], c.Tx.Now); err != nil {
				return o, err
			}
		case more > 0 && isWord(arg, "count"):
			i++
			if o.count, err = integer(args[i]); err != nil {
				return o, err
			}
			o.count = max(o.count, 0)
		case more > 0 && isWord(arg, "streams"):
			if more%2 != 0 {
				symbol := "$"
				if grouped {
					symbol = ">"
				}
				return o, unbalancedError(c.Cmd.FullName, symbol)
			}
			o.idsAt = i + 1 + more/2
			o.keys, o.ids = args[i+1:o.idsAt], args[o.idsAt:]
			i = len(args)
		case more > 1 && isWord(arg, "group"):
			if !grouped {
				return o, errXreadGroup
			}
			o.group, o.consumer = args[i+1], args[i+2]
			i += 2
		case isWord(arg, "noack"):
			if !grouped {
				return o, errXreadNoAck
			}
			o.noAck = true
		default:
			return o, ErrSyntax
		}
	}
	if o.keys == nil {
		return o, ErrSyntax
	}
	if grouped && o.group == nil {
		return o, errXreadNoGroup
	}
	return o, nil
}

// milliseconds reads a timeout that is given as a whole number of them.
func milliseconds(arg []byte, now int64) (int64, error) {
	n, err := integer(arg)
	switch {
	case err != nil:
		return 0, ErrTimeout
	case n < 0:
		return 0, ErrTimeoutSign
	case n > math.MaxInt64-now:
		return 0, ErrTimeoutRange
	}
	return n, nil
}

// source is a stream that is read.
type source struct {
	stream *stream.Stream
	group  *stream.Group
	after  stream.ID
	fresh  bool // XREADGROUP: what the group has not read yet
	dollar bool // the ID was $
}

func runXread(c *Ctx, grouped bool) error {
	o, err := parseRead(c, grouped)
	if err != nil {
		return err
	}
	sources := make([]source, len(o.keys))
	for i := range sources {
		if err := c.openSource(sources, i, &o, grouped); err != nil {
			return err
		}
	}
	if c.Sink != nil && !grouped && c.readInParts(sources, &o) {
		return nil
	}
	start, n := len(c.Reply.Buf), 0
	for i := range sources {
		src := &sources[i]
		if c.lookAgain(src.stream.Exists(), o.keys[i]); !src.stream.Exists() {
			continue
		}
		at := len(c.Reply.Buf)
		if c.Reply.Proto == 2 {
			c.Reply.Array(2)
		}
		c.Reply.Bulk(o.keys[i])
		some := false
		if grouped {
			some = c.readGroup(src, &o, o.keys[i])
		} else if src.after.Less(src.stream.Last) {
			some = c.readPlain(src, o.count)
		}
		if !some {
			c.Reply.Buf = c.Reply.Buf[:at]
			continue
		}
		n++
	}
	switch {
	case n > 0:
		insertHead(c.Reply, start, func(w *wire.Writer) { replyStreams(w, n) })
	case o.block < 0 || c.NoBlock:
		c.Reply.NullArray()
	default:
		return c.waitForEntries(&o, sources, grouped)
	}
	return nil
}

// lookAgain counts a second look-up of a key: Redis looks each key up before it parses the IDs,
// and again before it reads the entries.
func (c *Ctx) lookAgain(found bool, key []byte) {
	if found {
		c.Tx.FX.Hits++
		return
	}
	c.Tx.FX.Misses++
	c.Tx.Note(keyspace.MissEv, "keymiss", key)
}

// openSource finds a stream, its group and what to read of it. A stream that is named twice is
// opened once, so that the second read sees the changes of the first.
func (c *Ctx) openSource(sources []source, i int, o *readArgs, grouped bool) error {
	src := &sources[i]
	for j := range i {
		if string(o.keys[j]) == string(o.keys[i]) {
			src.stream, src.group = sources[j].stream, sources[j].group
			c.lookAgain(src.stream.Exists(), o.keys[i])
			break
		}
	}
	if src.stream == nil {
		s, err := stream.Read(c.Tx, o.keys[i])
		if err != nil {
			return err
		}
		src.stream = s
		if grouped {
			src.group = s.Group(o.group)
		}
	}
	if grouped && src.group == nil {
		return noGroupError(o.keys[i], o.group, " in XREADGROUP with GROUP option")
	}
	return src.from(o.ids[i], grouped)
}

// from reads the ID behind which to read.
func (src *source) from(arg []byte, grouped bool) (err error) {
	special := byte(0)
	if id := cString(arg); len(id) == 1 {
		special = id[0]
	}
	switch {
	case (special == '$' || special == '+') && grouped:
		return meaninglessError(string(special))
	case special == '>' && !grouped:
		return errXreadNew
	case special == '$':
		src.after, src.dollar = src.stream.Last, true
	case special == '+':
		if src.stream.Len() > 0 {
			src.after, _ = src.stream.LastEntry().Prev()
		}
	case special == '>':
		src.fresh = true
	default:
		if src.after, err = streamID(arg, 0); err != nil {
			return err
		}
		src.fresh = grouped && src.after == stream.MaxID
	}
	return nil
}

// readPlain writes what comes after the ID. It returns false if nothing does.
func (c *Ctx) readPlain(src *source, count int64) bool {
	from, _ := src.after.Next() // it is not the last ID, which nothing is behind
	start, n := len(c.Reply.Buf), int64(0)
	src.stream.Each(from, stream.MaxID, false, func(id stream.ID, e stream.Entry) bool {
		n++
		return c.replyEntry(id, e) && n != count
	})
	insertHead(c.Reply, start, func(w *wire.Writer) { w.Array(int(n)) })
	return n > 0
}

// readInParts writes the entries behind the IDs when they are many: it counts them first, so that
// the beginning of the reply can be sent before the end is read. It returns false if there are
// none.
func (c *Ctx) readInParts(sources []source, o *readArgs) bool {
	n, from := 0, make([]stream.ID, len(sources))
	for i := range sources {
		src := &sources[i]
		if !src.after.Less(src.stream.Last) {
			continue
		}
		if first, _ := src.after.Next(); src.stream.Count(first, stream.MaxID, 1) > 0 {
			from[i] = first
			n++
		}
	}
	if n == 0 {
		return false
	}
	replyStreams(c.Reply, n)
	for i := range sources {
		if c.lookAgain(sources[i].stream.Exists(), o.keys[i]); from[i].IsZero() {
			continue
		}
		if c.Reply.Proto == 2 {
			c.Reply.Array(2)
		}
		c.Reply.Bulk(o.keys[i])
		if c.replyEntries(sources[i].stream, from[i], stream.MaxID, o.count, false); !c.Spill() {
			break
		}
	}
	return true
}

// replyStreams begins the reply for so many streams.
func replyStreams(w *wire.Writer, n int) {
	if w.Proto == 2 {
		w.Array(n)
	} else {
		w.Map(n)
	}
}

// readGroup writes the entries for the consumer: new ones, or its pending ones behind the ID, of
// which there may be none.
func (c *Ctx) readGroup(src *source, o *readArgs, key []byte) bool {
	g := src.group
	consumer := c.consumer(g, o.consumer, key)
	start, n := len(c.Reply.Buf), int64(0)
	if src.fresh {
		tells := c.Tx.Propagates()
		n = g.Read(consumer, o.count, o.noAck, func(id stream.ID, e stream.Entry) {
			c.replyEntry(id, e)
			if tells && !o.noAck {
				c.propagateClaim(key, g, consumer, stream.Pending{ID: id, Time: c.Tx.Now, Count: 1}, id)
			}
		})
		if tells && n > 0 {
			c.propagateGroup(key, g)
		}
	} else {
		from, _ := src.after.Next()
		g.History(consumer, from, o.count, func(id stream.ID, e stream.Entry) {
			n++
			c.replyPending(id, e)
		})
	}
	g.Save()
	if src.fresh && n == 0 {
		return false
	}
	insertHead(c.Reply, start, func(w *wire.Writer) { w.Array(int(n)) })
	c.Tx.FX.Changes++
	return true
}

// replyPending writes an entry, or null in its place if it was deleted.
func (c *Ctx) replyPending(id stream.ID, e stream.Entry) {
	if e != nil {
		c.replyEntry(id, e)
		return
	}
	c.Reply.Array(2)
	writeID(c.Reply, id)
	c.Reply.NullArray()
}

// consumer finds a consumer that is reading, and makes it if there is none.
func (c *Ctx) consumer(g *stream.Group, name, key []byte) *stream.Consumer {
	consumer := g.Consumer(name)
	if consumer == nil {
		consumer = g.AddConsumer(name)
		c.Tx.Changed(keyspace.StreamEv, "xgroup-createconsumer", key)
		c.propagate("XGROUP", []byte("CREATECONSUMER"), key, g.Name, name)
	}
	consumer.See()
	return consumer
}

// waitForEntries makes the command wait. The IDs that $ stood for are kept, and so is the time at
// which the consumer was seen.
func (c *Ctx) waitForEntries(o *readArgs, sources []source, grouped bool) error {
	b := &Block{Timeout: o.block, Type: keyspace.Stream, Keys: o.keys, Gone: grouped, Keep: grouped}
	for i, src := range sources {
		if !src.dollar {
			continue
		}
		if b.Args == nil {
			b.Args = slices.Clone(c.Args)
		}
		b.Args[o.idsAt+i] = src.after.Append(nil)
	}
	return b
}

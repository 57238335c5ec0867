package command

import (
	"fmt"
	"math"
	"slices"

	"redoubt/engine"
	"redoubt/types/stream"
	"redoubt/wire"
)

// Reading ranges of entries, and writing entries into replies.

var xrange = &Command{
	Name: "xrange", Group: Stream, Since: "5.0.0", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key start end [COUNT count:integer]",
	Summary:    "Lists the entries of a stream whose IDs are in a range.",
	Complexity: "O(log(N)+M) where N is the number of entries and M that of those listed",
	Run:        func(c *Ctx) error { return runXrange(c, c.Args[2], c.Args[3], false) },
}

var xrevrange = &Command{
	Name: "xrevrange", Group: Stream, Since: "5.0.0", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key end start [COUNT count:integer]",
	Summary:    "Lists the entries of a stream whose IDs are in a range, the last one first.",
	Complexity: "O(log(N)+M) where N is the number of entries and M that of those listed",
	Run:        func(c *Ctx) error { return runXrange(c, c.Args[3], c.Args[2], true) },
}

func runXrange(c *Ctx, start, end []byte, reverse bool) error {
	from, err := startID(start)
	if err != nil {
		return err
	}
	to, err := endID(end)
	if err != nil {
		return err
	}
	count := int64(-1)
	for i := 4; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) || !isWord(c.Args[i], "count") {
			return ErrSyntax
		}
		if count, err = integer(c.Args[i+1]); err != nil {
			return err
		}
		count = max(count, 0)
	}
	s, err := stream.Read(c.Tx, c.Args[1])
	switch {
	case err != nil:
		return err
	case !s.Exists():
		c.Reply.Array(0)
	case count == 0:
		c.Reply.NullArray()
	default:
		c.replyEntries(s, from, to, max(count, 0), reverse)
	}
	return nil
}

// replyEntries writes the entries of a range as an array, up to a number, 0 for all. The number of
// entries is known at the beginning if the range is the whole stream. Else it is inserted at the
// end; or, when the reply becomes so large that its beginning could be sent, the rest is counted.
func (c *Ctx) replyEntries(s *stream.Stream, from, to stream.ID, count int64, reverse bool) {
	if count == 0 {
		count = math.MaxInt64
	}
	start, n, known := len(c.Reply.Buf), int64(0), false
	if !s.First.Less(from) && !to.Less(s.Last) {
		known = true
		c.Reply.Array(int(min(count, s.Len())))
	}
	s.Each(from, to, reverse, func(id stream.ID, e stream.Entry) bool {
		if !c.replyEntry(id, e) {
			return false
		}
		if n++; n == count {
			return false
		}
		if !known && c.Sink != nil && len(c.Reply.Buf)-start > spillBytes {
			known = true
			left := c.countBehind(s, from, to, id, count-n, reverse)
			insertHead(c.Reply, start, func(w *wire.Writer) { w.Array(int(n + left)) })
		}
		return !known || c.Spill()
	})
	if !known {
		insertHead(c.Reply, start, func(w *wire.Writer) { w.Array(int(n)) })
	}
}

// countBehind counts the entries of a range behind the one with the ID.
func (c *Ctx) countBehind(s *stream.Stream, from, to, id stream.ID, most int64, reverse bool) int64 {
	var ok bool
	if reverse {
		to, ok = id.Prev()
	} else {
		from, ok = id.Next()
	}
	if !ok || to.Less(from) {
		return 0
	}
	return s.Count(from, to, most)
}

// replyEntry writes an entry: its ID, and its fields and values. It returns false if
// the entry cannot be read.
func (c *Ctx) replyEntry(id stream.ID, e stream.Entry) bool {
	w := c.Reply
	w.Array(2)
	writeID(w, id)
	n, items := e.Pairs()
	w.Array(2 * n)
	for range 2 * n {
		item, ok := items.Next()
		if !ok {
			c.Tx.Fail(fmt.Errorf("%w: stream %.64q: the entry %v is malformed", engine.ErrCorrupt, c.Args[1], id))
			return false
		}
		w.Bulk(item)
	}
	return true
}

// insertHead inserts the head of an array before its elements, which begin at an offset.
func insertHead(w *wire.Writer, at int, write func(*wire.Writer)) {
	var b [24]byte
	head := wire.Writer{Buf: b[:0], Proto: w.Proto}
	write(&head)
	w.Buf = slices.Insert(w.Buf, at, head.Buf...)
}

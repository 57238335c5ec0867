package command

import (
	"math"
	"slices"

	"redoubt/keyspace"
	"redoubt/types/stream"
	"redoubt/wire"
)

// StreamCommands are the commands on streams.
var StreamCommands = []*Command{
	xadd, xlen, xrange, xrevrange, xdel, xdelex, xackdel, xtrim, xsetid,
	xread, xreadgroup, xgroup, xinfo, xack, xpending, xclaim, xautoclaim,
}

var xadd = &Command{
	Name: "xadd", Group: Stream, Since: "5.0.0", Arity: -5,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Tips: []string{"nondeterministic_output"},
	Syntax: "key [NOMKSTREAM]@6.2.0 [trim=(strategy=<MAXLEN|MINID@6.2.0> [operator=<equal==|approximately=~>] threshold " +
		"[LIMIT count:integer]@6.2.0)] id-selector=<auto-id=*|id> data=(field value)...",
	Summary:    "Adds an entry at the end of a stream, which is made if there is none, and may trim the stream.",
	Complexity: "O(1) to add an entry; when trimming, O(N) where N is the number of entries removed",
	Run: func(c *Ctx) error {
		o, at, err := streamAddArgs(c, true)
		if err != nil {
			return err
		}
		if n := len(c.Args) - at - 1; n < 2 || n%2 != 0 {
			return ArityError("xadd")
		}
		if o.given && !o.open && o.id.IsZero() {
			return errXaddZero
		}
		s, err := stream.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer s.Release()
		if !s.Exists() && o.noMake {
			c.Reply.Null()
			return nil
		}
		if s.Last == stream.MaxID {
			return errXaddExhausted
		}
		id := o.id
		switch {
		case !o.given:
			id, err = s.NextID()
		case o.open:
			id, err = s.NextIn(id.Ms)
		}
		if err == nil {
			err = s.Add(id, c.Args[at+1:])
		}
		if err != nil {
			return addError(err)
		}
		removed := int64(0)
		if o.trims {
			removed = s.Trim(o.trim)
		}
		c.saved(s, keyspace.StreamEv, "xadd", c.Args[1], 1)
		if removed > 0 {
			c.Tx.Note(keyspace.StreamEv, "xtrim", c.Args[1])
		}
		writeID(c.Reply, id)
		if c.Tx.Propagates() && (!o.given || o.open || o.trim.Approx) {
			args := o.exact(c, s)
			args[at] = id.Append(nil)
			c.propagate(string(args[0]), args[1:]...)
		}
		return nil
	},
}

// exact returns the call's arguments with a trimming that leaves what this one has left,
// whatever the nodes of a replica are.
func (o *addArgs) exact(c *Ctx, s *stream.Stream) [][]byte {
	args := slices.Clone(c.Args)
	if o.trim.Approx {
		args[o.threshold-1] = []byte("=")
		switch {
		case !o.trim.ByID:
			args[o.threshold] = decimal(s.Len())
		case s.Len() == 0:
			args[o.threshold] = stream.MaxID.Append(nil)
		default:
			args[o.threshold] = s.First.Append(nil)
		}
	}
	return args
}

var xtrim = &Command{
	Name: "xtrim", Group: Stream, Since: "5.0.0", Arity: -4,
	Flags: Write, Keys: OneKey(1, RW|Delete),
	Tips: []string{"nondeterministic_output"},
	Syntax: "key trim=(strategy=<MAXLEN|MINID@6.2.0> [operator=<equal==|approximately=~>] threshold " +
		"[LIMIT count:integer]@6.2.0)",
	Summary:    "Removes entries from the start of a stream: those beyond a length, or those below an ID.",
	Complexity: "O(N) where N is the number of entries removed",
	Run: func(c *Ctx) error {
		o, _, err := streamAddArgs(c, false)
		if err != nil {
			return err
		}
		s, err := stream.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer s.Release()
		removed := s.Trim(o.trim)
		c.saved(s, keyspace.StreamEv, "xtrim", c.Args[1], int(removed))
		c.Reply.Int(removed)
		if removed > 0 && o.trim.Approx && c.Tx.Propagates() {
			args := o.exact(c, s)
			c.propagate(string(args[0]), args[1:]...)
		}
		return nil
	},
}

// addArgs are the options of XADD and XTRIM.
type addArgs struct {
	id     stream.ID
	given  bool // an ID other than *
	open   bool // ms-*
	noMake bool
	trims  bool
	trim   stream.Trim
	// threshold is the place of MaxLen or MinID among the arguments.
	threshold int
}

// streamAddArgs reads the options, and returns the index of the ID.
func streamAddArgs(c *Ctx, add bool) (o addArgs, at int, err error) {
	limited := false
	args := c.Args
scan:
	for at = 2; at < len(args); at++ {
		more := len(args) - at - 1
		arg := args[at]
		switch {
		case add && isStar(arg):
			break scan
		case more > 0 && (isWord(arg, "maxlen") || isWord(arg, "minid")):
			if o.trims {
				return o, 0, errTrimTwice
			}
			o.trims, o.trim.ByID = true, isWord(arg, "minid")
			if more > 1 && len(cString(args[at+1])) == 1 && (args[at+1][0] == '~' || args[at+1][0] == '=') {
				o.trim.Approx = args[at+1][0] == '~'
				at++
			}
			at++
			o.threshold = at
			if err := o.readThreshold(args[at]); err != nil {
				return o, 0, err
			}
		case more > 0 && isWord(arg, "limit"):
			at++
			if o.trim.Limit, err = integer(args[at]); err != nil {
				return o, 0, err
			}
			if o.trim.Limit < 0 {
				return o, 0, errTrimLimit
			}
			limited = true
		case add && isWord(arg, "nomkstream"):
			o.noMake = true
		case add:
			var ok bool
			if o.id, o.open, ok = stream.ParseOpenID(arg, 0); !ok {
				return o, 0, ErrStreamID
			}
			o.given = true
			break scan
		default:
			return o, 0, ErrSyntax
		}
	}
	return o, at, o.check(c, add, limited)
}

func (o *addArgs) readThreshold(arg []byte) (err error) {
	if o.trim.ByID {
		o.trim.MinID, err = streamID(arg, 0)
		return err
	}
	if o.trim.MaxLen, err = integer(arg); err == nil && o.trim.MaxLen < 0 {
		err = errTrimMaxLen
	}
	return err
}

// check checks the options against each other, and sets the limit.
func (o *addArgs) check(c *Ctx, add, limited bool) error {
	switch {
	case o.trim.Limit > 0 && !o.trims:
		return errTrimNoStrategy
	case !add && !o.trims:
		return errXtrimNothing
	case limited && !o.trim.Approx:
		return errTrimExact
	case !limited && o.trim.Approx:
		// So that nobody has to wait for one trimming.
		o.trim.Limit = 10_000
		if n := c.Limits.StreamNodeEntries; n > 0 {
			o.trim.Limit = min(100*min(n, 1e6), 1e6)
		}
	}
	return nil
}

func isStar(arg []byte) bool { return len(arg) > 0 && arg[0] == '*' && len(cString(arg)) == 1 }

// streamID reads an ID; missing is its second part if that is left out.
func streamID(arg []byte, missing uint64) (stream.ID, error) {
	id, ok := stream.ParseID(arg, missing)
	if !ok {
		return id, ErrStreamID
	}
	return id, nil
}

// edgeID is streamID that also knows - and +.
func edgeID(arg []byte, missing uint64) (stream.ID, error) {
	if s := cString(arg); len(s) == 1 && len(arg) <= 127 {
		switch s[0] {
		case '-':
			return stream.ID{}, nil
		case '+':
			return stream.MaxID, nil
		}
	}
	return streamID(arg, missing)
}

// startID reads the beginning of a range: an ID, -, +, or an ID behind a parenthesis, which
// excludes the ID itself.
func startID(arg []byte) (stream.ID, error) {
	if len(arg) < 2 || arg[0] != '(' {
		return edgeID(arg, 0)
	}
	id, err := streamID(arg[1:], 0)
	if err != nil {
		return id, err
	}
	id, ok := id.Next()
	if !ok {
		return id, errRangeStart
	}
	return id, nil
}

// endID reads the end of a range.
func endID(arg []byte) (stream.ID, error) {
	if len(arg) < 2 || arg[0] != '(' {
		return edgeID(arg, math.MaxUint64)
	}
	id, err := streamID(arg[1:], math.MaxUint64)
	if err != nil {
		return id, err
	}
	id, ok := id.Prev()
	if !ok {
		return id, errRangeEnd
	}
	return id, nil
}

// streamIDs reads a list of IDs.
func streamIDs(args [][]byte) ([]stream.ID, error) {
	ids := make([]stream.ID, len(args))
	for i, arg := range args {
		id, err := streamID(arg, 0)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

// writeID writes an ID.
func writeID(w *wire.Writer, id stream.ID) {
	var b [41]byte
	w.Bulk(id.Append(b[:0]))
}

var xlen = &Command{
	Name: "xlen", Group: Stream, Since: "5.0.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key",
	Summary:    "Tells how many entries a stream has.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		s, err := stream.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.Reply.Int(s.Len())
		s.Release()
		return nil
	},
}

var xsetid = &Command{
	Name: "xsetid", Group: Stream, Since: "5.0.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key last-id [ENTRIESADDED entries-added:integer]@7.0.0 [MAXDELETEDID max-deleted-id]@7.0.0",
	Summary:    "Sets the ID that a stream gave out last, and what it remembers of its past.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		last, err := streamID(c.Args[2], 0)
		if err != nil {
			return err
		}
		added, deleted := int64(-1), stream.ID{}
		for i := 3; i < len(c.Args); i += 2 {
			more := i+1 < len(c.Args)
			switch arg := c.Args[i]; {
			case more && isWord(arg, "entriesadded"):
				if added, err = integer(c.Args[i+1]); err == nil && added < 0 {
					err = errXsetidAdded
				}
			case more && isWord(arg, "maxdeletedid"):
				if deleted, err = streamID(c.Args[i+1], 0); err == nil && last.Less(deleted) {
					err = errXsetidDeleted
				}
			default:
				err = ErrSyntax
			}
			if err != nil {
				return err
			}
		}
		s, err := stream.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		switch {
		case err != nil:
			return err
		case !s.Exists():
			return ErrNoSuchKey
		case last.Less(s.MaxDeleted):
			return errXsetidCurrent
		case s.Len() > 0 && last.Less(s.Last) && last.Less(s.LastEntry()):
			return errXsetidSmall
		case s.Len() > 0 && added >= 0 && s.Len() > added:
			return errXsetidLength
		}
		s.SetID(last, added, deleted)
		c.saved(s, keyspace.StreamEv, "xsetid", c.Args[1], 1)
		c.Reply.OK()
		return nil
	},
}

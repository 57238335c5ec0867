package command

import (
	"slices"
	"strconv"

	"redoubt/types/stream"
)

// What replicas run: effects, not causes. A command whose outcome depends on the clock, on
// chance or on what else was there notes other commands (Ctx.propagate); of any other one the
// executor propagates the arguments, if it has changed something.

// Propagates reports whether replicas run the command itself when its handler has noted nothing
// else; changed: it has changed something. A command that runs others leaves it to them, and
// channels are left out: no Redis has them.
func (c *Command) Propagates(changed bool) bool {
	switch {
	case c.Declared == xreadgroup, c.Declared == xclaim, c.Declared == xautoclaim:
		return false // what they give to consumers is told entry by entry
	case c.Group == Channel || c.Group == Scripting && c.Flags&Write == 0:
		return false
	case c.Flags&(PubSubFlag|AlwaysPropagates) != 0:
		return true
	}
	return changed
}

// propagate notes a command that replicas run in place of this one. It does nothing if nobody
// wants to know.
func (c *Ctx) propagate(name string, args ...[]byte) {
	if !c.Tx.Propagates() {
		return
	}
	all := make([][]byte, 0, 8)
	c.Tx.Propagate(append(append(all, []byte(name)), args...)...)
}

// decimal returns a number as an argument.
func decimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// propagateTime notes a command with a key and a time in milliseconds.
func (c *Ctx) propagateTime(name string, key []byte, at int64, more ...[]byte) {
	if c.Tx.Propagates() {
		c.propagate(name, append([][]byte{key, decimal(at)}, more...)...)
	}
}

// propagateChannel notes that a key has become a channel: replicas have no such key.
func (c *Ctx) propagateChannel(key []byte, existed bool) {
	c.Tx.FX.Feed.Own++
	if existed {
		c.propagate("DEL", key)
	}
}

// propagateClaim notes who has an entry of a stream pending, and since when. last is how far
// the group has read by then.
func (c *Ctx) propagateClaim(key []byte, g *stream.Group, k *stream.Consumer, p stream.Pending, last stream.ID) {
	if c.Tx.Propagates() {
		c.propagate("XCLAIM", key, g.Name, k.Name, []byte("0"), p.ID.Append(nil), []byte("TIME"), decimal(p.Time),
			[]byte("RETRYCOUNT"), decimal(p.Count), []byte("FORCE"), []byte("JUSTID"), []byte("LASTID"), last.Append(nil))
	}
}

// propagateGroup notes how far a group has read.
func (c *Ctx) propagateGroup(key []byte, g *stream.Group) {
	if c.Tx.Propagates() {
		c.propagate("XGROUP", []byte("SETID"), key, g.Name, g.Last.Append(nil), []byte("ENTRIESREAD"), decimal(g.EntriesRead))
	}
}

// removal gathers what a command removes from the key that is its first argument.
type removal struct {
	c    *Ctx
	name string
	args [][]byte
}

// mostRemoved is how many elements one propagated command names.
const mostRemoved = 1024

// add adds an element, whose bytes need not stay valid.
func (r *removal) add(element []byte) {
	if !r.c.Tx.Propagates() {
		return
	}
	if r.args == nil {
		r.args = append(r.args, r.c.Args[1])
	}
	if r.args = append(r.args, slices.Clone(element)); len(r.args) > mostRemoved {
		r.end()
	}
}

// end propagates what was added last.
func (r *removal) end() {
	if len(r.args) > 1 {
		r.c.propagate(r.name, r.args...)
		r.args = r.args[:1]
	}
}

// fieldTimes gathers fields of a hash whose time of death a command changes.
type fieldTimes struct {
	c      *Ctx
	fields [][]byte
}

func (c *Ctx) fieldTimes() fieldTimes { return fieldTimes{c: c} }

func (t *fieldTimes) add(field []byte) {
	if t.c.Tx.Propagates() {
		t.fields = append(t.fields, field)
	}
}

// end propagates the command for the fields; at, if given, is their time.
func (t *fieldTimes) end(name string, at ...[]byte) {
	if len(t.fields) > 0 {
		args := append([][]byte{t.c.Args[1]}, at...)
		args = append(args, []byte("FIELDS"), decimal(int64(len(t.fields))))
		t.c.propagate(name, append(args, t.fields...)...)
	}
}

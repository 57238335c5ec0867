package command

import (
	"redoubt/keyspace"
	"redoubt/types/stream"
)

// Deleting single entries. XDEL leaves pending entries of consumers alone; XDELEX and XACKDEL have
// options for them.

var xdel = &Command{
	Name: "xdel", Group: Stream, Since: "5.0.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Syntax:     "key id...",
	Summary:    "Deletes entries of a stream and tells how many of them there were.",
	Complexity: "O(log(N)) for each entry, where N is the number of entries of the stream",
	Run: func(c *Ctx) error {
		s, err := stream.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer s.Release()
		if !s.Exists() {
			c.Reply.Int(0)
			return nil
		}
		ids, err := streamIDs(c.Args[2:])
		if err != nil {
			return err
		}
		deleted := s.Delete(ids...)
		c.saved(s, keyspace.StreamEv, "xdel", c.Args[1], int(deleted))
		c.Reply.Int(deleted)
		return nil
	},
}

var xdelex = &Command{
	Name: "xdelex", Group: Stream, Since: "8.2.0", Arity: -5,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Syntax:     "key [condition=<KEEPREF|DELREF|ACKED>] IDS ids=(numids:integer id...)",
	Summary:    "Deletes entries of a stream, with or without what groups have pending of them, or only those that no group needs.",
	Complexity: "O(log(N)+G) for each entry, where N is the number of entries of the stream and G that of its groups",
	Run: func(c *Ctx) error {
		mode, ids, err := deleteArgs(c.Args[2:])
		if err != nil {
			return err
		}
		s, err := stream.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		c.Reply.Array(len(ids))
		d := entryDeleter{s: s, mode: mode}
		for _, id := range ids {
			c.Reply.Int(int64(d.delete(id)))
		}
		d.save(c)
		return nil
	},
}

var xackdel = &Command{
	Name: "xackdel", Group: Stream, Since: "8.2.0", Arity: -6,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update|Delete),
	Syntax:     "key group [condition=<KEEPREF|DELREF|ACKED>] IDS ids=(numids:integer id...)",
	Summary:    "Takes entries from what is pending in a group and deletes them from the stream, as XDELEX does.",
	Complexity: "O(log(N)+G) for each entry, where N is the number of entries of the stream and G that of its groups",
	Run: func(c *Ctx) error {
		mode, ids, err := deleteArgs(c.Args[3:])
		if err != nil {
			return err
		}
		s, err := stream.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		d := entryDeleter{s: s, mode: mode}
		g := d.group(c.Args[2])
		if g != nil {
			g.Prefetch(ids, true)
		}
		c.Reply.Array(len(ids))
		acked := 0
		for _, id := range ids {
			if g == nil || !g.Ack(id) {
				c.Reply.Int(int64(noEntry))
				continue
			}
			acked++
			was := d.delete(id)
			if was == noEntry { // deleted before, but it was pending
				was = entryDeleted
			}
			c.Reply.Int(int64(was))
		}
		c.Tx.FX.Changes += acked
		d.save(c)
		return nil
	},
}

// The result for an entry, as clients see it.
type entryOutcome int64

const (
	noEntry      entryOutcome = -1
	entryDeleted entryOutcome = 1
	entryNeeded  entryOutcome = 2
)

// deleteMode says what happens to the references that groups have to an entry.
type deleteMode int

const (
	keepRefs deleteMode = iota + 1
	deleteRefs
	ackedOnly
)

// deleteArgs reads the options that XDELEX and XACKDEL share, in any order.
func deleteArgs(args [][]byte) (mode deleteMode, ids []stream.ID, err error) {
	for i := 0; i < len(args); i++ {
		m := deleteMode(0)
		switch arg := args[i]; {
		case isWord(arg, "keepref"):
			m = keepRefs
		case isWord(arg, "delref"):
			m = deleteRefs
		case isWord(arg, "acked"):
			m = ackedOnly
		case isWord(arg, "ids") && i+1 < len(args) && ids == nil:
			n, err := integer(args[i+1])
			if err != nil || n < 1 {
				return 0, nil, errNumIDs
			}
			if n > int64(len(args)-i-2) {
				return 0, nil, errNumIDsMatch
			}
			if ids, err = streamIDs(args[i+2 : i+2+int(n)]); err != nil {
				return 0, nil, err
			}
			i += int(n) + 1
			continue
		}
		if m == 0 || mode != 0 {
			return 0, nil, ErrSyntax
		}
		mode = m
	}
	if ids == nil {
		return 0, nil, ErrSyntax
	}
	return max(mode, keepRefs), ids, nil
}

// entryDeleter deletes entries of a stream in one of the modes.
type entryDeleter struct {
	s       *stream.Stream
	mode    deleteMode
	groups  []*stream.Group // all of them, once they are needed
	loaded  bool
	one     *stream.Group
	deleted int64
}

// group finds a group whose entries will be changed besides.
func (d *entryDeleter) group(name []byte) *stream.Group {
	d.one = d.s.Group(name)
	return d.one
}

// all returns the groups of the stream. The group of the command is among them, so that its
// changes are seen.
func (d *entryDeleter) all() []*stream.Group {
	if !d.loaded {
		d.loaded = true
		d.s.EachGroup(func(g *stream.Group) bool {
			if d.one != nil && string(g.Name) == string(d.one.Name) {
				g = d.one
			}
			d.groups = append(d.groups, g)
			return true
		})
	}
	return d.groups
}

// delete deletes an entry if the mode allows it.
func (d *entryDeleter) delete(id stream.ID) entryOutcome {
	switch d.mode {
	case deleteRefs: // also those to an entry that is gone
		for _, g := range d.all() {
			g.Ack(id)
		}
	case ackedOnly:
		if _, found := d.s.Get(id); found && d.needed(id) {
			return entryNeeded
		}
	}
	if d.s.Delete(id) == 0 {
		return noEntry
	}
	d.deleted++
	return entryDeleted
}

// needed reports whether some group has not read the entry, or has it pending. A
// stream without groups may get one that will.
func (d *entryDeleter) needed(id stream.ID) bool {
	for _, g := range d.all() {
		if g.Last.Less(id) {
			return true
		}
		if _, pending := g.Find(id); pending {
			return true
		}
	}
	return len(d.groups) == 0
}

// save saves the stream and its groups, and notes what was deleted.
func (d *entryDeleter) save(c *Ctx) {
	for _, g := range d.groups {
		g.Save()
	}
	if d.one != nil {
		d.one.Save()
	}
	c.saved(d.s, keyspace.StreamEv, "xdel", c.Args[1], int(d.deleted))
}

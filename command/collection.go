package command

import (
	"redoubt/keyspace"
	"redoubt/types"
)

// What handlers do with collections of all types. Types note no events: the functions of this
// file note the events of their changes.

// saved saves a collection of which a command has changed n elements. It notes the command's
// event if n is not 0, and that the key is gone if no element is left.
func (c *Ctx) saved(v types.Collection, class keyspace.Class, event string, key []byte, n int) {
	gone := v.Save()
	if n > 0 {
		c.changed(class, event, key, n)
	}
	c.noteGone(gone, key)
}

// changed notes an event that stands for n changes.
func (c *Ctx) changed(class keyspace.Class, event string, key []byte, n int) {
	c.Tx.FX.Changes += n
	c.Tx.Note(class, event, key)
}

// noteGone notes that a key was removed with its last element, if it was.
func (c *Ctx) noteGone(gone bool, key []byte) {
	if gone {
		c.Tx.Note(keyspace.Generic, "del", key)
	}
}

// stored saves a collection that Create made, notes an event that stands for n changes, or that
// the key was removed, and replies with the size.
func (c *Ctx) stored(v types.Collection, class keyspace.Class, event string, key []byte, n int) {
	v.Save()
	switch {
	case v.Len() > 0:
		c.changed(class, event, key, n)
	case v.Exists():
		c.Tx.Changed(keyspace.Generic, "del", key)
	}
	c.Reply.Int(v.Len())
}

package command

import "redoubt/keyspace"

// NoSlot is the slot of what has no keys.
const NoSlot = -1

// SameSlot reports whether the keys of a call hash to one slot, which is slot, unless that is
// NoSlot; then SameSlot sets it.
func (c *Command) SameSlot(slot *int, args [][]byte) bool {
	same := true
	c.EachKey(args, func(i int, _ *KeySpec) {
		at := int(keyspace.SlotOf(args[i]))
		if *slot == NoSlot {
			*slot = at
		}
		same = same && at == *slot
	})
	return same
}

package server

import "redoubt/command"

// With cql-cross-slot no a call's keys must be of one slot. A session refuses commands, and EXEC by what is
// queued; the executor refuses what scripts do.

// inOneSlot reports whether all keys that a command names, or EXEC's queue, are of one slot.
func (s *session) inOneSlot(cmd *command.Command, args [][]byte) bool {
	slot := command.NoSlot
	if !cmd.SameSlot(&slot, args) {
		return false
	}
	if !isExec(cmd) || s.multi == nil {
		return true
	}
	for _, q := range s.multi.queue {
		if !q.Cmd.SameSlot(&slot, q.Args) {
			return false
		}
	}
	return true
}

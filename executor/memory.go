package executor

import (
	"errors"
	"fmt"

	"redoubt/budget"
	"redoubt/command"
)

// Working memory of commands. keyspace/memory.go counts it; package budget has it.
//
// A call on a worker grows its batch's lease while its handler runs. When others hold
// the memory, the call is rolled back, its batch gives latches and memory back, and
// the call waits for its turn; then it is run again, and may wait for memory while it
// runs. No other call ever waits for memory with anything in its hands:
//
//   - Latches, the whole keyspace's included, and places for reading from disk are
//     taken before the handler runs, when the lease holds nothing: Run commits a batch
//     whose lease holds something first. (Commands that go together on a shared store
//     have all their latches from the beginning.) A nested command only tries latches.
//   - So whoever holds memory waits for a disk or for a client at most, and ends; or
//     wants more memory, and then it has the turn, or is rolled back.
//   - Whoever has the turn thus waits for calls that end without it.
//
// A reply that is sent in parts cannot be taken back. From the first part on the call
// is refused nothing, and lets go of the turn: its client may take its time.

// Gone is a command.Caller that knows when nobody wants the result any more.
type Gone interface{ Gone() bool }

// gone says that nobody wants the result of the call under way.
func (b *Batch) gone() bool {
	if b.call == nil {
		return false
	}
	g, ok := b.call.Caller.(Gone)
	return ok && g.Gone()
}

// awaitTurn waits until it is the call's turn to be run again. It says false, and has
// answered, when nobody wants that any more.
func (b *Batch) awaitTurn(c *Call) bool {
	b.call = c
	err := b.lease.Await(b.gone)
	b.call = nil
	if err != nil {
		c.fail(err)
	}
	return err == nil
}

// keepsMemory is called when the call can no longer be rolled back.
func (b *Batch) keepsMemory() {
	b.tx.Unrefused = true
	b.lease.Pass()
}

// outOfMemory is the error of an execution, with a text for the client if there was
// not enough memory.
func (b *Batch) outOfMemory(err error) error {
	if errors.Is(err, budget.ErrTooLarge) {
		return command.Error(fmt.Sprintf("OOM command not allowed: it needs more working memory than all commands may have together, %d MB; "+
			"raise 'maxmemory', of which that is a part, or ask for less at a time", b.x.work.Limit()>>20))
	}
	return err
}

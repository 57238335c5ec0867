package executor

import (
	"errors"
	"fmt"

	"redoubt/budget"
	"redoubt/command"
)

// Working memory of commands. keyspace/memory.go counts it; package budget grants it.
//
// A call on a worker grows its batch's lease while its handler runs. When others hold
// the memory, the call is rolled back, its batch releases latches and memory, and
// the call waits for its turn; then it is run again, and may wait for memory while it
// runs. No other call ever waits for memory while it holds anything:
//
//   - Latches, the keyspace latch included, and places for reading from disk are
//     taken before the handler runs, when the lease holds nothing: Run commits a batch
//     whose lease holds something first. (A group of calls on a shared store takes all
//     its latches at the beginning.) A nested command only tries latches.
//   - So a call that holds memory waits for a disk or a client at most, and ends; or it
//     wants more memory, and then has the turn, or is rolled back.
//   - So the call that has the turn waits only for calls that end without waiting for it.
//
// A reply that is sent in parts cannot be rolled back. From the first part on the call
// is refused no memory, and releases the turn: its client may read slowly.

// Gone is an optional interface of a command.Caller: it reports whether the client has left.
type Gone interface{ Gone() bool }

// gone reports whether the client of the call under way has left.
func (b *Batch) gone() bool {
	if b.call == nil {
		return false
	}
	g, ok := b.call.Caller.(Gone)
	return ok && g.Gone()
}

// awaitTurn waits until the call has the turn and may be run again. It reports false, and
// has failed the call, if the client has left.
func (b *Batch) awaitTurn(c *Call) bool {
	b.call = c
	err := b.lease.Await(b.gone)
	b.call = nil
	if err != nil {
		c.fail(err)
	}
	return err == nil
}

// keepsMemory lets the call take any memory from now on, since it can no longer be rolled
// back, and passes the turn on.
func (b *Batch) keepsMemory() {
	b.tx.Unrefused = true
	b.lease.Pass()
}

// outOfMemory returns the error of an execution, with a text for the client if the
// execution needed more memory than there is.
func (b *Batch) outOfMemory(err error) error {
	if errors.Is(err, budget.ErrTooLarge) {
		return command.Error(fmt.Sprintf("OOM command not allowed: it needs more working memory than all commands may have together, %d MB; "+
			"raise 'maxmemory', of which that is a part, or ask for less at a time", b.x.work.Limit()>>20))
	}
	return err
}

package keyspace

import (
	"errors"

	"redoubt/budget"
)

// Working memory: what an execution holds while it runs, besides its arguments: the rows
// that it has read and written, which the Tx counts itself, and what a handler collects,
// which the handler reports by Take.
//
// The first bytes are free. An execution on an event loop that needs more than
// heavyBytes fails with TakesLong; one on a worker grows its lease in steps. If the lease
// cannot grow, the execution fails with NeedsMemory, and is run again when it has the
// turn, or with budget.ErrTooLarge.

const (
	freeBytes = 16 << 10 // what an execution on a worker may hold without a lease
	leaseStep = 64 << 10 // by how much a lease grows at least
)

// memory is what an execution holds.
type memory struct {
	taken   int64 // bytes that handlers have reported by Take
	granted int64 // bytes that the lease has granted
	// The sizes of the buffers when the execution began: they are reused.
	rowsBase, valsBase int64
	// account is called again at these sizes.
	takenNext          int64
	rowsNext, valsNext int
}

// startMemory begins to count the memory of an execution.
func (t *Tx) startMemory() {
	t.mem = memory{rowsBase: t.Rows.Batch.Memory(), valsBase: int64(cap(t.vals))}
	t.countNext()
}

// countNext sets the sizes at which account is called again.
func (t *Tx) countNext() {
	m := &t.mem
	m.takenNext, m.rowsNext, m.valsNext = m.taken+freeBytes, t.Rows.Batch.Size()+freeBytes, len(t.vals)+freeBytes
}

// Take reports that the execution is about to hold n more bytes until its command ends.
// It returns false if the execution must stop: it will be run again, or has failed.
func (t *Tx) Take(n int64) bool {
	if t.mem.taken += n; t.mem.taken > t.mem.takenNext {
		t.account()
	}
	return t.err == nil
}

// Taken returns the sum of Take, and Give resets it to an earlier value: the data is no
// longer held.
func (t *Tx) Taken() int64 { return t.mem.taken }
func (t *Tx) Give(taken int64) {
	t.mem.taken, t.mem.takenNext = taken, taken+freeBytes
}

// wrote is called after a row was put into the batch.
func (t *Tx) wrote() {
	if t.Rows.Batch.Size() > t.mem.rowsNext {
		t.account()
	}
}

// account counts what the execution holds, and grows the lease to cover it.
func (t *Tx) account() {
	t.countNext()
	m := &t.mem
	total := m.taken + max(0, t.Rows.Batch.Memory()-m.rowsBase) + max(0, int64(cap(t.vals))-m.valsBase)
	if t.building != nil && t.building.rows != nil {
		total += t.building.rows.Memory()
	}
	switch {
	case t.err != nil:
	case !t.Worker:
		if total > heavyBytes {
			t.Fail(TakesLong)
		}
	case t.Lease == nil || total <= m.granted+freeBytes:
	default:
		more := total - m.granted
		more = (more + m.granted/16 + leaseStep - 1) / leaseStep * leaseStep
		t.grow(more)
	}
}

// grow takes memory from the lease.
func (t *Tx) grow(n int64) {
	if t.Unrefused {
		t.Lease.Force(n)
	} else if err := t.Lease.Grow(n, t.Gone); err != nil {
		if errors.Is(err, budget.ErrBusy) {
			err = NeedsMemory
		}
		t.Fail(err)
		return
	}
	t.mem.granted += n
}

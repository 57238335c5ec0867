package latch

import (
	"time"

	"redoubt/engine"
)

// The keyspace latch. All batches hold it shared while they are open; FLUSHALL and its
// like hold it exclusively. A batch is open for a moment only, unless it runs a script: a
// script that never ends would keep FLUSHALL waiting for ever, and with it every batch
// that comes later.
//
// So a script on a worker gives way. It may run on for a time that suffices for most
// scripts; then it sees that the latch is wanted, is rolled back, and is run again when the
// other command is done. The first run was visible to nobody.

// patience is how long a command that needs the keyspace latch exclusively lets scripts
// go on.
const patience = 200 * time.Millisecond

// TryShare takes the keyspace latch shared, or reports false if that is not possible
// without waiting.
func (t *Table) TryShare() bool { return t.keyspace.TryRLock() }

// Share takes the keyspace latch shared.
func (t *Table) Share() { t.keyspace.RLock() }

// Unshare releases the keyspace latch that TryShare or Share took.
func (t *Table) Unshare() { t.keyspace.RUnlock() }

// TryLockKeyspace takes the keyspace latch exclusively, or reports false if that is not
// possible without waiting.
func (t *Table) TryLockKeyspace() bool { return t.keyspace.TryLock() }

// LockKeyspace takes the keyspace latch exclusively. Scripts that still run after the
// patience are made to give way by Options.Wanted.
func (t *Table) LockKeyspace() {
	for start := time.Now(); !t.keyspace.TryLock(); {
		if t.scripts.Load() == 0 || time.Since(start) > patience {
			t.wanted.Add(1)
			t.keyspace.Lock()
			t.wanted.Add(-1)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// UnlockKeyspace releases the exclusive keyspace latch and, unless ticket is zero, keeps the
// ticket for KeyspaceLast: the commit may have changed any key, and has stamped no stripe.
func (t *Table) UnlockKeyspace(ticket engine.Ticket) {
	if ticket != 0 {
		t.keyspaceLast.Store(uint64(ticket))
	}
	t.keyspace.Unlock()
}

// Forget forgets the tickets of all commits: what was read of any key is durable. The keyspace
// latch is held exclusively.
func (t *Table) Forget() {
	t.keyspaceLast.Store(0)
	for i := range t.stripes {
		t.stripes[i].last.Store(0)
	}
}

// KeyspaceLast returns the ticket of the last commit that held the keyspace latch exclusively.
func (t *Table) KeyspaceLast() engine.Ticket { return engine.Ticket(t.keyspaceLast.Load()) }

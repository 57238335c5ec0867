package executor

import "time"

// The latch of the whole keyspace. All batches hold it shared while they are open;
// FLUSHALL and its like take it alone. A batch is open for a moment only, unless
// it runs a script: one that never ends would keep such a command waiting for
// ever, and with it everybody who comes after it.
//
// So a script on a worker gives way. It is let alone for a while, which is enough
// for most; then it sees that the latch is wanted, is rolled back, and is run again
// when the other command is done. Nobody has seen anything of it.

// patience is how long a command that needs the whole keyspace lets scripts go on.
const patience = 200 * time.Millisecond

// lockWhole takes the latch alone.
func (x *Executor) lockWhole() {
	for start := time.Now(); !x.whole.TryLock(); {
		if x.space.Scripts.Load() == 0 || time.Since(start) > patience {
			x.space.Wanted.Add(1)
			x.whole.Lock()
			x.space.Wanted.Add(-1)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

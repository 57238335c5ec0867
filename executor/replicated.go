package executor

import (
	"redoubt/engine"
)

// A store that several processes hold, of which one, the leader, serves. It is used as a
// store of this process alone, but that each batch makes sure at its beginning that this process
// leads. Since a process that loses the leadership latches the whole keyspace before anything else
// changes the rows (Retire), what holds at the beginning of a batch holds for all of it.

// Leadership tells whether this process leads.
type Leadership interface {
	// Leads reports whether the rows are the newest state, and no other process can have
	// another one. It does not wait. It may be false although this process leads.
	Leads() bool
	// Confirm has the others say so. An error wraps engine.ErrNotLeader or
	// engine.ErrUnavailable.
	Confirm() error
}

type replicatedStore struct {
	localStore
	lead Leadership
}

func (s replicatedStore) newBatch(b *Batch) batchStore {
	return &replicatedBatch{localBatch{b}, s.lead}
}

type replicatedBatch struct {
	localBatch
	lead Leadership
}

func (r *replicatedBatch) begin(o engine.ViewOptions) (engine.View, error) {
	if !r.lead.Leads() {
		if o.NoWait {
			r.b.unlock(0)
			return nil, nil
		}
		if err := r.lead.Confirm(); err != nil {
			r.b.unlock(0)
			return nil, err
		}
	}
	return r.localBatch.begin(o)
}

// Retire ends the service of this process, which does not lead any more: no batch is open when f
// is called, and none that was opened before commits. EXEC of clients that watch keys will fail.
func (x *Executor) Retire(f func()) {
	x.Exclusively(func() {
		f()
		x.watching.spoil()
	})
}

// Take begins the service of this process: f is called while no batch is open, and everything
// that is visible then is durable.
func (x *Executor) Take(f func() error) (err error) {
	x.Exclusively(func() {
		x.latches.Forget()
		err = f()
	})
	return err
}

// spoil marks the watches of all clients dirty: keys may change that nobody is told of.
func (q *watching) spoil() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range q.at {
		for _, k := range list {
			k.owner.dirty.Store(true)
		}
	}
}

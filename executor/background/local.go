package background

import (
	"context"
	"runtime"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// sweepStep is how many keys are expired per commit.
const sweepStep = 64

// local is the storeWorker of a store that no other process uses: the keyspace knows when the
// next key is due, and only commits of this process store garbage rows.
type local struct {
	*Worker
	wake chan struct{} // has a token when there is something to clear
}

func newLocal(w *Worker) *local {
	l := &local{w, make(chan struct{}, 1)}
	l.wake <- struct{}{} // an earlier process may have left garbage
	return l
}

func (l *local) leads() bool                { return true }
func (l *local) sweepDue() bool             { return l.Space.NextDue() <= l.Clock().UnixMilli() }
func (l *local) beginSweep() (func(), bool) { return func() {}, true }

// sweep lists expired keys of all groups and removes them in steps. left: expired fields of
// large hashes are left.
func (l *local) sweep(ctx context.Context) (left bool, err error) {
	var list []keyspace.Due
	for group := 0; group < keyspace.Groups; {
		due, err := l.dueIn(group, sweepStep-len(list))
		if err != nil {
			return false, err
		}
		if list = append(list, due...); len(list) < sweepStep {
			group++ // the group has no more
			continue
		}
		busy, more, err := l.expire(list)
		if err != nil {
			return false, err
		}
		if busy > 0 {
			group++ // else the busy keys would be listed again at once
		}
		left = left || more
		list = list[:0]
		if ctx.Err() != nil || l.rests() {
			return false, nil
		}
		runtime.Gosched()
	}
	_, more, err := l.expire(list)
	return left || more, err
}

func (l *local) dueIn(group, limit int) ([]keyspace.Due, error) {
	view, err := l.Engine.Begin(engine.ViewOptions{})
	if err != nil {
		return nil, err
	}
	defer view.Close()
	return l.Space.Due(view, group, l.Clock().UnixMilli(), limit)
}

func (l *local) clear(ctx context.Context) error {
	if l.idle.Load() {
		return nil
	}
	var c keyspace.Clearing
	return l.clearStepwise(&c, func() bool { return ctx.Err() == nil && !l.idle.Load() }, func(tx *keyspace.Tx) bool {
		return tx.Clear(&c, clearStep)
	})
}

func (l *local) clearWhen() (<-chan struct{}, time.Duration) { return l.wake, 0 }

func (l *local) deferred(fx *keyspace.Effects, _ bool) {
	if fx.Garbage == 0 {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *local) catalogHolds(f func()) (bool, error) {
	l.Executor.Exclusively(f)
	return true, nil
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Counting keys exactly: see keyspace/recount.go.

const (
	recountLook  = time.Second // so often it is asked whether to count
	recountEvery = time.Hour   // and not counted more often than this
	recountAgain = time.Minute // if it failed
)

// SetRecountDue sets who says whether the counts of keys may be wrong: since a
// process was killed before it had stored its own, say. The leading process then
// counts all databases, once in an hour at most. It must be called before
// Background.
func (x *Executor) SetRecountDue(f func() bool) { x.sweep.leading.recountDue = f }

// Recount counts the keys of a database, as of one moment, and corrects the
// counters by what they are off. Keys whose time has come and that nobody has
// removed yet are counted, as DBSIZE does. It gives up when stop says so.
func (x *Executor) Recount(db int, stop func() bool) (keys int64, err error) {
	var r *keyspace.Recount
	for range lostTries {
		if r, err = x.countAll(db, stop); !errors.Is(err, engine.ErrSnapshotLost) {
			break
		}
	}
	if errors.Is(err, engine.ErrSnapshotLost) {
		err = fmt.Errorf("%w, in each of %d attempts; count when less is written, or raise 'maxmemory'", err, lostTries)
	}
	if err != nil {
		return 0, err
	}
	var off, offVolatile int64
	for range recountTries { // nobody conflicts with it but a change of the catalog
		_, err = x.Do(nil, func(tx *keyspace.Tx) { off, offVolatile = tx.Correct(r) })
		if !errors.Is(err, engine.ErrConflict) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	if off != 0 || offVolatile != 0 {
		x.log.Warn("counts of keys were corrected", "database", db, "keys", r.Keys, "by", off, "volatile", offVolatile)
	}
	return r.Keys, nil
}

var errGivenUp = errors.New("the count was given up, since the server stops")

const (
	recountTries = 50
	lostTries    = 5 // a count begins anew so often when its snapshot is revoked
)

// countAll counts the keys of a database as of one moment.
func (x *Executor) countAll(db int, stop func() bool) (*keyspace.Recount, error) {
	r, err := x.beginRecount(db)
	if err != nil {
		return nil, err
	}
	err = errors.Join(x.space.CountAll(r, stop), r.End())
	if err == nil && stop() {
		err = errGivenUp
	}
	return r, err
}

// beginRecount fixes the moment of a count, at which the numbers of the databases
// hold.
func (x *Executor) beginRecount(db int) (r *keyspace.Recount, err error) {
	for range recountTries {
		if x.shared != nil {
			if err = x.space.Look(); err != nil {
				return nil, err
			}
		}
		x.lockWhole()
		r, err = x.space.BeginRecount(db)
		holds := x.shared == nil || x.space.Lease().Holds(0)
		x.whole.Unlock()
		if err != nil || holds {
			return r, err
		}
		if err = r.End(); err != nil {
			return nil, err
		}
		time.Sleep(keyspace.LookEvery) // a change of the catalog is under way
	}
	return nil, errContended
}

// recountLoop counts all databases when that is due.
func (x *Executor) recountLoop(ctx context.Context) {
	if x.sweep.leading.recountDue == nil {
		return
	}
	tick := time.NewTicker(recountLook)
	defer tick.Stop()
	var last time.Time
	var out outage
	due := false // until it was done
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := x.clock()
		if !last.IsZero() && now.Sub(last) < recountEvery || !x.leads() {
			continue
		}
		if due = due || x.sweep.leading.recountDue(); !due {
			continue
		}
		last = now
		var err error
		for db := 0; db < x.space.Databases() && err == nil; db++ {
			_, err = x.Recount(db, func() bool { return ctx.Err() != nil || !x.leads() })
		}
		if !errors.Is(err, errGivenUp) && x.met(&out, "counting keys failed", err) > 0 {
			last = now.Add(recountAgain - recountEvery)
		}
		due = err != nil
	}
}

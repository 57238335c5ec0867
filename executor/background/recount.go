package background

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
	recountLook  = time.Second // how often to ask whether a count is due
	recountEvery = time.Hour   // the shortest time between two counts
	recountAgain = time.Minute // the retry delay
)

// Recount counts the keys of a database, as of one moment, and corrects the
// counters by the difference. Keys that have expired and are not removed yet
// are counted, as DBSIZE does. Recount gives up when stop reports true.
func (w *Worker) Recount(db int, stop func() bool) (keys int64, err error) {
	var r *keyspace.Recount
	for range lostTries {
		if r, err = w.countAll(db, stop); !errors.Is(err, engine.ErrSnapshotLost) {
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
	for range recountTries { // only a change of the catalog conflicts
		_, err = w.Executor.DoLatching(func(tx *keyspace.Tx, _ func([]byte) bool) { off, offVolatile = tx.Correct(r) })
		if !errors.Is(err, engine.ErrConflict) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	if off != 0 || offVolatile != 0 {
		w.Logger.Warn("counts of keys were corrected", "database", db, "keys", r.Keys, "by", off, "volatile", offVolatile)
	}
	return r.Keys, nil
}

var errGivenUp = errors.New("the count was given up, since the server stops")

const (
	recountTries = 50
	lostTries    = 5 // how often a count begins anew when its snapshot is revoked
)

// countAll counts the keys of a database as of one moment.
func (w *Worker) countAll(db int, stop func() bool) (*keyspace.Recount, error) {
	r, err := w.beginRecount(db)
	if err != nil {
		return nil, err
	}
	err = errors.Join(w.Space.CountAll(r, stop), r.End())
	if err == nil && stop() {
		err = errGivenUp
	}
	return r, err
}

// beginRecount fixes the moment of a count, at which the numbers of the databases are
// valid.
func (w *Worker) beginRecount(db int) (r *keyspace.Recount, err error) {
	for range recountTries {
		var failed error
		holds, err := w.store.catalogHolds(func() { r, failed = w.Space.BeginRecount(db) })
		if err = errors.Join(err, failed); err != nil || holds {
			return r, err
		}
		if err = r.End(); err != nil {
			return nil, err
		}
		time.Sleep(keyspace.RenewEvery)
	}
	return nil, fmt.Errorf("the databases are renumbered all the time, try again later: %w", engine.ErrConflict)
}

// recountLoop counts all databases when that is due.
func (w *Worker) recountLoop(ctx context.Context) {
	tick := time.NewTicker(recountLook)
	defer tick.Stop()
	var last time.Time
	due := false // a count is due, and stays so until one succeeds
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := w.Clock()
		if !last.IsZero() && now.Sub(last) < recountEvery || !w.store.leads() {
			continue
		}
		if due = due || w.RecountDue(); !due {
			continue
		}
		last = now
		var err error
		for db := 0; db < w.Space.Databases() && err == nil; db++ {
			_, err = w.Recount(db, func() bool { return ctx.Err() != nil || !w.store.leads() })
		}
		if !errors.Is(err, errGivenUp) && w.outcome(&w.countRetry, "counting keys failed", err) > 0 {
			last = now.Add(recountAgain - recountEvery)
		}
		due = err != nil
	}
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// The lease of the catalog (keyspace/catalog.go): which numbers the databases have, and
// which libraries of functions there are. Other processes change the catalog, so it is read
// periodically, and each read is valid for the time of the lease.

// renewLease ensures that the catalog was read lately. The keyspace latch is held at the
// call, and released if renewLease fails. During the read it is released too, or a store
// out of reach would make all batches wait for each other.
func (r *sharedBatch) renewLease() error {
	if !r.s.catalog.Lease().Aged() {
		return nil
	}
	r.b.unlock(0)
	begin := time.Now()
	if err := r.s.renewCatalog(); err != nil {
		return err
	}
	r.b.lock()
	if time.Since(begin) > r.s.retryFor && r.s.catalog.Lease().Aged() {
		r.b.unlock(0)
		return fmt.Errorf("the catalog could not be read in time: %w", engine.ErrUnavailable)
	}
	return nil
}

// renewCatalog renews the lease, once for all callers that want it at the same time (single flight).
func (s *sharedStore) renewCatalog() error {
	_, err, _ := s.renewing.Do("", func() (any, error) { return nil, s.catalog.Renew() })
	return err
}

// mayCommit checks that the lease of the catalog covers the moment at which the batch read.
func (r *sharedBatch) mayCommit() error {
	b := r.b
	if r.outdated {
		return engine.ErrConflict
	}
	if b.mode == Snapshot && r.s.snapshots() || !b.read {
		return nil // for a snapshot see snapshotTaken
	}
	if b.rows.Empty() {
		if err := r.view.Validate(); err != nil {
			return err
		}
	}
	at := engine.Stamp(0)
	if !r.point {
		var err error
		if at, err = r.view.Stamp(); err != nil {
			return err
		}
	}
	// The catalog is the same as when the batch began, since the batch holds the keyspace
	// latch; the lease may have been renewed.
	if r.lease = r.s.catalog.Lease(); r.lease.Aged() && (r.point || !b.rows.Empty()) {
		if err := r.s.renewCatalog(); err != nil {
			return err
		}
		r.lease = r.s.catalog.Lease()
	}
	if !r.lease.Holds(at) {
		return engine.ErrConflict
	}
	return nil
}

// catalogUntil returns the moment until which the catalog in use is valid, as far as is
// known. A committing batch holds the keyspace latch, so it used this catalog.
func (s *sharedStore) catalogUntil() engine.Stamp { return s.catalog.Lease().Until() }

// snapshotTaken checks that the lease of the catalog covers the moment of a snapshot.
func (r *sharedBatch) snapshotTaken() error {
	at, err := r.s.eng.Stamp() // not before the snapshot's
	if err == nil && !r.s.catalog.Lease().Holds(at) {
		r.outdated, err = true, engine.ErrConflict
	}
	return err
}

func (s *sharedStore) followCatalog(ctx context.Context) {
	x := s.x
	tick := time.NewTicker(keyspace.RenewEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := s.refreshCatalog(ctx)
		if err != nil && !failing {
			x.log.Warn("the store cannot be reached", "err", err)
		} else if err == nil && failing {
			x.log.Info("the store can be reached again")
		}
		failing = err != nil
	}
}

func (s *sharedStore) refreshCatalog(ctx context.Context) error {
	err := s.renewCatalog()
	if errors.Is(err, engine.ErrConflict) {
		return nil // it is being changed: the next call finds how
	}
	if err == nil && s.catalog.Next() != 0 {
		err = s.adopt(ctx)
	}
	return err
}

// adopt waits for the moment of a change of the catalog and puts the change in effect.
func (s *sharedStore) adopt(ctx context.Context) error {
	for ctx.Err() == nil {
		from := s.catalog.Next()
		now, err := s.eng.Stamp()
		if err != nil || from == 0 {
			return err
		}
		if now < from {
			if err := errors.Join(s.catalog.Decide(), s.catalog.Renew()); err != nil && !errors.Is(err, engine.ErrConflict) {
				return err
			}
			time.Sleep(keyspace.RenewEvery / 10)
			continue
		}
		s.x.latches.LockKeyspace()
		changed := s.catalog.Adopt(now)
		s.x.latches.UnlockKeyspace(0)
		return s.replaced(changed)
	}
	return nil
}

// replaced tells watching and waiting clients of databases whose contents another process
// has replaced.
func (s *sharedStore) replaced(dbs []int) error {
	if len(dbs) == 0 {
		return nil
	}
	_, err := s.x.do(func(b *Batch) {
		b.fx.Flushed = true
		for _, db := range dbs {
			b.fx.Touched = append(b.fx.Touched, keyspace.Touch{DB: db})
			b.tx.AwakenAll(db)
		}
	})
	return err
}

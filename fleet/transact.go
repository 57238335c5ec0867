package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// conflicts is how often a transaction is run again before that is an error. There
// are few writers of these rows, and each commits once in a second.
const conflicts = 20

// transact runs a transaction, and again as long as it conflicts.
func transact(ctx context.Context, e engine.Shared, run func(engine.SharedView, *engine.Batch) error) error {
	for n := 0; ; n++ {
		err := attempt(e, run)
		if !errors.Is(err, engine.ErrConflict) || n == conflicts {
			return err
		}
		pause := time.NewTimer(time.Duration(n) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}

func attempt(e engine.Shared, run func(engine.SharedView, *engine.Batch) error) error {
	v, err := e.Begin(true)
	if err != nil {
		return err
	}
	defer v.Close()
	shared, ok := v.(engine.SharedView)
	if !ok {
		return fmt.Errorf("the engine's views are of type %T and cannot be shared", v)
	}
	shared.Behind() // who waits behind clients for too long is taken for dead
	var b engine.Batch
	if err := run(shared, &b); err != nil || b.Empty() {
		return err
	}
	_, err = v.Commit(&b)
	return err
}

// readSecret reads the secret, and makes it if there is none. Of several who do so at
// once one succeeds, and the others read what that one wrote.
func readSecret(ctx context.Context, e engine.Shared) (secret [keyspace.SecretSize]byte, err error) {
	key := keyspace.SecretRow()
	for range 2 {
		err = transact(ctx, e, func(v engine.SharedView, b *engine.Batch) error {
			stored, found, err := v.Get(key, nil)
			switch {
			case err != nil:
				return err
			case found && len(stored) != len(secret):
				return fmt.Errorf("%w: the secret has %d bytes", engine.ErrCorrupt, len(stored))
			case found:
				copy(secret[:], stored)
				return nil
			}
			rand.Read(secret[:])
			b.Put(key, bytes.Clone(secret[:]))
			return nil
		})
		if !errors.Is(err, engine.ErrUnknownOutcome) {
			break // else it is read: whoever wrote it
		}
	}
	if err != nil {
		return secret, fmt.Errorf("secret of the fleet: %w", err)
	}
	return secret, nil
}

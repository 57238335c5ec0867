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

// conflicts is how often a transaction is retried after a conflict. These rows have few
// writers, each of which commits about once a second.
const conflicts = 20

// transact runs a transaction, and retries it after a conflict.
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
	v, err := e.Begin(engine.ViewOptions{Background: true}) // a beat that waits behind clients for too long would look like a death
	if err != nil {
		return err
	}
	defer v.Close()
	shared, ok := v.(engine.SharedView)
	if !ok {
		return fmt.Errorf("the engine's views are of type %T and cannot be shared", v)
	}
	var b engine.Batch
	if err := run(shared, &b); err != nil || b.Empty() {
		return err
	}
	_, err = v.Commit(&b)
	return err
}

// readSecret reads the secret, and makes it if there is none. If several members do so
// concurrently one succeeds, and the others read its secret.
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
			break // else read the secret again, whichever member wrote it
		}
	}
	if err != nil {
		return secret, fmt.Errorf("secret of the fleet: %w", err)
	}
	return secret, nil
}

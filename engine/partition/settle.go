package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
)

// change makes a change, and finds out what has become of it if the answer is lost. It
// returns engine.ErrUnknownOutcome only if the store cannot be reached until ctx ends.
//
// A change whose answer is lost may still be made later. So another change is tried, from
// the same version, which writes nothing: if it is made, the first one never will be. Else
// the partition has moved, and remembers the last version that each process has made.
func (e *Engine) change(ctx context.Context, c *Change) (applied bool, now State, err error) {
	e.figures.changes.Add(1)
	ctx1, cancel := e.attempt(ctx)
	applied, now, err = e.store.Change(ctx1, c)
	cancel()
	if err == nil || !errors.Is(err, engine.ErrUnknownOutcome) {
		return applied, now, e.note(err)
	}
	lost := err
	for pause := time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 100*time.Millisecond) {
		ctx1, cancel := e.attempt(ctx)
		t, err := e.store.Trace(ctx1, c.Part, c.Owner, nil)
		cancel()
		if err == nil {
			switch {
			case t.Last == c.To:
				return true, t.State, nil
			case t.Version != c.From:
				return false, t.State, nil
			}
			fence := &Change{Part: c.Part, From: c.From, To: after(c.From), Owner: c.Owner, Locked: c.Locked}
			ctx1, cancel := e.attempt(ctx)
			_, _, err = e.store.Change(ctx1, fence)
			cancel()
			if err == nil {
				continue // Trace tells
			}
		}
		sleep(ctx, pause)
	}
	return false, State{}, e.note(fmt.Errorf("partition %d: %w (%w)", c.Part, engine.ErrUnknownOutcome, withoutKind(lost)))
}

// attempt limits one statement, so that time is left to settle what comes of it.
func (e *Engine) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := e.opt.Timeout / 2
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(end)/2, 10*time.Millisecond))
	}
	return context.WithTimeout(ctx, limit)
}

// withoutKind hides of which kind an error is.
func withoutKind(err error) error { return errors.New(err.Error()) }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

package tikv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tikverr "github.com/tikv/client-go/v2/error"

	"redoubt/engine"
)

// This file maps the client's errors to those of package engine. The client retries until
// its deadline, so an error of a read means that the cluster could not answer in time. A
// failed commit has written nothing unless the client says that it does not know, or an
// answer was lost (outcome.go).

// readError maps an error of a read, or of a request for a timestamp.
func (e *Engine) readError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	var old *tikverr.ErrGCTooEarly
	switch {
	case e.closed.Load() && e.ctx.Err() != nil:
		return engine.ErrClosed
	case known(err):
		return err
	case errors.As(err, &old):
		return fmt.Errorf("TiKV, %s: the moment is so old that TiKV may have dropped what it showed: %w (%s)", what, engine.ErrUnavailable, brief(err))
	case errors.Is(err, tikverr.ErrResolveLockTimeout):
		return fmt.Errorf("TiKV, %s: %w (%s)", what, engine.ErrContended, brief(err))
	case errors.Is(err, tikverr.ErrTiKVServerBusy), errors.As(err, new(*tikverr.ErrTokenLimit)):
		return fmt.Errorf("TiKV, %s: %w (%s)", what, engine.ErrOverloaded, brief(err))
	case ctx.Err() != nil:
		return fmt.Errorf("TiKV, %s: no answer in time: %w (%s)", what, engine.ErrUnavailable, brief(err))
	}
	return fmt.Errorf("TiKV, %s: %w (%s)", what, engine.ErrUnavailable, brief(err))
}

// known reports whether an error already wraps one of package engine.
func known(err error) bool {
	for _, k := range []error{engine.ErrConflict, engine.ErrUnknownOutcome, engine.ErrFull, engine.ErrCorrupt, engine.ErrUnavailable, engine.ErrOverloaded, engine.ErrContended, engine.ErrClosed} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// commitError maps an error of a commit.
func (e *Engine) commitError(ctx context.Context, err error) error {
	if err == nil || known(err) {
		return err
	}
	var (
		conflict *tikverr.ErrWriteConflict
		latch    *tikverr.ErrWriteConflictInLatch
		again    *tikverr.ErrRetryable
		large    *tikverr.ErrTxnTooLarge
		entry    *tikverr.ErrEntryTooLarge
		key      *tikverr.ErrKeyTooLarge
		pd       *tikverr.ErrPDServerTimeout
		busy     *tikverr.ErrTokenLimit
	)
	switch {
	case tikverr.IsErrorUndetermined(err):
		return fmt.Errorf("TiKV: %w", engine.ErrUnknownOutcome)
	case lockGone(err), errors.As(err, &conflict) && withItself(conflict):
		return fmt.Errorf("TiKV: %w (%s)", engine.ErrUnknownOutcome, brief(err))
	case errors.As(err, &conflict), errors.As(err, &latch), errors.As(err, &again), errors.Is(err, errLate):
		return fmt.Errorf("TiKV: %w (%s)", engine.ErrConflict, brief(err))
	case errors.As(err, &large), errors.As(err, &entry), errors.As(err, &key), strings.Contains(err.Error(), "KeyTooLarge"):
		return fmt.Errorf("TiKV takes no commit of this size: %s", brief(err))
	case errors.Is(err, tikverr.ErrTiKVDiskFull), strings.Contains(err.Error(), "disk_full:"):
		return fmt.Errorf("TiKV: %w (%s)", engine.ErrFull, brief(err))
	case strings.Contains(err.Error(), "takes too much time"):
		return fmt.Errorf("TiKV: %w (%s)", engine.ErrConflict, brief(err))
	case ctx.Err() != nil, errors.As(err, &pd), errors.As(err, &busy), unreachable(err):
		return e.readError(ctx, "commit", err)
	}
	return fmt.Errorf("TiKV refuses a commit: %s", brief(err))
}

// lockGone reports whether the second phase of a commit did not find the locks of the
// first. Either another process took the transaction for dead and rolled it back, or the
// transaction was committed, by that process or by a request whose answer was lost, and
// the store has forgotten that. To mistake the latter for the former would repeat a write.
func lockGone(err error) bool {
	s := strings.ToLower(err.Error())
	return strings.Contains(s, "txn ") && strings.HasSuffix(s, " not found") ||
		strings.Contains(s, "locknotfound") || strings.Contains(s, "lock not found") || strings.Contains(s, "replaced by another transaction")
}

// withItself reports whether a transaction conflicts with its own commit, by a request
// that was sent before.
func withItself(c *tikverr.ErrWriteConflict) bool {
	return c.GetStartTs() != 0 && c.GetConflictTs() == c.GetStartTs() && c.GetReason() != kvrpcpb.WriteConflict_SelfRolledBack
}

// unreachable reports whether the client gave up because the cluster did not answer.
func unreachable(err error) bool {
	for _, k := range []error{
		context.DeadlineExceeded, context.Canceled, tikverr.ErrTiKVServerTimeout, tikverr.ErrTiKVServerBusy, tikverr.ErrRegionUnavailable,
		tikverr.ErrTiKVStaleCommand, tikverr.ErrTiKVMaxTimestampNotSynced, tikverr.ErrResolveLockTimeout, tikverr.ErrRegionDataNotReady,
		tikverr.ErrRegionNotInitialized, tikverr.ErrRegionRecoveryInProgress, tikverr.ErrRegionFlashbackInProgress, tikverr.ErrIsWitness,
		tikverr.ErrTiDBShuttingDown, tikverr.ErrBodyMissing, tikverr.ErrUnknown,
	} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// brief is the beginning of an error's text, on one line.
func brief(err error) string { return cut(strings.Join(strings.Fields(err.Error()), " ")) }

// cut shortens a long text.
func cut[T string | []byte](s T) string {
	const most = 240
	if len(s) > most {
		return string(s[:most]) + "..."
	}
	return string(s)
}

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

// What the client's errors mean. It retries by itself for as long as it may, so an
// error of a read means that the cluster could not answer in time. A commit came to
// nothing unless the client says that it does not know, or an answer was lost (fate.go).

// readError is the meaning of an error that a read, or a request for a timestamp, met.
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
	case ctx.Err() != nil:
		return fmt.Errorf("TiKV, %s: no answer in time: %w (%s)", what, engine.ErrUnavailable, brief(err))
	}
	return fmt.Errorf("TiKV, %s: %w (%s)", what, engine.ErrUnavailable, brief(err))
}

// known says that an error has one of the contract's meanings already.
func known(err error) bool {
	for _, k := range []error{engine.ErrConflict, engine.ErrUnknownOutcome, engine.ErrFull, engine.ErrCorrupt, engine.ErrUnavailable, engine.ErrClosed} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// commitError is the meaning of an error that a commit met.
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

// lockGone says that the second phase of a commit did not find the first one's locks.
// Another process has given the transaction up for dead and undone it; or it was
// committed, by that process or by a request whose answer was lost, and the store no
// longer sees that. To take one for the other would do a write twice.
func lockGone(err error) bool {
	s := strings.ToLower(err.Error())
	return strings.Contains(s, "txn ") && strings.HasSuffix(s, " not found") ||
		strings.Contains(s, "locknotfound") || strings.Contains(s, "lock not found") || strings.Contains(s, "replaced by another transaction")
}

// withItself says that what a transaction is in conflict with is its own commit, by a
// request that was sent before.
func withItself(c *tikverr.ErrWriteConflict) bool {
	return c.GetStartTs() != 0 && c.GetConflictTs() == c.GetStartTs() && c.GetReason() != kvrpcpb.WriteConflict_SelfRolledBack
}

// unreachable says that the client has given up.
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

// brief is the beginning of what may be a very long text.
func brief(err error) string { return cut(strings.Join(strings.Fields(err.Error()), " ")) }

// cut is the beginning of something long.
func cut[T string | []byte](s T) string {
	const most = 240
	if len(s) > most {
		return string(s[:most]) + "..."
	}
	return string(s)
}

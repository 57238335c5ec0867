package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// A write-back round brings the store up to a commit S:
//
//  1. Cut: at a moment when no commit is half applied, S is the newest commit,
//     and the counters are copied.
//  2. The dirty rows of each part are taken and written, in order, to tables
//     of their own, with pending range deletes; many overwrites of a row are one
//     row here. The last rows are the counters and S itself.
//  3. The journal is synced up to the newest commit, whatever the policy. Rows
//     that the tables hold may be newer than S, and rows that were changed since
//     they were taken are not in them: for both the journal must have all later
//     commits, also after a power cut. If several processes agree upon the log, the round
//     waits until they have agreed upon all of those; if some are taken back instead,
//     the round is given up.
//  4. Pebble ingests the tables: atomically and durably.
//  5. The rows become clean, their tombstones are dropped, S is the checkpoint, and
//     journal segments up to S are removed.
//
// A crash before 4 leaves the store at the round before, after it at S; the
// journal from there on gives the same rows either way, since a record holds
// whole rows and is replayed in order. Counters are sums, and hence stored
// exactly as of S.
//
// A round that fails leaves its rows dirty and is retried; when dirty rows then
// reach their limit, commits are refused with the reason.

const (
	// idleRound is the time after which even few dirty rows are written back.
	idleRound = 30 * time.Second
	// retryRound is the pause after a round that failed.
	retryRound = time.Second
)

func (e *Engine) writebackLoop() {
	timer := time.NewTimer(idleRound)
	defer timer.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-e.writeback:
		case <-timer.C:
		}
		if err := e.awaitStore(); err != nil {
			return
		}
		if err := e.Round(); err != nil {
			select { // not at once, though commits may wake the loop
			case <-e.stop:
				return
			case <-time.After(retryRound):
			}
			wake(e.writeback)
		}
		timer.Reset(idleRound)
	}
}

// awaitStore waits while the store has many tables to compact: more tables would make
// reads slow. Dirty rows pile up meanwhile, and back pressure slows the writers down.
// It does not wait for compactions that do not run or fail: after a failure Pebble avoids
// the keys for half a minute, and checks again only when tables are added.
func (e *Engine) awaitStore() error {
	for idle := 0; idle < 2 && e.roundErr.Load() == nil && e.failure.Load() == nil && e.disk.tableErr.Load() == nil && e.full.Load() == nil; idle++ {
		sublevels, compacting := e.store.backlog()
		if sublevels < l0Patience {
			return nil
		}
		if compacting {
			idle = 0
		}
		select {
		case <-e.stop:
			return e.usable()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Round writes back all rows that are dirty now.
func (e *Engine) Round() error {
	e.round.Lock()
	defer e.round.Unlock()
	if err := e.refusal(); err != nil {
		return err
	}
	start := time.Now()
	err := e.writeBack()
	if errors.Is(err, errRewinding) {
		return err // nothing is wrong: its rows were taken back
	}
	if err != nil {
		err = fmt.Errorf("writing rows back: %w", err)
		e.roundErrors.Add(1)
		if e.failure.Load() == nil && !e.closed.Load() && e.full.Load() == nil && e.roundLog.due() {
			e.log.Error("writing rows to the store failed, it will be tried again", "dir", e.dir, "err", err.Error())
		}
		e.roundErr.Store(&err)
	} else {
		e.roundErr.Store(nil)
		e.rounds.Add(1)
		e.roundNanos.Add(time.Since(start).Nanoseconds())
	}
	e.roomMu.Lock()
	close(e.roomCh)
	e.roomCh = make(chan struct{})
	e.roomMu.Unlock()
	return err
}

// logPause is the time between two log lines about a failure that persists.
const logPause = time.Minute

// logLimit limits how often a message is logged: due reports true at most once per logPause.
type logLimit struct{ last atomic.Int64 }

func (l *logLimit) due() bool {
	now, last := time.Now().UnixNano(), l.last.Load()
	return (last == 0 || now-last > int64(logPause)) && l.last.CompareAndSwap(last, now)
}

// room returns a channel that is closed when the next round ends.
func (e *Engine) room() <-chan struct{} {
	e.roomMu.Lock()
	defer e.roomMu.Unlock()
	return e.roomCh
}

func (e *Engine) writeBack() (err error) {
	e.ingest.Lock()
	defer e.ingest.Unlock()
	if err := e.mayGoOn(); err != nil {
		return err
	}
	g := e.present.Load() // it stays: Rewind waits for the round
	var seq uint64
	var sums map[string]int64
	var appended int64
	g.set.Cut(func() {
		seq, appended = e.applied.Load(), e.appended.Load()
		sums = g.counters.Copy()
	})
	if seq == e.checkpoint.Load() {
		return nil
	}
	b := &builder{s: e.store}
	var taken []int
	defer func() {
		if err != nil {
			b.abandon()
			for _, no := range taken {
				g.set.Return(no)
			}
		}
	}()
	for no := range 1 << 16 {
		if !g.set.Take(no) {
			continue
		}
		taken = append(taken, no)
		for _, d := range g.set.Deletions(no) {
			b.deleteRange(d.Lo, d.Hi)
		}
		if err = g.set.Copy(no, b.add); err != nil {
			return err
		}
		if err = e.mayGoOn(); err != nil {
			return err
		}
	}
	if err = e.settle(); err != nil {
		return err
	}
	base, err := e.journal.Base(seq)
	if err != nil {
		return err
	}
	if err = b.addState(seq, base, sums); err != nil {
		return err
	}
	if err = b.finish(); err != nil {
		return err
	}
	for _, no := range taken {
		g.set.Finish(no)
	}
	e.checkpoint.Store(seq) // after the last Finish: see resident.Snapshot
	e.checkpointAt.Store(time.Now().UnixNano())
	e.settledBytes.Store(appended)
	g.counters.Forget(sums)
	e.roundRows.Add(b.rows)
	e.roundBytes.Add(b.bytes)
	if e.full.Load() != nil {
		e.reclaimFrom(&b.gone)
	}
	if err := e.journal.Remove(seq); err != nil {
		// The round is done; a later one removes the segments.
		e.log.Warn("removing old journal segments failed", "dir", e.dir, "err", err)
	}
	return nil
}

// mayGoOn returns an error if a round must give its rows back.
func (e *Engine) mayGoOn() error {
	if e.rewinding.Load() {
		return errRewinding
	}
	return e.usable()
}

// settle waits until nothing that memory has now can be lost or taken back: it is on disk
// here, and agreed upon where several processes must.
func (e *Engine) settle() error {
	last := e.applied.Load()
	if err := e.journal.Sync(last); err != nil {
		return err
	}
	for e.journal.Durable() < last {
		if err := e.refusal(); err != nil {
			return err
		}
		select {
		case <-e.stop:
		case <-e.agreed:
		}
		if err := e.mayGoOn(); err != nil {
			return err
		}
	}
	return e.mayGoOn() // if records were taken back, Durable may be that of others
}

// addState adds the engine's own rows, which sort behind all others.
func (b *builder) addState(seq uint64, base []byte, sums map[string]int64) error {
	err := b.add(checkpointKey, append(binary.BigEndian.AppendUint64(nil, seq), base...), false)
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		row := append(append([]byte{}, counterPrefix...), key...)
		err = errors.Join(err, b.add(row, binary.BigEndian.AppendUint64(nil, uint64(sums[key])), sums[key] == 0))
	}
	return err
}

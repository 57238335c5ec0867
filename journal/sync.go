package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"time"
)

// Group commit. One goroutine calls fsync, and each call makes durable all records that were
// written before it began. The only other fsync is that of undo.

// runSyncer is the goroutine that calls fsync.
func (j *Journal) runSyncer() {
	tick := j.o.Tick
	if tick == nil {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-j.wake:
		case <-tick:
			j.tick()
		case <-j.quit:
			return
		}
		for j.due() {
			j.sync()
		}
		j.mu.Lock()
		notify := j.notify
		j.notify = false
		j.mu.Unlock()
		if notify {
			j.o.OnDurable()
		}
	}
}

// due reports whether an fsync is needed.
func (j *Journal) due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Err() == nil && (j.want > j.synced.Load() || len(j.rotated) > 0)
}

// tick runs once a second. It requests the fsync of EverySec, writes a mark if the log was idle
// and no record claims yet what is synced, and wakes the maker of segments to try again.
func (j *Journal) tick() {
	j.mu.Lock()
	last := j.last.Load()
	idle := last == j.idleAt
	j.idleAt, j.rested = last, idle
	if j.policy == EverySec {
		j.want = last
	}
	marked := idle && j.mark() && j.policy != No
	j.figures.tick()
	poke(j.make)
	j.mu.Unlock()
	if marked {
		j.sync()
	}
}

// mark writes a mark, if more is synced than records claim. The error is dropped: the log is
// valid without the mark, and Err returns the error if the journal failed by it. mu is held.
func (j *Journal) mark() bool {
	if j.claimed >= j.synced.Load() && !j.form.claims() || j.Err() != nil {
		return false
	}
	kind, n := j.form.mark(j.head[HeadRoom:])
	rec := j.head[:HeadRoom+n]
	return j.write(rec, crc32.Checksum(rec[HeadRoom:], castagnoli), kind, j.last.Load()) == nil
}

// sync fsyncs everything that was written before.
func (j *Journal) sync() {
	j.mu.Lock()
	last, written, full, active := j.last.Load(), j.figures.written, j.rotated, j.active
	reached := j.reached(last)
	j.mu.Unlock()
	if j.Err() != nil {
		return
	}
	start := j.o.Now()
	err := j.syncFiles(full, active)
	if err == nil { // before synced and durable grow
		j.logEndError(j.end.claim(reached))
	}
	now := j.o.Now()

	j.mu.Lock()
	grew := false
	if err == nil && j.Err() == nil {
		j.synced.Store(last)
		if grew = j.durable.Load() < last; grew {
			j.durable.Store(last)
		}
		j.rotated = j.rotated[len(full):]
		j.figures.sync(now, now.Sub(start), written)
	} else {
		full = nil
	}
	if err != nil {
		j.fail(err)
	}
	j.changed.Broadcast()
	j.mu.Unlock()
	if grew {
		j.o.OnDurable()
	}
	for _, s := range full {
		s.close()
	}
}

// logEndError logs once that the end file could not be written or fsynced. No record is lost by
// that, so the journal goes on.
func (j *Journal) logEndError(err error) {
	if err != nil && !j.endFailed.Swap(true) {
		j.o.Logger.Warn("journal: how far the log has got cannot be recorded; no record is lost by that, but if files of the log were removed the next start might not notice; check the disk", "err", err)
	}
}

// syncFiles fsyncs the segments and their names. Full segments are cut behind their last
// record, which frees the space that was reserved.
func (j *Journal) syncFiles(full []*segment, active *segment) error {
	for _, s := range full {
		_ = s.file.Truncate(s.end) // zeros that stay do no harm
		if err := j.syncFile(s); err != nil {
			return err
		}
	}
	return j.syncFile(active)
}

func (j *Journal) syncFile(s *segment) error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("fsync of %s: %w", filepath.Join(j.o.Dir, s.name), err)
	}
	return j.enter(s)
}

// enter makes a segment's name durable.
func (j *Journal) enter(s *segment) error {
	if s.entered.Load() {
		return nil
	}
	if err := j.o.FS.SyncDir(j.o.Dir); err != nil {
		return fmt.Errorf("fsync of %s: %w", j.o.Dir, err)
	}
	s.entered.Store(true)
	return nil
}

// Sync implements Log. Callers that wait at the same time share one fsync.
func (j *Journal) Sync(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq = min(seq, j.last.Load())
	return j.await(seq, func() bool { return j.synced.Load() >= seq })
}

// await asks for an fsync of the records up to seq, and waits until done reports true. mu is
// held.
func (j *Journal) await(seq uint64, done func() bool) error {
	j.want = max(j.want, seq)
	poke(j.wake)
	for !done() {
		if err := j.refusal(); err != nil {
			return err
		}
		j.changed.Wait()
	}
	return nil
}

// SetPolicy changes the policy. A stricter policy holds for later records; earlier ones stay
// durable by the policy that they were written under, and are fsynced when SetPolicy returns
// nil.
func (j *Journal) SetPolicy(p Policy) error {
	if p < Always || p > No {
		return fmt.Errorf("journal: unknown policy %d", p)
	}
	j.mu.Lock()
	j.policy = p
	last := j.last.Load()
	if p != Always && j.Err() == nil && j.durable.Load() < last {
		j.durable.Store(last)
		j.notify = true
		poke(j.wake)
	}
	j.mu.Unlock()
	if p != Always {
		return nil
	}
	poke(j.make)
	return j.Sync(last)
}

// Close implements Log.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.changed.Broadcast()
	j.mu.Unlock()
	close(j.quit)
	j.running.Wait()

	if j.synced.Load() < j.last.Load() || len(j.rotated) > 0 {
		j.sync()
	}
	j.mu.Lock()
	marked := j.mark()
	err := j.Err()
	if err == nil {
		err = j.active.file.Truncate(j.active.end)
	}
	j.mu.Unlock()
	if marked && err == nil {
		j.sync()
		err = j.Err()
	}
	for _, s := range append(j.rotated, j.active) {
		err = errors.Join(err, s.file.Close())
	}
	j.logEndError(errors.Join(j.end.flush(), j.end.file.Close()))
	if j.spare != nil {
		err = errors.Join(err, j.drop(j.spare))
	}
	return err
}

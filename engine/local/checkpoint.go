package local

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint implements engine.Engine. The copy is a store of its own: Pebble's
// tables and the journal from the last round on, hard links where the file
// system has them. The file REDOUBT is written last: an incomplete copy is not taken
// for a store.
func (e *Engine) Checkpoint(dir string) error {
	return e.unlessStuck(func(wanted func() bool) error { return e.writeCheckpoint(dir, wanted) })
}

func (e *Engine) writeCheckpoint(dir string, wanted func() bool) error {
	if err := e.usable(); err != nil {
		return err
	}
	if err := e.Round(); err != nil { // else the copy's journal would be long
		return err
	}
	e.round.Lock() // no segment is removed and no table added until all is copied
	defer e.round.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	fs := e.fs
	dir = fs.PathJoin(dir)
	if err := e.copyTo(dir, wanted); err != nil {
		return fmt.Errorf("writing a checkpoint to %s: %w", dir, err)
	}
	return syncDir(fs, fs.PathDir(dir))
}

// unlessStuck runs f and returns its result, unless a round or a compaction waits for
// space meanwhile (volume.go). Then it returns that error at once, and f, which may wait
// as long as they do, goes on in the background. f calls wanted when its work is done:
// false means that the caller has left.
func (e *Engine) unlessStuck(f func(wanted func() bool) error) error {
	var decided atomic.Bool
	done := make(chan error, 1)
	go func() { done <- f(func() bool { return decided.CompareAndSwap(false, true) }) }()
	ticker := time.NewTicker(metaPause)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
		if full := e.Full(); full != nil && e.disk.waiting.Load() > 0 && decided.CompareAndSwap(false, true) {
			return full
		}
	}
}

func (e *Engine) copyTo(dir string, wanted func() bool) (err error) {
	fs := e.fs
	if _, err := fs.Stat(dir); err == nil {
		return errors.New("it exists")
	}
	defer func() {
		// Pebble panics when a directory cannot be synced; it holds no locks then.
		if r := recover(); r != nil {
			if err, _ = r.(error); err == nil {
				err = fmt.Errorf("%v", r)
			}
		}
		if err != nil {
			_ = fs.RemoveAll(dir) // no partial copy is left
		}
	}()
	if err := makeDir(fs, dir); err != nil {
		return err
	}
	if err := e.store.db.Checkpoint(fs.PathJoin(dir, storeDir)); err != nil {
		return err
	}
	// The journal has all that the tables hold by now; later commits are not part of
	// the copy.
	if _, err := e.journal.LinkTo(fs.PathJoin(dir, journalDir), e.checkpoint.Load()); err != nil {
		return err
	}
	if !wanted() {
		return errors.New("who asked for it was told that the disk is full")
	}
	return writeFormat(fs, dir, true)
}

// clearDir empties a directory, or creates it.
func clearDir(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating directory %s: %w", dir, err)
	}
	names, err := fs.List(dir)
	for _, name := range names {
		err = errors.Join(err, fs.Remove(fs.PathJoin(dir, name)))
	}
	if err != nil {
		return fmt.Errorf("emptying directory %s: %w", dir, err)
	}
	return nil
}

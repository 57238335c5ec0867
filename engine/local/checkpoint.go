package local

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint implements engine.Engine. The copy is a store of its own: Pebble's
// tables and the journal from the last round on, hard links where the file
// system has them. The file REDOUBT comes last: a copy that was cut short is not
// taken for a store.
func (e *Engine) Checkpoint(dir string) error {
	if err := e.usable(); err != nil {
		return err
	}
	if err := e.Full(); err != nil && e.disk.waiting.Load() > 0 {
		return err // the round under way waits for space
	}
	if err := e.Round(); err != nil { // else the copy's journal would be long
		return err
	}
	e.round.Lock() // no segment goes, and no table comes, until all is copied
	defer e.round.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	fs := e.fs
	dir = fs.PathJoin(dir)
	if err := e.copyTo(dir); err != nil {
		return fmt.Errorf("writing a checkpoint to %s: %w", dir, err)
	}
	return syncDir(fs, fs.PathDir(dir))
}

func (e *Engine) copyTo(dir string) (err error) {
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
			_ = fs.RemoveAll(dir) // half of a copy is of no use
		}
	}()
	if err := makeDir(fs, dir); err != nil {
		return err
	}
	if err := e.store.db.Checkpoint(fs.PathJoin(dir, storeDir)); err != nil {
		return err
	}
	// Whatever the tables hold is in the journal by now; what comes later is
	// not part of the copy.
	if _, err := e.journal.LinkTo(fs.PathJoin(dir, journalDir), e.checkpoint.Load()); err != nil {
		return err
	}
	return writeFormat(fs, dir, true)
}

// clearDir makes a directory empty, or makes it.
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

// Package checkpoint writes checkpoints of the store: SAVE, BGSAVE and LASTSAVE.
//
// A checkpoint is a consistent copy of the store in a directory of its own. A server starts
// from a checkpoint that was copied to the place of the store, <dir>/local. Durability does
// not depend on checkpoints.
//
// A checkpoint is <dir>/checkpoint-<n>. It is written under another name (.tmp behind it)
// and renamed when it is complete and on disk; only then older ones are removed. So there is
// always one whole checkpoint once there was one, and the one with the largest number is the
// newest. An engine may build it of hard links to its own files: the checkpoint then takes
// no space at first, and later that of the files which the store has replaced.
//
// The mem engine has no files to copy: a save there does nothing and reports success, since
// scripts that call SAVE expect that; INFO has checkpoints_supported:0.
package checkpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/config"
)

// Store is the store as a Saver sees it.
type Store interface {
	// Changes returns the number of changes of keys since the start.
	Changes() int64
	// Keys returns the number of keys.
	Keys() int64
	// Checkpoint writes a copy into a directory that does not exist. Its error is
	// errors.ErrUnsupported if the engine has no files.
	Checkpoint(dir string) error
}

// Options make a Saver.
type Options struct {
	Config  *config.Config
	Log     *slog.Logger
	Started time.Time // the time of LASTSAVE before the first save
	// Workers is the group that Shutdown waits for before the store is closed.
	Workers *sync.WaitGroup
}

// Saver writes checkpoints, one at a time, and counts them.
type Saver struct {
	Options
	store Store
	mu    sync.Mutex
	fig   Figures
}

// Figures are the figures of checkpoints for INFO.
type Figures struct {
	Running bool
	Last    time.Time // of the last successful save; at first of the start
	Failed  bool      // the last save failed
	Saves   int64
	Changes int64  // Store.Changes when the last successful save began
	Dir     string // of the last checkpoint
	began   time.Time
	took    time.Duration
}

var errSaving = command.Error("ERR Background save already in progress")

// Init sets the options. Saves are possible after Open only.
func (s *Saver) Init(o Options) {
	s.Options = o
	s.fig.Last = o.Started
}

// Open sets the store. onDisk means that there may be a checkpoint of an earlier process.
func (s *Saver) Open(store Store, onDisk bool) {
	s.store = store
	if onDisk {
		path, _ := lastCheckpoint(s.Config.Str("dir"))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fig.Dir = path
	}
}

// Figures returns a copy of the figures.
func (s *Saver) Figures() Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fig
}

// Status returns the result of the last save, in Redis's words.
func (f *Figures) Status() string {
	if f.Failed {
		return "err"
	}
	return "ok"
}

// LastSeconds returns how long the last save took, -1 if there was none.
func (f *Figures) LastSeconds() int64 {
	if f.Saves == 0 && !f.Failed {
		return -1
	}
	return int64(f.took.Seconds())
}

// RunningSeconds returns how long a save has been running, -1 if none is.
func (f *Figures) RunningSeconds() int64 {
	if !f.Running {
		return -1
	}
	return int64(time.Since(f.began).Seconds())
}

// begin claims the right to save; there is one save at a time.
func (s *Saver) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fig.Running {
		return false
	}
	s.fig.Running, s.fig.began = true, now
	return true
}

// SaveNext waits for a save that is under way, and then writes a checkpoint.
func (s *Saver) SaveNext() error {
	for !s.begin(time.Now()) {
		time.Sleep(10 * time.Millisecond)
	}
	return s.save()
}

// save writes a checkpoint, after begin has returned true.
func (s *Saver) save() error {
	changes := s.store.Changes()
	dir, err := writeCheckpoint(s.Config.Str("dir"), s.store.Checkpoint)
	return s.saved(dir, changes, err)
}

// saveSlowly is save for BGSAVE. The test setting rdb-key-save-delay makes it last that many
// microseconds for each key, or until the setting is changed back. It calls written
// when it no longer needs the store.
func (s *Saver) saveSlowly(written func()) {
	changes, keys := s.store.Changes(), s.store.Keys()
	dir, err := writeCheckpoint(s.Config.Str("dir"), s.store.Checkpoint)
	written()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		delay := s.Config.Int("rdb-key-save-delay")
		if delay <= 0 || time.Since(began) >= time.Duration(keys*delay)*time.Microsecond {
			break
		}
	}
	_ = s.saved(dir, changes, err) // INFO and the log report the result
}

// saved notes the result of a save.
func (s *Saver) saved(dir string, changes int64, err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		dir, err = "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, now := &s.fig, time.Now()
	f.Running, f.took, f.Failed = false, now.Sub(f.began), err != nil
	if err != nil {
		s.Log.Error("writing a checkpoint failed", "err", err)
		return err
	}
	f.Last, f.Changes, f.Dir = now, changes, dir
	f.Saves++
	if dir != "" {
		s.Log.Info("a checkpoint was written", "dir", dir, "took", f.took)
	}
	return nil
}

const (
	checkpointPrefix = "checkpoint-"
	unfinished       = ".tmp"
)

// writeCheckpoint writes the next checkpoint below dir and removes older ones.
// It returns its path.
func writeCheckpoint(dir string, write func(dir string) error) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	var old []string
	next := uint64(1)
	for _, e := range list {
		number, ours := strings.CutPrefix(e.Name(), checkpointPrefix)
		if !ours {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(number, unfinished), 10, 63)
		if err != nil {
			continue // not a checkpoint
		}
		old = append(old, filepath.Join(dir, e.Name()))
		next = max(next, n+1)
	}
	path := filepath.Join(dir, checkpointPrefix+strconv.FormatUint(next, 10))
	if err := write(path + unfinished); err != nil {
		return "", errors.Join(fmt.Errorf("checkpoint: %w", err), os.RemoveAll(path+unfinished))
	}
	if err := syncTree(path + unfinished); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.Rename(path+unfinished, path); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	if err := syncFile(dir); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	for _, p := range old {
		if err := os.RemoveAll(p); err != nil {
			return "", fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return path, nil
}

// lastCheckpoint finds the newest whole checkpoint below dir.
func lastCheckpoint(dir string) (path string, at time.Time) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", time.Time{}
	}
	best := uint64(0)
	for _, e := range list {
		number, ours := strings.CutPrefix(e.Name(), checkpointPrefix)
		n, err := strconv.ParseUint(number, 10, 63)
		if info, e2 := e.Info(); ours && err == nil && e2 == nil && n > best {
			best, path, at = n, filepath.Join(dir, e.Name()), info.ModTime()
		}
	}
	return path, at
}

// syncTree makes a directory and all files below it durable.
func syncTree(dir string) error {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(paths) // the contents of a directory before the directory
	for _, p := range paths {
		if err := syncFile(p); err != nil {
			return err
		}
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

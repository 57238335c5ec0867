package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
)

// SAVE and BGSAVE write a checkpoint: a consistent copy of the store in a
// directory of its own. A server starts from it when a copy of it stands in the
// place of the store, <dir>/local. Nothing depends on checkpoints; every write
// is safe without.
//
// A checkpoint is <dir>/checkpoint-<n>. It is written under another name
// (.tmp behind it) and renamed when it is complete and on disk; only then older
// ones are removed. So there is always one whole checkpoint once there was one,
// and the one with the largest number is the newest. An engine may build it of
// hard links to its own files: it then takes no room at first, and that of what
// the store has replaced since later.
//
// The mem engine has nothing that a copy could be made of: saving there does
// nothing and says that it is well, since scripts that call SAVE expect so;
// INFO says checkpoints_supported:0.

// saver keeps account of checkpoints.
type saver struct {
	mu sync.Mutex
	saveFigures
}

// saveFigures are what INFO tells of checkpoints.
type saveFigures struct {
	running bool
	began   time.Time
	last    time.Time // of the last good one; at first of the start
	took    time.Duration
	failed  bool
	saves   int64
	changes int64  // how many changes there were when the last good one began
	dir     string // the last good one
}

var errSaving = command.Error("ERR Background save already in progress")

func (s *saver) figures() saveFigures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saveFigures
}

func (f *saveFigures) status() string {
	if f.failed {
		return "err"
	}
	return "ok"
}

func (f *saveFigures) lastSeconds() int64 {
	if f.saves == 0 && !f.failed {
		return -1
	}
	return int64(f.took.Seconds())
}

func (f *saveFigures) runningSeconds() int64 {
	if !f.running {
		return -1
	}
	return int64(time.Since(f.began).Seconds())
}

// found takes note of a checkpoint that is there from before.
func (s *saver) found(dir string) {
	path, _ := lastCheckpoint(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = path
}

// begin claims the right to save; there is one save at a time.
func (s *saver) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return false
	}
	s.running, s.began = true, now
	return true
}

// checkpoint saves. The right to do so was claimed by begin.
func (srv *Server) checkpoint() error {
	changes := srv.exec.Stats.Changes.Load()
	dir, err := writeCheckpoint(srv.cfg.Str("dir"), srv.eng.Checkpoint)
	return srv.saved(dir, changes, err)
}

// checkpointSlowly is checkpoint for BGSAVE: rdb-key-save-delay, which is for
// tests, makes it last so many microseconds for each key, or until the setting
// is changed back. It calls written when the store is not needed any more.
func (srv *Server) checkpointSlowly(written func()) {
	changes, keys := srv.exec.Stats.Changes.Load(), int64(0)
	for db := range srv.exec.Space().Databases() {
		n, _, err := srv.exec.Space().Count(db)
		if err != nil {
			srv.log.Warn("counting keys failed", "err", err)
		}
		keys += n
	}
	dir, err := writeCheckpoint(srv.cfg.Str("dir"), srv.eng.Checkpoint)
	written()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		delay := srv.cfg.Int("rdb-key-save-delay")
		if delay <= 0 || time.Since(began) >= time.Duration(keys*delay)*time.Microsecond {
			break
		}
	}
	_ = srv.saved(dir, changes, err) // INFO and the log tell how it went
}

// saved notes how a save went.
func (srv *Server) saved(dir string, changes int64, err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		dir, err = "", nil
	}
	s := &srv.save
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.running, s.took, s.failed = false, now.Sub(s.began), err != nil
	if err != nil {
		srv.log.Error("writing a checkpoint failed", "err", err)
		return err
	}
	s.last, s.changes, s.dir = now, changes, dir
	s.saves++
	if dir != "" {
		srv.log.Info("a checkpoint was written", "dir", dir, "took", s.took)
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
			continue // somebody else's
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
	slices.Reverse(paths) // what a directory holds before the directory
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

// waitDurable waits until a commit is durable.
func (srv *Server) waitDurable(t engine.Ticket) error {
	for srv.eng.Durable() < t {
		if err := srv.eng.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// The life of a segment: made ahead as the spare, then active, then full, and removed when
// its records are no longer needed. A goroutine of its own makes the spare. Append waits for
// that goroutine no longer than it takes to make an empty file, or to write some zeros to the
// page cache.
//
// Under Always the spare is filled with zeros: an fsync then has no new extents
// to record and takes about half of the time (docs/adr/0009-journal.md). That
// doubles what is written to the disk, so the other policies, whose replies do not wait for
// an fsync, only reserve the space.

// segment is a segment that is, or will be, written.
type segment struct {
	name    string
	index   uint64
	first   uint64
	file    File
	end     int64       // where the next record goes
	entered atomic.Bool // its name is durable

	fill    sync.Mutex // held to write zeros, and to take the segment into use
	taken   bool
	filled  bool
	filling sync.Mutex // held while it is filled, and to close it; before fill
}

// room rotates until the active segment has room for n bytes. mu is held, and may be
// released in between.
func (j *Journal) room(n int64) error {
	for {
		if err := j.refusal(); err != nil {
			return err
		}
		if j.active.end+n <= j.o.SegmentBytes || j.active.end == j.form.headerSize() {
			return nil
		}
		if err := j.rotate(); err != nil {
			return err
		}
	}
}

// rotate makes the spare the active segment. mu is held. If the spare is being made, rotate
// only waits until it is there.
func (j *Journal) rotate() error {
	if j.making {
		j.changed.Wait()
		return nil
	}
	next := j.active.index + 1
	if j.spare == nil {
		s, err := j.create(next)
		if err != nil {
			return j.failWrite(segmentName(next), err)
		}
		j.spare = s
	}
	s := j.spare
	s.fill.Lock()
	s.taken = true
	s.fill.Unlock()
	j.mark() // a copy may have this segment and not the next one
	s.first = j.last.Load() + 1
	if err := j.putHeader(s); err != nil {
		return j.failWrite(s.name, err)
	}
	j.old = append(j.old, span{j.active.index, j.active.first, j.active.end})
	j.rotated = append(j.rotated, j.active)
	j.active, j.spare = s, nil
	poke(j.make)
	poke(j.wake)
	return nil
}

// Rotate makes later records go to a new segment, unless the active one is empty.
func (j *Journal) Rotate() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for old := j.active; old == j.active && old.end > j.form.headerSize(); {
		if err := j.refusal(); err != nil {
			return err
		}
		if err := j.rotate(); err != nil {
			return err
		}
	}
	return nil
}

// create makes the file of a segment.
func (j *Journal) create(index uint64) (*segment, error) {
	s := &segment{name: segmentName(index), index: index, end: j.form.headerSize()}
	var err error
	s.file, err = j.o.FS.Create(filepath.Join(j.o.Dir, s.name))
	return s, err
}

// close closes a segment that is full and synced.
func (s *segment) close() {
	s.filling.Lock()
	defer s.filling.Unlock()
	_ = s.file.Close() // everything is on disk
}

// drop removes a segment that was never used.
func (j *Journal) drop(s *segment) error {
	return errors.Join(s.file.Close(), j.o.FS.Remove(filepath.Join(j.o.Dir, s.name)))
}

// runMaker is the goroutine that makes spares.
func (j *Journal) runMaker() {
	failing := false
	for {
		select {
		case <-j.make:
		case <-j.quit:
			return
		}
		j.logEndError(j.end.flush())
		err := j.prepare()
		if err != nil && !failing {
			j.o.Logger.Warn("journal: no spare segment; appending goes on without", "err", err)
		}
		failing = err != nil
	}
}

// prepare makes the spare segment, if there is none. Its space is reserved, and under Always
// filled with zeros.
func (j *Journal) prepare() error {
	j.mu.Lock()
	s, index := j.spare, j.active.index+1
	j.making = s == nil
	j.mu.Unlock()
	if s == nil {
		var err error
		if s, err = j.create(index); err == nil {
			if err = s.file.Allocate(j.o.SegmentBytes); err != nil {
				err = errors.Join(err, j.drop(s))
			}
		}
		j.mu.Lock()
		j.making = false
		if err == nil {
			j.spare = s
		}
		j.changed.Broadcast()
		j.mu.Unlock()
		if err != nil {
			return fmt.Errorf("making %s: %w", segmentName(index), err)
		}
	}
	err := j.enter(s)
	if err == nil {
		err = j.fillUp(s)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		// The segment is active by now, and an fsync reports an error only once.
		if s != j.spare {
			return j.fail(err)
		}
		j.spare = nil
		return errors.Join(err, j.drop(s))
	}
	// An active segment without zeros is replaced early by one that is filled.
	if s == j.spare && s.filled && !j.active.filled && j.policy == Always && j.refusal() == nil {
		return j.rotate()
	}
	return nil
}

// fillUp fills a spare with zeros under Always, in small steps: a large fsync would delay
// those of the active segment. It ends when the spare becomes active.
func (j *Journal) fillUp(s *segment) error {
	j.mu.Lock()
	skip := j.policy != Always || s.filled
	j.mu.Unlock()
	if skip {
		return nil
	}
	s.filling.Lock()
	defer s.filling.Unlock()
	step := min(j.o.fillStep, j.o.SegmentBytes)
	zero := make([]byte, step)
	for off := int64(0); off < j.o.SegmentBytes; off += step {
		select {
		case <-j.quit:
			return nil
		default:
		}
		s.fill.Lock()
		taken, err := s.taken, error(nil)
		if !taken {
			_, err = s.file.WriteAt(zero[:min(step, j.o.SegmentBytes-off)], off)
		}
		s.fill.Unlock()
		if taken {
			return nil
		}
		if err == nil {
			err = s.file.Sync()
		}
		if err != nil {
			return fmt.Errorf("filling %s: %w", s.name, err)
		}
	}
	j.mu.Lock()
	s.filled = true
	j.mu.Unlock()
	return nil
}

// Remove implements Log: it removes the segments that have only records up to upTo, but never
// the active one. The removal need not be durable: Open passes over segments that come back
// after a crash, and the next Remove removes them again.
func (j *Journal) Remove(upTo uint64) error {
	j.files.Lock()
	defer j.files.Unlock()
	for {
		j.mu.Lock()
		if len(j.old) == 0 || j.endOf(0) > upTo {
			j.mu.Unlock()
			return nil
		}
		index := j.old[0].index
		j.mu.Unlock()
		if err := j.o.FS.Remove(filepath.Join(j.o.Dir, segmentName(index))); err != nil {
			return fmt.Errorf("journal: removing %s: %w", segmentName(index), err)
		}
		j.mu.Lock()
		j.old = j.old[1:]
		j.mu.Unlock()
	}
}

func (j *Journal) oldestUnsynced() uint64 {
	if len(j.rotated) > 0 {
		return j.rotated[0].index
	}
	return j.active.index
}

// endOf is the last record of old[i].
func (j *Journal) endOf(i int) uint64 {
	if i+1 < len(j.old) {
		return j.old[i+1].first - 1
	}
	return j.active.first - 1
}

// LinkTo makes a copy of the log in dir, which is made if needed, with all records above from
// that there are now. The segments are shared by hard links, or copied where the file system
// has no hard links. LinkTo returns the number of the copy's last record; the copy is durable
// then.
func (j *Journal) LinkTo(dir string, from uint64) (last uint64, err error) {
	j.files.Lock()
	defer j.files.Unlock()
	// The first sync lets Rotate end the segment with a mark that claims all.
	if err := j.Sync(j.Last()); err != nil {
		return 0, err
	}
	if err := j.Rotate(); err != nil {
		return 0, err
	}
	j.mu.Lock()
	last = j.active.first - 1
	until := j.active.index
	reached := end{log: j.log, synced: last, index: until}
	var names []string
	for i, o := range j.old {
		reached.index, reached.off = o.index, o.bytes
		if j.endOf(i) > from {
			names = append(names, segmentName(o.index))
		}
	}
	err = j.await(last, func() bool { return j.synced.Load() >= last && j.oldestUnsynced() >= until })
	j.mu.Unlock()
	if err != nil {
		return 0, err
	}
	fs := j.o.FS
	if err := fs.MkdirAll(dir); err != nil {
		return 0, fmt.Errorf("journal: making %s: %w", dir, err)
	}
	for _, name := range names {
		src, dst := filepath.Join(j.o.Dir, name), filepath.Join(dir, name)
		if fs.Link(src, dst) == nil {
			continue
		}
		if err := copyFile(fs, src, dst, -1); err != nil {
			return 0, fmt.Errorf("journal: copying %s to %s: %w", name, dir, err)
		}
	}
	if err := fs.SyncDir(dir); err != nil {
		return 0, fmt.Errorf("journal: fsync of %s: %w", dir, err)
	}
	return last, writeEnd(fs, dir, reached)
}

// copyFile copies the first size bytes of a file, or all if size is negative.
func copyFile(fs FS, from, to string, size int64) error {
	src, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if size < 0 {
		if size, err = src.Size(); err != nil {
			return err
		}
	}
	dst, err := fs.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(copyBytes(dst, src, size), dst.Close())
}

// copyBytes copies the first size bytes and makes them durable.
func copyBytes(dst, src File, size int64) error {
	buf := make([]byte, min(chunk, size))
	for off := int64(0); off < size; off += chunk {
		b := buf[:min(chunk, size-off)]
		if n, err := src.ReadAt(b, off); n < len(b) {
			return err
		}
		if _, err := dst.WriteAt(b, off); err != nil {
			return err
		}
	}
	return dst.Sync()
}

package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// recover reads the log and makes the journal ready to be appended to.
func (j *Journal) recover(from uint64, replay func(seq uint64, payload []byte) error, progress func(done, total int64)) error {
	c, err := load(j.o.FS, j.o.Dir, from)
	if err != nil {
		return err
	}
	defer c.close()
	if c.endErr != nil {
		return fmt.Errorf("%w: restore a backup, or go by what the log itself says with \"redoubt journal --salvage\"", c.endErr)
	}
	c.start()
	first := c.i
	finished := c.report(progress)
	claim := c.end.synced
	for err == nil {
		var e Entry
		if e, err = c.next(); err != nil {
			break
		}
		claim = max(claim, e.Synced)
		if e.Kind == Data && e.Seq > from {
			if err := replay(e.Seq, e.Payload); err != nil {
				return fmt.Errorf("journal: replaying record %d (segment %s, offset %d): %w", e.Seq, e.File, e.Offset, err)
			}
		}
	}
	kept := c.i
	var d *damage
	switch {
	case err == io.EOF:
	case errors.As(err, &d):
		if err := c.refuse(d); err != nil {
			return err
		}
		j.o.Logger.Warn("journal: the log is cut off at a place that is no valid record; nothing says that the record there had been synced", "segment", d.name, "offset", d.off, "record", d.seq, "why", d.why)
		if d.off > 0 {
			kept++
		}
	default:
		return err
	}
	finished()
	return j.settle(c, first, kept, from, claim)
}

// report arranges for progress to be told; the result tells the end.
func (c *cursor) report(progress func(done, total int64)) (finished func()) {
	if progress == nil {
		return func() {}
	}
	var total int64
	starts := make([]int64, len(c.segs)+1)
	for i := c.i; i < len(c.segs); i++ {
		starts[i] = total
		total += c.segs[i].size
	}
	progress(0, total)
	c.onRead = func(i int, off int64) { progress(starts[i]+off, total) }
	return func() { progress(total, total) }
}

// refuse says that d is corruption, or returns nil if it is a torn tail.
func (c *cursor) refuse(d *damage) error {
	why, err := c.witness(d)
	if err != nil || why == "" {
		return err
	}
	return fmt.Errorf("%w: %s: %w, but %s: restore a backup, or keep what is before that place with \"redoubt journal --salvage\"", ErrCorrupt, c.dir, d, why)
}

// settle removes what is not kept of the segments, makes the rest durable, and
// begins a new segment. The segments from first on were read; claim is the
// newest number that was found to be synced.
func (j *Journal) settle(c *cursor, first, kept int, from, claim uint64) error {
	fs := j.o.FS
	last := max(from, c.want-1)
	index := uint64(1)
	if len(c.segs) > 0 {
		index = c.segs[0].index
	}
	if kept > 0 {
		s := c.segs[kept-1]
		index = s.index + 1
		if s.first == c.want { // it has no records: it is made anew
			kept, index = kept-1, s.index
			// What is older than it must not be the end of the log meanwhile.
			if kept == first && first > 0 {
				if err := c.forget(first); err != nil {
					return err
				}
				first, kept = 0, 0
			}
		}
	}
	if err := c.close(); err != nil {
		return err
	}
	for i := len(c.segs) - 1; i >= kept; i-- {
		if err := fs.Remove(c.path(i)); err != nil {
			return fmt.Errorf("journal: removing %s: %w", c.segs[i].name, err)
		}
	}
	next := last + 1
	for i := kept - 1; i >= 0; i-- {
		s := c.segs[i]
		if i >= first {
			if err := c.secure(s, next-1 > claim); err != nil {
				return err
			}
		}
		if s.bad == nil {
			next = s.first
		} // else it is older than first, and goes with the one behind it
		j.old = append(j.old, span{s.index, next, s.size})
	}
	slices.Reverse(j.old)
	return j.begin(c, index, last)
}

// forget removes the segments before number n, of which nothing is needed.
func (c *cursor) forget(n int) error {
	for i := range n {
		if err := c.fs.Remove(c.path(i)); err != nil {
			return fmt.Errorf("journal: removing %s: %w", c.segs[i].name, err)
		}
	}
	c.segs = c.segs[n:]
	if err := c.fs.SyncDir(c.dir); err != nil {
		return fmt.Errorf("journal: fsync of %s: %w", c.dir, err)
	}
	return nil
}

// secure cuts a segment behind its last record and, if it may not be on disk,
// writes it again: after an fsync that failed, pages may be in memory alone
// and yet count as clean.
func (c *cursor) secure(s *found, rewrite bool) error {
	if !rewrite && s.size == s.end {
		return nil
	}
	f, err := c.fs.OpenForWrite(filepath.Join(c.dir, s.name))
	if err != nil {
		return fmt.Errorf("journal: opening %s to cut it: %w", s.name, err)
	}
	size := min(s.size, s.end)
	if s.size > s.end {
		err = f.Truncate(s.end)
	}
	if err == nil && rewrite {
		err = copyBytes(f, f, size)
	} else if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("journal: making %s durable: %w", s.name, err)
	}
	s.size = size
	return nil
}

// begin makes the first active segment, with a mark that claims all before it,
// and has the end file claim the same.
func (j *Journal) begin(c *cursor, index, last uint64) error {
	j.log = cmp.Or(c.log, c.end.log, j.o.LogID)
	for j.log == 0 {
		j.log = rand.Uint32()
	}
	s, err := j.create(index)
	if err == nil {
		j.active, s.first, j.rested = s, last+1, true
		j.last.Store(last)
		j.synced.Store(last)
		j.durable.Store(last)
		putSegmentHeader(j.head[:], j.log, index, s.first)
		if _, err = s.file.WriteAt(j.head[:], 0); err == nil {
			j.mark()
			if err = j.Err(); err == nil {
				err = j.syncFile(s)
			}
		}
		if err == nil {
			j.end, err = openEnd(c, j.reached(last))
		}
		if err != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("journal: beginning segment %s: %w", filepath.Join(j.o.Dir, segmentName(index)), err)
	}
	return nil
}

// reached is the claim that everything written so far is durable, of which last
// is the newest record. mu is held, or nobody else has the journal yet.
func (j *Journal) reached(last uint64) end {
	return end{j.log, last, j.active.index, j.active.end}
}

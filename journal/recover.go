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

// load finds the segments of the log.
func (j *Journal) load(from uint64) (*cursor, error) {
	c, err := load(j.o.FS, j.o.Dir, from)
	if err != nil {
		return nil, err
	}
	if c.endErr != nil {
		err := fmt.Errorf("%w: restore a backup, or go by what the log itself says with \"redoubt journal --salvage\"", c.endErr)
		return nil, errors.Join(err, c.close())
	}
	c.start()
	return c, nil
}

// extent is what recovery keeps of a log: of a cursor's segments those from first to before
// kept, and the older ones. claim is the newest record that is claimed to be synced.
type extent struct {
	first, kept int
	claim       uint64
}

// read calls visit for all records from the cursor's segment on.
func (j *Journal) read(c *cursor, visit func(Entry) error, progress func(done, total int64)) (x extent, err error) {
	x = extent{first: c.i, claim: c.end.synced}
	finished := c.report(progress)
	for err == nil {
		var e Entry
		if e, err = c.next(); err != nil {
			break
		}
		x.claim = max(x.claim, e.Synced)
		if err := visit(e); err != nil {
			return x, fmt.Errorf("journal: replaying record %d (segment %s, offset %d): %w", e.Seq, e.File, e.Offset, err)
		}
	}
	x.kept = c.i
	var d *damage
	switch {
	case err == io.EOF:
	case errors.As(err, &d):
		if err := c.refuse(d); err != nil {
			return x, err
		}
		j.o.Logger.Warn("journal: the log is cut off at a place that is no valid record; nothing says that the record there had been synced", "segment", d.name, "offset", d.off, "record", d.seq, "why", d.why)
		if d.off > 0 {
			x.kept++
		}
	default:
		return x, err
	}
	finished()
	return x, nil
}

// report calls progress while the cursor reads. finished calls it for the last time.
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

// refuse returns an error if d is corruption, and nil if it is a torn tail.
func (c *cursor) refuse(d *damage) error {
	why, err := c.witness(d)
	if err != nil || why == "" {
		return err
	}
	return fmt.Errorf("%w: %s: %w, but %s: restore a backup, or keep what is before that place with \"redoubt journal --salvage\"", ErrCorrupt, c.dir, d, why)
}

// settle removes the segments that are not kept, makes the others durable, and begins a new
// segment: the journal is ready for Append.
func (j *Journal) settle(c *cursor, x extent) error {
	fs, first, kept := j.o.FS, x.first, x.kept
	last := max(c.from, c.want-1)
	index := uint64(1)
	if len(c.segs) > 0 {
		index = c.segs[0].index
	}
	if kept > 0 {
		s := c.segs[kept-1]
		index = s.index + 1
		// A last segment without records is made anew. Meanwhile the segment before it must
		// not be the end of the log.
		switch lone := kept-1 == first && first > 0; {
		case s.first != c.want || lone && j.form.keepsOld(): // the next segment continues it
		case lone:
			if err := c.forget(first); err != nil {
				return err
			}
			first, kept, index = 0, 0, s.index
		default:
			kept, index = kept-1, s.index
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
			if err := c.secure(s, next-1 > x.claim); err != nil {
				return err
			}
		}
		if s.bad == nil {
			next = s.first
		} // else the segment is older than first, and is removed with the one behind it
		j.old = append(j.old, span{s.index, next, s.size})
	}
	slices.Reverse(j.old)
	return j.begin(c, index, last)
}

// forget removes the first n segments, whose records are no longer needed.
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

// secure cuts a segment behind its last record and, if rewrite is set, writes it again:
// after a failed fsync, pages may exist in memory only and yet count as clean.
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

// begin makes the first active segment, with a mark that claims all records before it, and
// writes the same claim to the end file.
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
		if err = j.putHeader(s); err == nil {
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

// reached returns the claim that everything up to the record last is durable. mu is held, or
// nobody else has the journal yet.
func (j *Journal) reached(last uint64) end {
	return end{j.log, last, j.active.index, j.active.end}
}

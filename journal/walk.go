package journal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
)

// Problem is a bad place in a log.
type Problem struct {
	File    string
	Offset  int64
	Seq     uint64 // of the record that should be there; 0 if that is not known
	What    string
	Corrupt bool // Open would refuse it; else it is a torn tail, which Open cuts
}

func (p Problem) String() string {
	return fmt.Sprintf("segment %s, offset %d, record %d: %s", p.File, p.Offset, p.Seq, p.What)
}

// Report is what Walk found.
type Report struct {
	Segments    int // with files that were never used
	Bytes       int64
	Records     int
	Marks       int
	First, Last uint64 // numbers of records; 0 if there is none
	Synced      uint64 // the newest number that was claimed to be on disk
	Claimed     uint64 // the number up to which the end file says so
	HasEnd      bool   // there is an end file
	Replicated  bool   // there are records of a Raft log
	Problems    []Problem
}

// Walk reads a whole log and calls visit for every record and mark. It changes nothing. The
// records up to from may be missing. Behind a bad place Walk goes on with the next valid record.
// In a log that is in use the newest record may look torn. An error of visit ends the walk.
func Walk(fs FS, dir string, from uint64, visit func(Entry) error) (Report, error) {
	var r Report
	c, err := load(fs, dir, from)
	if err != nil {
		return r, err
	}
	defer c.close()
	r.Segments, r.Claimed, r.HasEnd = len(c.segs), c.end.synced, c.ends
	if c.endErr != nil {
		r.Problems = append(r.Problems, Problem{File: filepath.Base(endPath(dir)), What: c.endErr.Error(), Corrupt: true})
	}
	for _, s := range c.segs {
		r.Bytes += s.size
	}
	for {
		e, err := c.next()
		var d *damage
		switch {
		case err == nil:
			r.add(e)
			if err := visit(e); err != nil {
				return r, err
			}
		case err == io.EOF:
			return r, nil
		case errors.As(err, &d):
			r.Problems = append(r.Problems, c.describe(d))
			c.skip(d)
		default: // the file cannot be read
			r.Problems = append(r.Problems, Problem{c.segs[c.i].name, c.off, c.want, err.Error(), true})
			c.i, c.off, c.want, c.begun, c.raft = c.i+1, 0, 0, false, &lineage{}
		}
	}
}

func (r *Report) add(e Entry) {
	r.Synced, r.Replicated = max(r.Synced, e.Synced), r.Replicated || e.Kind.of() == raftVersion
	if !e.Kind.numbered() {
		r.Marks++
		return
	}
	r.Records++
	r.Last = e.Seq
	if r.First == 0 {
		r.First = e.Seq
	}
}

// describe tells whether the damage is a torn tail or corruption.
func (c *cursor) describe(d *damage) Problem {
	p := Problem{File: d.name, Offset: d.off, Seq: d.seq, What: d.why}
	switch why, err := c.witness(d); {
	case err != nil:
		p.Corrupt, p.What = true, p.What+"; what is behind cannot be read: "+err.Error()
	case why != "":
		p.Corrupt, p.What = true, p.What+"; corrupt: "+why
	default:
		p.What += "; a torn tail: nothing behind says that it was on disk"
	}
	return p
}

// skip moves to the next valid record at or behind d.
func (c *cursor) skip(d *damage) {
	i, off, h, err := c.find(d.i, d.off)
	if err != nil {
		i, off = i+1, 0
	}
	c.ended = c.ended || i == len(c.segs) // missing records behind d were reported with d
	c.raft = &lineage{}                   // the entries between are not known
	if c.i, c.off, c.want, c.begun = i, off, h.seq, off > 0; !h.kind.numbered() {
		c.want++
	}
}

// Salvaged is what Salvage did.
type Salvaged struct {
	Problem  Problem  // the bad place; no File if there was none
	Kept     uint64   // the last record that is still in the log
	Lost     int      // valid records behind the bad place
	LostLast uint64   // the newest number among them and their claims
	Aside    []string // the files with the damaged rest
}

// Salvage repairs a log that Open refuses: it keeps the records before the first bad place
// behind from, renames the segments with the rest to *.damaged, and has the end file claim
// nothing. The records behind that place are lost to the log, even if they were acknowledged.
// The segments of a log without a bad place stay as they are; the end file is made if it is
// missing.
func Salvage(fs FS, dir string, from uint64) (Salvaged, error) {
	var r Salvaged
	if err := fs.MkdirAll(dir); err != nil {
		return r, fmt.Errorf("journal: making %s: %w", dir, err)
	}
	c, err := load(fs, dir, from)
	if err != nil {
		return r, err
	}
	defer c.close()
	c.start()
	for err == nil {
		_, err = c.next()
	}
	r.Kept = c.want - 1
	var d *damage
	if err == io.EOF {
		if c.endErr != nil {
			r.Problem = Problem{File: filepath.Base(endPath(dir)), What: c.endErr.Error(), Corrupt: true}
		}
		if c.endErr != nil || !c.ends {
			err = writeEnd(fs, dir, end{log: c.log})
		} else {
			err = nil
		}
		return r, err
	} else if !errors.As(err, &d) {
		return r, err
	}
	r.Problem = c.describe(d)
	for i, off := d.i, d.off; ; {
		var h head
		if i, off, h, err = c.find(i, off); err != nil {
			return r, err
		} else if i == len(c.segs) {
			break
		}
		if h.kind.numbered() {
			r.Lost++
		}
		r.LostLast = max(r.LostLast, h.seq)
		off += h.size()
	}
	r.LostLast = max(r.LostLast, c.end.synced)
	if r.Kept < from { // no record before the bad place is needed, and none can follow it
		d.i, d.off, r.Kept = 0, 0, from
	}
	if err := c.putAside(d, &r); err != nil {
		return r, fmt.Errorf("journal: salvaging %s: %w", dir, err)
	}
	return r, writeEnd(fs, dir, end{log: c.log})
}

// putAside renames the segments from the newest one down to the one with the bad place, in this
// order so that an interrupted call can be repeated. The segment with the bad place is replaced
// and not changed: a checkpoint may share the file.
func (c *cursor) putAside(d *damage, r *Salvaged) error {
	taken, err := c.fs.List(c.dir)
	if err != nil {
		return err
	}
	if err := c.close(); err != nil {
		return err
	}
	for i := len(c.segs) - 1; i >= d.i; i-- {
		name := c.segs[i].name + ".damaged"
		for n := 2; slices.Contains(taken, name); n++ {
			name = c.segs[i].name + ".damaged" + strconv.Itoa(n)
		}
		r.Aside = append(r.Aside, name)
		if i == d.i && d.off > 0 {
			return c.shorten(i, d.off, filepath.Join(c.dir, name))
		}
		if err := c.fs.Rename(c.path(i), filepath.Join(c.dir, name)); err != nil {
			return err
		}
	}
	return c.fs.SyncDir(c.dir)
}

// shorten replaces a segment by its first size bytes; the whole segment is renamed to aside.
func (c *cursor) shorten(i int, size int64, aside string) error {
	if c.fs.Link(c.path(i), aside) != nil {
		if err := copyFile(c.fs, c.path(i), aside, -1); err != nil {
			return err
		}
	}
	part := c.path(i) + ".part"
	if err := copyFile(c.fs, c.path(i), part, size); err != nil {
		return err
	}
	if err := c.fs.SyncDir(c.dir); err != nil {
		return err
	}
	if err := c.fs.Rename(part, c.path(i)); err != nil {
		return err
	}
	return c.fs.SyncDir(c.dir)
}

// Package copier copies all data of one store to another, whatever engines they
// have: rows are the same in all of them (keyspace/FORMAT.md).
//
// Approach. One state of the source is read in the order of the keys and written in
// batches, several at a time if the destination is remote. Each batch only puts
// rows, and always the same ones, so it may be written twice: after a conflict, after
// a commit with an unknown outcome, after a restart. A mark, a system row, follows the
// batches and says up to which key everything was written. It is the first row that the
// destination gets and the last that is removed, so a copy that ended early is
// recognized: no server opens it (keyspace.CopyFinished), and another run resumes after the
// mark.
//
// Data other than rows is derived from the rows:
//
//   - Counters are counted on the way, and raised at the end by what is missing.
//   - Ids. The marks of ids are not copied; the destination gets one above all ids
//     that were copied and above those of both stores. An embedded store gives out ids
//     above its mark. A shared one gives out timestamps of its own, milliseconds << 18,
//     whatever the mark says. An embedded store's ids are microseconds << 11, which is 7.8
//     times as much for the same moment, so that a timestamp gets there in some 380 years; and
//     ids of another shared store lie in the past of this one. This is not taken on
//     trust: distant refuses a copy with an id that the destination will give out within
//     a century.
//   - Values that were deleted and not cleared yet (garbage rows) are cleared at once
//     where a range delete is cheap: a server does not look for them there later.
//
// Rejected: several readers of the source, by ranges of slots (the mark would be a
// list, and writing is the bottleneck); bulk loading of tables (each engine would need
// its own way).
package copier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Source is what is copied.
type Source struct {
	Rows engine.Reader // of one state
	// Name identifies the state: a copy that ended early is resumed only from a source of
	// the same name.
	Name string
}

// Options of a copy. The zero value is valid.
type Options struct {
	Rows, Bytes int // the approximate size of a batch; zero: what suits the destination
	Writers     int // how many batches are written at a time; zero: likewise
	// MarkEvery is after how many batches a mark is written; zero: likewise.
	MarkEvery int
	// Unverified skips the comparison of the destination with the source.
	Unverified bool
	// Patience is how long failed commits are retried; zero: a minute.
	Patience time.Duration
	// Progress, if set, is called with how far the copy has come.
	Progress func(Progress)
	// Resume, if set, is called if this run resumes an earlier one, with how far that run had
	// come, and its last row.
	Resume func(at Progress, last string)
}

// Progress is how far a copy has come. Percent is an estimate: rows are read in the order
// of their slots, which are taken to be equally large.
type Progress struct {
	Phase       string // "copied", "verified" or "resumed"
	Rows, Bytes int64
	Percent     int
}

// Result is what was copied, by this run and by runs that it resumed.
type Result struct {
	Rows, Bytes, Keys int64
	Resumed           bool
	// Sorts are the rows of both sides by sort, if they were compared.
	Sorts []Sort
}

// ErrChanged: the destination holds an unfinished copy of another source.
var ErrChanged = errors.New("the destination has an unfinished copy of another source")

// ErrNotEmpty: the destination has data.
var ErrNotEmpty = errors.New("the destination is not empty")

type copying struct {
	Options
	from Source
	to   engine.Engine
	mark mark
}

// Run copies everything. After an error, also of a context that has ended, Run may be
// called again and resumes the copy.
func Run(ctx context.Context, from Source, to engine.Engine, o Options) (Result, error) {
	c := &copying{Options: o, from: from, to: to}
	c.defaults()
	if err := keyspace.Readable(from.Rows); err != nil {
		return Result{}, fmt.Errorf("the source: %w", err)
	}
	resumed, err := c.prepare(ctx)
	if err != nil {
		return Result{}, err
	}
	if resumed {
		last := ""
		if len(c.mark.last) > 0 {
			last = new(keyspace.Describer).Key(c.mark.last)
		}
		c.Resume(Progress{"resumed", c.mark.rows, c.mark.bytes, percent(c.mark.last)}, last)
	}
	if err := c.write(ctx); err != nil {
		return c.result(resumed), err
	}
	r := c.result(resumed)
	if err := c.distant(); err != nil {
		return r, err
	}
	if !c.Unverified {
		if r.Sorts, err = c.verify(ctx); err != nil {
			return r, err
		}
	}
	return r, c.finish(ctx)
}

func (c *copying) defaults() {
	remote := c.to.Capabilities().Remote
	set := func(n *int, local, far int) {
		if *n <= 0 && remote {
			*n = far
		} else if *n <= 0 {
			*n = local
		}
	}
	// TiKV accepts transactions of some megabytes, and is fastest with smaller ones.
	set(&c.Rows, 1024, 256)
	set(&c.Bytes, 1<<20, 512<<10)
	set(&c.Writers, 1, 8)
	set(&c.MarkEvery, 64, 32)
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Resume == nil {
		c.Resume = func(Progress, string) {}
	}
}

func (c *copying) result(resumed bool) Result {
	r := Result{Rows: c.mark.rows, Bytes: c.mark.bytes, Resumed: resumed}
	for _, n := range c.mark.census.Spaces {
		r.Keys += n.All
	}
	return r
}

// prepare reads the mark of a copy that ended early, or makes one in a destination
// that has no data.
func (c *copying) prepare(ctx context.Context) (resumed bool, err error) {
	snap, err := c.to.Snapshot()
	if err != nil {
		return false, fmt.Errorf("look at the destination: %w", err)
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	v, found, err := snap.Get(keyspace.CopyRow(), nil)
	if err != nil {
		return false, fmt.Errorf("look at the destination: %w", err)
	}
	if found {
		if c.mark, err = decodeMark(v); err != nil {
			return false, err
		}
		if c.mark.source != c.from.Name {
			return false, fmt.Errorf("%w: %s, and this is %s; empty the destination to begin anew", ErrChanged, c.mark.source, c.from.Name)
		}
		return true, nil
	}
	if err := Empty(snap); err != nil {
		return false, err
	}
	c.mark = mark{source: c.from.Name}
	for _, r := range []engine.Reader{c.from.Rows, snap} {
		ids, err := keyspace.Watermark(r)
		if err != nil {
			return false, err
		}
		c.mark.ids = max(c.mark.ids, ids)
	}
	var b engine.Batch
	// System rows that a server has written to the empty destination: its numbers of
	// databases are not the source's.
	b.DeleteRange(keyspace.SystemRows())
	b.Put(keyspace.CopyRow(), c.mark.encode())
	return false, c.commit(ctx, &b)
}

// Empty returns ErrNotEmpty if a store has data.
func Empty(r engine.Reader) error {
	it := r.Iter(nil, nil, false)
	var err error
	for err == nil && it.Next() {
		if keyspace.Used(it.Key()) {
			err = fmt.Errorf("%w: it has %s", ErrNotEmpty, new(keyspace.Describer).Key(it.Key()))
		}
	}
	return errors.Join(err, it.Close())
}

// century is by how much timestamps (milliseconds << 18) grow in a hundred years.
const century = 100 * 365 * 24 * 3600 * 1000 << 18

// distant returns an error if a shared destination might give out an id that is already
// used by a copied row.
func (c *copying) distant() error {
	shared, ok := c.to.(engine.Shared)
	id := c.mark.census.MaxID
	if !ok || id == 0 {
		return nil
	}
	next, err := shared.NextID()
	if err != nil {
		return fmt.Errorf("ask the destination for an id: %w", err)
	}
	if id >= next && id < next+century {
		return fmt.Errorf("the id %016x is in use, and the destination, which is at %016x, would give it out again soon: is its clock behind?", id, next)
	}
	return nil
}

// finish makes the destination a store that may be opened. Each step may be repeated.
func (c *copying) finish(ctx context.Context) error {
	if c.to.Capabilities().CheapRangeDelete {
		if err := c.clear(ctx); err != nil {
			return err
		}
	}
	if err := c.count(ctx); err != nil {
		return err
	}
	var b engine.Batch
	keyspace.RaiseWatermark(&b, max(c.mark.ids, c.mark.census.MaxID+1))
	b.Delete(keyspace.CopyRow())
	if err := c.commit(ctx, &b); err != nil {
		return fmt.Errorf("finish the copy: %w", err)
	}
	return nil
}

// clear removes the rows of values that were deleted. The engine keeps removed rows for the
// snapshot that clear reads, and may revoke the snapshot if they are many; the next snapshot
// shows the rows that are left.
func (c *copying) clear(ctx context.Context) error {
	return c.look(ctx, func(snap engine.Snapshot) error {
		return keyspace.EachGarbage(snap, func(row []byte, ranges [][2][]byte) error {
			var b engine.Batch
			for _, r := range ranges {
				b.DeleteRange(r[0], r[1])
			}
			b.Delete(row)
			return c.commit(ctx, &b)
		})
	})
}

// look calls f with a snapshot of the destination, and again with a new one if it is revoked.
func (c *copying) look(ctx context.Context, f func(engine.Snapshot) error) error {
	for {
		snap, err := c.to.Snapshot()
		if err != nil {
			return fmt.Errorf("look at the destination: %w", err)
		}
		err = f(snap)
		_, _, lost := snap.Get(keyspace.CopyRow(), nil) // f may have lost another one
		again := errors.Is(err, engine.ErrSnapshotLost) && errors.Is(lost, engine.ErrSnapshotLost) && ctx.Err() == nil
		if err = errors.Join(err, snap.Close()); !again {
			return err
		}
	}
}

// count sets the counters. Adding to a counter is the only step here that must not be
// repeated, so count reads each counter and adds what is missing, until nothing is.
func (c *copying) count(ctx context.Context) error {
	for range 5 {
		var b engine.Batch
		for name, want := range c.mark.census.Counters {
			is, err := c.to.Counter(name)
			if err != nil {
				return fmt.Errorf("read a counter: %w", err)
			}
			if is != want {
				b.Add(name, want-is)
			}
		}
		if b.Empty() {
			return nil
		}
		if err := c.once(&b); err != nil && !again(err) {
			return fmt.Errorf("set the counters: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.New("the counters do not stay as they are set: does somebody else write to the destination?")
}

// InUse returns an error if front ends run on a shared store: their member rows change
// every second. It waits for the time long between two looks.
func InUse(ctx context.Context, e engine.Engine, long time.Duration) error {
	if !e.Capabilities().Shared {
		return nil
	}
	before, err := members(e)
	if err != nil || len(before) == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
	}
	after, err := members(e)
	if err == nil && !bytes.Equal(before, after) {
		err = fmt.Errorf("%w: front ends run on it; stop them first", engine.ErrLocked)
	}
	return err
}

// members returns the member rows, concatenated.
func members(e engine.Engine) (all []byte, err error) {
	snap, err := e.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	lo, hi := keyspace.MemberRows()
	it := snap.Iter(lo, hi, false)
	for it.Next() {
		all = append(append(all, it.Key()...), it.Value()...)
	}
	return all, it.Close()
}

package executor

import (
	"errors"
	"fmt"
	"slices"

	"redoubt/engine"
	"redoubt/wire"
)

// Rows that the calls of a batch read beyond the meta rows of their keys: the fields of large
// hashes and the like. Which rows these are depends on the meta rows. So the calls are
// rehearsed: each is run on the rows fetched so far, up to the first missing row, and
// rolled back. Then all missing rows are fetched at once.

// maxRehearsals is how often calls are rehearsed: a fetched row may lead to further rows.
const maxRehearsals = 3

// maxRehearsed is how many rows are fetched after a rehearsal.
const maxRehearsed = 512

// rehearsable returns the calls that can be rehearsed. A call of several keys cannot: it may
// do more than read rows and note writes.
func rehearsable(calls []*Call) (list []*Call) {
	for _, c := range calls {
		if _, one := c.Cmd.OneKeyAt(); one && c.Cmd.Run != nil && c.Cmd.Flags&ungroupable == 0 && c.Watching == nil {
			list = append(list, c)
		}
	}
	return list
}

// rehearse fetches the wanted rows, and then the rows that the calls in list turn out to
// read.
func (b *Batch) rehearse(list []*Call) {
	v := &rehearsal{View: b.tx.Rows.View, known: map[string]bool{}}
	v.fetch(&b.wanted)
	grouped := b.grouped
	b.tx.Rows.View, b.read, b.grouped = v, true, true
	defer func() { b.tx.Rows.View, b.grouped = v.View, grouped }()
	for range maxRehearsals {
		list = slices.DeleteFunc(list, func(c *Call) bool { return !b.rehearseCall(c, v) })
		if v.wanted.Len() < 2 {
			return // a single row is fetched by the call that reads it
		}
		v.fetch(&v.wanted)
	}
}

// rehearseCall runs a call and rolls it back. It reports whether the call missed a row that the
// next fetch brings.
func (b *Batch) rehearseCall(c *Call, v *rehearsal) bool {
	reply := c.Reply
	c.Reply, v.missed = &wire.Writer{Proto: reply.Proto}, false
	mark, checks := b.prepare(c, c.writes()), b.rows.CheckMark()
	if err := b.exec(c); err != nil && !errors.Is(err, engine.ErrCold) {
		v.missed = false
	}
	b.rows.DropChecks(checks)
	b.tx.Rollback(mark)
	c.Reply = reply
	return v.missed
}

// rehearsal is a view that reads only fetched rows, and plans the fetch of all others.
type rehearsal struct {
	engine.View
	known  map[string]bool // by row: true if fetched, false if wanted
	wanted engine.Wanted   // rows to be fetched
	missed bool            // the call under way needs a wanted row
}

func (v *rehearsal) fetch(rows *engine.Wanted) {
	rows.Each(func(row []byte) { v.known[string(row)] = true })
	rows.Fetch(v.View)
}

// has reports whether a row was fetched. If not, has adds it to the wanted rows, unless they
// are many.
func (v *rehearsal) has(row []byte) bool {
	fetched, noted := v.known[string(row)]
	switch {
	case fetched:
		return true
	case !noted && v.wanted.Len() == maxRehearsed:
		return false
	case !noted:
		v.known[string(row)] = false
		v.wanted.Add(row)
	}
	v.missed = true
	return false
}

var errMissing = fmt.Errorf("a row was not fetched yet: %w", engine.ErrCold)

func (v *rehearsal) Get(row, dst []byte) ([]byte, bool, error) {
	if !v.has(row) {
		return dst, false, errMissing
	}
	return v.View.Get(row, dst)
}

func (v *rehearsal) GetMany(rows [][]byte, visit func(int, []byte, bool) error) error {
	if v.Prefetch(rows) > 0 {
		return errMissing
	}
	return v.View.GetMany(rows, visit)
}

func (v *rehearsal) Prefetch(rows [][]byte) (cold int) {
	for _, row := range rows {
		if !v.has(row) {
			cold++
		}
	}
	return cold
}

// Edge, Count and Iter would ask the store.
func (v *rehearsal) Edge(_, _ []byte, _ bool, b []byte) ([]byte, int, bool, error) {
	return b, 0, false, errMissing
}
func (v *rehearsal) Count(_, _ []byte) (int, bool) { return 0, false }
func (v *rehearsal) Nth(_, _ []byte, _ int, b []byte) ([]byte, bool, bool) {
	return b, false, false
}
func (v *rehearsal) Iter([]byte, []byte, bool) engine.Iterator { return noRows{} }

type noRows struct{}

func (noRows) Next() bool    { return false }
func (noRows) Key() []byte   { return nil }
func (noRows) Value() []byte { return nil }
func (noRows) Close() error  { return errMissing }

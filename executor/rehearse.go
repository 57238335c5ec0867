package executor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"redoubt/engine"
	"redoubt/wire"
)

// Rows that the calls of a batch read, beyond those of their keys: the fields of large
// hashes and their like. Which these are is known when the rows of the keys are. So the
// calls are rehearsed: each is run on what was fetched so far, up to the first row that
// was not, and rolled back. Then these rows are fetched, all at once.

// maxRehearsals is how often that is done: what a row leads to is read in the next one.
const maxRehearsals = 3

// maxRehearsed is how many rows are fetched after a rehearsal.
const maxRehearsed = 512

// rehearse fetches the rows that the calls will read, as far as they can be known. The
// rows of their keys are in soon.
func (b *Batch) rehearse(calls []*Call) {
	var list []*Call
	for _, c := range calls {
		// Those of several keys may do more than to read and to note what to write.
		if _, one := c.Cmd.OneKeyAt(); one && c.Cmd.Run != nil && c.Cmd.Flags&apart == 0 && c.Watching == nil {
			list = append(list, c)
		}
	}
	if len(list) < 2 {
		b.fetchSoon()
		return
	}
	v := &rehearsal{View: b.tx.Rows.View, known: map[string]bool{}}
	v.fetch(slices.CompactFunc(b.soon, bytes.Equal))
	b.forget()
	together := b.shared.together
	b.tx.Rows.View, b.shared.read, b.shared.together = v, true, true
	defer func() { b.tx.Rows.View, b.shared.together = v.View, together }()
	for range maxRehearsals {
		list = slices.DeleteFunc(list, func(c *Call) bool { return !b.misses(c, v) })
		if len(v.rows) < 2 {
			return // whoever reads it fetches it
		}
		v.fetch(v.rows)
		v.rows = nil
	}
}

// misses runs a call and rolls it back. It says true if a row was missing that will be
// there the next time.
func (b *Batch) misses(c *Call, v *rehearsal) bool {
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

// rehearsal is a view that reads nothing but what was fetched, and notes what was not.
type rehearsal struct {
	engine.View
	known  map[string]bool // rows: fetched, or to be
	rows   [][]byte        // to be fetched
	missed bool            // one of them
}

func (v *rehearsal) fetch(rows [][]byte) {
	v.View.Prefetch(rows)
	for _, row := range rows {
		v.known[string(row)] = true
	}
}

// has says whether a row was fetched. If not, it will be.
func (v *rehearsal) has(row []byte) bool {
	fetched, noted := v.known[string(row)]
	switch {
	case fetched:
		return true
	case !noted && len(v.rows) == maxRehearsed:
		return false
	case !noted:
		v.known[string(row)] = false
		v.rows = append(v.rows, bytes.Clone(row))
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

// Iter would ask the store.
func (v *rehearsal) Iter([]byte, []byte, bool) engine.Iterator { return noRows{} }

type noRows struct{}

func (noRows) Next() bool    { return false }
func (noRows) Key() []byte   { return nil }
func (noRows) Value() []byte { return nil }
func (noRows) Close() error  { return errMissing }

package pebble

import (
	"bytes"
	"fmt"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine"
)

// reader reads rows from the store or from a snapshot of it.
type reader struct {
	e *Engine
	r lsm.Reader
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	if err := r.e.usable(); err != nil {
		return dst, false, err
	}
	if isReserved(key) {
		return dst, false, nil
	}
	value, closer, err := r.r.Get(key)
	if err == lsm.ErrNotFound {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, readError(err)
	}
	dst = append(dst, value...)
	return dst, true, readError(closer.Close())
}

func (r *reader) GetMany(keys [][]byte, visit func(i int, value []byte, found bool) error) error {
	if err := r.e.usable(); err != nil {
		return err
	}
	for i, key := range keys {
		if err := r.visit(i, key, visit); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) visit(i int, key []byte, visit func(int, []byte, bool) error) error {
	if isReserved(key) {
		return visit(i, nil, false)
	}
	value, closer, err := r.r.Get(key)
	if err == lsm.ErrNotFound {
		return visit(i, nil, false)
	}
	if err != nil {
		return readError(err)
	}
	if err := visit(i, value, true); err != nil {
		_ = closer.Close()
		return err
	}
	return readError(closer.Close())
}

func (r *reader) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := r.e.usable(); err != nil {
		return &iterator{err: err}
	}
	if hi == nil || bytes.Compare(hi, reserved) > 0 {
		hi = reserved
	}
	if bytes.Compare(lo, hi) >= 0 {
		return &iterator{}
	}
	if len(lo) == 0 {
		lo = nil // Pebble's spelling of no bound
	}
	it, err := r.r.NewIter(&lsm.IterOptions{LowerBound: lo, UpperBound: hi})
	return &iterator{it: it, err: err, reverse: reverse}
}

// iterator is lazy: Pebble's is bound to its state when made, but not placed.
type iterator struct {
	it               *lsm.Iterator // nil at once if there is nothing to walk
	err              error
	value            []byte
	reverse, started bool
	done             bool
}

func (i *iterator) Next() bool {
	if i.done || i.it == nil || i.err != nil {
		return false
	}
	var ok bool
	switch {
	case !i.started && i.reverse:
		ok = i.it.Last()
	case !i.started:
		ok = i.it.First()
	case i.reverse:
		ok = i.it.Prev()
	default:
		ok = i.it.Next()
	}
	i.started = true
	if ok {
		i.value, i.err = i.it.ValueAndErr()
	}
	i.done = !ok || i.err != nil
	return !i.done
}

func (i *iterator) Key() []byte {
	if i.done || !i.started {
		return nil
	}
	return i.it.Key()
}

func (i *iterator) Value() []byte {
	if i.done || !i.started {
		return nil
	}
	return i.value
}

func (i *iterator) Close() error {
	if i.it != nil {
		if err := i.it.Close(); i.err == nil {
			i.err = err
		}
		i.it, i.done = nil, true
	}
	return readError(i.err)
}

// readError names the error of a read.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case lsm.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", engine.ErrCorrupt, err)
	}
	return fmt.Errorf("reading the store: %w", err)
}

// view reads the latest state and commits to it. It keeps nothing, so that all
// executions share one.
type view struct{ reader }

func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) { return v.e.commit(b) }
func (v *view) Close()                                        {}

// Prefetch does nothing: a look-up here is mostly computing, not waiting.
func (v *view) Prefetch([][]byte) {}

type snapshot struct {
	reader
	s *lsm.Snapshot
}

func (s *snapshot) Close() error { return readError(s.s.Close()) }

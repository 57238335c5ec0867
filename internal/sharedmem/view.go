package sharedmem

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
)

// snapshot is the state of the store at a stamp.
type snapshot struct {
	e    *Engine
	rows engine.Snapshot
	at   engine.Stamp
}

// ask counts a request at the snapshot's stamp, or returns why there can be none.
func (s *snapshot) ask() error {
	if err := s.e.trip(); err != nil {
		return err
	}
	if s.at < s.e.store.Forgotten() {
		return fmt.Errorf("moment %d was forgotten", s.at)
	}
	return nil
}

func (s *snapshot) close() {
	s.rows.Close()
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.reading[s.at]--; s.e.reading[s.at] == 0 {
		delete(s.e.reading, s.at)
	}
}

// read appends the value of a row to dst. The caller has called ask.
func (s *snapshot) read(key, dst []byte) (value []byte, version engine.Stamp, err error) {
	n := len(dst)
	stored, found, err := s.rows.Get(key, dst)
	if err != nil || !found {
		return dst, 0, err
	}
	value, version = split(stored[n:])
	return stored[:n+len(value)], version, nil
}

func (s *snapshot) many(keys [][]byte, visit func(int, []byte, bool) error) error {
	return s.rows.GetMany(keys, func(i int, stored []byte, found bool) error {
		if found {
			stored, _ = split(stored)
		}
		return visit(i, stored, found)
	})
}

// frozen is an engine.Snapshot.
type frozen struct {
	engine.Uncounted
	s *snapshot
}

func (f *frozen) Get(key, dst []byte) ([]byte, bool, error) {
	if err := f.s.ask(); err != nil {
		return dst, false, err
	}
	value, version, err := f.s.read(key, dst)
	return value, version != 0, err
}

func (f *frozen) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	if err := f.s.ask(); err != nil {
		return err
	}
	return f.s.many(keys, visit)
}

func (f *frozen) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := f.s.ask(); err != nil {
		return failed{err}
	}
	return iterator{f.s.rows.Iter(lo, hi, reverse)}
}

func (f *frozen) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(f, lo, hi, reverse, b)
}

func (f *frozen) Close() error {
	f.s.close()
	f.s.e.mu.Lock()
	defer f.s.e.mu.Unlock()
	f.s.e.open--
	return nil
}

// view implements engine.SharedView.
type view struct {
	engine.Uncounted
	e       *Engine
	o       engine.ViewOptions
	closed  bool
	one     []byte    // the row that a PointRead view has read
	s       *snapshot // nil until the first read
	near    map[string]bool
	settled bool // a commit was tried
}

var _ engine.SharedView = (*view)(nil)

var errPointRead = errors.New("a view with PointRead reads one row and commits nothing")

// fix makes the view's snapshot, and so its stamp, at the first read.
func (v *view) fix() (err error) {
	switch {
	case v.closed:
		return errors.New("the view is closed")
	case v.s == nil:
		if !v.o.Background {
			v.e.claims.Add(1)
		}
		v.s, err = v.e.snapshot()
	}
	return err
}

// ask counts a request for rows, or for an iterator if there are no keys. Prefetched rows
// cost nothing.
func (v *view) ask(keys ...[]byte) error {
	if v.o.NoWait {
		return fmt.Errorf("the rows are not on this machine: %w", engine.ErrCold)
	}
	if v.o.PointRead {
		if len(keys) != 1 || v.one != nil && !bytes.Equal(v.one, keys[0]) {
			return errPointRead
		}
		v.one = append([]byte{}, keys[0]...)
	}
	if v.s == nil {
		return v.fix()
	}
	far := len(keys) == 0
	for _, key := range keys {
		far = far || !v.near[string(key)]
	}
	if !far {
		return nil
	}
	return v.s.ask()
}

func (v *view) Get(key, dst []byte) ([]byte, bool, error) {
	if err := v.ask(key); err != nil {
		return dst, false, err
	}
	value, version, err := v.s.read(key, dst)
	return value, version != 0, err
}

func (v *view) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	if len(keys) == 0 {
		return nil
	}
	if err := v.ask(keys...); err != nil {
		return err
	}
	return v.s.many(keys, visit)
}

func (v *view) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := v.ask(); err != nil {
		return failed{err}
	}
	return iterator{v.s.rows.Iter(lo, hi, reverse)}
}

func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

// Prefetch makes later reads of the rows free, by one request. On a PointRead view it does
// nothing.
func (v *view) Prefetch(keys [][]byte) (cold int) {
	switch {
	case v.o.NoWait:
		return len(keys)
	case v.o.PointRead || len(keys) == 0 || v.ask(keys...) != nil:
		return 0 // a later read returns the error
	}
	if v.near == nil {
		v.near = make(map[string]bool)
	}
	for _, key := range keys {
		v.near[string(key)] = true
	}
	return 0
}

func (v *view) Stamp() (engine.Stamp, error) {
	if v.o.PointRead {
		return 0, nil
	}
	if err := v.fix(); err != nil {
		return 0, err
	}
	return v.s.at, nil
}

func (v *view) Version(key []byte) (uint64, error) {
	if err := v.ask(key); err != nil {
		return 0, err
	}
	_, version, err := v.s.read(key, nil)
	return uint64(version), err
}

// Validate implements engine.SharedView: a view shows one moment.
func (v *view) Validate() error { return nil }

func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	switch {
	case v.o.PointRead:
		return 0, errPointRead
	case v.settled:
		return 0, errors.New("a second commit on one view")
	}
	v.settled = true
	fault := v.e.next(b)
	if fault.Wait != nil {
		<-fault.Wait
	}
	if fault.Delay > 0 {
		time.Sleep(fault.Delay)
	}
	if fault.Err != nil && !fault.Applied {
		return 0, fmt.Errorf("injected: %w", fault.Err)
	}
	if err := v.fix(); err != nil {
		return 0, err
	}
	if err := v.e.trip(); err != nil {
		return 0, err
	}
	before := v.o.CommitBefore
	if b.Len() == 0 { // checks only: nothing takes effect
		before = nil
	}
	ticket, err := v.e.store.commit(b, v.s.at, before, v.s.rows)
	if err != nil {
		return 0, err
	}
	v.e.commits.Add(1)
	if fault.Err != nil {
		return 0, fmt.Errorf("injected, and written: %w", fault.Err)
	}
	return ticket, nil
}

func (v *view) Close() {
	if v.closed {
		return
	}
	v.closed = true
	if v.s != nil {
		v.s.close()
	}
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.open--
}

// iterator hides the versions of rows.
type iterator struct{ engine.Iterator }

func (it iterator) Value() []byte {
	value, _ := split(it.Iterator.Value())
	return value
}

// failed is an iterator that met an error before its first row.
type failed struct{ err error }

func (failed) Next() bool     { return false }
func (failed) Key() []byte    { return nil }
func (failed) Value() []byte  { return nil }
func (f failed) Close() error { return f.err }

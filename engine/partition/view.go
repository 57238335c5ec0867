package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"redoubt/engine"
	"redoubt/engine/semaphore"
)

// view implements engine.SharedView. It has no moment of its own: it notes which version
// of each partition it has read, and Commit or Validate find out whether all of that holds
// together.
type view struct {
	engine.Uncounted
	e        *Engine
	o        engine.ViewOptions
	own      bool // may use the engine's own rows
	settled  bool // a commit was tried
	closed   bool
	placed   bool
	deadline time.Time
	ctx      context.Context
	cancel   context.CancelFunc

	one    []byte // the row that a PointRead view has read
	seen   map[int]*seen
	cached map[string]entry // rows by key, as they were read
}

// entry is a row as a view has read it.
type entry struct {
	value   []byte
	version int64 // 0: there is no such row
}

// seen is what a view has read in one partition.
type seen struct {
	version int64
	lock    []byte // of a transaction that was not committed when it was looked at
	rows    map[string]int64
	read    footprint // the same rows, and ranges
	found   bool      // one of the rows exists
	unread  bool      // read has rows that were not read
	gaps    gaps
	runs    []run
	ran     int // rows in runs
}

var _ engine.SharedView = (*view)(nil)

var (
	errPointRead = errors.New("a view with PointRead reads one row and commits nothing")
	errClosed    = errors.New("the view is closed")
)

// enter starts the view's context and takes a place among the views under way.
func (v *view) enter() error {
	switch {
	case v.closed:
		return errClosed
	case v.e.ctx.Err() != nil:
		return engine.ErrClosed
	case v.ctx == nil:
		v.ctx, v.cancel = context.WithDeadline(v.e.ctx, v.deadline)
	}
	if v.placed || v.own {
		return nil
	}
	waited, err := v.places().Enter(v.ctx)
	if waited {
		v.e.figures.waits.Add(1)
	}
	if err != nil {
		return fmt.Errorf("as many transactions are under way as may be: %w", engine.ErrOverloaded)
	}
	v.placed = true
	return nil
}

func (v *view) places() *semaphore.Semaphore {
	if v.o.Background {
		return &v.e.behind
	}
	return &v.e.limit
}

// ready prepares a read of the given rows, or of a range if there are none.
func (v *view) ready(rows ...[]byte) error {
	switch {
	case v.o.NoWait:
		return fmt.Errorf("the rows are not on this machine: %w", engine.ErrCold)
	case v.closed:
		return errClosed
	case v.o.PointRead:
		if len(rows) != 1 || v.one != nil && !bytes.Equal(v.one, rows[0]) {
			return errPointRead
		}
		v.one = append([]byte{}, rows[0]...)
	}
	return v.enter()
}

// get returns a row as the view shows it.
func (v *view) get(key []byte) (entry, error) {
	if err := v.ready(key); err != nil {
		return entry{}, err
	}
	if e, ok := v.cached[string(key)]; ok {
		return e, nil
	}
	if err := v.fetch([][]byte{key}); err != nil {
		return entry{}, err
	}
	return v.cached[string(key)], nil
}

// nowhere reports whether no row can have a key.
func (v *view) nowhere(key []byte) bool { return len(key) == 0 || !v.own && isReserved(key) }

// fetch reads rows into the cache: one statement for each partition, all at once.
func (v *view) fetch(keys [][]byte) error {
	if v.cached == nil {
		v.cached = make(map[string]entry)
	}
	parts := make(map[int][][]byte)
	for _, key := range keys {
		if _, ok := v.cached[string(key)]; ok {
			continue
		}
		v.cached[string(key)] = entry{}
		if !v.nowhere(key) {
			p := v.e.layout.part(key)
			parts[p] = append(parts[p], key)
		}
	}
	var mu sync.Mutex // of the maps of v
	err := eachAtOnce(parts, func(part int, keys [][]byte) error {
		for some := range slices.Chunk(keys, maxKeys) {
			rows, err := v.readRows(&mu, part, some)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, r := range rows {
				value, version, err := split(r.Key, r.Value)
				if err != nil {
					mu.Unlock()
					return err
				}
				v.cached[string(r.Key)] = entry{value, version}
			}
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		for _, key := range keys { // a failed read shows nothing
			delete(v.cached, string(key))
		}
	}
	return err
}

// maxKeys is how many rows one statement reads by their keys.
const maxKeys = 256

// eachAtOnce calls f with each entry of a map, up to 32 at once, and returns its first error.
func eachAtOnce[T any](m map[int]T, f func(part int, t T) error) error {
	if len(m) == 1 {
		for part, t := range m {
			return f(part, t)
		}
	}
	places, errs := make(chan struct{}, 32), make(chan error, len(m))
	for part, t := range m {
		places <- struct{}{}
		go func() {
			errs <- f(part, t)
			<-places
		}()
	}
	var first error
	for range m {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// readRows reads rows of a partition, and has the view see the partition in the state in
// which they are. mu protects the view's maps.
func (v *view) readRows(mu *sync.Mutex, part int, keys [][]byte) ([]Row, error) {
	q := &Query{Part: part, Keys: keys}
	a, s, err := v.look(mu, q)
	if err != nil || s == nil {
		return a.Rows, err
	}
	for _, key := range keys {
		s.rows[string(key)] = 0
		s.read.add(key)
	}
	for _, r := range a.Rows {
		_, version, err := split(r.Key, r.Value)
		if err != nil {
			return nil, err
		}
		s.rows[string(r.Key)], s.found = version, true
	}
	return a.Rows, nil
}

// look reads in a partition and returns what the view has seen there, nil for a PointRead
// view. If the partition has moved since, its rows are read again first.
func (v *view) look(mu *sync.Mutex, q *Query) (Answer, *seen, error) {
	mu.Lock()
	s := v.seen[q.Part]
	mu.Unlock()
	switch {
	case v.o.PointRead:
		q.Level = Single
	case s != nil:
		q.Level = Fresh
	}
	for moves := 0; moves < maxMoves; moves++ {
		a, err := v.e.readWithState(v.ctx, q)
		if err != nil {
			return a, nil, v.e.note(err)
		}
		again, err := v.e.pass(v.ctx, q.Part, &a)
		switch {
		case err != nil:
			return a, nil, v.e.note(err)
		case again:
			q.Level = Serial
			moves--
			continue
		case v.o.PointRead:
			return a, nil, nil
		case s == nil:
			gaps, err := decodeGaps(a.Note)
			if err != nil {
				return a, nil, err
			}
			s = &seen{version: a.Version, lock: a.Lock, rows: make(map[string]int64), gaps: gaps}
			mu.Lock()
			if v.seen == nil {
				v.seen = make(map[int]*seen)
			}
			v.seen[q.Part] = s
			mu.Unlock()
			return a, s, nil
		case s.version == a.Version:
			return a, s, nil
		}
		if err := v.renew(q.Part, s); err != nil {
			return a, nil, err
		}
	}
	return Answer{}, nil, v.e.conflict(q.Part)
}

const (
	// maxMoves is how often a partition may move under a read.
	maxMoves = 8
	// maxRenewed is how many rows a view reads again when their partition has moved.
	maxRenewed = 1024
)

// renew has the view see the present state of a partition, if the rows that it has read
// there are unchanged.
func (v *view) renew(part int, s *seen) error {
	if s.unread || len(s.rows) > maxRenewed || len(s.read.spans) > 0 && !s.found {
		return v.e.conflict(part)
	}
	keys := make([][]byte, 0, len(s.rows))
	for key := range s.rows {
		keys = append(keys, []byte(key))
	}
	if len(keys) == 0 {
		keys = append(keys, nil)
	}
	version := int64(-1)
	var lock, note []byte
	for some := range slices.Chunk(keys, maxKeys) {
		a, err := v.e.store.Read(v.ctx, &Query{Part: part, Keys: some, Level: Serial})
		if err != nil {
			return v.e.note(err)
		}
		if again, err := v.e.pass(v.ctx, part, &a); err != nil || again {
			return errors.Join(err, v.again(part, s, again))
		}
		if version >= 0 && version != a.Version {
			return v.e.conflict(part)
		}
		version, lock, note = a.Version, a.Lock, a.Note
		found := make(map[string]int64, len(a.Rows))
		for _, r := range a.Rows {
			if _, found[string(r.Key)], err = split(r.Key, r.Value); err != nil {
				return err
			}
		}
		for _, key := range some {
			if s.rows[string(key)] != found[string(key)] {
				return v.e.conflict(part)
			}
		}
	}
	gaps, err := decodeGaps(note)
	s.version, s.lock, s.gaps, s.runs = version, lock, gaps, nil // ranges were not read again
	return err
}

// again renews once more after a lock was resolved.
func (v *view) again(part int, s *seen, resolved bool) error {
	if !resolved {
		return nil
	}
	if err := v.ctx.Err(); err != nil {
		return v.e.conflict(part)
	}
	return v.renew(part, s)
}

func (e *Engine) conflict(part int) error {
	e.figures.conflicts.Add(1)
	return fmt.Errorf("partition %d was changed: %w", part, engine.ErrConflict)
}

// note counts an error of the store.
func (e *Engine) note(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrUnknownOutcome):
		e.figures.unknown.Add(1)
	case engine.Transient(err):
		e.figures.unavailable.Add(1)
	}
	return err
}

// Get implements engine.Reader.
func (v *view) Get(key, dst []byte) ([]byte, bool, error) {
	e, err := v.get(key)
	return append(dst, e.value...), e.version != 0, err
}

// Version implements engine.SharedView.
func (v *view) Version(key []byte) (uint64, error) {
	e, err := v.get(key)
	return uint64(e.version), err
}

// GetMany implements engine.Reader.
func (v *view) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	if len(keys) == 0 {
		return nil
	}
	if err := v.ready(keys...); err != nil {
		return err
	}
	if err := v.fetch(keys); err != nil {
		return err
	}
	for i, key := range keys {
		e := v.cached[string(key)]
		if err := visit(i, e.value, e.version != 0); err != nil {
			return err
		}
	}
	return nil
}

// Prefetch implements engine.View.
func (v *view) Prefetch(keys [][]byte) (cold int) {
	switch {
	case v.o.NoWait:
		return len(keys)
	case v.o.PointRead || len(keys) == 0 || v.ready(keys...) != nil:
		return 0 // the read returns the error
	}
	if err := v.fetch(keys); err != nil {
		v.e.log.Debug("rows were not fetched ahead", "err", err)
	}
	return 0
}

// Stamp implements engine.SharedView: the present moment of this process.
func (v *view) Stamp() (engine.Stamp, error) {
	switch {
	case v.o.PointRead:
		return 0, nil
	case v.closed:
		return 0, errClosed
	}
	return v.e.present(), nil
}

// Validate implements engine.SharedView. Rows that have not changed since they were read were
// all in that state at one moment: after the last was read first, and before the first is
// looked at again.
func (v *view) Validate() error {
	if len(v.seen) < 2 {
		return nil
	}
	if err := v.enter(); err != nil {
		return err
	}
	return eachAtOnce(v.seen, func(part int, s *seen) error {
		a, err := v.e.store.Read(v.ctx, &Query{Part: part, Keys: [][]byte{nil}, Level: Serial})
		if err != nil {
			return v.e.note(err)
		}
		again, err := v.e.pass(v.ctx, part, &a)
		switch {
		case err != nil:
			return v.e.note(err)
		case again || a.Version != s.version:
			return v.renew(part, s)
		}
		return nil
	})
}

// Close implements engine.View.
func (v *view) Close() {
	if v.closed {
		return
	}
	v.closed = true
	if v.cancel != nil {
		v.cancel()
	}
	if v.placed {
		v.places().Leave()
	}
}

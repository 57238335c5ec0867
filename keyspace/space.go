package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"redoubt/engine"
)

// Space is what all transactions on one store share: which keyspace number
// each database has, the source of ids, and the earliest expiry per group of
// slots. It is loaded once and kept true by commits.
type Space struct {
	dbs    []atomic.Uint32
	nextKS atomic.Uint32

	lastID    atomic.Uint64
	watermark atomic.Uint64

	// due holds, per group of slots, a time not after the first expire row.
	// The sweeper reads a group only when its time has come.
	due   [Slots / expireGroup]atomic.Int64
	swept [Slots / expireGroup]swept // on a shared store: see sweep.go

	// Waiting is how many clients wait for elements of some key.
	Waiting atomic.Int64
	// Observers is how many want to know which keys were changed: see
	// Effects.Touched.
	Observers atomic.Int64

	// Scripts is how many scripts run that may take long, and Wanted how many
	// executions wait for the whole keyspace: see executor/whole.go.
	Scripts, Wanted atomic.Int64
	// OnLibraries, if set, is told of libraries that were changed, after the commit
	// and while the whole keyspace is latched.
	OnLibraries func([]LibraryChange)

	eng     engine.Engine
	shared  engine.Shared // eng, if other processes use the store too
	catalog catalog
	cursors cursorCache
}

// idHeadroom is how far ahead of the ids in use the stored watermark is: ten
// seconds of ids, so that it is rewritten rarely. After a restart ids go on
// above it, even when the clock went back.
const idHeadroom = 10_000_000 << idCounterBits

// idCounterBits: an id is microseconds << 11 | counter.
const idCounterBits = 11

// Open loads the shared state of a store, and makes it in an empty one.
func Open(eng engine.Engine, databases int) (*Space, error) {
	s := &Space{dbs: make([]atomic.Uint32, databases), eng: eng}
	if eng.Capabilities().Shared {
		s.shared = eng.(engine.Shared)
	}
	err := s.load()
	for s.shared != nil && s.busy(err) {
		err = s.load()
	}
	if err != nil {
		return nil, fmt.Errorf("open keyspace: %w", err)
	}
	return s, nil
}

func (s *Space) load() error {
	view, err := s.eng.Begin(true)
	if err != nil {
		return err
	}
	defer view.Close()
	if err := Whole(view); err != nil {
		return err
	}
	read := func(key []byte, size int) ([]byte, error) {
		v, found, err := view.Get(key, nil)
		if err == nil && found && len(v) != size {
			err = fmt.Errorf("%w: system row % x has %d bytes", engine.ErrCorrupt, key, len(v))
		}
		if err != nil {
			return nil, err
		}
		if !found {
			return make([]byte, size), nil
		}
		return v, nil
	}
	v, err := read(sysKey(sysNextKS), 4)
	if err != nil {
		return err
	}
	s.nextKS.Store(binary.BigEndian.Uint32(v))
	if v, err = read(sysKey(sysFormat), 4); err != nil {
		return err
	}
	var batch engine.Batch
	switch version := binary.BigEndian.Uint32(v); {
	case version == 0 && s.nextKS.Load() == 0:
		batch.Put(sysKey(sysFormat), binary.BigEndian.AppendUint32(nil, FormatVersion))
	case version != FormatVersion:
		return fmt.Errorf("%w: its rows have version %d and this program knows version %d", engine.ErrFormat, version, FormatVersion)
	}
	mark, err := loadWatermark(view)
	if err != nil {
		return err
	}
	s.watermark.Store(mark)
	s.lastID.Store(mark)

	for db := range s.dbs {
		if v, err = read(sysKey16(sysDatabase, db), 4); err != nil {
			return err
		}
		ks := binary.BigEndian.Uint32(v)
		if ks == 0 { // no number yet: 0 is never given out
			ks = s.nextKS.Add(1)
			batch.Put(sysKey(sysNextKS), binary.BigEndian.AppendUint32(nil, ks))
			batch.Put(sysKey16(sysDatabase, db), binary.BigEndian.AppendUint32(nil, ks))
		}
		s.dbs[db].Store(ks)
	}
	if s.shared != nil {
		if err := s.join(view, &batch); err != nil {
			return err
		}
	}
	if s.eng.Capabilities().CheapRangeDelete {
		if err := clearAside(view, &batch); err != nil {
			return err
		}
	}
	if !batch.Empty() {
		if _, err := view.Commit(&batch); err != nil {
			return fmt.Errorf("prepare the store: %w", err)
		}
	}
	if s.shared != nil {
		return s.Look()
	}
	return nil
}

// allocate gives out a keyspace number and notes that in the batch. Callers
// hold the whole keyspace, so two batches never race for a number; those of other
// processes conflict.
func (t *Tx) allocate() (ks uint32) {
	row := sysKey(sysNextKS)
	if t.Space.shared != nil {
		v, found := t.GetRow(row)
		if t.err == nil && (!found || len(v) != 4) {
			t.Fail(fmt.Errorf("%w: system row % x has %d bytes", engine.ErrCorrupt, row, len(v)))
		}
		if t.err != nil {
			return 0
		}
		ks = binary.BigEndian.Uint32(v) + 1
	} else {
		ks = t.Space.nextKS.Add(1)
	}
	t.Rows.Batch.Put(row, binary.BigEndian.AppendUint32(nil, ks))
	return ks
}

// Numbers returns the keyspace numbers of the databases as they are now.
func (s *Space) Numbers() []uint32 {
	list := make([]uint32, len(s.dbs))
	for db := range s.dbs {
		list[db] = s.dbs[db].Load()
	}
	return list
}

// Databases is how many databases there are.
func (s *Space) Databases() int { return len(s.dbs) }

// loadWatermark reads the largest watermark that was stored.
func loadWatermark(r engine.Reader) (mark uint64, err error) {
	lo := sysKey(sysWatermark)
	it := r.Iter(lo, successor(lo), true)
	if it.Next() {
		if k := it.Key(); len(k) == len(lo)+8 {
			mark = binary.BigEndian.Uint64(k[len(lo):])
		} else {
			err = fmt.Errorf("%w: system row % x", engine.ErrCorrupt, k)
		}
	}
	return mark, errors.Join(err, it.Close())
}

// newID returns an id that was never returned before. nowMicros is the time
// of the execution.
//
// Every id in use must lie below a stored watermark. One is stored when half of
// the headroom is used up, in the batch that uses the id, and is known here
// once that batch is committed. Each is a row of its own, and the largest row
// counts: batches that store one side by side may commit in any order.
//
// On a shared store the store gives out ids: its time in milliseconds << 18, so below
// all that an embedded store gives out in this century and the next three, whose
// rows may have been copied there.
func (s *Space) newID(nowMicros int64, b *engine.Batch, e *Effects) (id uint64, err error) {
	if s.shared != nil {
		if id, err = s.shared.NextID(); err != nil {
			return 0, fmt.Errorf("number a value: %w", err)
		}
		return id, nil
	}
	for {
		last := s.lastID.Load()
		id = max(last+1, uint64(nowMicros)<<idCounterBits)
		if s.lastID.CompareAndSwap(last, id) {
			break
		}
	}
	s.cover(id, b, e)
	return id, nil
}

// cover stores a watermark above an id in use if there is none.
func (s *Space) cover(id uint64, b *engine.Batch, e *Effects) {
	known := s.watermark.Load()
	if id+idHeadroom/2 >= max(known, e.watermark) {
		e.watermark = id + idHeadroom
		b.DeleteRange(sysKey(sysWatermark), appendSysKey64(nil, sysWatermark, known+1))
		b.Put(appendSysKey64(nil, sysWatermark, e.watermark), nil)
	}
}

// AppendRowKey appends the key of the meta row of a key in a database.
func (s *Space) AppendRowKey(b []byte, db int, key []byte) []byte {
	return appendMetaKey(b, SlotOf(key), s.dbs[db].Load(), key)
}

// Publish makes the effects of a committed batch known to later transactions.
func (s *Space) Publish(e *Effects) {
	if s.shared == nil { // else see Await
		for _, m := range e.moves {
			s.dbs[m.db].Store(m.ks)
		}
		if len(e.libraries) > 0 && s.OnLibraries != nil {
			s.OnLibraries(e.libraries)
		}
	}
	for _, d := range e.dues {
		s.noteDue(d.slot, d.at)
	}
	for e.watermark > 0 {
		old := s.watermark.Load()
		if old >= e.watermark || s.watermark.CompareAndSwap(old, e.watermark) {
			break
		}
	}
}

// noteDue lowers a group's due time to at. It is called after the commit that
// stored the expire row: a sweeper that raised the time before that would miss
// the row, one that does so after it has seen it.
func (s *Space) noteDue(slot uint16, at int64) {
	due := &s.due[slot/expireGroup]
	for {
		old := due.Load()
		if old <= at || due.CompareAndSwap(old, at) {
			return
		}
	}
}

// NextDue returns a time not after the first expiry of any key.
func (s *Space) NextDue() int64 {
	next := int64(math.MaxInt64)
	for i := range s.due {
		next = min(next, s.due[i].Load())
	}
	return next
}

// Count returns how many keys a database has, and how many of them have an
// expiry, without what open batches will change.
func (s *Space) Count(db int) (keys, volatile int64, err error) {
	ks := s.dbs[db].Load()
	if keys, err = s.eng.Counter(appendSysKey32(nil, sysKeys, ks)); err != nil {
		return 0, 0, fmt.Errorf("count keys: %w", err)
	}
	if volatile, err = s.eng.Counter(appendSysKey32(nil, sysVolatile, ks)); err != nil {
		return 0, 0, fmt.Errorf("count keys: %w", err)
	}
	return s.shown(keys), s.shown(volatile), nil
}

// shown is a counter as it is told. On a shared store it is the sum of what processes
// have said at different times: who has deleted a key may have said so before who has
// made it.
func (s *Space) shown(n int64) int64 {
	if s.shared != nil {
		return max(0, n)
	}
	return n
}

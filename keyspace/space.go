package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"redoubt/engine"
)

// Space is what all transactions on one store share: the keyspace number of each
// database, the source of ids, and the earliest expiry per group of slots. It is
// loaded once and updated by commits.
type Space struct {
	dbs    []atomic.Uint32
	nextKS atomic.Uint32

	lastID    atomic.Uint64
	watermark atomic.Uint64

	// due has, per group of slots, a time not after that of the first expire row.
	// The sweep reads a group only when that time has come.
	due [Groups]atomic.Int64

	// Waiting is how many clients wait for some key.
	Waiting atomic.Int64
	// Observers is how many clients or processes want to know which keys were changed:
	// see Effects.Touched.
	Observers atomic.Int64

	// Scripts is how many scripts run that may take long, and Wanted how many
	// executions wait for the whole keyspace: see executor/latch.
	Scripts, Wanted atomic.Int64
	// OnLibraries, if set, is called with libraries that were changed, after the commit
	// and while the whole keyspace is latched.
	OnLibraries func([]LibraryChange)
	// OnRole, if set, is called with a role that was changed, in the same way.
	OnRole func(Role)
	role   atomic.Pointer[Role]

	loading loading

	eng     engine.Engine
	store   store
	catalog *Catalog // nil on a store of this process alone
	cursors cursorCache
}

// idHeadroom is how far the stored watermark is ahead of the ids in use: ten seconds
// of ids, so that the watermark is rewritten rarely. After a restart ids go on above
// the watermark, even if the clock went back.
const idHeadroom = 10_000_000 << idCounterBits

// idCounterBits: an id is microseconds << 11 | counter.
const idCounterBits = 11

// Open loads the Space of a store, and initializes an empty store.
func Open(eng engine.Engine, databases int) (*Space, error) {
	s := &Space{dbs: make([]atomic.Uint32, databases), eng: eng}
	s.store = newStore(s)
	err := s.load()
	for s.store.openAgain(err) {
		err = s.load()
	}
	if err != nil {
		return nil, fmt.Errorf("open keyspace: %w", err)
	}
	return s, nil
}

// Unloaded returns the Space of a store that another process writes, so far without any
// database. Load follows when this process may write.
func Unloaded(eng engine.Engine, databases int) *Space {
	s := &Space{dbs: make([]atomic.Uint32, databases), eng: eng}
	s.store = newStore(s)
	return s
}

// Load reads anew what the Space has of its store, which another process has written since, and
// initializes an empty store. No transaction is under way.
func (s *Space) Load() error {
	for i := range s.due {
		s.due[i].Store(0)
	}
	if err := s.load(); err != nil {
		return fmt.Errorf("load keyspace: %w", err)
	}
	return nil
}

func (s *Space) load() error {
	view, err := s.eng.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer view.Close()
	if err := CopyFinished(view); err != nil {
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
			batch.Put(sysKey(sysNextKS), appendNumber(nil, ks))
			batch.Put(sysKey16(sysDatabase, db), appendNumber(nil, ks))
		}
		s.dbs[db].Store(ks)
	}
	role, err := readRole(view)
	if err != nil {
		return err
	}
	s.useRole(role)
	if err := s.store.join(view, &batch); err != nil {
		return err
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
	return s.store.joined()
}

// Catalog returns the catalog of a store that several processes share, else nil.
func (s *Space) Catalog() *Catalog { return s.catalog }

// Numbers returns the keyspace numbers of the databases as they are now.
func (s *Space) Numbers() []uint32 {
	list := make([]uint32, len(s.dbs))
	for db := range s.dbs {
		list[db] = s.dbs[db].Load()
	}
	return list
}

// Databases returns the number of databases.
func (s *Space) Databases() int { return len(s.dbs) }

// loadWatermark returns the largest stored watermark.
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

// nextID returns an id that was never returned before, on a store of this process alone.
//
// Every id in use must lie below a stored watermark. A new watermark is stored when
// half of the headroom is used up, in the batch that uses the id, and is in
// s.watermark once that batch is committed. Each watermark is a row of its own, and
// the largest counts: concurrent batches that store one may commit in any order.
func (s *Space) nextID(nowMicros int64, b *engine.Batch, e *Effects) (id uint64) {
	for {
		last := s.lastID.Load()
		id = max(last+1, uint64(nowMicros)<<idCounterBits)
		if s.lastID.CompareAndSwap(last, id) {
			break
		}
	}
	s.cover(id, b, e)
	return id
}

// cover adds a watermark above an id in use to the batch, if less than half of the headroom
// is left.
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
	s.store.published(e)
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

// noteDue lowers a group's due time to at. It is called after the commit that stored
// the expire row: a sweep that raised the time before may have missed the row, and a
// sweep that raises it later reads the row.
func (s *Space) noteDue(slot uint16, at int64) {
	due := &s.due[slot/expireGroup]
	for {
		old := due.Load()
		if old <= at || due.CompareAndSwap(old, at) {
			return
		}
	}
}

// NextDue returns a time not after the earliest expiry of any key.
func (s *Space) NextDue() int64 {
	next := int64(math.MaxInt64)
	for i := range s.due {
		next = min(next, s.due[i].Load())
	}
	return next
}

// Count returns how many keys a database has, and how many of them have an
// expiry, without the changes of open batches.
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

// shown returns a counter as clients see it. A counter that is not exact may be negative: the
// process that deleted a key may have stored that before the process that made it.
func (s *Space) shown(n int64) int64 {
	if !s.store.exact() {
		return max(0, n)
	}
	return n
}

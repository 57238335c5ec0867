// Package resident is the resident set: the rows that the local store has in
// memory, newest state, off the Go heap.
//
// Rows are grouped into parts by the first two bytes of their key; Redoubt's row
// keys begin with a slot. A part has a lock, a hash table and, once a walk needs
// its order or when it has many, a B+tree over its rows (order.go), lists of
// the rows that are not in the store yet (dirty), and knows of which of its
// units all rows are resident (unit.go).
//
// Invariants:
//  1. A row that is not resident is in the store as it stands, or does not
//     exist. So a dirty row is never evicted, and a deleted row stays as a dead
//     one until its deletion is in the store.
//  2. A unit that is complete has every row resident: a miss means "no such
//     row". Whatever removes a row that the store has makes its unit incomplete.
//  3. part.removals counts rows that left the set. A row that was read from the store
//     may be loaded only if none left the part since before the read: else it
//     might have come, changed, reached the store and left meanwhile.
//  4. A commit changes rows with all its parts locked, so a reader with the lock of a
//     part sees all or nothing of a commit in it. Commits hold the gate shared; a cut
//     through all parts holds it exclusively.
//
// The set knows nothing of files: engine/local reads the store and writes back.
package resident

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

const parts = 1 << 16

// Set is a resident set.
type Set struct {
	arena *arena.Arena
	unit  func(key []byte) int
	parts [parts]atomic.Pointer[part]
	// vacant has a bit for each part that has no rows, here or in the store, and no struct.
	vacant    [parts / 64]atomic.Uint64
	gate      sync.RWMutex
	snapshots snapshots

	rows, dead    atomic.Int64
	dirtyBytes    atomic.Int64
	dirtyRows     atomic.Int64
	bytes         atomic.Int64 // rows as allocated, and rowIndex for each
	evicted       atomic.Int64
	pendingRanges atomic.Int64
	loadStamp     atomic.Uint64 // seq that a row read from the store gets
	clearing      clearing
	appliers      sync.Pool
	hand          hand
	filter        keyFilter
	pinning       pinning
	storeless     bool // see NewStoreless
	sampled       sampled
}

// part is the rows whose keys share their first two bytes.
type part struct {
	mu      sync.RWMutex
	no      int
	tab     table
	tree    tree
	ordered bool        // the tree has the rows
	walked  atomic.Bool // since the last call of disorder

	othersComplete bool // units without an entry are complete
	units          units
	removals       uint64
	// pinnedRemovals counts the removals of pinned rows.
	pinnedRemovals uint64
	arrivals       uint64 // counts rows that were put and may not have existed
	gaps           []gap  // see gap.go
	gapped         atomic.Bool

	lists [2][]arena.Ref // dirty rows; 0 where one has left
	cur   uint8          // the list that takes new ones

	gone   map[string]*deletion // pending deletions of whole units
	ranges []*deletion          // other pending range deletes

	undo  map[string][]version
	cold  int          // how many versions of undo only the store has
	walks atomic.Int32 // walks under way, for which no row may be evicted

	sampled [2]atomic.Int64 // how many rows there are of each kind that can be sampled
}

// New makes an empty set. unit returns the length of the prefix of a key that names its unit;
// the key may be shorter than that. empty says that the store has no rows, so all units are
// complete.
func New(unit func(key []byte) int, empty bool) *Set {
	s := &Set{arena: arena.New(), unit: unit}
	s.appliers.New = func() any { return new(applier) }
	s.clearing.wake = make(chan struct{}, 1)
	s.snapshots.publish()
	if empty {
		for i := range s.vacant {
			s.vacant[i].Store(math.MaxUint64)
		}
	}
	return s
}

// NewStoreless makes an empty set that has no store behind it: all that there is, is resident.
// Its rows are never dirty, and a deleted row goes at once, unless a snapshot needs it. A
// reader may take Unknown for Absent.
func NewStoreless(unit func(key []byte) int) *Set {
	s := New(unit, true)
	s.storeless = true
	return s
}

// Close gives the memory back. The set must not be used afterwards.
func (s *Set) Close() { s.arena.Close() }

// Part returns the number of the part that a key belongs to.
func Part(key []byte) int {
	switch len(key) {
	case 0:
		return 0
	case 1:
		return int(key[0]) << 8
	}
	return int(key[0])<<8 | int(key[1])
}

func (s *Set) isVacant(no int) bool { return s.vacant[no/64].Load()&(1<<(no%64)) != 0 }

// part returns a part, and makes it if it is not there.
func (s *Set) part(no int) *part {
	if p := s.parts[no].Load(); p != nil {
		return p
	}
	p := &part{no: no, othersComplete: s.isVacant(no)}
	p.tree.set, p.tab.set = s, s
	if s.parts[no].CompareAndSwap(nil, p) {
		return p
	}
	return s.parts[no].Load()
}

// State is what the set knows of a row.
type State uint8

// The states that Get returns.
const (
	Absent  State = iota // there is no such row
	Found                // there is such a row
	Unknown              // the store must be read
)

// now is the id of a reader that sees the latest state.
const now = math.MaxUint64

// Get appends the row's value to dst. If the state is Unknown, the token is for Load.
func (s *Set) Get(key []byte, hash uint64, dst []byte) (value []byte, state State, token uint64) {
	p := s.parts[Part(key)].Load()
	if p == nil {
		if s.isVacant(Part(key)) {
			return dst, Absent, 0
		}
		p = s.part(Part(key)) // its removals must be counted from here on
	}
	p.mu.RLock()
	ref := s.find(p, hash, key)
	if ref != 0 {
		r := s.row(ref)
		if r.is(dead) || p.pending() && s.deleted(p, key, r.seq(), now) {
			state = Absent
		} else {
			dst, state = append(dst, r.value()...), Found
		}
		s.used(r)
	} else if state = s.missing(p, key, hash); state == Unknown {
		token = p.removals
	}
	p.mu.RUnlock()
	return dst, state, token
}

// Known reports whether Get would return another state than Unknown.
func (s *Set) Known(key []byte, hash uint64) bool {
	p := s.parts[Part(key)].Load()
	if p == nil {
		return s.isVacant(Part(key))
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return s.find(p, hash, key) != 0 || s.missing(p, key, hash) == Absent
}

// missing returns the present state of a row that is not resident.
func (s *Set) missing(p *part, key []byte, hash uint64) State {
	state := s.absent(p, key, now)
	if state == Unknown && s.filter.excludes(hash) {
		state = Absent
	}
	return state
}

// absent returns the state of a row that is not resident and, if id is not now, has not changed
// since the snapshot.
func (s *Set) absent(p *part, key []byte, id uint64) State {
	switch {
	case p.pending() && s.storeDeleted(p, key, id):
		return Absent
	case p.pending() && id != now && s.anyDeletion(p, key, func(d *deletion) bool { return d.tag >= id }):
		return Unknown // deleted since the snapshot: that the unit is complete now says nothing
	case p.othersComplete && p.units.none() || p.complete(s.prefix(key)):
		return Absent
	}
	return Unknown
}

// At is Get for a snapshot.
func (s *Set) At(id uint64, key []byte, hash uint64, dst []byte) ([]byte, State) {
	p := s.parts[Part(key)].Load()
	if p == nil {
		if s.isVacant(Part(key)) {
			return dst, Absent
		}
		return dst, Unknown
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	var r row
	if ref := s.find(p, hash, key); ref != 0 {
		r = s.row(ref)
	}
	value, state := s.resolve(p, r, key, id)
	if state == Found {
		dst = append(dst, value...)
	}
	return dst, state
}

// resolve finds what a row was at the time of a snapshot. r is nil if the row is
// not resident.
func (s *Set) resolve(p *part, r row, key []byte, id uint64) ([]byte, State) {
	if len(p.undo) > 0 && id != now {
		if v := p.versionAt(key, id); v != nil {
			return v.value, v.state
		}
	}
	return s.present(p, r, key, id)
}

// present is resolve for a row that has not changed since the snapshot.
func (s *Set) present(p *part, r row, key []byte, id uint64) ([]byte, State) {
	switch {
	case r == nil, id != now && r.is(dead) && r.is(loaded):
		// Of a row that the store did not have when it was read, a snapshot from
		// before that learns nothing: a range delete may have removed it since.
		return nil, s.absent(p, key, id)
	case r.is(dead) || p.pending() && s.deleted(p, key, r.seq(), id):
		return nil, Absent
	}
	return r.value(), Found
}

// Load makes a row resident as it was read from the store, after Get returned Unknown and the
// token. It does nothing if the set has a newer state of the row by now.
func (s *Set) Load(key []byte, hash uint64, value []byte, found bool, token uint64) error {
	p := s.part(Part(key))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removals != token || s.find(p, hash, key) != 0 || s.missing(p, key, hash) == Absent {
		return nil
	}
	return s.load(p, key, hash, value, found)
}

func (s *Set) load(p *part, key []byte, hash uint64, value []byte, found bool) error {
	flags := uint32(stored | loaded)
	if !found {
		flags |= dead
		value = nil
	}
	// Its number must be above those of the deletions that are known here, which
	// do not cover it, and below those of all that come, which do. Commits that
	// have their number but are not applied yet are among the latter.
	seq := s.loadStamp.Load()
	if p.pending() {
		s.anyDeletion(p, key, func(d *deletion) bool { seq = max(seq, d.seq); return false })
	}
	_, err := s.create(p, key, hash, value, seq, flags)
	return err
}

// SetLoadStamp gives the number of the last commit that was replayed.
func (s *Set) SetLoadStamp(seq uint64) { s.loadStamp.Store(seq) }

// create adds a row that is not resident.
func (s *Set) create(p *part, key []byte, hash uint64, value []byte, seq uint64, flags uint32) (arena.Ref, error) {
	if len(key) > math.MaxUint32 || len(value) > math.MaxUint32 {
		return 0, fmt.Errorf("%w: a row of %d bytes", engine.ErrFull, len(key)+len(value))
	}
	n := rowHead + len(key) + len(value)
	ref, err := s.arena.Alloc(n)
	if err != nil {
		return 0, fmt.Errorf("room for a row: %w", err)
	}
	flags |= s.pinFlag(key)
	if u := s.sampled.usage.Load(); u != nil {
		flags |= u.New() << markShift
	}
	row(s.arena.Bytes(ref, n)).fill(key, value, seq, flags)
	if err := p.tab.insert(hash, ref); err != nil {
		s.arena.Free(ref, n)
		return 0, fmt.Errorf("room for a row: %w", err)
	}
	if flags&pinned != 0 {
		s.pinning.bytes.Add(pinnedSize(n))
	}
	size := int64(arena.Round(n)) + tableRow
	if p.ordered {
		p.tree.insert(key, ref)
		size += treeRow
	} else if p.tab.rows >= alwaysOrdered {
		s.order(p)
	}
	s.rows.Add(1)
	s.bytes.Add(size)
	s.tally(p, key, 1)
	if flags&dead != 0 {
		s.dead.Add(1)
	}
	return ref, nil
}

// drop removes a row from the set, whatever it is.
func (s *Set) drop(p *part, ref arena.Ref, r row, hash uint64) {
	p.removals++
	if r.is(pinned) {
		p.pinnedRemovals++
	}
	s.remove(p, ref, r, hash)
}

// remove is drop for a row that the store has never had; it does not count as a removal
// (invariant 3).
func (s *Set) remove(p *part, ref arena.Ref, r row, hash uint64) {
	if r.is(dirty) {
		s.undirty(p, r)
	}
	if r.is(dead) {
		s.dead.Add(-1)
	}
	if r.is(pinned) {
		s.pinning.bytes.Add(-pinnedSize(r.size()))
	}
	s.rows.Add(-1)
	s.tally(p, r.key(), -1)
	size := int64(arena.Round(r.size())) + tableRow
	p.tab.remove(hash, ref)
	if p.ordered {
		p.tree.remove(r.key(), ref)
		size += treeRow
	}
	s.bytes.Add(-size)
	s.arena.Free(ref, r.size())
}

func (s *Set) hashOf(ref arena.Ref) uint64 { return engine.Hash(s.row(ref).key()) }

// Enter is called by a commit before it takes its number.
func (s *Set) Enter() { s.gate.RLock() }

// Leave is called by a commit after Apply.
func (s *Set) Leave() { s.gate.RUnlock() }

// Cut calls f while no commit is between Enter and Leave.
func (s *Set) Cut(f func()) {
	s.gate.Lock()
	defer s.gate.Unlock()
	f()
}

// applier is the working memory of a commit.
type applier struct {
	nos     []uint16
	refs    []arena.Ref
	touched byte // as in Range
}

// Apply makes a commit visible, all of it at one moment. An error means that there was no
// memory for a row, and that the rows before it are applied.
func (s *Set) Apply(b *engine.Batch, seq uint64) (err error) {
	a := s.appliers.Get().(*applier)
	a.nos = a.nos[:0]
	for op := range b.Ops() {
		a.nos = append(a.nos, uint16(Part(op.Key)))
	}
	for lo, hi := range b.Ranges() {
		a.nos = s.partsIn(a.nos, lo, hi)
	}
	if len(a.nos) > 1 {
		slices.Sort(a.nos)
		a.nos = slices.Compact(a.nos)
	}
	for _, no := range a.nos {
		s.part(int(no)).mu.Lock()
	}
	s.prefetchBatch(b, a)
	newest := s.snapshots.newest.Load()
	for lo, hi := range b.Ranges() {
		s.deleteRange(a.nos, lo, hi, seq, newest)
	}
	for op := range b.Ops() {
		p := s.parts[Part(op.Key)].Load()
		if op.Delete {
			err = s.delete(p, op.Key, op.Hash, seq, newest)
		} else {
			err = s.put(p, op.Key, op.Hash, op.Value, seq, newest)
		}
		if err != nil {
			break
		}
	}
	for _, no := range a.nos {
		s.parts[no].Load().mu.Unlock()
	}
	s.appliers.Put(a)
	return err
}

// prefetchBatch brings the rows of a commit into the processor's cache, as Prefetch does:
// the misses for different rows overlap.
func (s *Set) prefetchBatch(b *engine.Batch, a *applier) {
	a.refs = a.refs[:0]
	for op := range b.Ops() {
		if ref := s.parts[Part(op.Key)].Load().tab.likely(op.Hash); ref != 0 {
			a.refs = append(a.refs, ref)
		}
	}
	for _, ref := range a.refs {
		a.touched += s.arena.Touch(ref)
	}
}

// partsIn appends the parts that rows of a range may be in.
func (s *Set) partsIn(nos []uint16, lo, hi []byte) []uint16 {
	for no := Part(lo); no < parts && (no <= Part(hi)); no++ {
		if s.parts[no].Load() != nil || !s.isVacant(no) {
			nos = append(nos, uint16(no))
		}
	}
	return nos
}

func (s *Set) put(p *part, key []byte, hash uint64, value []byte, seq, newest uint64) error {
	ref := s.find(p, hash, key)
	if ref == 0 {
		state := s.missing(p, key, hash)
		if newest != 0 {
			s.save(p, nil, key)
		}
		flags := uint32(0)
		if state == Unknown {
			flags = stored
		}
		p.noteInsert(key)
		ref, err := s.create(p, key, hash, value, seq, flags)
		if err == nil {
			s.mark(p, ref, s.row(ref))
		}
		return err
	}
	r := s.row(ref)
	if newest != 0 {
		s.save(p, r, key)
	}
	if r.is(dead) || p.pending() {
		p.noteInsert(key)
	}
	ref, r, err := s.resize(p, ref, r, hash, rowHead+len(key)+len(value))
	if err != nil {
		return err
	}
	r.setValue(value)
	if r.is(dead) {
		r.unset(dead)
		s.dead.Add(-1)
		if p.ordered {
			p.tree.count(key, ref, 1)
		}
	}
	r.setSeq(seq)
	r.touch()
	s.mark(p, ref, r)
	return nil
}

func (s *Set) delete(p *part, key []byte, hash uint64, seq, newest uint64) error {
	if len(p.gaps) > 0 {
		p.noteDelete(key)
	}
	ref := s.find(p, hash, key)
	if ref == 0 {
		state := s.missing(p, key, hash)
		if state == Absent {
			return nil
		}
		if newest != 0 {
			s.save(p, nil, key)
		}
		ref, err := s.create(p, key, hash, nil, seq, stored|dead)
		if err == nil {
			s.mark(p, ref, s.row(ref))
		}
		return err
	}
	r := s.row(ref)
	if newest != 0 {
		s.save(p, r, key)
	}
	if r.is(dead) && !r.is(dirty) && !p.pending() {
		return nil // known not to exist
	}
	if newest == 0 && !r.is(stored) && r.is(dirty) && r.list() == int(p.cur) || s.storeless && len(p.undo[string(key)]) == 0 {
		s.remove(p, ref, r, hash) // neither the store nor a snapshot has it
		return nil
	}
	if r.size() > keepDead {
		var err error
		if ref, r, err = s.resize(p, ref, r, hash, rowHead+len(key)); err != nil {
			return err
		}
		r.setValue(nil)
	}
	if !r.is(dead) {
		r.set(dead)
		s.dead.Add(1)
		if p.ordered {
			p.tree.count(key, ref, -1)
		}
	}
	r.setSeq(seq)
	s.mark(p, ref, r)
	return nil
}

// keepDead is the size up to which a deleted row keeps its place and its old value. The row is
// removed when the store has its deletion; to free a few bytes until then is not worth moving
// the row, which is most of the cost of a delete.
const keepDead = 512

// resize makes room for a row of n bytes in the place of r, whose value is then
// undefined. The row may move.
func (s *Set) resize(p *part, ref arena.Ref, r row, hash uint64, n int) (arena.Ref, row, error) {
	old := r.size()
	before, after := arena.Round(old), arena.Round(n)
	if before == after {
		return ref, row(s.arena.Bytes(ref, max(old, n))), nil
	}
	to, err := s.arena.Alloc(n)
	if err != nil {
		return 0, nil, fmt.Errorf("room for a row: %w", err)
	}
	moved := row(s.arena.Bytes(to, n))
	s.move(p, ref, to, r[:rowHead+r.keyLen()], moved, hash)
	s.arena.Free(ref, old)
	s.bytes.Add(int64(after - before))
	if moved.is(pinned) {
		s.pinning.bytes.Add(int64(after - before))
	}
	if moved.is(dirty) {
		s.dirtyBytes.Add(int64(after - before))
	}
	return to, moved, nil
}

// move copies a row, or the first part of it, to another place and changes the table, the tree
// and the list of dirty rows to point there.
func (s *Set) move(p *part, ref, to arena.Ref, r, moved row, hash uint64) {
	copy(moved, r)
	p.tab.replace(hash, ref, to)
	if p.ordered {
		p.tree.replace(moved.key(), ref, to)
	}
	if moved.is(dirty) {
		p.lists[moved.list()][moved.place()] = to
	}
}

// Room is Prefetch's working memory. It may be used again by the next call.
type Room struct {
	refs    []arena.Ref
	touched byte // as in Range
}

// Prefetch brings rows into the processor's cache, and returns for how many of them the store
// would have to be read. The look-up of a row is a chain of a few cache misses; here the misses
// of many rows overlap, since nothing in a pass depends on what the pass found for another row.
// The reads take no locks and may be stale; they have no other use.
func (s *Set) Prefetch(keys [][]byte, room *Room) (cold int) {
	refs := room.refs[:0]
	for _, k := range keys {
		ref := arena.Ref(0)
		if p := s.parts[Part(k)].Load(); p != nil {
			ref = p.tab.likely(engine.Hash(k))
		}
		refs = append(refs, ref)
	}
	sum := byte(0)
	for _, ref := range refs {
		if ref != 0 {
			sum += s.arena.Touch(ref) + s.arena.Touch(ref+4) + s.arena.Touch(ref+8)
		}
	}
	for i, ref := range refs {
		if ref == 0 && !s.Known(keys[i], engine.Hash(keys[i])) {
			cold++
		}
	}
	room.refs, room.touched = refs, room.touched+sum
	return cold
}

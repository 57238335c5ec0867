package resident

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// Snapshots by undo versions. While a snapshot is open, a commit that changes a row first saves
// the old version of the row, once for each snapshot that may read it. Rows that are not changed
// cost nothing, and without a snapshot nothing is saved at all.
//
// A snapshot has an id; later snapshots have greater ids. A version carries the id of the newest
// snapshot that was open when it was saved, and holds for all snapshots up to that id.
//
// A snapshot also reads the store as it was when the snapshot was opened. So rows that were dirty
// then must stay resident until the snapshot is closed, even when the store has them by now: see
// evictable.
//
// The memory of versions is bounded: a snapshot can be revoked while it is read (Revoke). A
// reader of a snapshot calls Lost after each read, and discards what it has read if the snapshot
// was revoked.

// version is an old version of a row.
type version struct {
	tag   uint64
	state State // Unknown: as in the store at the time of the snapshot
	value []byte
}

// snapshots is the registry of open snapshots.
type snapshots struct {
	mu     sync.Mutex
	last   uint64
	open   []Snapshot // by id
	trail  []trace    // in the order of tags
	newest atomic.Uint64
	first  atomic.Uint64 // the oldest open id; 0 if none
	base   atomic.Uint64 // the least base of the open ones
	bytes  atomic.Int64  // about the memory of all versions
}

// trace says where a version is, so that it is found when its snapshot is closed.
type trace struct {
	p    *part
	key  string
	tag  uint64
	size int // of the version, about
}

// versionSize is about the memory of a version besides its value and two copies of its key: the
// entries of a map and of the trail, with the unused capacity of both.
const versionSize = 256

// Snapshot is a registered snapshot. Base is the newest commit up to which everything is in the
// store that the snapshot reads.
type Snapshot struct {
	ID, Base uint64
	lost     *atomic.Bool // nil if the snapshot cannot be revoked
}

// Lost reports that the snapshot was revoked: the last read from it may be wrong.
func (s Snapshot) Lost() bool { return s.lost != nil && s.lost.Load() }

// OpenSnapshot opens a snapshot of all rows. open is called at its moment, to open one
// of the store, and returns its base.
func (s *Set) OpenSnapshot(open func() (base uint64)) Snapshot {
	s.gate.Lock()
	defer s.gate.Unlock()
	return s.snapshots.register(open, new(atomic.Bool))
}

func (f *snapshots) register(open func() uint64, lost *atomic.Bool) Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	snap := Snapshot{ID: f.last, lost: lost}
	// Registered before the snapshot of the store is taken: rows that are dirty now must stay.
	f.open = append(f.open, snap)
	f.publish()
	snap.Base = open()
	f.open[len(f.open)-1] = snap
	f.publish()
	return snap
}

func (f *snapshots) publish() {
	if len(f.open) == 0 {
		f.newest.Store(0)
		f.first.Store(0)
		f.base.Store(math.MaxUint64)
		return
	}
	base := uint64(math.MaxUint64)
	for _, o := range f.open {
		base = min(base, o.Base)
	}
	f.base.Store(base)
	f.newest.Store(f.open[len(f.open)-1].ID)
	f.first.Store(f.open[0].ID)
}

// oldest is the id of the oldest open snapshot, all ones if there is none.
func (f *snapshots) oldest() uint64 {
	if id := f.first.Load(); id != 0 {
		return id
	}
	return math.MaxUint64
}

// UndoBytes is about the memory of the versions that are saved for open snapshots.
func (s *Set) UndoBytes() int64 { return s.snapshots.bytes.Load() }

// Revoke ends the oldest snapshot that can be revoked, and reports whether there was one.
// It must not be called inside of a commit.
func (s *Set) Revoke() bool {
	f := &s.snapshots
	f.mu.Lock()
	i := slices.IndexFunc(f.open, func(o Snapshot) bool { return o.lost != nil })
	if i < 0 {
		f.mu.Unlock()
		return false
	}
	snap := f.open[i]
	f.mu.Unlock()
	snap.lost.Store(true) // before anything that it needs can go
	s.CloseSnapshot(snap)
	return true
}

// CloseSnapshot closes a snapshot and forgets what only it needed.
func (s *Set) CloseSnapshot(snap Snapshot) {
	f := &s.snapshots
	f.mu.Lock()
	i := slices.IndexFunc(f.open, func(o Snapshot) bool { return o.ID == snap.ID })
	if i < 0 { // it was revoked
		f.mu.Unlock()
		return
	}
	f.open = slices.Delete(f.open, i, i+1)
	f.publish()
	oldest := min(f.oldest(), f.last+1) // another snapshot may be opened meanwhile
	n := 0
	for n < len(f.trail) && f.trail[n].tag < oldest {
		n++
	}
	done, bytes := slices.Clone(f.trail[:n]), 0
	for _, t := range done {
		bytes += t.size
	}
	f.bytes.Add(-int64(bytes))
	if f.trail = slices.Delete(f.trail, 0, n); len(f.trail) == 0 {
		f.trail = nil
	}
	f.mu.Unlock()
	for _, t := range done {
		t.p.mu.Lock()
		vs := t.p.undo[t.key]
		for len(vs) > 0 && vs[0].tag < oldest {
			if vs[0].state == Unknown {
				t.p.cold--
			}
			vs = vs[1:]
		}
		if len(vs) == 0 {
			if delete(t.p.undo, t.key); len(t.p.undo) == 0 {
				t.p.undo = nil // a map never gives its memory back
			}
			if s.storeless {
				s.bury(t.p, []byte(t.key))
			}
		} else {
			t.p.undo[t.key] = vs
		}
		t.p.mu.Unlock()
	}
	s.clearing.nudge()
}

// bury removes a deleted row that was kept for snapshots.
func (s *Set) bury(p *part, key []byte) {
	hash := engine.Hash(key)
	if ref := s.find(p, hash, key); ref != 0 {
		if r := s.row(ref); r.is(dead) {
			s.remove(p, ref, r, hash)
		}
	}
}

// nudge wakes the clearing of deleted rows, which may wait for a snapshot to be closed.
func (c *clearing) nudge() {
	c.mu.Lock()
	waiting := len(c.jobs) > 0
	c.mu.Unlock()
	if waiting {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// save saves the present version of a row for each open snapshot, before a commit changes the
// row. r is nil if the row is not resident.
func (s *Set) save(p *part, r row, key []byte) {
	f := &s.snapshots
	f.mu.Lock()
	defer f.mu.Unlock()
	vs := p.undo[string(key)]
	known := len(vs)
	for _, o := range f.open {
		if known > 0 && vs[known-1].tag >= o.ID {
			continue
		}
		value, state := s.present(p, r, key, o.ID)
		if n := len(vs); n > known && vs[n-1].state == state {
			vs[n-1].tag = o.ID // the same version for both
			continue
		}
		v := version{tag: o.ID, state: state}
		if state == Found {
			v.value = append([]byte{}, value...)
		}
		vs = append(vs, v)
	}
	if len(vs) == known {
		return
	}
	if p.undo == nil {
		p.undo = make(map[string][]version)
	}
	p.undo[string(key)] = vs
	for _, v := range vs[known:] {
		if v.state == Unknown {
			p.cold++
		}
		size := versionSize + 2*len(key) + len(v.value)
		f.bytes.Add(int64(size))
		f.trail = append(f.trail, trace{p, string(key), v.tag, size})
	}
}

// versionAt returns the version of a row that was saved for a snapshot; nil if the row has not
// changed since.
func (p *part) versionAt(key []byte, id uint64) *version {
	vs := p.undo[string(key)]
	for i := range vs {
		if vs[i].tag >= id {
			return &vs[i]
		}
	}
	return nil
}

// storedForAll reports that every open snapshot finds the changes of commit seq in the store
// that it reads.
func (s *Set) storedForAll(seq uint64) bool { return seq <= s.snapshots.base.Load() }

// evictable reports whether a clean row may be evicted.
func (s *Set) evictable(r row) bool { return r.is(loaded) || s.storedForAll(r.seq()) }

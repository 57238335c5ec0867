// Package mem is the engine that keeps its rows in memory and nowhere else: the
// reference for the other engines, and the store of a server that is a cache.
//
// Rows are found through a hash table, sharded by the hash of the key. Their
// order is kept in small B-trees, one for all keys that share their first two
// bytes; Redoubt's row keys begin with a 2-byte slot, so these trees are many
// and small, and only a new or deleted row touches them.
//
// Atomicity: a commit locks all shards it touches, in ascending order, before
// it changes any row; a reader locks the one shard of its row. So a reader that
// sees one row of a commit sees all of them from then on.
//
// Snapshots: every row carries the number of the commit that wrote it. While a
// snapshot is open that may need the old value, a write pushes it on a chain of
// versions instead of overwriting it. Rows with a chain, and deleted rows that
// had to stay, are noted in a trail and cleaned up when the last snapshot that
// needs them closes. Without a snapshot values are overwritten in place, and a
// steady load allocates nothing.
//
// Rejected: one ordered tree for everything (a look-up then costs a dozen cache
// misses instead of two or three); locking out writers while a snapshot is open.
package mem

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"redoubt/engine"
)

const shards = 256

// Engine is a store in memory. It implements engine.Engine.
type Engine struct {
	engine.Uncounted
	// gate: commits hold it shared, opening a snapshot takes it exclusively, so that
	// a snapshot falls between commits.
	gate  sync.RWMutex
	seq   atomic.Uint64 // the newest commit
	bytes atomic.Int64
	rows  atomic.Int64

	shards [shards]shard
	parts  [1 << 16]atomic.Pointer[part]

	counterMu sync.Mutex
	counters  map[string]int64

	snapMu sync.Mutex
	snaps  map[uint64]int // open snapshots by their commit number
	newest atomic.Uint64  // the newest open snapshot's number + 1; 0 if none
	trail  []trace        // roughly in the order of commits
	closed atomic.Bool
	views  sync.Pool
}

type shard struct {
	mu   sync.RWMutex
	rows table
	_    [64]byte // padding against false sharing
}

// part orders the rows whose keys share their first two bytes.
type part struct {
	mu   sync.RWMutex
	tree *btree.BTreeG[*row]
}

// New returns an empty store.
func New() *Engine {
	return &Engine{
		counters: make(map[string]int64), snaps: make(map[uint64]int),
		views: sync.Pool{New: func() any { return new(view) }},
	}
}

func (e *Engine) shardOf(hash uint64) *shard { return &e.shards[hash>>56] }

func partOf(key []byte) int {
	switch len(key) {
	case 0:
		return 0
	case 1:
		return int(key[0]) << 8
	}
	return int(key[0])<<8 | int(key[1])
}

// Begin opens a view, which reads the latest state and never has to wait.
func (e *Engine) Begin(engine.ViewOptions) (engine.View, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	v := e.views.Get().(*view)
	v.Engine = e
	return v, nil
}

// view is the engine with scratch memory for Prefetch.
type view struct {
	*Engine
	hashes  []uint64
	found   []*row
	touched byte // a sum of what Prefetch read, so that the compiler keeps the reads
}

func (v *view) Close() {
	clear(v.found)
	v.found = v.found[:0]
	v.views.Put(v)
}

// Memory is about how many bytes the rows occupy.
func (e *Engine) Memory() int64 { return e.bytes.Load() }

// Get implements engine.Reader.
func (e *Engine) Get(key, dst []byte) ([]byte, bool, error) { return e.get(key, dst, latest) }

func (e *Engine) get(key, dst []byte, seq uint64) ([]byte, bool, error) {
	h := engine.Hash(key)
	s := e.shardOf(h)
	s.mu.RLock()
	r := s.rows.find(h, key)
	if r != nil {
		if v := r.at(seq); v != nil && !v.dead() {
			dst = append(dst, v.val...)
			s.mu.RUnlock()
			return dst, true, nil
		}
	}
	s.mu.RUnlock()
	return dst, false, nil
}

// GetMany implements engine.Reader.
func (e *Engine) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	return e.getMany(keys, visit, latest)
}

func (e *Engine) getMany(keys [][]byte, visit func(int, []byte, bool) error, seq uint64) error {
	var buf []byte
	for i, k := range keys {
		v, found, err := e.get(k, buf[:0], seq)
		if err != nil {
			return err
		}
		if err := visit(i, v, found); err != nil {
			return err
		}
		buf = v
	}
	return nil
}

// Edge implements engine.Reader.
func (e *Engine) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(e, lo, hi, reverse, b)
}

// Prefetch brings rows into the processor's cache. The look-up of a row is a
// chain of a few cache misses; here the misses of many rows overlap, since
// nothing in a pass depends on what the pass found for another row. All locks are
// taken before the passes: an atomic operation in between would make the processor
// wait for pending loads.
func (v *view) Prefetch(keys [][]byte) (cold int) {
	v.hashes = v.hashes[:0]
	var locked [shards]bool
	for _, k := range keys {
		h := engine.Hash(k)
		v.hashes = append(v.hashes, h)
		locked[h>>56] = true
	}
	for i := range locked {
		if locked[i] {
			v.shards[i].mu.RLock()
		}
	}
	clear(v.found)
	v.found = v.found[:0]
	for _, h := range v.hashes {
		if r := v.shardOf(h).rows.likely(h); r != nil {
			v.found = append(v.found, r)
		}
	}

	sum := byte(0)
	for _, r := range v.found {
		if len(r.key) > 0 {
			sum += r.key[len(r.key)-1]
		}
		if len(r.val) > 0 {
			sum += r.val[0]
		}
	}
	v.touched += sum
	for i := range locked {
		if locked[i] {
			v.shards[i].mu.RUnlock()
		}
	}
	return 0
}

// Commit implements engine.View.
func (e *Engine) Commit(b *engine.Batch) (engine.Ticket, error) {
	if e.closed.Load() {
		return 0, engine.ErrClosed
	}
	e.gate.RLock()
	defer e.gate.RUnlock()
	locked := e.lock(b)
	seq := e.seq.Add(1)
	for lo, hi := range b.Ranges() {
		e.deleteRange(lo, hi, seq)
	}
	for op := range b.Ops() {
		h := op.Hash
		if op.Delete {
			e.delete(e.shardOf(h).rows.find(h, op.Key), seq)
		} else {
			e.put(h, op.Key, op.Value, seq)
		}
	}
	e.add(b)
	for i := range locked {
		if locked[i] {
			e.shards[i].mu.Unlock()
		}
	}
	return engine.Ticket(seq), nil
}

// lock locks the shards of all rows of the batch; all shards if it has a range delete.
func (e *Engine) lock(b *engine.Batch) (locked [shards]bool) {
	for range b.Ranges() {
		for i := range locked {
			locked[i] = true
		}
		break
	}
	for op := range b.Ops() {
		locked[op.Hash>>56] = true
	}
	for i := range locked {
		if locked[i] {
			e.shards[i].mu.Lock()
		}
	}
	return locked
}

func (e *Engine) add(b *engine.Batch) {
	taken := false
	for key, delta := range b.Counters() {
		if !taken {
			taken = true
			e.counterMu.Lock()
		}
		if n := e.counters[string(key)] + delta; n != 0 {
			e.counters[string(key)] = n
		} else {
			delete(e.counters, string(key))
		}
	}
	if taken {
		e.counterMu.Unlock()
	}
}

func (e *Engine) put(h uint64, key, value []byte, seq uint64) {
	s := e.shardOf(h)
	r := s.rows.find(h, key)
	if r == nil {
		r = newRow(key, value, seq)
		s.rows.insert(h, r)
		e.part(key).insert(r)
		e.rows.Add(1)
		e.bytes.Add(r.size())
		return
	}
	before := r.size()
	if r.dead() {
		e.rows.Add(1)
	}
	if e.needed(r, seq) {
		old := r.version
		r.version = version{prev: &old, val: append([]byte{}, value...)}
	} else if !r.dead() && cap(r.val) >= len(value) && cap(r.val) <= 2*len(value)+192 {
		r.val = append(r.val[:0], value...)
	} else {
		r.val = append(make([]byte, 0, len(value)), value...)
	}
	r.seq = seq
	if grown := r.size() - before; grown != 0 {
		e.bytes.Add(grown)
	}
}

// needed reports whether an open snapshot may read the row's present version,
// which commit seq is about to replace. If so it has added the row to the trail.
func (e *Engine) needed(r *row, seq uint64) bool {
	return e.newest.Load() > r.seq && e.follow(r, seq)
}

// trace is a row with a version that commit seq replaced and that only
// snapshots from before it need.
type trace struct {
	row *row
	seq uint64
}

// follow adds the row to the trail, for tidy. It returns false if the last snapshot has
// just been closed, since no Close would then call tidy.
func (e *Engine) follow(r *row, seq uint64) bool {
	e.snapMu.Lock()
	defer e.snapMu.Unlock()
	if e.newest.Load() == 0 {
		return false
	}
	e.trail = append(e.trail, trace{r, seq})
	return true
}

func (e *Engine) delete(r *row, seq uint64) {
	if r == nil || r.dead() {
		return
	}
	e.rows.Add(-1)
	before := r.size()
	switch {
	case e.needed(r, seq):
		old := r.version
		r.version = version{seq: seq, prev: &old}
	case r.prev != nil: // an older version is in use; the trail knows the row
		r.seq, r.val = seq, nil
	default:
		e.unlink(r)
		return
	}
	e.bytes.Add(r.size() - before)
}

func (e *Engine) unlink(r *row) {
	e.bytes.Add(-r.size())
	h := engine.Hash(r.key)
	e.shardOf(h).rows.remove(h, r)
	e.part(r.key).remove(r)
}

func (r *row) size() int64 { return int64(len(r.key)+cap(r.val)) + rowOverhead }

// rowOverhead: the row, its place in the table and in the tree.
const rowOverhead = 128

func (e *Engine) deleteRange(lo, hi []byte, seq uint64) {
	var doomed []*row
	for p := partOf(lo); p <= partOf(hi); p++ {
		if part := e.parts[p].Load(); part != nil {
			doomed = part.collect(doomed[:0], lo, hi, false, 0)
			for _, r := range doomed {
				e.delete(r, seq)
			}
		}
	}
}

func (e *Engine) part(key []byte) *part {
	slot := &e.parts[partOf(key)]
	if p := slot.Load(); p != nil {
		return p
	}
	less := func(a, b *row) bool { return bytes.Compare(a.key, b.key) < 0 }
	slot.CompareAndSwap(nil, &part{tree: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})})
	return slot.Load()
}

func (p *part) insert(r *row) {
	p.mu.Lock()
	p.tree.Set(r)
	p.mu.Unlock()
}

func (p *part) remove(r *row) {
	p.mu.Lock()
	p.tree.Delete(r)
	p.mu.Unlock()
}

// collect appends up to limit rows (0: all) with lo <= key < hi to dst, from
// the start of the range or from its end.
func (p *part) collect(dst []*row, lo, hi []byte, reverse bool, limit int) []*row {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if reverse {
		take := func(r *row) bool {
			if bytes.Compare(r.key, lo) < 0 {
				return false
			}
			if hi == nil || bytes.Compare(r.key, hi) < 0 {
				dst = append(dst, r)
			}
			return limit == 0 || len(dst) < limit
		}
		if hi == nil {
			p.tree.Reverse(take)
		} else {
			p.tree.Descend(&row{key: hi}, take)
		}
		return dst
	}
	p.tree.Ascend(&row{key: lo}, func(r *row) bool {
		if hi != nil && bytes.Compare(r.key, hi) >= 0 {
			return false
		}
		dst = append(dst, r)
		return limit == 0 || len(dst) < limit
	})
	return dst
}

// Counter implements engine.Engine.
func (e *Engine) Counter(key []byte) (int64, error) {
	e.counterMu.Lock()
	defer e.counterMu.Unlock()
	return e.counters[string(key)], nil
}

// Committed and Durable are the same: nothing in memory can become more durable.
func (e *Engine) Committed() engine.Ticket { return engine.Ticket(e.seq.Load()) }
func (e *Engine) Durable() engine.Ticket   { return engine.Ticket(e.seq.Load()) }

// OnDurable never calls its function: a commit counts as durable when Commit returns.
func (e *Engine) OnDurable(func()) {}

// Err is always nil.
func (e *Engine) Err() error { return nil }

// Congested is always false: memory takes commits as fast as they come.
func (e *Engine) Congested() bool { return false }

// Full is always nil: maxmemory limits the data, and the server enforces it.
func (e *Engine) Full() error { return nil }

// Checkpoint is not supported: the store is not on disk.
func (e *Engine) Checkpoint(string) error { return errors.ErrUnsupported }

// Capabilities implements engine.Engine.
func (e *Engine) Capabilities() engine.Capabilities { return engine.Capabilities{} }

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	return engine.Stats{
		MemoryBytes: e.bytes.Load(),
		Commits:     int64(e.seq.Load()),
		Detail:      []engine.Stat{{Name: "mem_rows", Value: e.rows.Load()}},
	}
}

// Close makes the engine refuse further use.
func (e *Engine) Close() error {
	e.closed.Store(true)
	return nil
}

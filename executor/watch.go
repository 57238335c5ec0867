package executor

import (
	"sync"
	"sync/atomic"

	"redoubt/command"
	"redoubt/keyspace"
)

// Keys that clients watch: WATCH.
//
// A watched key is noted while its latch is held, and a batch that changes the key later
// marks its watches dirty when the change is committed, before the latch is
// released. EXEC latches the watched keys too, so it finds every mark that
// matters. Changes that its own batch has not committed yet are committed
// first (see Run), and so are those before WATCH, which must not count.
//
// A key that expires counts as changed, whether it was removed yet or not. A key that
// had expired when WATCH came counts as missing, and its removal is no change.

// Watch is what one client watches. The zero Watch watches nothing. It may be used
// from several goroutines: a client may leave while a worker runs its WATCH.
type Watch struct {
	dirty atomic.Bool
	held  atomic.Int64 // bytes

	mu   sync.Mutex
	x    *Executor
	keys []*watched
	over bool // the client has left
}

type watched struct {
	owner  *Watch
	at     dbKey
	exists bool
	death  int64 // when the key dies, 0 is never
	// version is the version of the key's meta row on a shared store, else 0.
	version uint64
}

// Len returns how many keys are watched.
func (w *Watch) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys)
}

// Memory returns about how many bytes the watched keys take.
func (w *Watch) Memory() int { return int(w.held.Load()) }

// watchedSize is about what a watched key takes besides its name.
const watchedSize = 192

// Dirty reports whether a watched key was changed, as far as is known.
func (w *Watch) Dirty() bool { return w.dirty.Load() }

// Clear ends the watch of all keys.
func (w *Watch) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clear()
}

// End is Clear, after which no key can be watched: the client has left.
func (w *Watch) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.clear()
}

func (w *Watch) clear() {
	if len(w.keys) > 0 {
		w.x.watching.remove(w)
		w.x.space.Observers.Add(-1)
	}
	w.keys = nil
	w.held.Store(0)
	w.dirty.Store(false)
}

// has reports whether the key is watched already: its first version counts.
func (w *Watch) has(p dbKey) bool {
	for _, k := range w.keys {
		if k.at == p {
			return true
		}
	}
	return false
}

// watch adds the keys that WATCH names to the watch of the client.
func (b *Batch) watch(c *Call) {
	w := c.Watch
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*watched
	for _, key := range c.Args[1:] {
		if p := (dbKey{c.DB, string(key)}); !w.has(p) {
			death, exists := b.tx.Death(key)
			list = append(list, &watched{owner: w, at: p, exists: exists, death: death, version: b.store.version(p)})
		}
	}
	if b.tx.Err() != nil || w.over {
		return
	}
	if len(w.keys) == 0 && len(list) > 0 {
		w.x = b.x
		b.x.space.Observers.Add(1)
	}
	w.keys = append(w.keys, list...)
	for _, k := range list {
		w.held.Add(watchedSize + int64(len(k.at.key)))
	}
	b.x.watching.add(list)
}

// watchChanged reports whether a watched key was changed, so that EXEC must abort. The
// latches of the watched keys are held.
func (b *Batch) watchChanged() bool {
	w := b.call.Watch
	if w == nil {
		return false
	}
	if w.dirty.Load() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		if k.death != 0 && k.death <= b.tx.Now {
			return true
		}
		if v := b.store.version(k.at); v != k.version && (k.exists || v != 0) {
			return true
		}
	}
	return false
}

// markSeen marks a watch dirty if a command between WATCH and EXEC has seen a key that was missing
// at WATCH. If another process creates and deletes such a key, its version shows no change;
// a client that has seen the key meanwhile must not commit on that.
func (b *Batch) markSeen(c *Call) {
	w := c.Watching
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		if k.exists || k.at.db != c.DB || w.dirty.Load() {
			continue
		}
		c.Cmd.EachKey(c.Args, func(i int, _ *command.KeySpec) {
			if string(c.Args[i]) != k.at.key {
				return
			}
			if _, exists := b.tx.Death(c.Args[i]); exists {
				w.dirty.Store(true)
			}
		})
	}
}

// stripes appends the stripes of the watched keys to list.
func (w *Watch) stripes(b *Batch, list []uint32) []uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		list = append(list, b.x.latches.Stripe([]byte(k.at.key)))
	}
	return list
}

// watching has the watched keys of all clients.
type watching struct {
	mu sync.Mutex
	at map[dbKey][]*watched
}

func (q *watching) add(list []*watched) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at == nil {
		q.at = make(map[dbKey][]*watched)
	}
	for _, k := range list {
		q.at[k.at] = append(q.at[k.at], k)
	}
}

func (q *watching) remove(w *Watch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range w.keys {
		rest := q.at[k.at][:0]
		for _, other := range q.at[k.at] {
			if other.owner != w {
				rest = append(rest, other)
			}
		}
		clear(q.at[k.at][len(rest):])
		if q.at[k.at] = rest; len(rest) == 0 {
			delete(q.at, k.at)
		}
	}
}

// touched marks the watches of changed keys dirty. The batch has committed, and
// still holds its latches.
func (q *watching) touched(b *Batch, list []keyspace.Touch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.at) == 0 {
		return
	}
	for _, t := range list {
		if t.Key == nil {
			q.replaced(b, t.DB)
			continue
		}
		for _, k := range q.at[dbKey{t.DB, string(t.Key)}] {
			if k.exists || !t.Expired {
				k.owner.dirty.Store(true)
			}
		}
	}
}

// replaced marks the watches of keys of a database whose content was replaced, if the
// key existed at WATCH or exists now. The keyspace latch is held exclusively.
func (q *watching) replaced(b *Batch, db int) {
	for p, list := range q.at {
		if p.db != db {
			continue
		}
		b.tx.Start()
		b.tx.DB = db
		_, now := b.tx.Death([]byte(p.key))
		if err := b.tx.Err(); err != nil {
			b.x.log.Error("cannot tell whether a watched key was changed", "err", err)
			now = true
		}
		for _, k := range list {
			if k.exists || now {
				k.owner.dirty.Store(true)
			}
		}
	}
}

package executor

import (
	"sync"
	"sync/atomic"

	"redoubt/command"
	"redoubt/keyspace"
)

// Keys that clients watch: WATCH.
//
// A watched key is noted while its latch is held, and whoever changes it later
// marks those who watch it when the change is committed, before the latch is
// given back. EXEC latches the watched keys too, so it finds every mark that
// matters. Changes that its own batch has not committed yet are committed
// first (see Run), and so are those before WATCH, which must not count.
//
// A key that expires counts as changed, whether somebody removed it or not. One
// that was dead when WATCH came counts as missing, and its removal as nothing.

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
	at     place
	exists bool
	death  int64 // when the key dies, 0 is never
	// version is that of the key's meta row, where other processes may change it.
	version uint64
}

// Len is how many keys are watched.
func (w *Watch) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys)
}

// Memory is about how many bytes the watched keys take.
func (w *Watch) Memory() int { return int(w.held.Load()) }

// watchedSize is about what a watched key takes besides its name.
const watchedSize = 192

// Dirty says that one of them was changed, as far as that is known.
func (w *Watch) Dirty() bool { return w.dirty.Load() }

// Clear watches nothing any more.
func (w *Watch) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clear()
}

// End is Clear for good.
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

// has says whether the key is watched already: it must not be looked at anew.
func (w *Watch) has(p place) bool {
	for _, k := range w.keys {
		if k.at == p {
			return true
		}
	}
	return false
}

// watch notes the keys that WATCH names.
func (b *Batch) watch(c *Call) {
	w := c.Watch
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*watched
	for _, key := range c.Args[1:] {
		if p := (place{c.DB, string(key)}); !w.has(p) {
			death, exists := b.tx.Death(key)
			k := &watched{owner: w, at: p, exists: exists, death: death}
			if b.x.shared != nil {
				k.version = b.version(p)
			}
			list = append(list, k)
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

// watchChanged says whether EXEC must do nothing. The latches of the watched keys
// are held.
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
		if b.x.shared != nil {
			if v := b.version(k.at); v != k.version && (k.exists || v != 0) {
				return true
			}
		}
	}
	return false
}

// saw is for a command between WATCH and EXEC. A key that was missing, was created and
// is deleted again by another process looks as if nothing had happened; who has seen
// it meanwhile must not go on from that.
func (b *Batch) saw(c *Call) {
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

// stripes appends those of the watched keys.
func (w *Watch) stripes(b *Batch, list []uint32) []uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		list = append(list, b.x.latches.of([]byte(k.at.key)))
	}
	return list
}

// watching are all watched keys.
type watching struct {
	mu sync.Mutex
	at map[place][]*watched
}

func (q *watching) add(list []*watched) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at == nil {
		q.at = make(map[place][]*watched)
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

// touched marks those who watch one of the keys. The batch has committed, and
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
		for _, k := range q.at[place{t.DB, string(t.Key)}] {
			if k.exists || !t.Expired {
				k.owner.dirty.Store(true)
			}
		}
	}
}

// replaced marks those who watch a key of a database whose content was replaced,
// if the key was there or is there now. The whole keyspace is latched.
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

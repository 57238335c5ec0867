package tracking

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"redoubt/budget"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/server/output"
)

// Table has the keys that clients have read, and the trackers of all clients. The keys
// are in parts with a lock each, so that loops seldom contend.
type Table struct {
	Config
	clients atomic.Int64
	max     atomic.Int64
	keys    atomic.Int64
	bytes   atomic.Int64  // memory of the table, charged to the account of clients
	told    atomic.Uint64 // calls of Changed with tracking clients
	seed    maphash.Seed
	parts   [trackParts]trackPart

	mu       sync.RWMutex
	space    *keyspace.Space // nil until Attach
	shared   bool
	all      map[*Tracker]struct{}
	prefixes map[string]map[*Tracker]struct{} // of BCAST
}

// Config connects the table with the server.
type Config struct {
	Account *budget.Account // for the memory of clients
	// Find returns the queue of a client, and whether it has subscriptions; nil if there is
	// no such client.
	Find func(id int64) (q *output.Queue, subscribed bool)
	// Wanted is called when another client begins to track, with locks held.
	Wanted func()
}

// Init initializes the table.
func (t *Table) Init(c Config) {
	t.Config, t.seed = c, maphash.MakeSeed()
	t.all, t.prefixes = make(map[*Tracker]struct{}), make(map[string]map[*Tracker]struct{})
}

// Attach sets the keyspace once the store is open, and whether other processes write to it.
func (t *Table) Attach(space *keyspace.Space, shared bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.space, t.shared = space, shared
	space.Observers.Add(t.clients.Load())
}

// Clients returns the number of tracking clients.
func (t *Table) Clients() int64 { return t.clients.Load() }

// Figures are the figures for INFO.
type Figures struct{ Keys, Items, Prefixes int64 }

// Figures returns the present figures.
func (t *Table) Figures() Figures {
	t.mu.RLock()
	defer t.mu.RUnlock()
	f := Figures{Keys: t.keys.Load(), Prefixes: int64(len(t.prefixes))}
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		f.Items += p.items
		p.mu.Unlock()
	}
	return f
}

const trackParts = 64

type trackPart struct {
	mu    sync.Mutex
	m     map[string]readers
	items int64    // pairs of key and client
	bytes int64    // estimated memory of the part
	_     [24]byte // a cache line of its own for each lock
}

// readers are the clients that have read a key, mostly one.
type readers struct {
	one  *Tracker
	more map[*Tracker]struct{}
}

func (t *Table) part(key []byte) *trackPart {
	return &t.parts[maphash.Bytes(t.seed, key)%trackParts]
}

// remember notes that a client has read a key, or is about to.
func (t *Table) remember(k *Tracker, key []byte) {
	p := t.part(key)
	p.mu.Lock()
	r, found := p.m[string(key)]
	if r.has(k) {
		p.mu.Unlock()
		return
	}
	switch {
	case r.more != nil:
		r.more[k] = struct{}{}
	case r.one != nil:
		r = readers{more: map[*Tracker]struct{}{r.one: {}, k: {}}}
	default:
		r.one = k
	}
	if p.m == nil {
		p.m = make(map[string]readers)
	}
	p.m[string(key)] = r
	p.items++
	size := int64(trackedItem)
	if !found {
		t.keys.Add(1)
		size += trackedKey + int64(len(key))
	}
	p.bytes += size
	p.mu.Unlock()
	if t.charge(size); t.full() {
		t.evict(string(key), evictAtOnce)
	}
}

// trackedKey is about the memory of a key in the table without its name, and trackedItem
// that of each client that has read it.
const (
	trackedKey  = 96
	trackedItem = 64
)

// charge adds n to the memory of the table and to the account.
func (t *Table) charge(n int64) {
	t.bytes.Add(n)
	t.Account.Add(n)
}

// full reports whether the table is over one of its limits.
func (t *Table) full() bool {
	limit := t.Account.Limit()
	return t.keys.Load() > t.max.Load() || limit > 0 && t.bytes.Load() > limit/4
}

func (t *Table) has(k *Tracker, key []byte) bool {
	p := t.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m[string(key)].has(k)
}

func (r readers) has(k *Tracker) bool {
	if r.one == k {
		return true
	}
	_, is := r.more[k]
	return is
}

func (r readers) each(f func(*Tracker)) {
	if r.one != nil {
		f(r.one)
	}
	for k := range r.more {
		f(k)
	}
}

func (r readers) count() int64 {
	if r.one != nil {
		return 1
	}
	return int64(len(r.more))
}

// Limit sets how many keys are remembered; 0 is no limit.
func (t *Table) Limit(n int64) {
	if n == 0 {
		n = 1<<63 - 1
	}
	t.max.Store(n)
	t.evict("", 0)
}

// evictAtOnce is how many keys are removed for a new one at most.
const evictAtOnce = 100

// evict invalidates keys other than but while the table is full, at most most of them
// unless that is 0.
func (t *Table) evict(but string, most int) {
	at := int(maphash.String(t.seed, but))
	for n := 0; t.full() && (most == 0 || n < most); n++ {
		found := false
		for i := range trackParts {
			if key, ok := t.parts[uint(at+i+n)%trackParts].any(but); ok {
				t.invalidate([]byte(key), 0, 0)
				found = true
				break
			}
		}
		if !found {
			return
		}
	}
}

// any returns some key of the part other than but.
func (p *trackPart) any(but string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.m {
		if key != but {
			return key, true
		}
	}
	return "", false
}

// invalidate removes a key and sends an invalidation to its readers, but for the client by,
// which changed it, if that has NOLOOP set.
func (t *Table) invalidate(key []byte, by int64, ticket engine.Ticket) {
	p := t.part(key)
	p.mu.Lock()
	r, found := p.m[string(key)]
	size := trackedKey + int64(len(key)) + trackedItem*r.count()
	if found {
		p.items -= r.count()
		p.bytes -= size
		if delete(p.m, string(key)); len(p.m) == 0 {
			p.m = nil // a map never shrinks
		}
	}
	p.mu.Unlock()
	if !found {
		return
	}
	t.keys.Add(-1)
	t.charge(-size)
	e := output.NewEncoder()
	defer e.Free()
	invalidation(e, []string{string(key)})
	r.each(func(k *Tracker) {
		if !k.is(func() bool { return k.bcast || k.noloop && by == k.id }) {
			k.send(e, ticket)
		}
	})
}

// forget empties the table.
func (t *Table) forget() {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		t.keys.Add(-int64(len(p.m)))
		t.charge(-p.bytes)
		p.m, p.items, p.bytes = nil, 0, 0
		p.mu.Unlock()
	}
}

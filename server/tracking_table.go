package server

import (
	"hash/maphash"
	"sync"

	"redoubt/engine"
)

// The table of keys that clients have read. It is in parts with a lock each, so that
// loops seldom meet.

const trackParts = 64

type trackPart struct {
	mu    sync.Mutex
	m     map[string]readers
	items int64    // pairs of key and client
	bytes int64    // about what the part takes
	_     [24]byte // a cache line of its own for each lock
}

// readers are the clients that have read a key: mostly it is one.
type readers struct {
	one  *tracker
	more map[*tracker]struct{}
}

func (t *tracking) part(key []byte) *trackPart {
	return &t.parts[maphash.Bytes(t.seed, key)%trackParts]
}

// remember notes that a client has read a key, or is about to.
func (t *tracking) remember(k *tracker, key []byte) {
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
		r = readers{more: map[*tracker]struct{}{r.one: {}, k: {}}}
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

// trackedKey is about what a key takes in the table besides its name, and trackedItem
// each client that has read it.
const (
	trackedKey  = 96
	trackedItem = 64
)

// charge changes what the table takes.
func (t *tracking) charge(n int64) {
	t.bytes.Add(n)
	t.srv.budget.Clients.Add(n)
}

// full says that the table takes more than it may.
func (t *tracking) full() bool {
	limit := t.srv.budget.Clients.Limit()
	return t.keys.Load() > t.max.Load() || limit > 0 && t.bytes.Load() > limit/4
}

func (t *tracking) has(k *tracker, key []byte) bool {
	p := t.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m[string(key)].has(k)
}

func (r readers) has(k *tracker) bool {
	if r.one == k {
		return true
	}
	_, is := r.more[k]
	return is
}

func (r readers) each(f func(*tracker)) {
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

// limit sets how many keys are remembered; 0 is no limit.
func (t *tracking) limit(n int64) {
	if n == 0 {
		n = 1<<63 - 1
	}
	t.max.Store(n)
	t.evict("", 0)
}

// evictAtOnce is how many keys at most are forgotten for a new one.
const evictAtOnce = 100

// evict forgets keys while there are too many, but not the one given, and at most so
// many unless that is 0.
func (t *tracking) evict(but string, most int) {
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

// any is some key of the part.
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

// invalidate forgets a key and tells those who have read it, but for the client
// that changed it if it does not want that.
func (t *tracking) invalidate(key []byte, by int64, ticket engine.Ticket) {
	p := t.part(key)
	p.mu.Lock()
	r, found := p.m[string(key)]
	size := trackedKey + int64(len(key)) + trackedItem*r.count()
	if found {
		p.items -= r.count()
		p.bytes -= size
		if delete(p.m, string(key)); len(p.m) == 0 {
			p.m = nil // a map never gets smaller
		}
	}
	p.mu.Unlock()
	if !found {
		return
	}
	t.keys.Add(-1)
	t.charge(-size)
	e := newEncoder()
	defer e.free()
	e.invalidation([]string{string(key)})
	r.each(func(k *tracker) {
		if !k.is(func() bool { return k.bcast || k.noloop && by == k.id }) {
			k.send(e, t.srv, ticket)
		}
	})
}

// forget empties the table.
func (t *tracking) forget() {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		t.keys.Add(-int64(len(p.m)))
		t.charge(-p.bytes)
		p.m, p.items, p.bytes = nil, 0, 0
		p.mu.Unlock()
	}
}

package executor

import (
	"math"
	"sync"

	"redoubt/keyspace"
)

// Keys whose waiters no batch of this process has served, though they may be ready: another
// process has said so, or may have failed to, or a client has just begun to wait, or a
// batch has left some waiters. A bounded set of goroutines runs the waiting calls again, each
// key on one goroutine at a time. A key that is requested while it is checked is checked
// once more, since the check under way may have begun too early.

// maxWaking is how many keys are checked at the same time.
const maxWaking = 128

// waker is the queue of keys that are to be checked.
type waker struct {
	mu      sync.Mutex
	queue   []dbKey
	places  map[dbKey]wakeState
	workers int
}

type wakeState byte

const (
	wakeQueued  wakeState = iota + 1
	wakeRunning           // the key is being checked
	wakeAgain             // being checked, and to be checked once more
)

// Wake has the waiters of a key checked, or those of all keys of a database if r.Key is nil.
// It returns at once, and keeps no reference to r.
func (x *Executor) Wake(r keyspace.Ready) {
	if r.Key != nil {
		if p := (dbKey{r.DB, string(r.Key)}); x.waiting.has(p) {
			x.wakeAt(p)
		}
		return
	}
	for _, r := range x.waiting.keys(r.DB) {
		x.wakeAt(dbKey{r.DB, string(r.Key)})
	}
}

// WakeAll is Wake for all keys at which clients wait.
func (x *Executor) WakeAll() {
	x.WakeSome(math.MaxInt)
}

// WakeSome is WakeAll for up to most of the keys, drawn at random.
func (x *Executor) WakeSome(most int) {
	for _, p := range x.waiting.some(most) {
		x.wakeAt(p)
	}
}

func (x *Executor) wakeAt(p dbKey) {
	k := &x.waker
	k.mu.Lock()
	defer k.mu.Unlock()
	switch k.places[p] {
	case wakeQueued, wakeAgain:
		return
	case wakeRunning:
		k.places[p] = wakeAgain
		return
	}
	if k.places == nil {
		k.places = make(map[dbKey]wakeState)
	}
	k.places[p] = wakeQueued
	k.queue = append(k.queue, p)
	if k.workers < maxWaking {
		k.workers++
		go x.wakeQueued()
	}
}

// wakeQueued checks keys until the queue is empty.
func (x *Executor) wakeQueued() {
	k := &x.waker
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.queue) > 0 {
		p := k.queue[0]
		if k.queue = k.queue[1:]; len(k.queue) == 0 {
			k.queue = nil
		}
		k.places[p] = wakeRunning
		k.mu.Unlock()
		x.wakeLater(keyspace.Ready{DB: p.db, Key: []byte(p.key)})
		k.mu.Lock()
		if k.places[p] == wakeAgain {
			k.places[p] = wakeQueued
			k.queue = append(k.queue, p)
		} else {
			delete(k.places, p)
		}
	}
	k.workers--
}

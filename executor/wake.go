package executor

import (
	"errors"
	"math"
	"sync"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
)

// Keys that became ready elsewhere, or may have: another process has told so, or may
// have failed to, or somebody has just begun to wait there. The calls that wait there
// are run again, by a few goroutines, each key by one of them at a time; what is asked
// for while a key is looked at is looked at again behind that, for the look under way
// may have begun too early.

// maxWaking is how many keys are looked at at the same time.
const maxWaking = 128

// waker are the keys that are to be looked at.
type waker struct {
	mu      sync.Mutex
	queue   []place
	places  map[place]wakeState
	workers int
}

type wakeState byte

const (
	wakeQueued  wakeState = iota + 1
	wakeRunning           // it is being looked at
	wakeAgain             // and is to be again
)

// Wake looks again at what clients wait for at a key, or at all keys of a database if
// none is named. It does not wait, and keeps nothing of r.
func (x *Executor) Wake(r keyspace.Ready) {
	if r.Key != nil {
		if p := (place{r.DB, string(r.Key)}); x.waiting.has(p) {
			x.wakeAt(p)
		}
		return
	}
	for _, r := range x.waiting.keys(r.DB) {
		x.wakeAt(place{r.DB, string(r.Key)})
	}
}

// WakeAll looks again at all keys at which clients wait.
func (x *Executor) WakeAll() {
	x.WakeSome(math.MaxInt)
}

// WakeSome is WakeAll for so many of the keys, drawn by chance.
func (x *Executor) WakeSome(most int) {
	for _, p := range x.waiting.some(most) {
		x.wakeAt(p)
	}
}

func (x *Executor) wakeAt(p place) {
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
		k.places = make(map[place]wakeState)
	}
	k.places[p] = wakeQueued
	k.queue = append(k.queue, p)
	if k.workers < maxWaking {
		k.workers++
		go x.wakeQueued()
	}
}

// wakeQueued looks at keys until there are none.
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

// joins runs a call of those that wait at a key where others wait already, if there is
// nothing for it: it needs no latch to begin to wait on a shared store (see park), and
// many who come at once do not wait for each other, nor who brings something for them.
// It says false, and has done nothing, when the call must be run as any other.
func (b *Batch) joins(c *Call) bool {
	if c.Cmd.Flags&command.Blocking == 0 || c.OnBlock == nil || c.Queue != nil || len(c.Args) < 2 {
		return false
	}
	var keys [][]byte
	crowd := false
	fit := c.Cmd.EachKey(c.Args, func(i int, _ *command.KeySpec) {
		keys = append(keys, c.Args[i])
		crowd = crowd || b.x.waiting.has(place{c.DB, string(c.Args[i])})
	})
	if !fit || !crowd {
		return false
	}
	if _, err := b.begin(); err != nil {
		return false // Run meets it again
	}
	b.gather(c)
	b.tx.Start()
	b.tx.DB, b.tx.Writable, b.tx.Latched = c.DB, false, true
	for _, key := range keys {
		if b.tx.Find(key).Exists() || b.tx.Err() != nil {
			b.Commit() // on a newer state
			return false
		}
	}
	c.Failed, c.Blocked, c.Streamed = false, false, false
	b.keys, b.guard = b.keys[:0], c.Guard
	if c.Begin != nil {
		c.Begin()
	}
	if b.attempt(c, false) != 0 {
		b.Commit()
		return false
	}
	return true
}

// doubt is for a batch whose commit has failed. Nobody may know whether its rows are
// there all the same: then those who watch, cache or wait for its keys are told as if
// they were, but no message and no event.
func (b *Batch) doubt(err error) {
	for _, w := range b.served {
		w.leaves() // they have got the error
	}
	if !errors.Is(err, engine.ErrUnknownOutcome) {
		return
	}
	f := &b.fx
	f.Events, f.Messages = f.Events[:0], f.Messages[:0]
	if len(f.Touched) > 0 {
		b.x.watching.touched(b, f.Touched)
	}
	if b.x.listener != nil && f.Told(b.x.space) {
		b.x.listener(f, 0)
	}
}

// OnWait has f called whenever a client begins to wait, with latches held: it must not
// wait. It is to be set before the first client waits.
func (x *Executor) OnWait(f func()) { x.onWait.Store(&f) }

// has says whether somebody waits at a place.
func (q *waiting) has(p place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.at[p] != nil
}

// some lists places at which somebody waits.
func (q *waiting) some(most int) (list []place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.at {
		if len(list) == most {
			break
		}
		list = append(list, p)
	}
	return list
}

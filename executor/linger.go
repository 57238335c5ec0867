package executor

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Two event loops whose clients use the same keys. The batch of a loop never takes
// long, so the other one does better to wait for its end than to hand the command
// to a worker: the worker would wait as well, hold the latch for a commit of its own,
// and so drive the next commands of both loops to workers too.
//
// Whoever waits holds no latch. It may hold a session's mu, which the other loop may
// want (CLIENT LIST): so it waits only for a moment.

const (
	maxLinger  = 4 // how often one command waits
	lingerTime = 2 * time.Millisecond
)

// lingering is who waits for the end of a batch, and how its own waits end.
type lingering struct {
	wanted atomic.Bool
	mu     sync.Mutex
	list   []chan struct{} // of those who wait

	woken chan struct{} // in the lists of those that this batch has waited for
	timer *time.Timer
	yield bool
}

// linger waits until the loops that hold the call's latches may have given them back.
// The batch is empty. It says false if the latches are in the hands of a worker, or are
// not given back.
func (b *Batch) linger() bool {
	if b.mode != Loop {
		return false
	}
	b.commit()
	for _, i := range b.keys {
		s := &b.x.latches.tab[i]
		other := s.owner.Load()
		switch {
		case other == nil:
			continue
		case other.worker || !b.outlast(other, s):
			return false
		}
	}
	return true
}

// outlast waits for the end of another loop's batch, which holds a stripe.
func (b *Batch) outlast(other *Batch, s *stripe) bool {
	l := &b.ends
	if l.woken == nil {
		l.woken, l.timer = make(chan struct{}, 1), time.NewTimer(b.x.lingerFor)
	} else {
		l.timer.Reset(b.x.lingerFor)
	}
	defer l.timer.Stop()
	for {
		other.ends.add(l.woken)
		if s.owner.Load() != other { // it may not have seen that somebody waits
			return true
		}
		select {
		case <-l.woken: // also by a batch that was waited for earlier
		case <-l.timer.C:
			return false
		}
	}
}

func (l *lingering) add(woken chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.list, woken) {
		l.list = append(l.list, woken)
	}
	l.wanted.Store(true)
}

// tellLingering tells those who wait that the latches are free.
func (b *Batch) tellLingering() {
	l := &b.ends
	if !l.wanted.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted.Store(false)
	for _, c := range l.list {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	clear(l.list)
	l.list, l.yield = l.list[:0], true
}

// giveWay lets those go on who waited: a loop that has much to do would else have the
// latches again before they are running.
func (b *Batch) giveWay() {
	if b.ends.yield {
		b.ends.yield = false
		runtime.Gosched()
	}
}

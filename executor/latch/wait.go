package latch

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Event loops whose clients use the same keys wait for each other. The batch of a loop never
// takes long, so the other loop had better wait for its end than hand the command to a
// worker: the worker would wait as well, hold the stripe for a commit of its own, and so
// drive the next commands of both loops to workers too.
//
// A holder that waits holds no stripe. Its caller may hold a session's mutex, which the other
// loop may want (CLIENT LIST): so the wait is short.

// loopWait has the holders that wait for the end of this holder's batch, and the means by
// which this holder waits for others.
type loopWait struct {
	wanted atomic.Bool
	mu     sync.Mutex
	list   []chan struct{} // woken of the holders that wait

	woken chan struct{} // in the lists of the holders that this one has waited for
	timer *time.Timer
	yield bool
}

// AwaitLoops waits until the event loops that hold the given stripes may have released
// them. h holds no stripe. It reports false if a worker holds one of the stripes, or an
// event loop does not release it within LoopWait.
func (h *Holder) AwaitLoops(list []uint32) bool {
	for _, i := range list {
		s := &h.t.stripes[i]
		other := s.owner.Load()
		switch {
		case other == nil:
			continue
		case other.worker || !h.await(other, s):
			return false
		}
	}
	return true
}

// await waits, LoopWait at most, for the end of another loop's batch, which holds a stripe.
func (h *Holder) await(other *Holder, s *stripe) bool {
	w := &h.wait
	if w.woken == nil {
		w.woken, w.timer = make(chan struct{}, 1), time.NewTimer(h.t.LoopWait)
	} else {
		w.timer.Reset(h.t.LoopWait)
	}
	defer w.timer.Stop()
	for {
		other.wait.add(w.woken)
		if s.owner.Load() != other { // its Release may not have seen w.woken
			return true
		}
		select {
		case <-w.woken: // perhaps by a batch that was waited for earlier
		case <-w.timer.C:
			return false
		}
	}
}

func (w *loopWait) add(woken chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.list, woken) {
		w.list = append(w.list, woken)
	}
	w.wanted.Store(true)
}

// wake wakes the holders that wait for h: its stripes are free.
func (h *Holder) wake() {
	w := &h.wait
	if !w.wanted.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted.Store(false)
	for _, c := range w.list {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	clear(w.list)
	w.list, w.yield = w.list[:0], true
}

// Awaited reports whether an event loop waits for the end of h's batch.
func (h *Holder) Awaited() bool { return h.wait.wanted.Load() }

// Yield yields the processor to the event loops that Release has woken: else a busy loop
// would take the stripes again before the others run.
func (h *Holder) Yield() {
	if h.wait.yield {
		h.wait.yield = false
		runtime.Gosched()
	}
}

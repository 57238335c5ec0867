package server

import "time"

// workerPool runs functions that must not block an event loop. Idle goroutines are kept for
// a while: a read from the store needs a deep stack, and growing that of a new goroutine
// costs more than the rest of the hand-over.
type workerPool struct {
	jobs chan func()
}

// workerIdle is how long a worker waits for another job.
const workerIdle = 2 * time.Second

func (w *workerPool) init() { w.jobs = make(chan func()) }

// run runs f on an idle worker, or on a new one.
func (w *workerPool) run(f func()) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

func (w *workerPool) work(f func()) {
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		f()
		idle.Reset(workerIdle)
		select {
		case f = <-w.jobs:
		case <-idle.C:
			return
		}
	}
}

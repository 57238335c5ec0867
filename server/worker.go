package server

import "time"

// crew runs what must not stall an event loop. Its goroutines are kept for a
// while: a read from the store goes deep, and growing the stack of a new one for
// it costs more than the rest of the hand-over.
type crew struct {
	jobs chan func()
}

// workerIdle is how long a worker waits for another job.
const workerIdle = 2 * time.Second

func (w *crew) init() { w.jobs = make(chan func()) }

// run has f run by an idle worker, or by a new one.
func (w *crew) run(f func()) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

func (w *crew) work(f func()) {
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

package executor

import (
	"runtime"
	"testing"
	"time"
)

func TestALoopWaitsForAnother(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"incr k", "mset x 1 k 2 y 3"} {
		f := newFixture(t)
		f.x.latches.LoopWait = time.Minute
		a, b := f.client(), f.client()
		a.run("set k 1")
		a.run("set y 1")
		done := make(chan bool)
		go func() { done <- b.try(line) }()
		for !a.b.latch.Awaited() {
			runtime.Gosched()
		}
		f.want("nothing is latched by who waits", f.do("set x 0"), "OK")
		a.commit()
		equal(t, line, <-done, true)
		b.commit()
		f.free()
	}
}

// What a worker does may take long.
func TestALoopWaitsForNoWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.x.latches.LoopWait = time.Hour
	a, b := f.client(), f.client()
	a.b = f.x.NewWaitingBatch()
	a.run("set k 1")
	equal(t, "incr k", b.try("incr k"), false)
	a.commit()
	b.commit()
	f.free()
}

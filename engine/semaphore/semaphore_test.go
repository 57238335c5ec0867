package semaphore

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSemaphore(t *testing.T) {
	t.Parallel()
	var p Semaphore
	p.Resize(2)
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		if waited, err := p.Enter(ctx); waited || err != nil {
			t.Fatalf("%v %v", waited, err)
		}
	}
	third := make(chan error)
	enter := func() {
		waited, err := p.Enter(ctx)
		if !waited {
			err = errors.New("it did not wait")
		}
		third <- err
	}
	queued := func(n int) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.queue) == n
	}
	await := func(n int) {
		for deadline := time.Now().Add(10 * time.Second); !queued(n); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %d in the queue", n)
			}
		}
	}
	go enter()
	await(1)
	p.Leave()
	if err := <-third; err != nil || p.Taken() != 2 {
		t.Fatalf("%v, %d taken", err, p.Taken())
	}
	go enter()
	await(1)
	p.Resize(3)
	if err := <-third; err != nil || p.Taken() != 3 {
		t.Fatalf("%v, %d taken", err, p.Taken())
	}
	p.Resize(1)
	p.Leave()
	go enter()
	await(1)
	cancel()
	if err := <-third; !errors.Is(err, context.Canceled) || !queued(0) || p.Taken() != 2 {
		t.Fatalf("%v, %d taken", err, p.Taken())
	}
}

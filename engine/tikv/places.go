package tikv

import (
	"context"
	"slices"
	"sync"
)

// places are for transactions under way. Who finds none waits in turn, so that a slow
// cluster meets a limited number of requests and what is asked of it does not grow.
type places struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []chan struct{} // closed for whoever gets a place
}

// enter takes a place. It waits until one is free or ctx ends.
func (p *places) enter(ctx context.Context) (waited bool, err error) {
	p.mu.Lock()
	if p.used < p.limit && len(p.queue) == 0 {
		p.used++
		p.mu.Unlock()
		return false, nil
	}
	turn := make(chan struct{})
	p.queue = append(p.queue, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return true, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, turn); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		return true, ctx.Err()
	}
	return true, nil // it came at the same moment
}

// leave gives a place back.
func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.call()
}

// resize changes how many places there are. Who has one keeps it.
func (p *places) resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = n
	p.call()
}

// call gives free places to those who wait.
func (p *places) call() {
	for p.used < p.limit && len(p.queue) > 0 {
		p.used++
		close(p.queue[0])
		p.queue = slices.Delete(p.queue, 0, 1)
	}
}

func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

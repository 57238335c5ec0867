package partition

import (
	"context"
	"slices"
	"sync"
)

// limit is a semaphore that limits the views under way. A view that finds no free
// place waits in a queue, so that a slow store gets a limited number of requests.
type limit struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []chan struct{} // closed for the view that gets a place
}

// enter takes a place. It waits until one is free or ctx ends.
func (p *limit) enter(ctx context.Context) (waited bool, err error) {
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
	return true, nil // the place was given as ctx ended
}

// leave gives a place back.
func (p *limit) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.call()
}

// resize changes how many places there are. A view that has a place keeps it.
func (p *limit) resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = n
	p.call()
}

// call gives free places to the views that wait.
func (p *limit) call() {
	for p.used < p.limit && len(p.queue) > 0 {
		p.used++
		close(p.queue[0])
		p.queue = slices.Delete(p.queue, 0, 1)
	}
}

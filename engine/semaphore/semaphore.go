// Package semaphore limits the views of a shared store that are under way. A view that finds no
// free place waits in a queue, so that a slow store gets a limited number of requests.
package semaphore

import (
	"context"
	"slices"
	"sync"
)

// Semaphore has as many places as Resize said last, at first none. It serves in the order of
// arrival.
type Semaphore struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []chan struct{} // closed for who gets a place
}

// Enter takes a place. It waits until one is free or ctx ends.
func (s *Semaphore) Enter(ctx context.Context) (waited bool, err error) {
	s.mu.Lock()
	if s.used < s.limit && len(s.queue) == 0 {
		s.used++
		s.mu.Unlock()
		return false, nil
	}
	turn := make(chan struct{})
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return true, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, turn); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		return true, ctx.Err()
	}
	return true, nil // the place was given as ctx ended
}

// Leave gives a place back.
func (s *Semaphore) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.call()
}

// Resize changes how many places there are. Who has a place keeps it.
func (s *Semaphore) Resize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
	s.call()
}

// call gives free places to those who wait.
func (s *Semaphore) call() {
	for s.used < s.limit && len(s.queue) > 0 {
		s.used++
		close(s.queue[0])
		s.queue = slices.Delete(s.queue, 0, 1)
	}
}

// Taken returns how many places are taken.
func (s *Semaphore) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

package local

import (
	"errors"
	"sync"

	lsm "github.com/cockroachdb/pebble/v2"
)

// Walks over the store. A short one spends most of its time on opening an iterator
// of Pebble's, and on closing it. So some that are not in use are kept open: one
// that was opened after the last round shows what a new one would show.
//
// They are closed when a round ends, and when the keeper comes by, since they keep
// tables from being removed.
type walkers struct {
	mu     sync.Mutex
	round  uint64 // changes when a round begins to change the store, and when it has
	free   []walker
	closed bool
}

// walker is an iterator of the store, as it was after a round.
type walker struct {
	*lsm.Iterator
	round uint64
}

// mostWalkers is how many are kept.
const mostWalkers = 4

// walker returns an iterator over rows, not the engine's own.
func (s *store) walker(lo, hi []byte) (walker, error) {
	w := &s.walkers
	w.mu.Lock()
	n := len(w.free)
	if n == 0 {
		round := w.round // of before it is opened
		w.mu.Unlock()
		it, err := s.iter(s.db, lo, hi)
		return walker{it, round}, err
	}
	one := w.free[n-1]
	w.free = w.free[:n-1]
	w.mu.Unlock()
	one.bound(lo, hi)
	return one, nil
}

func (w walker) bound(lo, hi []byte) {
	if len(lo) == 0 {
		lo = nil // Pebble's spelling of no bound
	}
	w.SetBounds(lo, hi)
}

// release is called when a walk has ended.
func (s *store) release(one walker) error {
	w := &s.walkers
	if one.Error() == nil {
		w.mu.Lock()
		keep := one.round == w.round && len(w.free) < mostWalkers && !w.closed
		if keep {
			w.free = append(w.free, one)
		}
		w.mu.Unlock()
		if keep {
			return nil
		}
	}
	return one.Close()
}

// turn closes the walkers that are not in use. If the store is about to change, or
// has changed, those in use are not used again, either.
func (w *walkers) turn(changed, closed bool) (err error) {
	w.mu.Lock()
	free := w.free
	w.free, w.closed = nil, w.closed || closed
	if changed {
		w.round++
	}
	w.mu.Unlock()
	for _, one := range free {
		err = errors.Join(err, one.Close())
	}
	return err
}

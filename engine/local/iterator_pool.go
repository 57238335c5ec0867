package local

import (
	"errors"
	"sync"

	lsm "github.com/cockroachdb/pebble/v2"
)

// iteratorPool holds idle open iterators of Pebble. A short walk spends most of its time on
// opening and closing its iterator, and an iterator that was opened after the last round
// shows what a new one would show.
//
// Idle iterators are closed when a round ends, and once a second, since they keep tables from
// being removed.
type iteratorPool struct {
	mu     sync.Mutex
	round  uint64 // incremented before and after a round changes the store
	free   []pooledIterator
	closed bool
}

// pooledIterator is an iterator of the store as of a number of iteratorPool.round.
type pooledIterator struct {
	*lsm.Iterator
	round uint64
}

// mostPooled is how many idle iterators there may be.
const mostPooled = 4

// poolIter returns an iterator over rows, not the engine's own.
func (s *store) poolIter(lo, hi []byte) (pooledIterator, error) {
	w := &s.iterators
	w.mu.Lock()
	n := len(w.free)
	if n == 0 {
		round := w.round // read before the iterator is opened
		w.mu.Unlock()
		it, err := s.iter(s.db, lo, hi)
		return pooledIterator{it, round}, err
	}
	one := w.free[n-1]
	w.free = w.free[:n-1]
	w.mu.Unlock()
	one.bound(lo, hi)
	return one, nil
}

func (w pooledIterator) bound(lo, hi []byte) {
	if len(lo) == 0 {
		lo = nil // Pebble: no bound
	}
	w.SetBounds(lo, hi)
}

// release returns an iterator to the pool, or closes it if it is stale or the pool is full.
func (s *store) release(one pooledIterator) error {
	w := &s.iterators
	if one.Error() == nil {
		w.mu.Lock()
		keep := one.round == w.round && len(w.free) < mostPooled && !w.closed
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

// closeIdle closes the idle iterators. changed: the store is about to change, or has changed,
// so that iterators in use are closed when released. closed: the pool stays empty for good.
func (w *iteratorPool) closeIdle(changed, closed bool) (err error) {
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

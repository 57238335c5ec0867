package budget

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is the working memory that all commands share.
//
// A command that runs has a Lease and grows it as it collects data. When the pool
// has no room the lease does not wait: its command is rolled back, releases all
// that it holds, and waits for the turn (Lease.Await), first come first served. Only
// the lease that has the turn may wait while its command holds latches and memory,
// and while it waits no other large lease grows. The other commands therefore end, or
// are rolled back, and free their memory: no command can deadlock or starve.
// docs/adr/0023 has the argument.
//
// An eighth of the limit is reserved for small leases, so that commands that need little
// are not delayed by commands that need much.
//
// The methods of a Pool may be called from any goroutine.
type Pool struct {
	limit, used atomic.Int64 // used is large plus small

	mu           sync.Mutex
	large, small int64
	most         int64 // the largest value of used
	turn         *Lease
	wants        bool // the lease that has the turn waits for memory
	queue        []*Lease
	freed        chan struct{} // has a token when the lease that has the turn should try again
	refused      int64
}

var (
	// ErrBusy: others hold the memory. The command must be rolled back and wait for the
	// turn.
	ErrBusy = errors.New("working memory is in use")
	// ErrTooLarge: the command needs more than all commands may have.
	ErrTooLarge = errors.New("more working memory is needed than there is")
	// ErrGone: the client of the command has left.
	ErrGone = errors.New("the client has gone")
)

const (
	// smallLease is what a small lease may hold.
	smallLease = 256 << 10
	// goneEvery is how often a lease that waits checks whether its client has left.
	goneEvery = 50 * time.Millisecond
)

// Used returns how many bytes are taken, and Limit how many may be; 0 is no limit.
func (p *Pool) Used() int64  { return p.used.Load() }
func (p *Pool) Limit() int64 { return p.limit.Load() }

// SetLimit changes the limit; 0 is no limit.
func (p *Pool) SetLimit(n int64) {
	p.limit.Store(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake()
}

// largeLimit returns how much large leases may hold together.
func (p *Pool) largeLimit() int64 { n := p.limit.Load(); return n - n/8 }

// Figures are the statistics of a pool.
type Figures struct {
	Used, Limit, Most int64 // Most is the largest value of Used
	Waiting           int   // commands that wait for their turn
	Refused           int64 // commands that needed more than there is
}

// Figures returns the statistics of the pool.
func (p *Pool) Figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Figures{Used: p.used.Load(), Limit: p.limit.Load(), Most: p.most, Waiting: len(p.queue), Refused: p.refused}
}

// add changes one of the two sums. mu is held.
func (p *Pool) add(sum *int64, n int64) {
	*sum += n
	p.most = max(p.most, p.used.Add(n))
}

// wake makes the lease that has the turn try again. mu is held.
func (p *Pool) wake() {
	if p.wants {
		select {
		case p.freed <- struct{}{}:
		default:
		}
	}
}

// pass gives the turn to the next lease that waits for it. mu is held.
func (p *Pool) pass() {
	p.turn = nil
	if len(p.queue) > 0 {
		p.turn = p.queue[0]
		p.queue = p.queue[1:]
		close(p.turn.called)
	}
}

// Lease is what one command holds of a pool. It belongs to one goroutine. The zero Lease
// has no pool and no limit.
type Lease struct {
	pool   *Pool
	held   int64
	large  bool // counted in Pool.large
	turn   bool
	called chan struct{} // closed when the turn has come
}

// Lease makes a lease that holds nothing. A nil pool has no limit.
func (p *Pool) Lease() Lease { return Lease{pool: p} }

// Held returns how many bytes the lease holds.
func (l *Lease) Held() int64 { return l.held }

// Grow takes n more bytes. It returns ErrTooLarge if they exceed the limit, ErrBusy if they
// are not free. A lease that has the turn waits for them instead, and returns ErrGone if
// gone, unless nil, reports true meanwhile.
func (l *Lease) Grow(n int64, gone func() bool) error {
	p := l.pool
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		limit := p.largeLimit()
		switch {
		case p.limit.Load() <= 0:
		case !l.large && l.held+n <= smallLease && p.small+n <= p.limit.Load()-limit:
			p.add(&p.small, n)
			l.held += n
			return nil
		case l.held+n > limit:
			p.refused++
			return ErrTooLarge
		case p.large+l.more(n) > limit || p.wants && !l.turn:
			if !l.turn {
				return ErrBusy
			}
			if err := l.wait(gone); err != nil {
				return err
			}
			continue
		}
		l.take(n)
		return nil
	}
}

// more returns by how much the sum of the large leases grows if the lease takes n bytes.
func (l *Lease) more(n int64) int64 {
	if l.large {
		return n
	}
	return l.held + n
}

// take takes n bytes as a large lease. The pool's mu is held.
func (l *Lease) take(n int64) {
	if !l.large {
		l.large = true
		l.pool.add(&l.pool.small, -l.held)
		l.pool.add(&l.pool.large, l.held)
	}
	l.pool.add(&l.pool.large, n)
	l.held += n
}

// wait waits until memory was freed. The pool's mu is held, and released meanwhile.
func (l *Lease) wait(gone func() bool) error {
	p := l.pool
	if p.freed == nil {
		p.freed = make(chan struct{}, 1)
	}
	p.wants = true
	p.mu.Unlock()
	err := await(p.freed, gone)
	p.mu.Lock()
	p.wants = false
	return err
}

// await waits for c, or until gone reports true.
func await(c <-chan struct{}, gone func() bool) error {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		select {
		case <-c:
			return nil
		case <-tick.C:
			if gone != nil && gone() {
				return ErrGone
			}
		}
	}
}

// Force takes n more bytes regardless of the limit, for a command that cannot be rolled back.
func (l *Lease) Force(n int64) {
	if p := l.pool; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.take(n)
	}
}

// Await waits for the turn, or until gone reports true. The caller must hold no latch, and
// the lease no memory.
func (l *Lease) Await(gone func() bool) error {
	p := l.pool
	if p == nil || l.turn {
		return nil
	}
	p.mu.Lock()
	if p.turn == nil {
		p.turn, l.turn = l, true
		p.mu.Unlock()
		return nil
	}
	l.called = make(chan struct{})
	p.queue = append(p.queue, l)
	p.mu.Unlock()
	err := await(l.called, gone)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		l.turn = true
		return nil
	}
	if p.turn == l { // the turn came at the same moment
		p.pass()
		return err
	}
	for i, other := range p.queue {
		if other == l {
			p.queue = append(p.queue[:i:i], p.queue[i+1:]...)
			break
		}
	}
	return err
}

// Release frees what the lease holds.
func (l *Lease) Release() {
	if l.held == 0 {
		return
	}
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.large {
		p.add(&p.large, -l.held)
	} else {
		p.add(&p.small, -l.held)
	}
	l.held, l.large = 0, false
	p.wake()
}

// Pass gives the turn to the next lease in the queue, if the lease has it.
func (l *Lease) Pass() {
	if !l.turn {
		return
	}
	l.turn = false
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.pass()
}

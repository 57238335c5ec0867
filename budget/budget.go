// Package budget accounts for the memory that clients make the process hold:
// what is buffered and queued for connections, and what commands need while they
// run. Both come out of maxmemory; the rows get what is left.
package budget

import "sync/atomic"

// Budget is what one process may hold for its clients.
type Budget struct {
	Clients Account // input, queued commands, replies and messages of connections
	Work    Pool    // working memory of commands
}

// Used is how many bytes are taken for clients and their commands.
func (b *Budget) Used() int64 { return b.Clients.Used() + b.Work.Used() }

// WorkLimit is the limit of Work for a maxmemory: three sixteenths, but enough to work
// with under a small one. No maxmemory is no limit.
func WorkLimit(maxmemory int64) int64 {
	if maxmemory <= 0 {
		return 0
	}
	return max(maxmemory/16*3, leastWork)
}

// leastWork is enough for collections of a hundred thousand elements.
const leastWork = 12 << 20

// Account is a sum of bytes with a limit. Its methods may be called from any
// goroutine.
type Account struct{ used, limit, peak atomic.Int64 }

// Add changes the sum by n, which may be negative.
func (a *Account) Add(n int64) {
	if used := a.used.Add(n); used > a.peak.Load() {
		a.peak.Store(used) // of two that meet here one may be lost: a peak is a hint
	}
}

// TakePeak is about the largest sum since the call of TakePeak before.
func (a *Account) TakePeak() int64 { return a.peak.Swap(a.Used()) }

// Used is the sum.
func (a *Account) Used() int64 { return a.used.Load() }

// SetLimit changes the limit; 0 is no limit.
func (a *Account) SetLimit(n int64) { a.limit.Store(n) }

// Limit is the limit; 0 is no limit.
func (a *Account) Limit() int64 { return a.limit.Load() }

// Over is by how much the sum is above the limit, 0 if it is not.
func (a *Account) Over() int64 {
	if limit := a.Limit(); limit > 0 {
		return max(0, a.Used()-limit)
	}
	return 0
}

// Package budget accounts for the memory that clients cause the process to hold: buffers
// and queues of connections, and the working memory of commands. Both are parts of
// maxmemory; the rows get the rest.
package budget

import "sync/atomic"

// Budget is what one process may hold for its clients.
type Budget struct {
	Clients Account // input, queued commands, replies and messages of connections
	Work    Pool    // working memory of commands
}

// Used returns how many bytes are taken for clients and their commands.
func (b *Budget) Used() int64 { return b.Clients.Used() + b.Work.Used() }

// WorkLimit returns the limit of Work for a maxmemory: three sixteenths, but at least
// leastWork. Without a maxmemory there is no limit.
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
		a.peak.Store(used) // a race may lose a peak: it is a hint
	}
}

// TakePeak returns about the largest sum since the previous call of TakePeak.
func (a *Account) TakePeak() int64 { return a.peak.Swap(a.Used()) }

// Used returns the sum.
func (a *Account) Used() int64 { return a.used.Load() }

// SetLimit changes the limit; 0 is no limit.
func (a *Account) SetLimit(n int64) { a.limit.Store(n) }

// Limit returns the limit; 0 is no limit.
func (a *Account) Limit() int64 { return a.limit.Load() }

// Over returns by how much the sum exceeds the limit, 0 if it does not.
func (a *Account) Over() int64 {
	if limit := a.Limit(); limit > 0 {
		return max(0, a.Used()-limit)
	}
	return 0
}

package acl

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Context is where a call was denied.
type Context uint8

// Where a call may be denied.
const (
	TopLevel Context = iota
	Multi
	Script
)

// String is the context as ACL LOG names it.
func (c Context) String() string { return [...]string{"toplevel", "multi", "lua"}[c] }

// Entry is an entry of the log: something that was denied, once or several times.
type Entry struct {
	ID               int64
	Count            int64
	Reason           Denial
	Context          Context
	Object           string // the command, key or channel; for a failed login the command
	User             string
	Client           string // the client's line, as in CLIENT LIST
	Created, Updated int64  // Unix time in milliseconds
}

func (e *Entry) like(o *Entry) bool {
	delta := e.Updated - o.Updated
	return e.Reason == o.Reason && e.Context == o.Context && max(delta, -delta) <= groupMillis &&
		e.Object == o.Object && e.User == o.User
}

const (
	groupMillis = 60_000 // what is further apart does not become one entry
	groupScan   = 10     // how many entries are looked at for one alike
)

// Log has the recent denials, the newest first, and counts all denials.
type Log struct {
	mu      sync.Mutex
	max     int64
	next    int64
	entries []*Entry

	denied [ByChannel + 1]atomic.Int64
}

// SetMax is the directive acllog-max-len. A log that is too long is cut by the next
// entry.
func (l *Log) SetMax(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = n
}

// Add notes a denial, at the time e.Updated. One that is like a recent one counts
// as one more of that.
func (l *Log) Add(e Entry) {
	l.denied[e.Reason].Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, old := range l.entries[:min(groupScan, len(l.entries))] {
		if old.like(&e) {
			copied := *old // readers may have it
			copied.Count++
			copied.Updated, copied.Client = e.Updated, e.Client
			copy(l.entries[1:i+1], l.entries[:i])
			l.entries[0] = &copied
			return
		}
	}
	e.ID, e.Count, e.Created = l.next, 1, e.Updated
	l.next++
	l.entries = slices.Insert(l.entries, 0, &e)
	if int64(len(l.entries)) > l.max {
		clear(l.entries[l.max:])
		l.entries = l.entries[:l.max]
	}
}

// Newest returns up to n entries, the newest first.
func (l *Log) Newest(n int64) []*Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[:min(max(n, 0), int64(len(l.entries)))])
}

// Reset forgets all entries.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// Denied is how often something was denied for a reason since the start.
func (l *Log) Denied(d Denial) int64 { return l.denied[d].Load() }

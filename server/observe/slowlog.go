package observe

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Slowlog keeps the newest slow commands.
type Slowlog struct {
	limit atomic.Int64 // nanoseconds; negative: off
	mu    sync.Mutex
	max   int
	next  int64
	list  []entry // in the order of their times, newest last
}

type entry struct {
	id     int64
	at     time.Time
	took   time.Duration
	args   [][]byte
	addr   string
	client string
}

// Set applies slowlog-log-slower-than (microseconds, negative is off) and
// slowlog-max-len. The next entry trims a log that is too long.
func (l *Slowlog) Set(micros int64, maxLen int) {
	nanos := int64(1<<63 - 1)
	if micros >= 0 && micros < nanos/1000 {
		nanos = micros * 1000
	}
	l.limit.Store(nanos)
	l.mu.Lock()
	l.max = maxLen
	l.mu.Unlock()
}

// Threshold returns the least duration of a slow command.
func (l *Slowlog) Threshold() time.Duration { return time.Duration(l.limit.Load()) }

func (l *Slowlog) trim() {
	if over := len(l.list) - l.max; over > 0 {
		clear(l.list[:over]) // the array would keep them until append moves the rest
		l.list = l.list[over:]
	}
}

// The limits of an entry: arguments, and bytes of each.
const (
	slowArgs   = 32
	slowArgLen = 128
)

// Add notes a command that ended at the given time, of a client with an address and a name.
// Long commands are abridged as Redis does. Commands of several clients may be noted in
// another order than that in which they ended, such as those of an EXEC and the BLPOP that
// it served; they are listed by their times. The caller has redacted the arguments.
func (l *Slowlog) Add(args [][]byte, addr, client string, took time.Duration, at time.Time) {
	e := entry{at: at, took: took, addr: addr, client: client, args: abridge(args)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max == 0 {
		return
	}
	e.id = l.next
	l.next++
	i := len(l.list)
	for i > 0 && l.list[i-1].at.After(at) {
		i--
	}
	l.list = slices.Insert(l.list, i, e)
	l.trim()
}

// newest returns up to n entries, the newest first; all when n is negative.
func (l *Slowlog) newest(n int64) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.list)) {
		n = int64(len(l.list))
	}
	out := make([]entry, n)
	for i := range out {
		out[i] = l.list[len(l.list)-1-i]
	}
	return out
}

// Len returns the number of entries.
func (l *Slowlog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

func (l *Slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// abridge copies a command's arguments up to the limits.
func abridge(args [][]byte) [][]byte {
	n := min(len(args), slowArgs)
	out := make([][]byte, n)
	for i := range out {
		if i == slowArgs-1 && len(args) > slowArgs {
			out[i] = fmt.Appendf(nil, "... (%d more arguments)", len(args)-slowArgs+1)
			break
		}
		if a := args[i]; len(a) > slowArgLen {
			out[i] = fmt.Appendf(nil, "%s... (%d more bytes)", a[:slowArgLen], len(a)-slowArgLen)
		} else {
			out[i] = append([]byte(nil), a...)
		}
	}
	return out
}

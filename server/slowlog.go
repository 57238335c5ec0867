package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// slowlog keeps the newest commands that took long.
type slowlog struct {
	limit atomic.Int64 // nanoseconds; negative: off
	mu    sync.Mutex
	max   int
	next  int64
	list  []slowEntry // newest last
}

type slowEntry struct {
	id     int64
	at     time.Time
	took   time.Duration
	args   [][]byte
	addr   string
	client string
}

// set applies slowlog-log-slower-than (microseconds, negative is off) and
// slowlog-max-len.
func (l *slowlog) set(micros int64, maxLen int) {
	nanos := micros * 1000
	if micros < 0 {
		nanos = 1<<63 - 1
	}
	l.limit.Store(nanos)
	l.mu.Lock()
	l.max = maxLen
	l.trim()
	l.mu.Unlock()
}

func (l *slowlog) threshold() time.Duration { return time.Duration(l.limit.Load()) }

func (l *slowlog) trim() {
	if over := len(l.list) - l.max; over > 0 {
		l.list = append([]slowEntry(nil), l.list[over:]...)
	}
}

// The most that an entry keeps of a command.
const (
	slowArgs   = 32
	slowArgLen = 128
)

// add notes a command. Long ones are abridged as Redis does.
func (l *slowlog) add(s *session, args [][]byte, took time.Duration, now time.Time) {
	e := slowEntry{at: now, took: took, addr: s.addr, client: s.name, args: abridge(args)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max == 0 {
		return
	}
	e.id = l.next
	l.next++
	l.list = append(l.list, e)
	l.trim()
}

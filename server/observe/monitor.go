package observe

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/wire"
)

// Monitor is a client that sees the commands of all others.
type Monitor interface {
	// ShowLine sends a complete line. It does not wait.
	ShowLine(line []byte)
}

// Monitors are the clients that have called MONITOR. They are walked under a read lock: when
// Remove has returned, no line is on its way to that client any more.
type Monitors struct {
	mu    sync.RWMutex
	list  []Monitor
	count atomic.Int32
}

// Any reports whether there are monitors. It costs one load.
func (m *Monitors) Any() bool { return m.count.Load() > 0 }

// Add lets a client see all commands from now on.
func (m *Monitors) Add(c Monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, c)
	m.count.Store(int32(len(m.list)))
}

// Remove takes a client out.
func (m *Monitors) Remove(c Monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(other Monitor) bool { return other == c })
	m.count.Store(int32(len(m.list)))
}

// Show shows a command that was run in a database to every monitor. The source is the
// address of its client, or "lua". The caller has redacted the arguments.
func (m *Monitors) Show(now time.Time, db int, source string, args [][]byte) {
	line := fmt.Appendf(nil, "+%d.%06d [%d %s]", now.Unix(), now.Nanosecond()/1000, db, source)
	for _, a := range args {
		line = wire.AppendQuoted(append(line, ' '), string(a))
	}
	line = append(line, '\r', '\n')
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, c := range m.list {
		c.ShowLine(line)
	}
}

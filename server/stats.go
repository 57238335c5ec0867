package server

import (
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
)

// Statistics per command are kept per event loop, so that counting is an
// uncontended atomic addition; readers add the loops up.

// stats are the server's figures.
type stats struct {
	table *command.Table
	mu    sync.Mutex
	loops []*loopStats
	base  time.Time

	connections, rejected, netIn, netOut atomic.Int64
	queryLimit, outputLimit              atomic.Int64
	opsPerSec                            atomic.Int64
}

// loopStats belong to one loop.
type loopStats struct {
	cmds []cmdStats
}

// cmdStats are the figures of one command.
type cmdStats struct {
	calls, nanos, failed, rejected atomic.Int64
	hist                           atomic.Pointer[histogram]
}

// histogram counts durations in buckets of a quarter of a power of two, from a
// nanosecond on.
type histogram [4 * 64]atomic.Uint32

func bucketOf(d time.Duration) int {
	n := uint64(max(1, d))
	exp := bits.Len64(n) - 1
	if exp < 2 {
		return 4 * exp
	}
	return 4*exp + int(n>>(exp-2)&3)
}

// bucketTop is the largest duration of a bucket.
func bucketTop(i int) time.Duration {
	exp, quarter := i/4, uint64(i%4)
	if exp < 2 {
		return time.Duration(uint64(2)<<exp - 1)
	}
	return time.Duration((5+quarter)<<(exp-2) - 1)
}

func (st *stats) init(t *command.Table) { st.table, st.base = t, time.Now() }

func (st *stats) newLoop() *loopStats {
	l := &loopStats{cmds: make([]cmdStats, len(st.table.All()))}
	st.mu.Lock()
	st.loops = append(st.loops, l)
	st.mu.Unlock()
	return l
}

// record counts a command that was run.
func (l *loopStats) record(cmd *command.Command, took time.Duration, failed bool) {
	c := &l.cmds[cmd.ID]
	c.calls.Add(1)
	c.nanos.Add(int64(took))
	if failed {
		c.failed.Add(1)
	}
	h := c.hist.Load()
	if h == nil {
		h = new(histogram)
		c.hist.Store(h)
	}
	h[bucketOf(took)].Add(1)
}

// reject counts a command that was refused before it ran.
func (l *loopStats) reject(cmd *command.Command) {
	if cmd != nil {
		l.cmds[cmd.ID].rejected.Add(1)
	}
}

// commandStats is the sum over all loops.
type commandStats struct {
	calls, nanos, failed, rejected int64
	hist                           [4 * 64]uint64
}

// command adds up one command's figures.
func (st *stats) command(cmd *command.Command) (sum commandStats) {
	for _, l := range st.snapshot() {
		c := &l.cmds[cmd.ID]
		sum.calls += c.calls.Load()
		sum.nanos += c.nanos.Load()
		sum.failed += c.failed.Load()
		sum.rejected += c.rejected.Load()
		if h := c.hist.Load(); h != nil {
			for i := range h {
				sum.hist[i] += uint64(h[i].Load())
			}
		}
	}
	return sum
}

func (st *stats) snapshot() []*loopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.loops
}

// calls is how many commands were run in all.
func (st *stats) calls() (n int64) {
	for _, l := range st.snapshot() {
		for i := range l.cmds {
			n += l.cmds[i].calls.Load()
		}
	}
	return n
}

// errorStats count error replies by their code.
type errorStats struct {
	mu    sync.Mutex
	total int64
	codes map[string]int64
}

func (e *errorStats) count(err error) { e.add(command.Text(err)) }

// countReply counts the error at the end of a reply buffer.
func (e *errorStats) countReply(buf []byte) {
	if i := strings.LastIndexByte(strings.TrimSuffix(string(buf[max(0, len(buf)-512):]), "\r\n"), '-'); i >= 0 {
		e.add(string(buf[max(0, len(buf)-512):][i+1:]))
	}
}

const maxErrorCodes = 128

func (e *errorStats) add(text string) {
	code, _, _ := strings.Cut(text, " ")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total++
	if e.codes == nil {
		e.codes = make(map[string]int64)
	}
	if _, known := e.codes[code]; known || len(e.codes) < maxErrorCodes {
		e.codes[code]++
	}
}

package server

import (
	"bytes"
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
	table    *command.Table
	tracking atomic.Bool // latency-tracking

	mu     sync.Mutex
	loops  []*loopStats
	shared []*loopStats // those of connections that are carried by goroutines
	next   int

	// netIn and netOut are of sessions that have ended, minus what CONFIG
	// RESETSTAT is to hide of those that have not.
	connections, rejected, netIn, netOut atomic.Int64
	lastIn, lastOut                      atomic.Int64 // what net returned last
	queryLimit, outputLimit              atomic.Int64
	evicted, guestsClosed                atomic.Int64 // clients closed for maxmemory-clients, and guests to make room for others
	rates                                rates
	startMemory                          int64
	peakMemory                           atomic.Int64
	replID                               atomic.Pointer[string]
}

// loopStats belong to one loop.
type loopStats struct {
	tracking *atomic.Bool
	cmds     []cmdStats
}

// cmdStats are the figures of one command.
type cmdStats struct {
	calls, nanos, failed, rejected atomic.Int64
	hist                           atomic.Pointer[histogram]
}

// histogram counts durations in buckets that are an eighth of a power of two
// wide, from a nanosecond to some minutes.
type histogram [buckets]atomic.Uint64

const (
	octaves     = 40
	octaveParts = 8
	partBits    = 3
	buckets     = octaves * octaveParts
)

func bucketOf(d time.Duration) int {
	n := uint64(max(1, d))
	exp := bits.Len64(n) - 1
	if exp >= octaves {
		return buckets - 1
	}
	if exp < partBits {
		return octaveParts*exp + int(n<<(partBits-exp))&(octaveParts-1)
	}
	return octaveParts*exp + int(n>>(exp-partBits))&(octaveParts-1)
}

// bucketTop is the largest duration of a bucket.
func bucketTop(i int) time.Duration {
	exp, part := i/octaveParts, uint64(i%octaveParts)
	if exp < partBits {
		return time.Duration((octaveParts + part) >> (partBits - exp))
	}
	return time.Duration((octaveParts+part+1)<<(exp-partBits) - 1)
}

func (st *stats) init(t *command.Table) {
	st.table = t
	st.newReplID()
}

// newReplID makes up another replication id.
func (st *stats) newReplID() {
	id := randomID()
	st.replID.Store(&id)
}

func (st *stats) newLoop() *loopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.addLoop()
}

func (st *stats) addLoop() *loopStats {
	l := &loopStats{tracking: &st.tracking, cmds: make([]cmdStats, len(st.table.All()))}
	st.loops = append(st.loops, l)
	return l
}

// sharedLoops is how many counters the connections without a loop share: each
// is as large as the table of commands, so they cannot have one each.
const sharedLoops = 8

// sharedLoop returns the counters for a connection that has no loop.
func (st *stats) sharedLoop() *loopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.shared) < sharedLoops {
		st.shared = append(st.shared, st.addLoop())
	}
	st.next++
	return st.shared[st.next%len(st.shared)]
}

// record counts a command that was run.
func (l *loopStats) record(cmd *command.Command, took time.Duration, failed bool) {
	c := &l.cmds[cmd.ID]
	c.calls.Add(1)
	c.nanos.Add(int64(took))
	if failed {
		c.failed.Add(1)
	}
	if l.tracking.Load() {
		h := c.hist.Load()
		if h == nil {
			h = c.newHistogram()
		}
		h[bucketOf(took)].Add(1)
	}
}

func (c *cmdStats) newHistogram() *histogram {
	c.hist.CompareAndSwap(nil, new(histogram))
	if h := c.hist.Load(); h != nil {
		return h
	}
	return new(histogram) // reset at this very moment
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
	timed                          uint64 // how many are in hist
	hist                           [buckets]uint64
}

// command adds up one command's figures.
func (st *stats) command(cmd *command.Command) (sum commandStats) {
	st.addUp(cmd, &sum)
	return sum
}

func (st *stats) addUp(cmd *command.Command, sum *commandStats) {
	for _, l := range st.snapshot() {
		c := &l.cmds[cmd.ID]
		sum.calls += c.calls.Load()
		sum.nanos += c.nanos.Load()
		sum.failed += c.failed.Load()
		sum.rejected += c.rejected.Load()
		if h := c.hist.Load(); h != nil {
			for i := range h {
				n := h[i].Load()
				sum.hist[i] += n
				sum.timed += n
			}
		}
	}
}

// each visits the figures of all commands that were called or refused. They are
// valid during the visit.
func (st *stats) each(visit func(*command.Command, *commandStats)) {
	loops, s := st.snapshot(), new(commandStats)
	for _, cmd := range st.table.All() {
		for _, l := range loops {
			if c := &l.cmds[cmd.ID]; c.calls.Load() != 0 || c.rejected.Load() != 0 {
				*s = commandStats{}
				st.addUp(cmd, s)
				visit(cmd, s)
				break
			}
		}
	}
}

// percentile is the duration that so many of 100 commands did not exceed.
func (s *commandStats) percentile(p float64) time.Duration {
	want := max(1, uint64(p/100*float64(s.timed)+0.5))
	var seen uint64
	for i, n := range s.hist {
		if seen += n; n > 0 && seen >= want {
			return bucketTop(i)
		}
	}
	return 0
}

// upTo is how many commands took less than 2^exp nanoseconds.
func (s *commandStats) upTo(exp int) (n uint64) {
	for _, c := range s.hist[:min(buckets, octaveParts*exp)] {
		n += c
	}
	return n
}

func (st *stats) snapshot() []*loopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.loops
}

// calls is how many commands were run in all, and for how long.
func (st *stats) calls() (n, nanos int64) {
	for _, l := range st.snapshot() {
		for i := range l.cmds {
			if c := l.cmds[i].calls.Load(); c > 0 {
				n += c
				nanos += l.cmds[i].nanos.Load()
			}
		}
	}
	return n, nanos
}

// net is how many bytes came in and went out, live sessions included. A session
// that ends meanwhile may be missed; the figures never go down for that.
func (srv *Server) net() (in, out int64) {
	st := &srv.stats
	in, out = st.netIn.Load(), st.netOut.Load()
	for _, s := range srv.clients.list() {
		s.mu.Lock()
		if !s.closed { // else it is counted already
			in, out = in+s.netIn, out+s.netOut
		}
		s.mu.Unlock()
	}
	return raise(&st.lastIn, in), raise(&st.lastOut, out)
}

// raise makes n at least v and returns it.
func raise(n *atomic.Int64, v int64) int64 {
	for {
		old := n.Load()
		if old >= v {
			return old
		}
		if n.CompareAndSwap(old, v) {
			return v
		}
	}
}

// resetStats is CONFIG RESETSTAT.
func (srv *Server) resetStats() {
	st := &srv.stats
	for _, l := range st.snapshot() {
		for i := range l.cmds {
			c := &l.cmds[i]
			c.calls.Store(0)
			c.nanos.Store(0)
			c.failed.Store(0)
			c.rejected.Store(0)
			c.hist.Store(nil)
		}
	}
	in, out := srv.net()
	st.netIn.Add(-in)
	st.netOut.Add(-out)
	list := []*atomic.Int64{&st.connections, &st.rejected, &st.lastIn, &st.lastOut, &st.queryLimit, &st.outputLimit, &st.evicted, &st.guestsClosed}
	if srv.ready.Load() {
		list = append(list, &srv.exec.Stats.Hits, &srv.exec.Stats.Misses, &srv.exec.Stats.Expired, &srv.exec.Stats.Dropped)
	}
	for _, n := range list {
		n.Store(0)
	}
	srv.errors.reset()
}

// errorStats count error replies by their code.
type errorStats struct {
	mu    sync.Mutex
	total int64
	codes map[string]int64
}

func (e *errorStats) count(err error) { e.add(command.Text(err)) }

// countReply counts the error at the end of a reply buffer. Every reply ends
// with a line break and an error holds no other, so it begins behind the one
// before.
func (e *errorStats) countReply(buf []byte) {
	line := bytes.TrimSuffix(buf, []byte("\r\n"))
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if len(line) > 0 && line[0] == '-' {
		e.add(string(line[1:]))
	}
}

// maxErrorCodes bounds what errors that come from scripts can do to INFO.
const maxErrorCodes = 128

func (e *errorStats) add(text string) {
	code, _, ok := strings.Cut(text[:min(len(text), 32)], " ")
	if !ok {
		code = "ERR"
	}
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

func (e *errorStats) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total, e.codes = 0, nil
}

// counts returns a copy of the figures.
func (e *errorStats) counts() (total int64, codes map[string]int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	codes = make(map[string]int64, len(e.codes))
	for c, n := range e.codes {
		codes[c] = n
	}
	return e.total, codes
}

package observe

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"redoubt/command"
)

// Statistics per command are kept per event loop, so that counting is an
// uncontended atomic addition; readers add the loops up.

// Stats are the server's counters.
type Stats struct {
	// Timed enables histograms of durations by command: latency-tracking.
	Timed atomic.Bool

	Connections  atomic.Int64 // that were accepted
	Rejected     atomic.Int64 // connections that were refused: maxclients or protected mode
	QueryLimit   atomic.Int64 // clients closed for client-query-buffer-limit
	OutputLimit  atomic.Int64 // clients closed for client-output-buffer-limit
	Evicted      atomic.Int64 // clients closed for maxmemory-clients
	GuestsClosed atomic.Int64 // clients that had not authenticated, closed to make room for others

	Rates Rates

	// NetIn and NetOut are the bytes of sessions that have ended, minus the totals at the
	// last CONFIG RESETSTAT.
	NetIn, NetOut   atomic.Int64
	lastIn, lastOut atomic.Int64 // the last results of Net

	table  *command.Table
	mu     sync.Mutex
	loops  []*LoopStats
	shared []*LoopStats // of connections without an event loop
	next   int
}

// LoopStats are the counters of one event loop, or of connections without one.
type LoopStats struct {
	timed *atomic.Bool
	cmds  []cmdStats
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

// bucketTop returns the largest duration of a bucket.
func bucketTop(i int) time.Duration {
	exp, part := i/octaveParts, uint64(i%octaveParts)
	if exp < partBits {
		return time.Duration((octaveParts + part) >> (partBits - exp))
	}
	return time.Duration((octaveParts+part+1)<<(exp-partBits) - 1)
}

func (st *Stats) init(t *command.Table) { st.table = t }

// Net adds the bytes of live sessions to those of sessions that have ended. A session that
// ends meanwhile may be missed; the results never decrease because of that.
func (st *Stats) Net(liveIn, liveOut int64) (in, out int64) {
	return Raise(&st.lastIn, st.NetIn.Load()+liveIn), Raise(&st.lastOut, st.NetOut.Load()+liveOut)
}

// NewLoop makes the counters of an event loop.
func (st *Stats) NewLoop() *LoopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.addLoop()
}

func (st *Stats) addLoop() *LoopStats {
	l := &LoopStats{timed: &st.Timed, cmds: make([]cmdStats, len(st.table.All()))}
	st.loops = append(st.loops, l)
	return l
}

// sharedLoops is how many LoopStats the connections without a loop share: each is as large
// as the table of commands, too large for one per connection.
const sharedLoops = 8

// SharedLoop returns the counters for a connection that has no loop.
func (st *Stats) SharedLoop() *LoopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.shared) < sharedLoops {
		st.shared = append(st.shared, st.addLoop())
	}
	st.next++
	return st.shared[st.next%len(st.shared)]
}

// Record counts a command that was run.
func (l *LoopStats) Record(cmd *command.Command, took time.Duration, failed bool) {
	c := &l.cmds[cmd.ID]
	c.calls.Add(1)
	c.nanos.Add(int64(took))
	if failed {
		c.failed.Add(1)
	}
	if l.timed.Load() {
		h := c.hist.Load()
		if h == nil {
			h = c.newHistogram()
		}
		h[bucketOf(took)].Add(1)
	}
}

// RecordMany is Record for several calls of one command. The histogram gets their mean.
func (l *LoopStats) RecordMany(cmd *command.Command, calls, failed, rejected int64, took time.Duration) {
	c := &l.cmds[cmd.ID]
	c.failed.Add(failed)
	c.rejected.Add(rejected)
	if calls == 0 {
		return
	}
	c.calls.Add(calls)
	c.nanos.Add(int64(took))
	if l.timed.Load() {
		h := c.hist.Load()
		if h == nil {
			h = c.newHistogram()
		}
		h[bucketOf(took/time.Duration(calls))].Add(uint64(calls))
	}
}

func (c *cmdStats) newHistogram() *histogram {
	c.hist.CompareAndSwap(nil, new(histogram))
	if h := c.hist.Load(); h != nil {
		return h
	}
	return new(histogram) // reset has just removed it
}

// Reject counts a command that was refused before it ran.
func (l *LoopStats) Reject(cmd *command.Command) {
	if cmd != nil {
		l.cmds[cmd.ID].rejected.Add(1)
	}
}

// CommandStats are the figures of one command, over all loops.
type CommandStats struct {
	Calls, Nanos, Failed, Rejected int64
	Timed                          uint64 // calls whose durations were kept
	hist                           [buckets]uint64
}

// Command adds up one command's figures.
func (st *Stats) Command(cmd *command.Command) (sum CommandStats) {
	st.addUp(cmd, &sum)
	return sum
}

func (st *Stats) addUp(cmd *command.Command, sum *CommandStats) {
	for _, l := range st.snapshot() {
		c := &l.cmds[cmd.ID]
		sum.Calls += c.calls.Load()
		sum.Nanos += c.nanos.Load()
		sum.Failed += c.failed.Load()
		sum.Rejected += c.rejected.Load()
		if h := c.hist.Load(); h != nil {
			for i := range h {
				n := h[i].Load()
				sum.hist[i] += n
				sum.Timed += n
			}
		}
	}
}

// Each visits the figures of all commands that were called or refused. They are
// valid during the visit.
func (st *Stats) Each(visit func(*command.Command, *CommandStats)) {
	loops, s := st.snapshot(), new(CommandStats)
	for _, cmd := range st.table.All() {
		for _, l := range loops {
			if c := &l.cmds[cmd.ID]; c.calls.Load() != 0 || c.rejected.Load() != 0 {
				*s = CommandStats{}
				st.addUp(cmd, s)
				visit(cmd, s)
				break
			}
		}
	}
}

// Since returns the figures since an earlier moment. If they were reset meanwhile, all of
// them are newer.
func (s *CommandStats) Since(old *CommandStats) CommandStats {
	if s.Calls < old.Calls || s.Rejected < old.Rejected || s.Timed < old.Timed {
		return *s
	}
	d := CommandStats{
		Calls: s.Calls - old.Calls, Nanos: s.Nanos - old.Nanos, Failed: s.Failed - old.Failed, Rejected: s.Rejected - old.Rejected,
		Timed: s.Timed - old.Timed,
	}
	for i := range d.hist {
		d.hist[i] = s.hist[i] - min(s.hist[i], old.hist[i])
	}
	return d
}

// Add adds the figures of another command.
func (s *CommandStats) Add(o *CommandStats) {
	s.Calls, s.Nanos, s.Failed, s.Rejected, s.Timed = s.Calls+o.Calls, s.Nanos+o.Nanos, s.Failed+o.Failed, s.Rejected+o.Rejected, s.Timed+o.Timed
	for i := range s.hist {
		s.hist[i] += o.hist[i]
	}
}

// Percentile returns the duration that p percent of the calls did not exceed.
func (s *CommandStats) Percentile(p float64) time.Duration {
	want := max(1, uint64(p/100*float64(s.Timed)+0.5))
	var seen uint64
	for i, n := range s.hist {
		if seen += n; n > 0 && seen >= want {
			return bucketTop(i)
		}
	}
	return 0
}

// UpTo returns how many calls took less than 2^exp nanoseconds.
func (s *CommandStats) UpTo(exp int) (n uint64) {
	for _, c := range s.hist[:min(buckets, octaveParts*exp)] {
		n += c
	}
	return n
}

func (st *Stats) snapshot() []*LoopStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.loops
}

// Calls returns how many commands were run in all, and the sum of their durations.
func (st *Stats) Calls() (n, nanos int64) {
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

func (st *Stats) reset() {
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
	for _, n := range []*atomic.Int64{&st.Connections, &st.Rejected, &st.lastIn, &st.lastOut, &st.QueryLimit, &st.OutputLimit, &st.Evicted, &st.GuestsClosed} {
		n.Store(0)
	}
}

// Raise makes n at least v and returns it.
func Raise(n *atomic.Int64, v int64) int64 {
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

// Sizes of structures, for DEBUG STRUCTSIZE.
const (
	HistogramSize = unsafe.Sizeof(histogram{})
	SlowEntrySize = unsafe.Sizeof(entry{})
)

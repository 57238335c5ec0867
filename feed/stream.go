// Package feed is the replication stream: the commands that replicas of Redis's kind run to
// have the same data, the part of it that is kept (the backlog), and the replicas that read it.
//
// Every byte has an offset. Commits append to the stream while they hold the latches of their
// keys, so the stream has the commands on a key in the order of their commits, and a commit
// stands behind every commit that somebody had been told of before it began. Whoever holds the
// keyspace latch exclusively sees an end of the stream that belongs to the state of the store.
//
// The package promises that no byte is handed out before all commits up to that byte are
// durable: a replica never has what a crash of the master undoes. A byte is in memory once,
// whatever the number of replicas; what a slow replica makes the stream hold is bounded by
// Limits. While nobody wants the stream, it costs commits one load (Wanted).
//
// It knows no sockets: package server/replication moves the bytes.
package feed

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/budget"
	"redoubt/engine"
)

// Errors that end a replica.
var (
	ErrLag     = errors.New("the replica does not read fast enough: its part of the stream is beyond client-output-buffer-limit for replicas, or beyond half of maxmemory-clients")
	ErrTimeout = errors.New("the replica has not acknowledged anything for repl-timeout")
	ErrClosed  = errors.New("the connection was closed")
)

// Limits are the settings of a Stream.
type Limits struct {
	Backlog int64 // how many bytes are kept for replicas that come back
	// Hard and Soft bound how far a replica may be behind: Hard at once, Soft for longer than
	// SoftFor. 0 is no limit.
	Hard, Soft int64
	SoftFor    time.Duration
}

// Stream is the stream of one server.
type Stream struct {
	// Durable returns the ticket up to which commits are durable. Memory, if not nil, accounts
	// for what the stream holds. Both are set before the first use.
	Durable func() engine.Ticket
	Memory  *budget.Account

	wanted atomic.Bool
	// holding: some bytes wait for their commits to be durable.
	holding atomic.Bool

	mu       sync.Mutex
	more     sync.Cond // there are released bytes, or a replica was closed
	limits   Limits
	id, id2  string
	second   int64 // replicas with id2 may go on from offsets up to this one
	start    int64 // the offset before the first byte that is kept
	end      int64
	released int64 // bytes up to here may be handed out
	segments []segment
	holds    []hold
	db       int // selected by the bytes so far, -1 if a replica may not know
	replicas []*Replica
	alone    time.Time // when the last replica left
	charged  int64
	acks     chan struct{} // closed by the next acknowledgment; nil if nobody waits
}

// segment has the bytes behind an offset. Bytes that are in it never change.
type segment struct {
	at   int64
	data []byte
}

// hold is a place in the stream that waits for a ticket.
type hold struct {
	end    int64
	ticket engine.Ticket
}

// segmentSize is the room of a segment that commands are copied to.
const segmentSize = 16 << 10

// New makes a stream with a new replication id.
func New() *Stream {
	s := &Stream{id: newID(), db: -1, second: -1}
	s.more.L = &s.mu
	return s
}

func newID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Wanted reports whether commits have to append what they do.
func (s *Stream) Wanted() bool { return s.wanted.Load() }

// Want begins to keep the stream, if that has not begun. No commit may be under way.
func (s *Stream) Want() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted.Load() {
		s.alone = time.Time{}
		s.wanted.Store(true)
	}
}

// SetLimits changes the limits.
func (s *Stream) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
	s.trim()
}

// Append appends the commands of a commit. Append may keep the batch's buffer: the caller
// resets the batch. The latches of the commit are held.
func (s *Stream) Append(b *Batch, t engine.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted.Load() {
		return
	}
	owned := len(b.buf) > segmentSize
	at := 0
	for i, o := range b.ops {
		several := o.unit != 0 && i+1 < len(b.ops) && b.ops[i+1].unit == o.unit
		first := i == 0 || b.ops[i-1].unit != o.unit
		if o.db != s.db {
			s.db = o.db
			s.copy(AppendCommand(nil, []byte("SELECT"), strconv.AppendInt(nil, int64(o.db), 10)))
		}
		if first && several {
			s.copy(multi)
		}
		if piece := b.buf[at:o.end:o.end]; owned && len(piece) > segmentSize/4 {
			s.segments = append(s.segments, segment{s.end, piece})
			s.end += int64(len(piece))
		} else {
			s.copy(piece)
		}
		at = o.end
		if !first && !several && o.unit != 0 {
			s.copy(exec)
		}
	}
	if owned {
		b.buf = nil
	}
	s.added(t)
}

var (
	multi = AppendCommand(nil, []byte("MULTI"))
	exec  = AppendCommand(nil, []byte("EXEC"))
)

// Note appends a command that changes nothing, as PING, if any replica reads the stream. It
// returns the offset behind it.
func (s *Stream) Note(args ...[]byte) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted.Load() && len(s.replicas) > 0 {
		s.copy(AppendCommand(nil, args...))
		s.added(0)
	}
	return s.end
}

// copy appends bytes to the last segment, or to a new one. mu is held.
func (s *Stream) copy(b []byte) {
	s.end += int64(len(b))
	for len(b) > 0 {
		n := len(s.segments)
		if n == 0 || cap(s.segments[n-1].data) == len(s.segments[n-1].data) {
			s.segments = append(s.segments, segment{s.end - int64(len(b)), make([]byte, 0, max(segmentSize, len(b)))})
			n++
		}
		last := &s.segments[n-1]
		k := min(len(b), cap(last.data)-len(last.data))
		last.data, b = append(last.data, b[:k]...), b[k:]
	}
}

// added ends an Append: the new bytes wait for the ticket t. mu is held.
func (s *Stream) added(t engine.Ticket) {
	if n := len(s.holds); n > 0 {
		t = max(t, s.holds[n-1].ticket)
	}
	s.holds = append(s.holds, hold{s.end, t})
	s.release()
	now := time.Now()
	for _, r := range slices.Clone(s.replicas) {
		r.check(now)
	}
	s.trim()
}

// Release hands out what is durable now. It is called when Durable has grown.
func (s *Stream) Release() {
	if !s.holding.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// release is Release with mu held.
func (s *Stream) release() {
	s.holding.Store(true) // before Durable is read: a later growth is told to Release
	durable, n := s.Durable(), 0
	for n < len(s.holds) && s.holds[n].ticket <= durable {
		s.released = s.holds[n].end
		n++
	}
	if s.holds = s.holds[:copy(s.holds, s.holds[n:])]; len(s.holds) == 0 {
		s.holding.Store(false)
	}
	if n > 0 {
		s.more.Broadcast()
	}
}

// trim drops the segments that are beyond the backlog and that every replica has got. mu is
// held.
func (s *Stream) trim() {
	least := s.end - s.limits.Backlog
	for _, r := range s.replicas {
		least = min(least, r.cursor)
	}
	n := 0
	for n < len(s.segments)-1 && s.segments[n+1].at <= least {
		n++
	}
	if n > 0 {
		s.segments = slices.Delete(s.segments, 0, n)
	}
	if len(s.segments) > 0 {
		s.start = s.segments[0].at
	}
	s.charge()
}

// charge accounts for the memory of the segments. mu is held.
func (s *Stream) charge() {
	n := int64(0)
	if len(s.segments) > 0 {
		last := s.segments[len(s.segments)-1]
		n = s.end - s.start + int64(cap(last.data)-len(last.data))
	}
	if s.Memory != nil && n != s.charged {
		s.Memory.Add(n - s.charged)
	}
	s.charged = n
}

// next returns bytes behind an offset, up to a number of them. mu is held.
func (s *Stream) next(offset int64, most int) []byte {
	i, found := slices.BinarySearchFunc(s.segments, offset, func(g segment, at int64) int { return int(min(1, max(-1, g.at-at))) })
	if !found {
		i--
	}
	g := s.segments[i]
	from := offset - g.at
	to := min(int64(len(g.data)), s.released-g.at, from+int64(most))
	return g.data[from:to:to]
}

// State is what the stream is at a moment.
type State struct {
	ID, ID2     string // ID2 is empty if there is none
	Offset      int64
	Second      int64 // up to which offset ID2 is valid, -1 for none
	Active      bool  // the backlog is kept
	First, Kept int64 // the offset of the first byte of the backlog, and how many there are
	Backlog     int64 // Limits.Backlog
	Memory      int64
}

// State returns the present state.
func (s *Stream) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{ID: s.id, ID2: s.id2, Offset: s.end, Second: s.second, Active: s.wanted.Load(), Backlog: s.limits.Backlog, Memory: s.charged}
	if st.Active {
		st.Kept = s.end - s.start
		st.First = s.start + 1
	}
	return st
}

// End returns the offset behind the last byte.
func (s *Stream) End() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Renew gives the stream another id: what comes is the history of another master. With keep the
// present id stays valid as the second one, for replicas that have nothing beyond this moment.
func (s *Stream) Renew(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id2, s.second = "", -1
	if keep {
		s.id2, s.second = s.id, s.end+1
	}
	s.id = newID()
}

// Tick ends what is overdue: replicas that have not acknowledged anything for timeout, and the
// backlog if there has been no replica for ttl, unless ttl is 0.
func (s *Stream) Tick(now time.Time, timeout, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Clone(s.replicas) {
		if r.state == Online && r.acks && now.Sub(r.ackTime) > timeout {
			r.end(ErrTimeout)
			continue
		}
		r.check(now)
	}
	if len(s.replicas) > 0 || !s.wanted.Load() || ttl == 0 || s.alone.IsZero() || now.Sub(s.alone) < ttl {
		return
	}
	// Commits are not in the stream from now on: its offsets must not be valid any more.
	s.wanted.Store(false)
	s.id, s.id2, s.second = newID(), "", -1
	s.segments, s.holds, s.db = nil, nil, -1
	s.start, s.released = s.end, s.end
	s.holding.Store(false)
	s.charge()
}

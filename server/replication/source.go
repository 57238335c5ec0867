package replication

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/feed"
)

// Source serves replicas: it gives each one a snapshot and then the stream, or the stream alone
// if that still has what the replica misses.
//
// A goroutine per replica moves bytes from the stream to the replica's connection, which takes
// them as fast as it can. What it has not taken stays in the stream, where replicas share it.
type Source struct {
	SourceOptions
	// Stream is the stream. Commits append to it.
	Stream *feed.Stream

	mu       sync.Mutex
	replicas []*Replica // those that are being served
	waiting  []*Replica // of these, those that wait for a snapshot
	busy     bool       // a transfer is under way, or waits for others to join
	// onDisk: the last snapshot was revoked while it was sent: the next one is written to a file
	// first, which takes less long.
	onDisk  bool
	told    bool // that channels are left out
	stopped bool
	done    chan struct{} // closed by Stop
	work    sync.WaitGroup
	fulls   int64
	partly  int64
	refused int64
}

// SourceOptions are the parts of the server that a Source needs.
type SourceOptions struct {
	Config *config.Config
	Log    *slog.Logger
	// Freeze takes a snapshot at a moment at which no commit is under way, at which it also calls
	// at. It returns the ticket of the newest commit in the snapshot.
	Freeze func(at func()) (engine.Snapshot, engine.Ticket, error)
	// Await waits until a ticket is durable.
	Await func(engine.Ticket) error
	// Now is the time of the server.
	Now func() time.Time
	// Engine are the capabilities of the engine.
	Engine engine.Capabilities
	// RedisVersion is the version of Redis that snapshots name as their writer.
	RedisVersion string
}

// Link is the connection of a replica. Its methods may be called from any goroutine.
type Link interface {
	// Write sends bytes and waits until the client has taken most of them. It fails if the
	// connection is closed or, unless patience is 0, if the client takes nothing for that long.
	Write(b []byte, patience time.Duration) error
	// Shut closes the connection soon. It does not wait.
	Shut()
	// Host is the address of the client, without its port.
	Host() string
}

// NewSource makes a Source with a stream of its own.
func NewSource() *Source { return &Source{Stream: feed.New(), done: make(chan struct{})} }

// Init sets the options. Stream.Durable and Stream.Memory must be set as well.
func (s *Source) Init(o SourceOptions) {
	s.SourceOptions = o
	s.applyLimits()
	o.Config.OnChangeOfAny(func() error { s.applyLimits(); return nil }, "repl-backlog-size", "client-output-buffer-limit")
}

func (s *Source) applyLimits() {
	_, l, _ := s.Config.BufferLimits()
	s.Stream.SetLimits(feed.Limits{
		Backlog: s.Config.Int("repl-backlog-size"),
		Hard:    int64(l.Hard), Soft: int64(l.Soft), SoftFor: time.Duration(l.SoftSeconds) * time.Second,
	})
}

// timeout is repl-timeout.
func (s *Source) timeout() time.Duration {
	return time.Duration(s.Config.Int("repl-timeout")) * time.Second
}

// newlineEvery is how often replicas that wait hear something, and overdue ones are looked for.
const newlineEvery = time.Second

// Run does what is due from time to time, until ctx ends.
func (s *Source) Run(ctx context.Context) {
	tick := time.NewTicker(newlineEvery)
	defer tick.Stop()
	pinged := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		s.Stream.Tick(now, s.timeout(), time.Duration(s.Config.Int("repl-backlog-ttl"))*time.Second)
		if now.Sub(pinged) >= time.Duration(s.Config.Int("repl-ping-replica-period"))*time.Second {
			s.Stream.Note([]byte("PING"))
			pinged = now
		}
	}
}

// AskForAcks has replicas acknowledge at once what they have.
func (s *Source) AskForAcks() { s.Stream.Note([]byte("REPLCONF"), []byte("GETACK"), []byte("*")) }

// Enough reports whether there are as many good replicas as min-replicas-to-write wants.
func (s *Source) Enough() bool {
	lag := time.Duration(s.Config.Int("min-replicas-max-lag")) * time.Second
	return int64(s.Stream.Good(time.Now(), lag)) >= s.Config.Int("min-replicas-to-write")
}

// Discard implements Master.
func (s *Source) Discard() {
	s.Stream.Renew(false)
	for _, r := range s.list() {
		r.feed.Close(errDiscarded)
	}
}

// Promoted begins another history after one that replicas may have: those that have all of it
// go on.
func (s *Source) Promoted() { s.Stream.Renew(true) }

// Drain waits until every replica was handed all of the stream, or ctx ends.
func (s *Source) Drain(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s.Stream.Release()
		behind := slices.ContainsFunc(s.list(), func(r *Replica) bool {
			st := r.feed.State()
			return st.Phase == feed.Online && st.Behind > 0
		})
		if !behind {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Stop ends all replicas and returns when nothing is read from the store any more.
func (s *Source) Stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.done)
	}
	s.mu.Unlock()
	for _, r := range s.list() {
		r.feed.Close(errStopped)
	}
	s.work.Wait()
}

func (s *Source) list() []*Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.replicas)
}

// Replicas implements Master.
func (s *Source) Replicas() (list []ReplicaState) {
	now := time.Now()
	for _, r := range s.list() {
		if r.sent.Load() && r.rdbOnly {
			continue
		}
		st := r.feed.State()
		lag := int64(0)
		if st.Phase == feed.Online {
			lag = int64(now.Sub(st.AckTime) / time.Second)
		}
		host := r.host
		if host == "" {
			host = r.link.Host()
		}
		list = append(list, ReplicaState{Host: host, Port: r.port, State: st.Phase.String(), Offset: st.Ack, Lag: lag})
	}
	return list
}

// ID implements Master.
func (s *Source) ID() (id, id2 string, offset, secondOffset int64) {
	st := s.Stream.State()
	if id2 = st.ID2; id2 == "" {
		id2 = noID
	}
	return st.ID, id2, st.Offset, st.Second
}

// noID stands for no replication id.
var noID = strings.Repeat("0", 40)

// ChangeID implements Master.
func (s *Source) ChangeID() { s.Stream.Renew(false) }

// Backlog implements Master.
func (s *Source) Backlog() BacklogState {
	st := s.Stream.State()
	return BacklogState{Active: st.Active, Size: st.Backlog, First: st.First, Bytes: st.Kept}
}

// Syncs returns how many replicas were served: with a snapshot, with the stream alone, and how
// many of the former had asked for the latter.
func (s *Source) Syncs() (full, partial, refused int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fulls, s.partly, s.refused
}

package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/keyspace"
)

// Handler is told what happens at other front ends. Calls for one of them do not
// overlap and come in the order in which things happened there; while one runs,
// nothing more is taken from that front end.
type Handler interface {
	// Effects are those of executions that were committed there. They are valid
	// during the call.
	Effects(from string, fx *keyspace.Effects)
	// Synced: from here on everything is heard of what was gained, which is all that
	// is wanted when the connection is new. Of what happened before, some or all was
	// not heard.
	Synced(from string, gained Interest)
	// Lost: the connection broke. What happened since is not heard, nor some of what
	// happened right before.
	Lost(from string)
	// Refused: nobody listens at its address, or another front end does. It is called
	// once when a connection cannot be made for that reason, and again only after there
	// was one.
	Refused(from string)
}

// FollowOptions make a Follower.
type FollowOptions struct {
	Self   string // the id of this front end
	Secret [32]byte
	TLS    *tls.Config // nil: without
	// Dial makes a connection; nil: over TCP.
	Dial    func(ctx context.Context, addr string) (net.Conn, error)
	Handler Handler
	Log     *slog.Logger
	// Backoff is how long is waited before a connection is tried again, at first and at
	// most: 50 ms and 1 s.
	Backoff [2]time.Duration
	Timing
}

// Follower hears what other front ends tell.
type Follower struct {
	o      FollowOptions
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	peers    map[string]*peer
	interest Interest
	number   uint64        // of the interest
	changed  chan struct{} // closed and made anew when something here changes

	connections, lost, frames, bytes atomic.Int64
	traffic                          traffic
}

// peer is somebody who is followed.
type peer struct {
	Peer
	f      *Follower
	cancel context.CancelFunc

	// With the follower's mu.
	link  *link // nil: not connected
	sent  []sentInterest
	acked uint64 // 0: nothing was, on this connection
	has   Interest
}

// sentInterest is one that was sent and not acknowledged yet.
type sentInterest struct {
	number uint64
	Interest
}

// Follow begins to follow the peers that SetPeers names, until ctx ends or Close.
func Follow(ctx context.Context, o FollowOptions) *Follower {
	o.fill()
	o.Log = logger(o.Log)
	if o.Backoff[0] <= 0 {
		o.Backoff = [2]time.Duration{50 * time.Millisecond, time.Second}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	f := &Follower{o: o, peers: make(map[string]*peer), number: 1, changed: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// Close ends all connections. When it returns, the handler is not called any more.
// SetPeers must not be called at the same time, nor later.
func (f *Follower) Close() {
	f.cancel()
	f.work.Wait()
}

// SetPeers says whom to follow, without this front end itself. Who is not in the list
// any more, or has another address, is left.
func (f *Follower) SetPeers(list []Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, p := range f.peers {
		if !slices.Contains(list, p.Peer) {
			p.cancel()
			delete(f.peers, id)
		}
	}
	for _, who := range list {
		if who.ID == f.o.Self || f.peers[who.ID] != nil || f.ctx.Err() != nil {
			continue
		}
		p := &peer{Peer: who, f: f}
		var ctx context.Context
		ctx, p.cancel = context.WithCancel(f.ctx)
		f.peers[who.ID] = p
		f.work.Go(func() { p.run(ctx) })
	}
	f.news()
}

// news wakes those who wait for something. mu is held.
func (f *Follower) news() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// SetInterest says what to hear from now on. It returns a number for Wait.
func (f *Follower) SetInterest(i Interest) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i == f.interest {
		return f.number
	}
	f.interest = i
	f.number++
	for _, p := range f.peers {
		if p.link != nil {
			p.ask()
		}
	}
	return f.number
}

// ask sends the present interest. The follower's mu is held.
func (p *peer) ask() {
	n, i := p.f.number, p.f.interest
	p.sent = append(p.sent, sentInterest{n, i})
	p.link.send(func(dst []byte) []byte { return appendInterest(dst, n, i) })
}

// Wait waits until everybody who is connected has acknowledged the interest with
// that number, or a newer one. Who is not connected is not waited for: it cannot
// tell anything, and there will be a Synced when it can.
func (f *Follower) Wait(ctx context.Context, number uint64) error {
	for {
		f.mu.Lock()
		done, changed := true, f.changed
		for _, p := range f.peers {
			done = done && (p.link == nil || p.acked >= number)
		}
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-f.ctx.Done():
			return errClosed
		}
	}
}

// Acked says whether everybody who is connected has acknowledged the interest with
// that number.
func (f *Follower) Acked(number uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		if p.link != nil && p.acked < number {
			return false
		}
	}
	return true
}

// Synced says whether everything is heard that is wanted, from everybody.
func (f *Follower) Synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		if p.link == nil || p.acked < f.number {
			return false
		}
	}
	return true
}

// PeerState is how it is with a peer.
type PeerState struct {
	Peer
	Connected bool
	Acked     uint64    // the number of the interest that was acknowledged last
	Since     time.Time // when it was connected
}

// Peers are those who are followed, or should be, by id.
func (f *Follower) Peers() (list []PeerState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		s := PeerState{Peer: p.Peer, Connected: p.link != nil, Acked: p.acked}
		if s.Connected {
			s.Since = p.link.since
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b PeerState) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// FollowStats are figures of a follower.
type FollowStats struct {
	Peers, Connected int
	Connections      int64 // that there were
	Lost             int64 // those that broke
	Frames, Bytes    int64 // heard; the frames are those of effects
	Sent, Received   int64 // frames of all kinds
}

// Stats returns the figures.
func (f *Follower) Stats() FollowStats {
	s := FollowStats{
		Connections: f.connections.Load(), Lost: f.lost.Load(), Frames: f.frames.Load(), Bytes: f.bytes.Load(),
		Sent: f.traffic.sent.Load(), Received: f.traffic.received.Load(),
	}
	for _, p := range f.Peers() {
		s.Peers++
		if p.Connected {
			s.Connected++
		}
	}
	return s
}

// errLeft: the peer is not followed any more.
var errLeft = errors.New("it is not followed any more")

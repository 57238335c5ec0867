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

// Handler receives what happens at other front ends. Calls for one front end do not
// overlap and come in the order in which things happened there; while a call runs, nothing
// more is read from that front end.
type Handler interface {
	// Effects is called with effects of executions that were committed there. They are
	// valid during the call.
	Effects(from string, fx *keyspace.Effects)
	// Synced: from here on nothing of gained is missed; on a new connection gained is the
	// whole interest. Earlier effects of these kinds may have been missed.
	Synced(from string, gained Interest)
	// Lost: the connection broke. Effects since then, and some right before, are
	// missed.
	Lost(from string)
	// Refused: the address refuses connections, or another front end has it. Refused is
	// called once, and again only after there was a connection.
	Refused(from string)
}

// FollowOptions make a Follower.
type FollowOptions struct {
	Self   string // the id of this front end
	Secret [32]byte
	TLS    *tls.Config // nil: no TLS
	// Dial makes a connection; nil: over TCP.
	Dial    func(ctx context.Context, addr string) (net.Conn, error)
	Handler Handler
	Log     *slog.Logger
	// Backoff is the first and the longest retry delay of a connection; default 50 ms and
	// 1 s.
	Backoff [2]time.Duration
	Timing
}

// Follower receives effects from other front ends.
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

// peer is a followed front end.
type peer struct {
	Peer
	f      *Follower
	cancel context.CancelFunc

	// The fields below are guarded by the follower's mu.
	link  *link // nil: not connected
	sent  []sentInterest
	acked uint64 // the interest acknowledged last on this connection, 0 if none
	has   Interest
}

// sentInterest is an interest that was sent and is not acknowledged yet.
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

// Close ends all connections. After it returns the handler is not called any more.
// SetPeers must not be called concurrently, nor later.
func (f *Follower) Close() {
	f.cancel()
	f.work.Wait()
}

// SetPeers sets the peers to follow; this front end itself is skipped. The connection to a
// peer that is not in the list, or has another address there, is closed.
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

// news wakes the calls of Wait. mu is held.
func (f *Follower) news() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// SetInterest sets what to receive from now on. It returns a number for Wait.
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

// Wait waits until every connected peer has acknowledged the interest with that number,
// or a newer one. A peer that is not connected is not waited for: Handler.Synced is
// called when it is.
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

// Acked reports whether every connected peer has acknowledged the interest with that
// number, or a newer one.
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

// Synced reports whether every peer is connected and has acknowledged the present interest.
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

// PeerState is the state of the connection to a peer.
type PeerState struct {
	Peer
	Connected bool
	Acked     uint64    // the number of the interest that was acknowledged last
	Since     time.Time // when the connection was made
}

// Peers returns all peers, connected or not, by id.
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

// FollowStats are statistics of a follower.
type FollowStats struct {
	Peers, Connected int
	Connections      int64 // made since the start
	Lost             int64 // connections that broke
	Frames, Bytes    int64 // received; Frames counts those of effects
	Sent, Received   int64 // frames of all kinds
}

// Stats returns the statistics.
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

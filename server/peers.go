package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/bus"
	"redoubt/keyspace"
)

// Other front ends of the same store: what clients hear of that happens there.
//
// Out: what an execution here has done is told to the hub (heard), and with it to
// those front ends whose clients want it. Writers note keys that were changed, keys
// that became ready, and events, only while somebody wants them; so what the others
// want is counted where own clients are: Space.Observers, Space.Waiting, and the
// classes of events.
//
// In: effects of others go the same ways as own ones, to those who have subscribed,
// who track keys, who wait for keys. They are not told any further.
//
// What this front end wants to hear follows from what its clients want. More is asked
// for at once, less after a second or two, for clients come and go: one that takes
// jobs with BLPOP waits, works, and waits again.
//
// What holds:
//  1. Who has the reply of SUBSCRIBE hears every message that is published later, by
//     whichever front end: the command waits until all have acknowledged that this
//     one wants messages. The same for CLIENT TRACKING and for events. Only inside
//     MULTI it does not wait.
//  2. No waiting client is forgotten: when others begin to tell of ready keys
//     (Synced), and when they may have failed to (Lost), all keys are looked at, at
//     which clients wait; and every second again, if they are not too many or while a
//     front end cannot be heard.
//  3. Clients that track keys drop everything when something may have been missed,
//     and every second while that goes on.
//
// WATCH needs none of this: EXEC compares the versions of rows. What others tell may
// be older than the WATCH, so it would only make transactions fail without need.

// PeerSource knows the other living front ends.
type PeerSource interface {
	// Peers are the others, and where their hubs are.
	Peers() []bus.Peer
	// OnChange has a function called after each change of them, which does not wait.
	OnChange(func())
	// Came, Reached and Refused are told of the others what the bus finds: that one has
	// connected, that one answers, and that nobody listens at the address of one.
	Came(id string)
	Reached(id string)
	Refused(id string)
}

// PeerOptions are what it takes to talk to other front ends.
type PeerOptions struct {
	Self     string   // the id of this one
	Secret   [32]byte // what they all know, and nobody else
	Source   PeerSource
	Listener net.Listener // where the others connect; it is closed in the end
	// LookEvery is how often keys are looked at, at which clients wait, although nobody
	// has said that they are ready: 1 s.
	LookEvery time.Duration
	bus.Timing
}

// peers is this server's part in the exchange with other front ends.
type peers struct {
	srv      *Server
	source   PeerSource
	hub      *bus.Hub
	follower *bus.Follower
	stop     context.CancelFunc
	work     sync.WaitGroup
	second   time.Duration // how often it is looked whether all is well

	wake  chan struct{} // more may be wanted than before
	moved chan struct{} // the list of others has changed

	mu     sync.Mutex   // held while the interest changes
	asked  bus.Interest // wanted by somebody who is not counted yet
	used   bus.Interest // what was wanted at the last look
	raised atomic.Pointer[raisedInterest]

	theirs bus.Interest // what the others want; with the hub's lock
}

// raisedInterest is what the others were asked for.
type raisedInterest struct {
	bus.Interest
	number uint64
}

// errNoStore: front ends talk to each other about a store.
var errNoStore = errors.New("there is no store yet")

// StartPeers begins to talk to the other front ends of the store, which must be
// there. It is to be called once, before clients are let in; see PeersReady.
func (srv *Server) StartPeers(o PeerOptions) error {
	switch {
	case !srv.ready.Load():
		return errNoStore
	case srv.peers.Load() != nil:
		return errors.New("other front ends are followed already")
	}
	p := &peers{
		srv: srv, source: o.Source, second: cmp.Or(o.LookEvery, time.Second),
		wake: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
	p.raised.Store(&raisedInterest{})
	var serve, dial *tls.Config
	if srv.cfg.Bool("tls-cluster") {
		serve, dial = srv.peerTLS()
	}
	var err error
	p.hub, err = bus.Listen(bus.HubOptions{
		Listener: o.Listener, Secret: o.Secret, Self: o.Self, TLS: serve, Log: srv.log, Timing: o.Timing,
		Changed: p.theyWant, Came: o.Source.Came, Queue: int(srv.cfg.Int("cluster-link-sendbuf-limit")),
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.follower = bus.Follow(ctx, bus.FollowOptions{
		Self: o.Self, Secret: o.Secret, TLS: dial, Handler: p, Log: srv.log, Timing: o.Timing,
	})
	srv.peers.Store(p)
	p.hub.Start()
	srv.exec.OnWait(p.look)
	o.Source.OnChange(func() { signal(p.moved) })
	p.follower.SetPeers(o.Source.Peers())
	p.look()
	p.work.Go(func() { p.run(ctx) })
	return nil
}

// StopPeers ends the connections to and from other front ends. Those then look for
// themselves at what they may have missed.
func (srv *Server) StopPeers() {
	p := srv.peers.Swap(nil)
	if p == nil {
		return
	}
	p.stop()
	p.work.Wait()
	p.follower.Close()
	p.hub.Close()
}

// PeersReady waits until all other front ends that live follow this one, and this one
// follows them. From then on nobody misses what clients do here. A front end that
// starts lets no client in before, or before ctx ends: whoever does not follow it by
// then has been dead for long.
func (srv *Server) PeersReady(ctx context.Context) error {
	p := srv.peers.Load()
	if p == nil {
		return errNoStore
	}
	for {
		followers, missing := p.hub.Followers(), ""
		for _, peer := range p.source.Peers() {
			if !slices.Contains(followers, peer.ID) {
				missing = peer.ID
			}
		}
		if missing == "" && p.follower.Synced() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for other front ends, such as %q: %w", missing, ctx.Err())
		case <-time.After(readyEvery):
		}
	}
}

// readyEvery is how often PeersReady looks.
const readyEvery = 5 * time.Millisecond

// signal wakes who reads the channel, which has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run keeps the interest and the list of others as they should be.
func (p *peers) run(ctx context.Context) {
	var tick *time.Ticker
	var ticks <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			if tick != nil {
				tick.Stop()
			}
			return
		case <-p.moved:
			p.follower.SetPeers(p.source.Peers())
		case <-p.wake:
			p.ask(bus.Interest{})
		case <-ticks:
			if !p.settle() {
				tick.Stop()
				tick, ticks = nil, nil
			}
			p.check()
		}
		// While nobody wants anything, nothing is done.
		if tick == nil && !p.raised.Load().Empty() {
			tick = time.NewTicker(p.second)
			ticks = tick.C
		}
	}
}

// need is what the clients want to hear just now.
func (p *peers) need() (i bus.Interest) {
	srv := p.srv
	if i.Messages = !srv.pubsub.quiet(); i.Messages {
		i.Events = keyspace.Class(srv.notifyClasses.Load())
	}
	i.Shard = srv.pubsub.shards.count.Load() > 0
	i.Keys = srv.tracking.clients.Load() > 0
	clients, _ := srv.exec.Waiting()
	i.Waiting = clients > 0
	return i
}

// look is called when a client wants something, once that is counted. It does not
// wait.
func (p *peers) look() {
	if !p.need().Without(p.raised.Load().Interest).Empty() {
		signal(p.wake)
	}
}

// interested is look if there are other front ends.
func (srv *Server) interested() {
	if p := srv.peers.Load(); p != nil {
		p.look()
	}
}

// ask has the others tell of what clients want, and of more. It returns the number of
// the interest.
func (p *peers) ask(more bus.Interest) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.asked.Or(more)
	return p.raise(p.raised.Load().Or(p.need()).Or(more))
}

// raise sets the interest. mu is held.
func (p *peers) raise(i bus.Interest) uint64 {
	r := &raisedInterest{Interest: i, number: p.follower.SetInterest(i)}
	p.raised.Store(r)
	return r.number
}

// settle drops what nobody has wanted for a while, and says whether there is anything
// left.
func (p *peers) settle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.need().Or(p.asked)
	keep := now.Or(p.used)
	p.used, p.asked = now, bus.Interest{}
	p.raise(keep)
	// Somebody may have looked at the old one just before.
	if more := p.need().Without(keep); !more.Empty() {
		keep = keep.Or(more)
		p.raise(keep)
	}
	return !keep.Empty()
}

// check is for what should never be needed, but that connections break and what is
// on its way gets lost.
func (p *peers) check() {
	if p.follower.Synced() {
		p.srv.exec.WakeSome(lookAtOnce) // thousands may wait at a key of their own
	} else {
		p.missed(true, true)
	}
}

// lookAtOnce is how many keys at most are looked at without a reason.
const lookAtOnce = 100

// Effects implements bus.Handler.
func (p *peers) Effects(_ string, fx *keyspace.Effects) {
	p.srv.deliver(fx, 0)
	for _, r := range fx.Woken {
		p.srv.exec.Wake(r)
	}
	if fx.Unready {
		p.srv.exec.WakeAll()
	}
}

// Synced implements bus.Handler.
func (p *peers) Synced(from string, gained bus.Interest) {
	p.source.Reached(from)
	p.missed(gained.Keys, gained.Waiting)
}

// Refused implements bus.Handler.
func (p *peers) Refused(from string) { p.source.Refused(from) }

// Lost implements bus.Handler.
func (p *peers) Lost(string) { p.missed(true, true) }

// missed: something may have happened that nobody here has heard of.
func (p *peers) missed(keys, waiting bool) {
	if keys && p.srv.tracking.clients.Load() > 0 {
		p.srv.tracking.invalidateAll(0)
	}
	if waiting {
		p.srv.exec.WakeAll()
	}
}

// receivers is how many clients here a message would reach, and whether it would reach
// any, here or at another front end. As in a Redis cluster PUBLISH tells the first.
func (srv *Server) receivers(channel []byte, shard bool) (n int, heard bool) {
	n = srv.pubsub.receivers(channel, shard)
	if p := srv.peers.Load(); p != nil && n == 0 {
		i := p.hub.Interest()
		return 0, !shard && i.Messages || shard && i.Shard
	}
	return n, n > 0
}

// theyWant is told what the others want to hear. The hub's lock is held.
func (p *peers) theyWant(i bus.Interest) {
	space := p.srv.exec.Space()
	space.Observers.Add(count(i.Keys) - count(p.theirs.Keys))
	space.Waiting.Add(count(i.Waiting) - count(p.theirs.Waiting))
	p.theirs = i
	p.srv.peerClasses.Store(uint32(i.Events))
	p.srv.applyNotify()
}

func count(b bool) int64 { return int64(boolInt(b)) }

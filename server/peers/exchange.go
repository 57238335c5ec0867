// Package peers has a front end's place among the others of a shared store: how it joins and
// leaves them (Membership), and how its clients hear of what happens at the others (Exchange).
//
// Out: the effects of an execution here go to the hub (Tell), which sends them to the front
// ends with an interest in them. Writers note changed keys, ready keys and events only while
// some client needs them; so the interests of other front ends are counted where own clients
// are: Space.Observers, Space.Waiting, and the classes of events.
//
// In: effects of other front ends take the same ways as own ones, to subscribers, trackers
// and waiters. They are not forwarded.
//
// The interest of this front end follows from its clients' needs. It is raised at once, and
// lowered after a second or two, since clients come and go: one that takes jobs with BLPOP
// waits, works, and waits again.
//
// The exchange promises:
//  1. A client that has the reply of SUBSCRIBE gets every message that is published later,
//     by whichever front end: the command waits until all have acknowledged this front
//     end's interest in messages. The same holds for CLIENT TRACKING and for events. Only
//     inside MULTI the command does not wait.
//  2. No waiting client is forgotten: when another front end begins to send ready keys
//     (Synced), and when some may have been lost (Lost), all keys at which clients wait
//     are checked; and again every second: some of them, or all while a front end is
//     not connected.
//  3. All tracked keys are invalidated when effects may have been missed, and every second
//     while that goes on.
//
// WATCH needs none of this: EXEC compares the versions of rows. Effects of other front ends
// may be older than the WATCH, and would only make transactions fail without need.
package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/bus"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/server/admin"
	"redoubt/server/pubsub"
	"redoubt/server/tracking"
)

// Source knows the other living front ends.
type Source interface {
	// Peers returns the others, and the addresses of their hubs.
	Peers() []bus.Peer
	// OnChange sets a function to be called after each change of Peers. It must not wait.
	OnChange(func())
	// Came, Reached and Refused are called by the bus: a front end has connected, answers,
	// or its address refuses connections.
	Came(id string)
	Reached(id string)
	Refused(id string)
}

// Options are what it takes to talk to other front ends.
type Options struct {
	Self     string   // the id of this one
	Secret   [32]byte // shared by all front ends of the store
	Source   Source
	Listener net.Listener // where the others connect; it is closed in the end
	// CheckEvery is how often keys at which clients wait are checked without a notice: 0 is 1 s.
	CheckEvery time.Duration
	bus.Timing
}

// Server is the server as an exchange sees it.
type Server struct {
	Executor *executor.Executor
	PubSub   *pubsub.Register
	Tracking *tracking.Table
	// Deliver passes effects of another front end to clients.
	Deliver func(fx *keyspace.Effects)
	// MoreEvents returns classes that are needed besides those of subscribers, and Missed is
	// called when some of these events may have been missed.
	MoreEvents func() keyspace.Class
	Missed     func()
	// NoteEvents is called when the classes that other front ends need have changed.
	NoteEvents func()
	// TLS is the present configuration for clients; nil: front ends talk without TLS.
	TLS func() *tls.Config
	// SendBuffer is how much another front end may leave unread: cluster-link-sendbuf-limit.
	SendBuffer int
	Log        *slog.Logger
}

// Exchange is this front end's part in the exchange with the others.
type Exchange struct {
	srv        Server
	source     Source
	hub        *bus.Hub
	follower   *bus.Follower
	stop       context.CancelFunc
	work       sync.WaitGroup
	checkEvery time.Duration // interval of settle and check

	wake  chan struct{} // more may be wanted than before
	moved chan struct{} // the list of others has changed

	mu     sync.Mutex   // held while the interest changes
	asked  bus.Interest // wanted by somebody who is not counted yet
	used   bus.Interest // what was wanted at the last look
	raised atomic.Pointer[raisedInterest]

	peerInterest bus.Interest  // what the others want; with the hub's lock
	peerClasses  atomic.Uint32 // of the events that they want
}

// raisedInterest is what the others were asked for.
type raisedInterest struct {
	bus.Interest
	number uint64
}

// New makes an exchange, which follows nobody before Start. If it fails the listener is still
// the caller's.
func New(o Options, s Server) (*Exchange, error) {
	p := &Exchange{
		srv: s, source: o.Source, checkEvery: cmp.Or(o.CheckEvery, time.Second),
		wake: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
	p.raised.Store(&raisedInterest{})
	var serve, dial *tls.Config
	if s.TLS != nil {
		serve, dial = configurations(s.TLS)
	}
	var err error
	p.hub, err = bus.Listen(bus.HubOptions{
		Listener: o.Listener, Secret: o.Secret, Self: o.Self, TLS: serve, Log: s.Log, Timing: o.Timing,
		Changed: p.setPeerInterest, Came: o.Source.Came, Queue: s.SendBuffer,
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.follower = bus.Follow(ctx, bus.FollowOptions{
		Self: o.Self, Secret: o.Secret, TLS: dial, Handler: p, Log: s.Log, Timing: o.Timing,
	})
	p.work.Go(func() { p.run(ctx) })
	return p, nil
}

// Start begins to talk to the others. It is to be called once, before clients are let in;
// see Ready.
func (p *Exchange) Start() {
	p.hub.Start()
	p.srv.Executor.OnWait(p.RaiseInterest)
	p.source.OnChange(func() { signal(p.moved) })
	p.follower.SetPeers(p.source.Peers())
	p.RaiseInterest()
}

// Stop ends the connections to and from other front ends. Those then look for
// themselves at what they may have missed.
func (p *Exchange) Stop() {
	p.stop()
	p.work.Wait()
	p.follower.Close()
	p.hub.Close()
}

// Ready waits until all other front ends that live follow this one, and this one
// follows them. From then on nobody misses what clients do here. A front end that
// starts lets no client in before, or before ctx ends: whoever does not follow it by
// then has been dead for long.
func (p *Exchange) Ready(ctx context.Context) error {
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

// readyEvery is how often Ready checks.
const readyEvery = 5 * time.Millisecond

// signal wakes the reader of the channel, which has a buffer of one. It does not wait.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run keeps the interest and the list of peers up to date, until ctx ends.
func (p *Exchange) run(ctx context.Context) {
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
			tick = time.NewTicker(p.checkEvery)
			ticks = tick.C
		}
	}
}

// need returns the present interest of the clients.
func (p *Exchange) need() (i bus.Interest) {
	if i.Messages = !p.srv.PubSub.Quiet(); i.Messages {
		i.Events = p.srv.PubSub.Classes()
	}
	i.Events |= p.srv.MoreEvents()
	i.Shard = !p.srv.PubSub.ShardsQuiet()
	i.Keys = p.srv.Tracking.Clients() > 0
	clients, _ := p.srv.Executor.Waiting()
	i.Waiting = clients > 0
	return i
}

// RaiseInterest raises the interest soon if clients need more than before. It does not wait.
func (p *Exchange) RaiseInterest() {
	if !p.need().Without(p.raised.Load().Interest).Empty() {
		signal(p.wake)
	}
}

// ask has the others tell of what clients want, and of more. It returns the number of
// the interest.
func (p *Exchange) ask(more bus.Interest) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.asked.Or(more)
	return p.raise(p.raised.Load().Or(p.need()).Or(more))
}

// raise sets the interest. mu is held.
func (p *Exchange) raise(i bus.Interest) uint64 {
	r := &raisedInterest{Interest: i, number: p.follower.SetInterest(i)}
	p.raised.Store(r)
	return r.number
}

// settle lowers the interest to what was needed since the look before last, and reports
// whether any is left.
func (p *Exchange) settle() bool {
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

// check wakes waiters in case a notice was lost: some of them, or all, with tracked keys
// invalidated, while a front end is not connected.
func (p *Exchange) check() {
	if p.follower.Synced() {
		p.srv.Executor.WakeSome(wokenAtOnce) // thousands may wait at a key of their own
	} else {
		p.missed(true, true)
	}
}

// wokenAtOnce is how many keys check wakes at most.
const wokenAtOnce = 100

// Effects implements bus.Handler.
func (p *Exchange) Effects(_ string, fx *keyspace.Effects) {
	p.srv.Deliver(fx)
	for _, r := range fx.Woken {
		p.srv.Executor.Wake(r)
	}
	if fx.UntrackedReady {
		p.srv.Executor.WakeAll()
	}
}

// Synced implements bus.Handler.
func (p *Exchange) Synced(from string, gained bus.Interest) {
	p.source.Reached(from)
	p.missed(gained.Keys, gained.Waiting)
}

// Refused implements bus.Handler.
func (p *Exchange) Refused(from string) { p.source.Refused(from) }

// Lost implements bus.Handler.
func (p *Exchange) Lost(string) { p.missed(true, true) }

// missed invalidates tracked keys and wakes waiters, since effects may have been missed.
func (p *Exchange) missed(keys, waiting bool) {
	if keys && p.srv.Tracking.Clients() > 0 {
		p.srv.Tracking.InvalidateAll(0)
	}
	if waiting {
		p.srv.Missed()
		p.srv.Executor.WakeAll()
	}
}

// setPeerInterest is told what the others want to hear. The hub's lock is held.
func (p *Exchange) setPeerInterest(i bus.Interest) {
	space := p.srv.Executor.Space()
	space.Observers.Add(count(i.Keys) - count(p.peerInterest.Keys))
	space.Waiting.Add(count(i.Waiting) - count(p.peerInterest.Waiting))
	p.peerInterest = i
	p.peerClasses.Store(uint32(i.Events))
	p.srv.NoteEvents()
}

func count(b bool) int64 { return admin.BoolInt(b) }

// Tell sends the effects of an execution here to the other front ends.
func (p *Exchange) Tell(fx *keyspace.Effects) { p.hub.Tell(fx) }

// PeerInterest returns the interest of the other front ends.
func (p *Exchange) PeerInterest() bus.Interest { return p.hub.Interest() }

// PeerClasses returns the classes of events that the other front ends need.
func (p *Exchange) PeerClasses() keyspace.Class { return keyspace.Class(p.peerClasses.Load()) }

// Announce has the others told what a client is about to want. It returns a function that
// waits until they know, or ctx ends; nil if they know already.
func (p *Exchange) Announce(want bus.Interest) (wait func(ctx context.Context) error) {
	r := p.raised.Load()
	if want.Empty() || want.Without(r.Interest).Empty() && p.follower.Acked(r.number) {
		return nil
	}
	number := p.ask(want)
	if p.follower.Acked(number) { // there is nobody else
		return nil
	}
	return func(ctx context.Context) error { return p.follower.Wait(ctx, number) }
}

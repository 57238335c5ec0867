package bus

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/keyspace"
)

// HubOptions make a Hub.
type HubOptions struct {
	Listener net.Listener // the hub closes it
	Addr     string       // instead of Listener
	Secret   [32]byte
	Self     string      // the id of this front end, at most 64 bytes
	TLS      *tls.Config // nil: no TLS
	Log      *slog.Logger
	// Changed is called with the union of all interests whenever it changes: when it grows,
	// before the change is acknowledged, and when it shrinks, afterwards. Calls do not
	// overlap; Changed must not call the hub.
	Changed func(Interest)
	// Came, if set, is called with the id of a front end that has connected. It must not wait.
	Came func(id string)
	// Queue is how many bytes may wait for a follower before its connection is closed;
	// default 64 MB.
	Queue int
	Timing
}

// Hub sends the effects of this front end to its followers.
type Hub struct {
	o  HubOptions
	ln net.Listener

	// list are the followers, and union the bits of all their interests: both are read
	// without a lock and changed with mu held.
	list  atomic.Pointer[[]*follower]
	union atomic.Uint32

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{} // all, also those before the end of their handshake
	work   sync.WaitGroup

	connections, refused, drops, frames, bytes atomic.Int64
	traffic                                    traffic
}

// follower is an authenticated connection of another front end.
type follower struct {
	*link
	id       string
	interest Interest // guarded by the link's mu
	heard    bool     // an interest has come; guarded by the hub's mu
}

// maxStrangers is how many connections may be in their handshake.
const maxStrangers = 64

// Listen makes a hub, which accepts connections from Start on: by then its owner should call
// Tell.
func Listen(o HubOptions) (*Hub, error) {
	if len(o.Self) > maxID {
		return nil, fmt.Errorf("the id %q is too long", o.Self)
	}
	if o.Queue <= 0 {
		o.Queue = defaultQueue
	}
	o.fill()
	o.Log = logger(o.Log)
	h := &Hub{o: o, ln: o.Listener, conns: make(map[net.Conn]struct{})}
	if h.ln == nil {
		var err error
		if h.ln, err = net.Listen("tcp", o.Addr); err != nil {
			return nil, fmt.Errorf("listen for other front ends: %w", err)
		}
	}
	h.list.Store(new([]*follower))
	return h, nil
}

// Start begins to accept connections.
func (h *Hub) Start() { h.work.Go(h.accept) }

// Addr returns the address on which the hub listens.
func (h *Hub) Addr() net.Addr { return h.ln.Addr() }

// Close closes all connections and waits for their goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.ln.Close()
	for conn := range h.conns {
		conn.Close()
	}
	h.mu.Unlock()
	h.work.Wait()
}

func (h *Hub) accept() {
	strangers := make(chan struct{}, maxStrangers)
	for {
		conn, err := h.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			h.o.Log.Error("accepting another front end failed", "err", err)
			time.Sleep(h.o.Beat / 10) // most likely there are no descriptors left
			continue
		}
		select {
		case strangers <- struct{}{}:
		default:
			h.refused.Add(1)
			conn.Close()
			continue
		}
		if !h.enter(conn) {
			return
		}
		h.work.Go(func() {
			defer h.leave(conn)
			f, err := h.admit(conn)
			<-strangers
			if err != nil {
				h.refused.Add(1)
				h.o.Log.Warn("a connection of another front end was refused", "addr", conn.RemoteAddr().String(), "err", err)
				return
			}
			h.serve(f)
		})
	}
}

func (h *Hub) enter(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		conn.Close()
		return false
	}
	h.conns[conn] = struct{}{}
	return true
}

func (h *Hub) leave(conn net.Conn) {
	conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
}

func (h *Hub) admit(raw net.Conn) (*follower, error) {
	f := new(follower)
	var wrap func(net.Conn) *tls.Conn
	if h.o.TLS != nil {
		wrap = func(c net.Conn) *tls.Conn { return tls.Server(c, h.o.TLS) }
	}
	var err error
	f.link, err = secure(raw, h.o.Timing, h.o.Queue, &h.traffic, wrap, func(c net.Conn) (err error) {
		f.id, err = receive(c, h.o.Secret, h.o.Self)
		return err
	})
	return f, err
}

// serve reads the interests of a follower until its connection ends.
func (h *Hub) serve(f *follower) {
	h.connections.Add(1)
	h.mu.Lock()
	for _, old := range *h.list.Load() {
		if old.id == f.id {
			old.close(errReplaced)
		}
	}
	h.setList(append(slices.Clone(*h.list.Load()), f))
	h.mu.Unlock()
	h.o.Log.Info("a front end listens", "peer", f.id)
	if h.o.Came != nil {
		h.o.Came(f.id)
	}
	h.work.Go(f.write)
	f.close(h.read(f))
	if errors.Is(f.reason(), errSlow) {
		h.drops.Add(1)
	}
	h.mu.Lock()
	h.bytes.Add(f.bytes.Load())
	h.setList(slices.DeleteFunc(slices.Clone(*h.list.Load()), func(o *follower) bool { return o == f }))
	h.settle()
	h.mu.Unlock()
	h.o.Log.Info("a front end does not listen any more", "peer", f.id, "err", f.reason())
}

func (h *Hub) setList(list []*follower) { h.list.Store(&list) }

func (h *Hub) read(f *follower) error {
	r := frameReader{r: bufio.NewReader(f.conn), max: maxStrange}
	for {
		kind, body, err := r.next()
		if err != nil {
			return err
		}
		h.traffic.received.Add(1)
		switch kind {
		case frameBeat:
		case frameInterest:
			n, want, err := readInterest(body)
			if err != nil {
				return err
			}
			h.take(f, n, want)
		default:
			return unexpected(kind)
		}
	}
}

// take sets the interest of a follower and acknowledges it. Changed is called for what is
// new before the acknowledgement is sent.
func (h *Hub) take(f *follower, n uint64, want Interest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change(h.Interest().Or(want))
	f.mu.Lock()
	f.interest = want
	f.sendLocked(func(dst []byte) []byte { return appendAck(dst, n) })
	f.mu.Unlock()
	f.heard = true
	h.settle()
}

// settle sets union to what all followers want.
func (h *Hub) settle() {
	var all Interest
	for _, f := range *h.list.Load() {
		f.mu.Lock()
		all = all.Or(f.interest)
		f.mu.Unlock()
	}
	h.change(all)
}

func (h *Hub) change(all Interest) {
	if all == h.Interest() {
		return
	}
	h.union.Store(all.bits())
	if h.o.Changed != nil {
		h.o.Changed(all)
	}
}

// Interest returns the union of the interests of all followers.
func (h *Hub) Interest() Interest { return interestOf(h.union.Load()) }

// Tell sends effects to the followers, to each what it is interested in. It keeps no
// reference to fx and never waits.
func (h *Hub) Tell(fx *keyspace.Effects) {
	want := h.union.Load()
	if want == 0 || want&wanted(fx) == 0 {
		return
	}
	for _, f := range *h.list.Load() {
		f.mu.Lock()
		if f.interest.bits()&wanted(fx) != 0 {
			f.sendLocked(func(dst []byte) []byte {
				dst, n := appendEffects(dst, fx, f.interest)
				h.frames.Add(int64(n))
				return dst
			})
		}
		f.mu.Unlock()
	}
}

// wanted returns the bits of the interests that may want the effects.
func wanted(fx *keyspace.Effects) (bits uint32) {
	if len(fx.Messages) > 0 {
		bits |= wantMessages | wantShard
	}
	if len(fx.Events) > 0 {
		bits |= ^uint32(wantAll)
	}
	if len(fx.Touched) > 0 || fx.UntrackedTouch || fx.Flushed {
		bits |= wantKeys
	}
	if len(fx.Woken) > 0 || fx.UntrackedReady {
		bits |= wantWaiting
	}
	return bits
}

// Followers returns the ids of the followers that are connected and have sent an
// interest.
func (h *Hub) Followers() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range *h.list.Load() {
		if f.heard && f.reason() == nil {
			ids = append(ids, f.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Listener is the state of a connected follower.
type Listener struct {
	ID     string
	Since  time.Time
	Queued int64 // bytes that wait to be sent
}

// Listeners returns the connected followers, in the order in which they connected.
func (h *Hub) Listeners() (list []Listener) {
	for _, f := range *h.list.Load() {
		f.mu.Lock()
		list = append(list, Listener{f.id, f.since, int64(len(f.buf) + f.writing)})
		f.mu.Unlock()
	}
	return list
}

// HubStats are statistics of a hub.
type HubStats struct {
	Followers   int
	Connections int64 // accepted since the start
	Refused     int64 // connections whose handshake failed, or that were too many
	Drops       int64 // followers that were dropped because they were too slow
	Frames      int64 // frames of effects sent to all followers together
	Bytes       int64 // bytes of all frames sent to them
	Queued      int64 // bytes that wait to be sent
	// Sent and Received are frames of all kinds.
	Sent, Received int64
}

// Stats returns the statistics.
func (h *Hub) Stats() HubStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := *h.list.Load()
	s := HubStats{
		Followers: len(list), Connections: h.connections.Load(), Refused: h.refused.Load(), Drops: h.drops.Load(),
		Frames: h.frames.Load(), Bytes: h.bytes.Load(), Sent: h.traffic.sent.Load(), Received: h.traffic.received.Load(),
	}
	for _, f := range list {
		s.Bytes += f.bytes.Load()
		f.mu.Lock()
		s.Queued += int64(len(f.buf) + f.writing)
		f.mu.Unlock()
	}
	return s
}

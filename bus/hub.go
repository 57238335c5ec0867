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
	TLS      *tls.Config // nil: without
	Log      *slog.Logger
	// Changed is told what all followers together want to hear, whenever that changes:
	// before the first of them has an acknowledgement of more, and after the last of
	// them has one of less. Calls do not overlap; it must not call the hub.
	Changed func(Interest)
	// Came, if set, is told the id of a front end that has connected. It must not wait.
	Came func(id string)
	// Queue is how many bytes may wait for a follower before it is given up: 64 MB.
	Queue int
	Timing
}

// Hub tells those who follow it what happens here.
type Hub struct {
	o  HubOptions
	ln net.Listener

	// list are the followers, and union what they want together: both are read
	// without a lock and changed with mu.
	list  atomic.Pointer[[]*follower]
	union atomic.Uint32

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{} // all of them, also those that are still strangers
	work   sync.WaitGroup

	connections, refused, drops, frames, bytes atomic.Int64
	traffic                                    traffic
}

// follower is somebody who has proved to be a front end.
type follower struct {
	*link
	id       string
	interest Interest // with the link's mu
	heard    bool     // an interest has come; with the hub's mu
}

// maxStrangers is how many connections there may be that have proved nothing yet.
const maxStrangers = 64

// Listen makes a hub. It takes connections from Start on: by then its owner should
// tell it what happens.
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

// Start begins to take connections.
func (h *Hub) Start() { h.work.Go(h.accept) }

// Addr is where the hub listens.
func (h *Hub) Addr() net.Addr { return h.ln.Addr() }

// Close ends all connections and waits until they are.
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

// serve takes what a follower says until it is gone.
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

// take notes an interest. What is new in it is noted by those who work here before
// the acknowledgement is on its way.
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

// settle finds what all want together.
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

// Interest is what all followers together want to hear.
func (h *Hub) Interest() Interest { return interestOf(h.union.Load()) }

// Tell has the followers hear of effects, as far as each is interested. It keeps
// nothing of them and never waits.
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

// wanted are the bits of those interests that effects may be of.
func wanted(fx *keyspace.Effects) (bits uint32) {
	if len(fx.Messages) > 0 {
		bits |= wantMessages | wantShard
	}
	if len(fx.Events) > 0 {
		bits |= ^uint32(wantAll)
	}
	if len(fx.Touched) > 0 || fx.Unseen || fx.Flushed {
		bits |= wantKeys
	}
	if len(fx.Woken) > 0 || fx.Unready {
		bits |= wantWaiting
	}
	return bits
}

// Followers are the ids of those who are connected and have said what they want to
// hear.
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

// Listener is somebody who is connected to a hub.
type Listener struct {
	ID     string
	Since  time.Time
	Queued int64 // bytes that wait to be sent
}

// Listeners are those who are connected, in the order in which they came.
func (h *Hub) Listeners() (list []Listener) {
	for _, f := range *h.list.Load() {
		f.mu.Lock()
		list = append(list, Listener{f.id, f.since, int64(len(f.buf) + f.writing)})
		f.mu.Unlock()
	}
	return list
}

// HubStats are figures of a hub.
type HubStats struct {
	Followers   int
	Connections int64 // that there were
	Refused     int64 // connections of somebody who could not prove anything
	Drops       int64 // followers that were given up since they were too slow
	Frames      int64 // of effects, sent to all followers together
	Bytes       int64 // the same, with all else
	Queued      int64 // bytes that wait to be sent
	// Sent and Received are frames of all kinds.
	Sent, Received int64
}

// Stats returns the figures.
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

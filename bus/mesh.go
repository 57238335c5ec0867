package bus

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MeshOptions make a Mesh.
type MeshOptions struct {
	Listener net.Listener // the mesh closes it
	Secret   [32]byte
	// Server and Client are for connections that come and that are made; nil: no TLS.
	Server, Client func() *tls.Config
	// Dial makes a connection; nil: over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	Log  *slog.Logger
	// Answer returns the answer to a question of a process that need not be a member.
	Answer func(question []byte) []byte
	// Receive takes what a member has sent. Calls for one member do not overlap; the
	// bytes are valid during the call. An error ends the connection.
	Receive func(from string, body []byte) error
	// Queue is how many bytes may wait for a member before its connection is closed;
	// default 64 MB.
	Queue int
	// Backoff is the first and the longest retry delay of a connection; default 50 ms and
	// 500 ms.
	Backoff [2]time.Duration
	Timing
}

// Mesh connects the members of a cluster with each other. A member opens a connection to each
// other one, and sends on the connections that it has opened. Send never waits; what cannot
// be sent is lost, and its sender sends again what matters. Members have the same cluster
// id and know the secret; nobody else is heard. Whoever knows the secret may ask a question
// before it is a member.
type Mesh struct {
	o      MeshOptions
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	cluster string
	self    string
	conns   map[net.Conn]struct{}
	members map[string]*member // all but this one, by id

	connections, refused, drops atomic.Int64
	traffic                     traffic
}

// member is another member of the mesh.
type member struct {
	Peer
	link  atomic.Pointer[link] // nil: not connected
	heard atomic.Pointer[link] // the connection that it has opened
	ctx   context.Context      // ends when another one has taken its place, or the mesh is closed
	leave context.CancelFunc
}

const (
	// asker is the beginning of the id of who only asks.
	asker = "ask:"
	// maxQuestion bounds questions, maxReply answers.
	maxQuestion = 4 << 10
	maxReply    = 16 << 20
	// maxSent bounds a frame of a member: the largest record of a journal and its head.
	maxSent = maxFrame + 1<<20
)

// errCluster: a member of another cluster.
var errCluster = errors.New("it belongs to another cluster, or is none of the listed nodes")

// NewMesh makes a mesh, which accepts connections from Start on. Until Join only questions
// are answered.
func NewMesh(o MeshOptions) *Mesh {
	o.fill()
	o.Log = logger(o.Log)
	if o.Queue <= 0 {
		o.Queue = defaultQueue
	}
	if o.Backoff[0] <= 0 {
		o.Backoff = [2]time.Duration{50 * time.Millisecond, 500 * time.Millisecond}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	m := &Mesh{o: o, conns: make(map[net.Conn]struct{})}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Start begins to accept connections.
func (m *Mesh) Start() { m.work.Go(m.accept) }

// Addr is where the mesh listens.
func (m *Mesh) Addr() net.Addr { return m.o.Listener.Addr() }

// Join makes this process a member and begins to connect to the others. It is called once.
// Ids have no colon; cluster and self have 60 bytes together at the most.
func (m *Mesh) Join(cluster, self string, others []Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cluster, m.self, m.members = cluster, self, make(map[string]*member)
	if m.closed {
		return
	}
	for _, p := range others {
		m.add(p)
	}
}

// add connects to a member. mu is held.
func (m *Mesh) add(p Peer) {
	to := &member{Peer: p}
	to.ctx, to.leave = context.WithCancel(m.ctx)
	m.members[p.ID] = to
	m.work.Go(func() { m.keep(to) })
}

// Replace puts a member in the place of another one, or adds it if old is "" or unknown. The
// connections of the old one have ended when Replace returns, and it is refused from then on. It is called after Join.
func (m *Mesh) Replace(old string, p Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || old == p.ID && m.members[old] != nil {
		return
	}
	if was := m.members[old]; was != nil {
		delete(m.members, old)
		was.leave()
		for _, l := range []*link{was.link.Load(), was.heard.Load()} {
			if l != nil {
				l.close(errReplaced)
			}
		}
	}
	m.add(p)
}

// Send appends frames to what is sent to a member: add gets the buffer and returns it with
// the body of one frame appended. It never waits.
func (m *Mesh) Send(to string, add func(dst []byte) []byte) {
	m.mu.Lock()
	p := m.members[to]
	m.mu.Unlock()
	if p == nil {
		return
	}
	if l := p.link.Load(); l != nil {
		l.send(func(dst []byte) []byte {
			at := len(dst)
			return endFrame(add(beginFrame(dst, frameSent)), at)
		})
	}
}

// Close ends all connections and waits for their goroutines.
func (m *Mesh) Close() {
	m.mu.Lock()
	m.closed = true
	m.cancel()
	m.o.Listener.Close()
	for c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	m.work.Wait()
}

// name is the id of this process in handshakes.
func (m *Mesh) name() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cluster + ":" + m.self
}

// enter notes a connection, unless the mesh is closed.
func (m *Mesh) enter(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		c.Close()
		return false
	}
	m.conns[c] = struct{}{}
	return true
}

func (m *Mesh) leave(c net.Conn) {
	c.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, c)
}

// Those who come.

func (m *Mesh) accept() {
	strangers := make(chan struct{}, maxStrangers)
	for {
		conn, err := m.o.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			m.o.Log.Error("accepting a connection of another node failed", "err", err)
			time.Sleep(m.o.Beat / 10) // most likely there are no descriptors left
			continue
		}
		select {
		case strangers <- struct{}{}:
		default:
			m.refused.Add(1)
			conn.Close()
			continue
		}
		if !m.enter(conn) {
			return
		}
		m.work.Go(func() {
			defer m.leave(conn)
			l, id, err := m.admit(conn)
			<-strangers
			if err == nil {
				err = m.serve(l, id)
			}
			if err != nil && m.ctx.Err() == nil {
				m.refused.Add(1)
				m.o.Log.Warn("a connection of another node was refused", "addr", conn.RemoteAddr().String(), "err", err)
			}
		})
	}
}

func (m *Mesh) admit(raw net.Conn) (l *link, id string, err error) {
	var wrap func(net.Conn) *tls.Conn
	if m.o.Server != nil {
		wrap = func(c net.Conn) *tls.Conn { return tls.Server(c, m.o.Server()) }
	}
	l, err = secure(raw, m.o.Timing, m.o.Queue, &m.traffic, wrap, func(c net.Conn) (err error) {
		id, err = receive(c, m.o.Secret, m.name())
		return err
	})
	return l, id, err
}

// serve reads from a connection until it ends. It returns an error if the connection is
// refused.
func (m *Mesh) serve(l *link, id string) error {
	if strings.HasPrefix(id, asker) {
		return m.answer(l)
	}
	cluster, name, _ := strings.Cut(id, ":")
	m.mu.Lock()
	from := m.members[name]
	if cluster != m.cluster {
		from = nil
	}
	m.mu.Unlock()
	if from == nil {
		return fmt.Errorf("node %q of cluster %q: %w", name, cluster, errCluster)
	}
	if old := from.heard.Swap(l); old != nil {
		old.close(errReplaced)
	}
	if from.ctx.Err() != nil { // Replace has not seen this connection
		return fmt.Errorf("node %q: %w", name, errCluster)
	}
	m.connections.Add(1)
	m.work.Go(l.write) // beats
	r := frameReader{r: bufio.NewReaderSize(l.conn, 64<<10), max: maxSent}
	for {
		kind, body, err := r.next()
		if err == nil {
			m.traffic.received.Add(1)
			switch kind {
			case frameBeat:
			case frameSent:
				err = m.o.Receive(name, body)
			default:
				err = unexpected(kind)
			}
		}
		if err != nil {
			l.close(err)
			from.heard.CompareAndSwap(l, nil)
			if !errors.Is(err, io.EOF) && m.ctx.Err() == nil {
				m.o.Log.Warn("the connection of another node broke", "node", name, "err", l.reason())
			}
			return nil
		}
	}
}

// answer serves one question.
func (m *Mesh) answer(l *link) error {
	defer l.close(errClosed)
	r := frameReader{r: l.conn, max: maxQuestion}
	kind, body, err := r.next()
	if err != nil {
		return err
	}
	if kind != frameQuestion {
		return unexpected(kind)
	}
	for rest := appendFrame(nil, frameReply, m.o.Answer(body)); len(rest) > 0 && err == nil; {
		var n int
		n, err = l.step(rest[:min(len(rest), writeStep)])
		rest = rest[n:]
	}
	return err
}

// Those to whom this process connects.

// keep keeps a connection to a member until the mesh is closed.
func (m *Mesh) keep(p *member) {
	wait, told := m.o.Backoff[0], false
	for p.ctx.Err() == nil {
		l, err := m.connect(p.ctx, p.Addr, m.name(), m.cluster+":"+p.ID)
		if err == nil {
			wait, told = m.o.Backoff[0], false
			m.o.Log.Info("connected to another node", "node", p.ID, "addr", p.Addr)
			p.link.Store(l)
			if p.ctx.Err() != nil { // Replace has not seen it
				l.close(errReplaced)
			}
			m.work.Go(l.write)
			// The other side sends beats only.
			r := frameReader{r: l.conn, max: maxStrange}
			for err == nil {
				var kind byte
				if kind, _, err = r.next(); err == nil && kind != frameBeat {
					err = unexpected(kind)
				}
			}
			p.link.Store(nil)
			l.close(err)
			m.leave(l.raw)
			if errors.Is(l.reason(), errSlow) {
				m.drops.Add(1)
			}
			if p.ctx.Err() == nil {
				m.o.Log.Warn("the connection to another node broke", "node", p.ID, "addr", p.Addr, "err", l.reason())
			}
		} else if p.ctx.Err() == nil && !told {
			told = true
			m.o.Log.Warn("cannot connect to another node", "node", p.ID, "addr", p.Addr, "err", err)
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // no secret
		}
		wait = min(2*wait, m.o.Backoff[1])
	}
}

// connect opens a connection as self. want is the id of who must be there, or anybody if it
// is empty. The socket is noted until leave.
func (m *Mesh) connect(ctx context.Context, addr, self, want string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.Dead)
	defer cancel()
	raw, err := m.o.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if !m.enter(raw) {
		return nil, errClosed
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	var wrap func(net.Conn) *tls.Conn
	if m.o.Client != nil {
		wrap = func(c net.Conn) *tls.Conn { return tls.Client(c, m.o.Client()) }
	}
	l, err := secure(raw, m.o.Timing, m.o.Queue, &m.traffic, wrap, func(c net.Conn) error {
		return greet(c, m.o.Secret, self, want)
	})
	if err != nil {
		m.leave(raw)
		return nil, fmt.Errorf("greet: %w", err)
	}
	return l, nil
}

// Ask asks whoever is at an address.
func (m *Mesh) Ask(ctx context.Context, addr string, question []byte) ([]byte, error) {
	l, err := m.connect(ctx, addr, asker, "")
	if err != nil {
		return nil, err
	}
	defer m.leave(l.raw)
	defer l.close(errClosed)
	stop := context.AfterFunc(ctx, func() { l.raw.Close() })
	defer stop()
	if _, err = l.step(appendFrame(nil, frameQuestion, question)); err != nil {
		return nil, err
	}
	r := frameReader{r: l.conn, max: maxReply}
	kind, body, err := r.next()
	if err != nil {
		return nil, err
	}
	if kind != frameReply {
		return nil, unexpected(kind)
	}
	return slices.Clone(body), nil
}

// MeshLink is the connection to another member.
type MeshLink struct {
	Peer
	Connected bool
	Since     time.Time
	Queued    int64 // bytes that wait to be sent
	Heard     bool  // the other member has a connection to this one
}

// Links returns the connections to the other members, by id.
func (m *Mesh) Links() (list []MeshLink) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.members {
		s := MeshLink{Peer: p.Peer, Heard: p.heard.Load() != nil}
		if l := p.link.Load(); l != nil {
			l.mu.Lock()
			s.Connected, s.Since, s.Queued = true, l.since, int64(len(l.buf)+l.writing)
			l.mu.Unlock()
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b MeshLink) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// MeshStats are statistics of a mesh.
type MeshStats struct {
	Connections    int64 // accepted since the start
	Refused        int64 // connections that were none of a member or a question
	Drops          int64 // connections closed because the other side did not read
	Sent, Received int64 // frames of all kinds
}

// Stats returns the statistics.
func (m *Mesh) Stats() MeshStats {
	return MeshStats{
		Connections: m.connections.Load(), Refused: m.refused.Load(), Drops: m.drops.Load(),
		Sent: m.traffic.sent.Load(), Received: m.traffic.received.Load(),
	}
}

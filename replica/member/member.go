// Package member makes a process a member of a replicated cluster: a node of package replica,
// the connections to the other nodes (bus.Mesh), the store that the entries are for, and the
// beginning, when the nodes that were listed found the cluster.
//
// The package promises that a cluster is founded once, by nodes that are all empty and
// were given the same list; that a node which has lost its files, or is of another cluster, is
// refused by the others and harms none of them; and that the store above sees the order of
// events of replica.Machine.
package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/bus"
	"redoubt/journal"
	"redoubt/replica"
	"redoubt/replica/state"
)

// Options make a Member.
type Options struct {
	FS  journal.FS // of the state; journal.OS if nil
	Dir string     // of the state, made if it is not there
	// Peers are the addresses of all nodes for each other, this one's among them. The order is
	// the same on all: a node's place is its Raft id, from 1 on.
	Peers []string
	// Self is the place of this node in Peers, from 1 on; 0: it is found out.
	Self     int
	Listener net.Listener
	Secret   [32]byte
	// Contact is where clients reach this node.
	Contact func() Contact
	// Empty reports whether there is no store yet.
	Empty  func() (bool, error)
	Logger *slog.Logger
	// Tick and Election are those of replica.NodeOptions; Ask is how often the other nodes are
	// asked who they are, a second if zero.
	Tick     time.Duration
	Election int
	Ask      time.Duration
	Boot     state.ID
	// Now and Clock are those of replica.NodeOptions.
	Now   func() time.Time
	Clock func() time.Duration
	// Dial makes a connection to another node; nil: over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	bus.Timing
}

// Contact is where clients reach a node.
type Contact struct {
	Host    string `json:"host"` // empty: where the other nodes reach it
	Port    int    `json:"port"`
	TLSPort int    `json:"tls-port,omitempty"`
}

// Member is this process as a member of a cluster.
type Member struct {
	o       Options
	mesh    *bus.Mesh
	process string // at random, to know its own answers
	list    string // a digest of Peers

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	file    string // the path of the state
	node    state.ID
	state   state.State // zero before the cluster is founded
	known   []answer    // by place less one, the newest answers; of this node, too
	seen    []time.Time
	closed  bool
	replica atomic.Pointer[replica.Node]
	store   *Store
}

// answer is what a node says of itself to whoever knows the secret.
type answer struct {
	Process string  `json:"process"`
	Node    string  `json:"node"`
	List    string  `json:"list"`
	Cluster string  `json:"cluster,omitempty"` // empty: it is in none yet
	Place   int     `json:"place,omitempty"`   // its Raft id, when it has one
	Contact Contact `json:"contact"`
	Version int     `json:"version"` // of what the nodes say to each other
	Program string  `json:"program,omitempty"`
}

const answerVersion = 1

// New makes a member and begins to answer the other nodes. Found, OpenLog and Start follow.
func New(o Options) (m *Member, err error) {
	if o.FS == nil {
		o.FS = journal.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ask <= 0 {
		o.Ask = time.Second
	}
	if o.Contact == nil {
		o.Contact = func() Contact { return Contact{} }
	}
	if err := checkPeers(o.Peers); err != nil {
		return nil, err
	}
	m = &Member{o: o, process: randomID(), known: make([]answer, len(o.Peers)), seen: make([]time.Time, len(o.Peers))}
	sum := sha256.New()
	for _, p := range o.Peers {
		fmt.Fprintf(sum, "%d:%s,", len(p), p)
	}
	m.list = hex.EncodeToString(sum.Sum(nil)[:8])
	if err := errors.Join(o.FS.MkdirAll(o.Dir), o.FS.SyncDir(filepath.Dir(o.Dir))); err != nil {
		return nil, fmt.Errorf("make the directory of the replica's state: %w", err)
	}
	m.file = filepath.Join(o.Dir, "state")
	if err := m.load(); err != nil {
		return nil, err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.mesh = bus.NewMesh(bus.MeshOptions{
		Listener: o.Listener, Secret: o.Secret, Log: o.Logger, Answer: m.answer, Receive: m.receive, Dial: o.Dial, Timing: o.Timing,
	})
	m.mesh.Start()
	return m, nil
}

func checkPeers(peers []string) error {
	switch len(peers) {
	case 1, 3, 5, 7:
	default:
		return fmt.Errorf("raft-peers names %d nodes: give the addresses of 3, 5 or 7, with commas between them and the same list on each", len(peers))
	}
	seen := make(map[string]bool)
	for _, p := range peers {
		if _, _, err := net.SplitHostPort(p); err != nil {
			return fmt.Errorf("raft-peers: %q is no host:port: %w", p, err)
		}
		if seen[p] {
			return fmt.Errorf("raft-peers has %s twice", p)
		}
		seen[p] = true
	}
	return nil
}

// Addr is where the other nodes reach this one.
func (m *Member) Addr() net.Addr { return m.mesh.Addr() }

func (m *Member) answer([]byte) []byte {
	b, err := json.Marshal(m.self())
	if err != nil {
		return nil // it cannot be: all fields are plain
	}
	return b
}

// self is what this node says of itself.
func (m *Member) self() answer {
	contact := m.o.Contact()
	m.mu.Lock()
	defer m.mu.Unlock()
	a := answer{Process: m.process, Node: hex.EncodeToString(m.node[:]), List: m.list, Contact: contact, Version: answerVersion}
	if m.state.RaftID != 0 {
		a.Cluster, a.Place = hex.EncodeToString(m.state.Cluster[:]), int(m.state.RaftID)
	}
	return a
}

// ask asks the node at a place who it is. A host without a name of its own is that of the
// list.
func (m *Member) ask(ctx context.Context, place int) (a answer, err error) {
	addr := m.o.Peers[place-1]
	ctx, cancel := context.WithTimeout(ctx, 3*m.o.Ask)
	defer cancel()
	b, err := m.mesh.Ask(ctx, addr, []byte("who"))
	if err != nil {
		return a, fmt.Errorf("%s does not answer: %w", addr, err)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("%s gives an answer that is none: %w", addr, err)
	}
	if a.Version != answerVersion {
		return a, fmt.Errorf("%s runs a program that speaks version %d, this one speaks %d: use programs of versions that follow each other", addr, a.Version, answerVersion)
	}
	if a.Contact.Host == "" {
		a.Contact.Host, _, _ = net.SplitHostPort(addr)
	}
	m.mu.Lock()
	m.known[place-1], m.seen[place-1] = a, time.Now()
	m.mu.Unlock()
	return a, nil
}

// keepAsking keeps what is known of the other nodes up to date, for what clients are told.
func (m *Member) keepAsking() {
	for {
		var all sync.WaitGroup
		for place := 1; place <= len(m.o.Peers); place++ {
			if place != int(m.state.RaftID) { // it does not change any more
				all.Go(func() { _, _ = m.ask(m.ctx, place) }) // the mesh logs who cannot be reached
			}
		}
		all.Wait()
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(m.o.Ask):
		}
	}
}

// Peer is a node as this one knows it.
type Peer struct {
	Place   int // its Raft id
	Node    state.ID
	Addr    string // for other nodes
	Contact Contact
	Seen    time.Time // when it answered last; zero: never
}

// Peers returns all nodes, in the order of the list.
func (m *Member) Peers() []Peer {
	self := m.self()
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Peer, len(m.o.Peers))
	for i, addr := range m.o.Peers {
		a, seen := m.known[i], m.seen[i]
		if i+1 == self.Place {
			a, seen = self, time.Now()
			if a.Contact.Host == "" {
				a.Contact.Host, _, _ = net.SplitHostPort(addr)
			}
		}
		list[i] = Peer{Place: i + 1, Addr: addr, Contact: a.Contact, Seen: seen}
		if b, err := hex.DecodeString(a.Node); err == nil && len(b) == len(state.ID{}) {
			list[i].Node = state.ID(b)
		}
	}
	return list
}

// Node is the replica; nil before OpenLog.
func (m *Member) Node() *replica.Node { return m.replica.Load() }

// Links returns the connections to the other nodes.
func (m *Member) Links() []bus.MeshLink { return m.mesh.Links() }

// Cluster is the id of the cluster, zeros before it is founded.
func (m *Member) Cluster() state.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Cluster
}

// name is a node's id in the mesh.
func name(place uint64) string { return strconv.FormatUint(place, 10) }

func (m *Member) receive(from string, b []byte) error {
	id, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		return err
	}
	if n := m.replica.Load(); n != nil {
		return n.Receive(id, b)
	}
	return nil // it is sent again
}

func (m *Member) send(msg replica.Message) {
	m.mesh.Send(name(msg.Raft.GetTo()), func(dst []byte) []byte { return replica.AppendMessage(dst, msg) })
}

// Close ends the connections, after the store was closed, which closes the node.
func (m *Member) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.mesh.Close()
	m.work.Wait()
	return nil
}

var errNotFounded = errors.New("the cluster is not founded yet")

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
	// StoreDir is where the store is, in the same file system. If it is empty this node takes no snapshots.
	StoreDir string
	// Rate is how many bytes a second of a snapshot are taken at most; 64 MiB if zero.
	Rate int64
	// Retain is that of replica.NodeOptions.
	Retain int64
	// Restart is called when the process is to be ended and started again: the store must be replaced.
	Restart func()
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
	nodes   []string                 // the ids of the nodes by place less one; "" if it is not known yet
	names   atomic.Pointer[[]string] // nodes, to be read without mu
	joined  bool                     // the mesh is that of a cluster
	self    int                      // this node's place, and its cluster, from Found on
	cluster string
	closed  bool
	replica atomic.Pointer[replica.Node]
	built   atomic.Pointer[Store]

	learning            sync.Mutex // held to change nodes; before mu
	opening             context.Context
	source              source
	fetched             atomic.Int64 // bytes of the snapshot that is taken
	returned, restarted atomic.Bool  // it came back as one that may have forgotten; Restart was called
	replaced            atomic.Bool  // another node has this one's place: it was logged
}

// answer is what a node says of itself to whoever knows the secret.
type answer struct {
	Process string  `json:"process"`
	Node    string  `json:"node"`
	List    string  `json:"list"`
	Cluster string  `json:"cluster,omitempty"` // empty: it is in none yet
	Place   int     `json:"place,omitempty"`   // its Raft id, when it has one
	Contact Contact `json:"contact"`
	// What follows is of its state.
	Term      uint64   `json:"term,omitempty"`
	Leader    uint64   `json:"leader,omitempty"`
	First     uint64   `json:"first,omitempty"` // the oldest entry that its log has
	Returning bool     `json:"returning,omitempty"`
	Floor     uint64   `json:"floor,omitempty"` // see replica.Return
	Nodes     []string `json:"nodes,omitempty"`
	Version   int      `json:"version"` // of what the nodes say to each other
	Program   string   `json:"program,omitempty"`
}

const answerVersion = 2

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
	m.source = source{m: m, dir: filepath.Join(o.Dir, "snapshot")}
	if err := errors.Join(m.load(), m.loadNodes(), removeAll(o.FS, m.source.dir)); err != nil {
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

// identity is what this node says of itself.
func (m *Member) identity() answer {
	contact := m.o.Contact()
	var s replica.NodeStatus // before mu is locked: the replica sends with its own lock held
	if n := m.replica.Load(); n != nil {
		s = n.Status()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := answer{Process: m.process, Node: hex.EncodeToString(m.node[:]), List: m.list, Contact: contact, Version: answerVersion}
	if m.state.RaftID != 0 {
		a.Cluster, a.Place, a.Term, a.Nodes = hex.EncodeToString(m.state.Cluster[:]), int(m.state.RaftID), m.state.Term, m.nodes
	}
	a.Term, a.Leader, a.First, a.Returning, a.Floor = max(a.Term, s.Term), s.Role.Leader, s.First, s.Returning, s.Floor
	return a
}

// ask asks the node at a place who it is. A host without a name of its own is that of the
// list.
func (m *Member) ask(ctx context.Context, place int, q question) (a answer, err error) {
	addr := m.o.Peers[place-1]
	ctx, cancel := context.WithTimeout(ctx, 3*m.o.Ask)
	defer cancel()
	b, err := m.mesh.Ask(ctx, addr, toJSON(q))
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
		answers := make([]answer, len(m.o.Peers))
		for place := 1; place <= len(m.o.Peers); place++ {
			if place != m.self {
				all.Go(func() {
					a, err := m.ask(m.ctx, place, question{Op: opWho})
					if err != nil {
						return // the mesh logs who cannot be reached
					}
					if a.Cluster == m.cluster && a.Place == place {
						answers[place-1] = a
						if m.nameOf(place) == "" {
							err = m.learn(place, a.Node)
						}
					}
					if err != nil {
						m.o.Logger.Error("a node was not noted", "replica", place, "err", err)
					}
				})
			}
		}
		all.Wait()
		m.attend(answers)
		m.source.tidy()
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
	self := m.identity()
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

func (m *Member) receive(from string, b []byte) error {
	place, err := placeOf(from)
	if err != nil {
		return err
	}
	if n := m.replica.Load(); n != nil {
		return n.Receive(uint64(place), b)
	}
	return nil // it is sent again
}

func (m *Member) send(msg replica.Message) {
	m.mesh.Send(m.nameOf(int(msg.Raft.GetTo())), func(dst []byte) []byte { return replica.AppendMessage(dst, msg) })
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

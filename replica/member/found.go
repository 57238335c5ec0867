package member

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"redoubt/bus"
	"redoubt/journal"
	"redoubt/replica/state"
)

// The beginning of a cluster. Nodes that have no state yet ask all others of their list who
// they are. Each node has an id that it has stored before it told anybody; the id of the
// cluster is a digest of the list and of these ids. So all nodes come to the same cluster
// without a word more, a node that was down when the others founded comes to it later, and one
// that has lost its files has another id, comes to another cluster, and is refused.

// Errors of Found, which no waiting mends.
var (
	// ErrOther: the nodes that are there are none with which this one may found a cluster.
	ErrOther = errors.New("this node cannot found or enter the cluster")
)

// load reads the state, or the id of a node that is in no cluster yet, which it makes if need
// be.
func (m *Member) load() error {
	f, err := state.Open(m.o.FS, m.file)
	if err == nil {
		m.state = f.State()
		m.node = m.state.Node
		// Left by a crash between the two steps of enter. With it and without the state, this
		// node would take itself for one that has promised nothing.
		if err := m.o.FS.Remove(filepath.Join(m.o.Dir, "node")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(err, f.Close())
		}
		return f.Close()
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	empty, err := m.o.Empty()
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: its data directory has a store, but no state of a replica in %s: it is the store of a server that was alone, or the state was removed. Give another data directory, and copy the data by redoubt copy or by export and import", ErrOther, m.file)
	}
	m.node, err = nodeID(m.o.FS, filepath.Join(m.o.Dir, "node"))
	return err
}

// nodeID reads the id of a node that is in no cluster yet, or makes one, durably.
func nodeID(fs journal.FS, path string) (id state.ID, err error) {
	if f, err := fs.Open(path); err == nil {
		b := make([]byte, len(id))
		n, err := f.ReadAt(b, 0)
		if closed := f.Close(); n == len(b) && closed == nil {
			return state.ID(b), nil
		}
		return id, fmt.Errorf("reading %s: %w: this node is in no cluster yet: remove the file", path, err)
	}
	if _, err := rand.Read(id[:]); err != nil {
		return id, err
	}
	f, err := fs.Create(path + ".tmp")
	if err == nil {
		_, err = f.WriteAt(id[:], 0)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = fs.Rename(path+".tmp", path)
	}
	if err == nil {
		err = fs.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return id, fmt.Errorf("writing %s: %w", path, err)
	}
	return id, nil
}

func randomID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// Found waits until this node is in a cluster, and connects it with the others. A node that
// has a state goes on at once.
func (m *Member) Found(ctx context.Context) error {
	if m.state.RaftID == 0 {
		if err := m.found(ctx); err != nil {
			return err
		}
	}
	if int(m.state.RaftID) > len(m.o.Peers) {
		return fmt.Errorf("%w: it is replica %d, and raft-peers names %d nodes: give the list that the cluster was founded with", ErrOther, m.state.RaftID, len(m.o.Peers))
	}
	m.mu.Lock()
	m.self, m.cluster = int(m.state.RaftID), hex.EncodeToString(m.state.Cluster[:])
	m.mu.Unlock()
	self := hex.EncodeToString(m.node[:])
	if err := m.learn(m.self, self); err != nil {
		return err
	}
	var others []bus.Peer
	m.learning.Lock()
	m.mu.Lock()
	for i, addr := range m.o.Peers {
		if i+1 != m.self && m.nodes[i] != "" {
			others = append(others, bus.Peer{ID: name(i+1, m.nodes[i]), Addr: addr})
		}
	}
	m.mesh.Join(m.cluster, name(m.self, self), others)
	m.joined = true
	m.mu.Unlock()
	m.learning.Unlock()
	m.o.Logger.Info("this node is in a cluster", "cluster", m.cluster, "replica", m.self, "nodes", strings.Join(m.o.Peers, ","))
	m.work.Go(m.keepAsking)
	return nil
}

func (m *Member) found(ctx context.Context) error {
	said := ""
	for {
		s, wait, err := m.tryFound(ctx)
		if err != nil {
			return err
		}
		if wait == nil {
			return m.enter(s)
		}
		if text := wait.Error(); text != said {
			said = text
			m.o.Logger.Info("waiting until all nodes are there to found the cluster", "waiting_for", text)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("founding the cluster: %w", errors.Join(ctx.Err(), wait))
		case <-m.ctx.Done():
			return errNotFounded
		case <-time.After(m.o.Ask / 4):
		}
	}
}

// tryFound asks all nodes. wait says why it is too early.
func (m *Member) tryFound(ctx context.Context) (s state.State, wait, err error) {
	all := make([]answer, len(m.o.Peers))
	self, lost := 0, false
	for i := range all {
		a, err := m.ask(ctx, i+1, question{Op: opWho})
		if err != nil {
			wait = errors.Join(wait, err)
			continue
		}
		if all[i] = a; a.Process == m.process {
			if self != 0 {
				return s, nil, fmt.Errorf("%w: %s and %s are both this node: name each node once", ErrOther, m.o.Peers[self-1], m.o.Peers[i])
			}
			self = i + 1
		}
	}
	if wait != nil {
		return s, wait, nil
	}
	if self == 0 {
		return s, nil, fmt.Errorf("%w: none of %s is this node, which listens on %s: give cluster-port, or name this node in raft-peers", ErrOther, strings.Join(m.o.Peers, ", "), m.mesh.Addr())
	}
	sum := sha256.New()
	sum.Write([]byte("redoubt cluster 1\x00" + m.list))
	for i, a := range all {
		if a.List != m.list {
			return s, nil, fmt.Errorf("%w: %s was given another raft-peers: give all nodes the same list in the same order", ErrOther, m.o.Peers[i])
		}
		sum.Write([]byte("\x00" + a.Node))
	}
	cluster := state.ID(sum.Sum(nil)[:16])
	// A majority that is in another cluster was founded with another node at this place, which has
	// lost its files.
	members := make(map[string]int)
	for i, a := range all {
		if a.Cluster != "" && a.Cluster != hex.EncodeToString(cluster[:]) && i+1 != self {
			if members[a.Cluster]++; 2*members[a.Cluster] > len(all) {
				b, err := hex.DecodeString(a.Cluster)
				if err != nil || len(b) != len(cluster) {
					return s, nil, fmt.Errorf("%w: %s says that it is in cluster %q", ErrOther, m.o.Peers[i], a.Cluster)
				}
				cluster, lost = state.ID(b), true
			}
		}
	}
	for i, a := range all {
		if a.Cluster != "" && a.Cluster != hex.EncodeToString(cluster[:]) {
			return s, nil, fmt.Errorf("%w: %s is in cluster %s, which was not founded with this node as it is: if this node has lost its files, a majority of the others must be there with theirs", ErrOther, m.o.Peers[i], a.Cluster)
		}
		if a.Cluster != "" && a.Place != i+1 {
			return s, nil, fmt.Errorf("%w: %s is replica %d, in raft-peers it is number %d: give the list that the cluster was founded with", ErrOther, m.o.Peers[i], a.Place, i+1)
		}
		if slices.ContainsFunc(all[:i], func(b answer) bool { return b.Node == a.Node }) {
			return s, nil, fmt.Errorf("%w: two nodes have the same id, %s: one data directory is a copy of another", ErrOther, a.Node)
		}
	}
	return state.State{Cluster: cluster, Node: m.node, RaftID: uint64(self), Boot: m.o.Boot, Returning: lost}, nil, nil
}

// enter makes the state durable.
func (m *Member) enter(s state.State) error {
	f, err := state.Create(m.o.FS, m.file, s)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.state = s
	m.mu.Unlock()
	if err := errors.Join(f.Close(), m.o.FS.Remove(filepath.Join(m.o.Dir, "node"))); err != nil {
		return fmt.Errorf("entering the cluster: %w", err)
	}
	if s.Returning {
		m.o.Logger.Warn("this node has no files, and takes the place of one that has lost them", "cluster", hex.EncodeToString(s.Cluster[:]), "replica", s.RaftID)
	} else {
		m.o.Logger.Info("the cluster is founded", "cluster", hex.EncodeToString(s.Cluster[:]))
	}
	return nil
}

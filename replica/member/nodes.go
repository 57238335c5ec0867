package member

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"redoubt/bus"
	"redoubt/journal"
	"redoubt/replica/state"
)

// Each node keeps a file with the ids of the nodes by their places. A node that has lost its
// files has a new id: it is one that has forgotten all, and takes the place of the old one only when all others
// have noted so. From then on they refuse the old one, whose files may turn up again.

// name is a node's id in the mesh.
func name(place int, node string) string { return strconv.Itoa(place) + "-" + node[:16] }

// placeOf reads the place from a name.
func placeOf(name string) (int, error) {
	place, _, _ := strings.Cut(name, "-")
	return strconv.Atoi(place)
}

func (m *Member) nodesFile() string { return filepath.Join(m.o.Dir, "nodes") }

// loadNodes reads the file of the nodes, if there is one.
func (m *Member) loadNodes() error {
	m.nodes = make([]string, len(m.o.Peers))
	b, err := readFile(m.o.FS, m.nodesFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var list []string
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err == nil && (len(list) != len(m.nodes) || slices.ContainsFunc(list, func(id string) bool { return id != "" && !validID(id) })) {
		err = errors.New("it has not the ids of the listed nodes")
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w: remove the directory %s if the other nodes are there: this node then gets all from them", m.nodesFile(), err, filepath.Dir(m.o.Dir))
	}
	m.setNodes(list)
	return nil
}

func (m *Member) setNodes(list []string) {
	m.nodes = list
	m.names.Store(&list)
}

func validID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == len(state.ID{})
}

// learn notes durably which node has a place, and that no other has it any more. mu is not held.
func (m *Member) learn(place int, node string) error {
	if !validID(node) {
		return fmt.Errorf("%q is no id of a node", node)
	}
	m.learning.Lock()
	defer m.learning.Unlock()
	m.mu.Lock()
	list, joined := slices.Clone(m.nodes), m.joined
	m.mu.Unlock()
	old := list[place-1]
	if old != node {
		list[place-1] = node
		b, err := json.Marshal(list)
		if err == nil {
			err = journal.ReplaceFile(m.o.FS, m.nodesFile(), b)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", m.nodesFile(), err)
		}
		m.mu.Lock()
		m.setNodes(list)
		m.mu.Unlock()
		if old != "" {
			m.o.Logger.Warn("another node has taken the place of one that has lost its files", "replica", place, "addr", m.o.Peers[place-1], "node", node, "was", old)
		}
	}
	if joined && old != node {
		was := ""
		if old != "" {
			was = name(place, old)
		}
		m.mesh.Replace(was, bus.Peer{ID: name(place, node), Addr: m.o.Peers[place-1]})
	}
	return nil
}

// nameOf is the name of the node at a place in the mesh; "" if it is not known yet. It takes no locks: a
// replica sends with its own held.
func (m *Member) nameOf(place int) string {
	list := m.names.Load()
	if list == nil || place < 1 || place > len(*list) || (*list)[place-1] == "" {
		return ""
	}
	return name(place, (*list)[place-1])
}

func readFile(fs journal.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

// removeAll removes a file, or a directory with all that is in it.
func removeAll(fs journal.FS, path string) error {
	names, err := fs.List(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		for _, n := range names {
			if err := removeAll(fs, filepath.Join(path, n)); err != nil {
				return err
			}
		}
	}
	if err := fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func exists(fs journal.FS, path string) bool {
	_, err := fs.List(path)
	return err == nil
}

package member

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"redoubt/engine"
	"redoubt/journal"
	"redoubt/replica"
	"redoubt/replica/state"
)

// A node comes back by itself: one that may have forgotten what it acknowledged, since its machine
// lost power, its files were lost or are damaged, or it is so far behind that no log has what
// it lacks. replica.Return is how it takes part again. Here is what is around it: it asks all
// other nodes, who note its id; if their logs do not reach back to what it has, it takes a
// snapshot of another one (snapshot.go); and a leader that hears of it hands over.

// Open opens the store by open, whose log is opened by OpenLog, and makes it a member's. If what is
// there cannot be gone on from, it is replaced by what another node has.
func (m *Member) Open(ctx context.Context, progress func(done, total int64), open func() (Rows, error)) (*Store, error) {
	m.opening = ctx
	for fetched := false; ; fetched = true {
		if err := m.install(); err != nil {
			return nil, err
		}
		rows, err := open()
		if err == nil {
			return m.Wrap(rows), nil
		}
		behind := errors.Is(err, replica.ErrBehind)
		if len(m.o.Peers) == 1 || m.o.StoreDir == "" || !behind && (fetched || !errors.Is(err, engine.ErrCorrupt)) {
			return nil, err
		}
		m.o.Logger.Warn("this node cannot go on from what it has: it takes a snapshot of another node", "err", err)
		if err := m.change(func(s *state.State) { s.Returning = true }); err != nil {
			return nil, err
		}
		if err := m.fetch(ctx, progress); err != nil {
			return nil, fmt.Errorf("taking a snapshot of another node: %w", err)
		}
	}
}

// change changes the state while no node has it open.
func (m *Member) change(do func(*state.State)) error {
	f, err := state.Open(m.o.FS, m.file)
	if err != nil {
		return err
	}
	s := f.State()
	do(&s)
	if err := errors.Join(f.Set(s), f.Close()); err != nil {
		return err
	}
	m.mu.Lock()
	m.state = s
	m.mu.Unlock()
	return nil
}

// returning returns how this node takes part if it may have forgotten something, and the index that
// the logs of all others reach back to. It waits until all others have answered.
func (m *Member) returning(policy journal.Policy) (ret *replica.Return, first uint64, err error) {
	if err := m.change(func(s *state.State) {
		s.Returning = s.Returning || len(m.o.Peers) > 1 && replica.Forgot(*s, policy, m.o.Boot)
	}); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	s := m.state
	m.mu.Unlock()
	if !s.Returning {
		return nil, 0, nil
	}
	m.o.Logger.Warn("this node may have forgotten what it acknowledged: it asks all other nodes, and votes again when it has caught up", "replica", s.RaftID)
	m.returned.Store(true)
	ret = &replica.Return{Floor: s.Term}
	q := question{Op: opReturn, Cluster: m.cluster, Place: m.self, Node: hex.EncodeToString(s.Node[:])}
	answered := make([]bool, len(m.o.Peers)+1)
	for said := ""; ; {
		var wait error
		for place := 1; place <= len(m.o.Peers); place++ {
			if place == q.Place || answered[place] {
				continue
			}
			a, err := m.ask(m.opening, place, q)
			if err == nil && a.Cluster != "" && a.Cluster != q.Cluster {
				return nil, 0, fmt.Errorf("%w: %s is in cluster %s, this node in cluster %s: give the list that the cluster was founded with", ErrOther, m.o.Peers[place-1], a.Cluster, q.Cluster)
			}
			if err == nil && (a.Cluster == "" || a.Place != place) {
				err = fmt.Errorf("%s is not in the cluster yet", m.o.Peers[place-1])
			}
			if err == nil {
				err = m.learn(place, a.Node)
			}
			if err != nil {
				wait = errors.Join(wait, err)
				continue
			}
			answered[place] = true
			ret.Floor, first = max(ret.Floor, a.Term), max(first, a.First)
		}
		if wait == nil {
			return ret, first, nil
		}
		if text := wait.Error(); text != said {
			said = text
			m.o.Logger.Info("a node that may have forgotten something waits until all others answer", "waiting_for", text)
		}
		select {
		case <-m.opening.Done():
			return nil, 0, errors.Join(m.opening.Err(), wait)
		case <-m.ctx.Done():
			return nil, 0, m.ctx.Err()
		case <-time.After(m.o.Ask / 4):
		}
	}
}

// The questions of nodes.
const (
	opWho      = "who"      // who are you?
	opReturn   = "return"   // I may have forgotten what I promised: note who I am, and tell your term
	opSnapshot = "snapshot" // make a snapshot, or tell of the one with this id
	opChunk    = "chunk"    // a piece of a file of a snapshot
)

type question struct {
	Op      string `json:"op"`
	Cluster string `json:"cluster,omitempty"`
	Place   int    `json:"place,omitempty"` // of the asker
	Node    string `json:"node,omitempty"`  // its id
	ID      string `json:"id,omitempty"`    // of a snapshot
	File    string `json:"file,omitempty"`
	Offset  int64  `json:"offset,omitempty"`
}

// answer answers another node.
func (m *Member) answer(b []byte) []byte {
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return nil
	}
	m.mu.Lock()
	cluster, self := m.cluster, m.self
	m.mu.Unlock()
	ours := self != 0 && q.Cluster == cluster
	switch q.Op {
	case opWho:
	case opReturn:
		if ours && q.Place >= 1 && q.Place <= len(m.o.Peers) && q.Place != self {
			if err := m.learn(q.Place, q.Node); err != nil {
				m.o.Logger.Error("a node that comes back was not noted", "replica", q.Place, "err", err)
				return nil
			}
		}
	case opSnapshot, opChunk:
		if !ours {
			return nil
		}
		if q.Op == opChunk {
			return m.source.chunk(q)
		}
		return toJSON(m.source.describe(q.ID))
	default:
		return nil
	}
	return toJSON(m.identity()) // its term is read after the asker was noted
}

func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // it cannot be: all fields are plain
	}
	return b
}

// attend does what follows from what the other nodes say of themselves.
func (m *Member) attend(answers []answer) {
	n := m.replica.Load()
	if n == nil {
		return
	}
	if err := n.Err(); err != nil {
		// One that breaks although it came back as one that knows nothing is left as it is.
		if errors.Is(err, replica.ErrBroken) && !m.returned.Load() && m.o.Restart != nil && m.o.StoreDir != "" && !m.restarted.Swap(true) {
			m.o.Restart()
		}
		return
	}
	s := n.Status()
	returning := make(map[uint64]bool)
	for _, a := range answers {
		if a.Cluster != "" && a.Returning {
			returning[uint64(a.Place)] = true
		}
		if len(a.Nodes) == len(m.o.Peers) && a.Nodes[m.self-1] != "" && a.Nodes[m.self-1] != hex.EncodeToString(m.node[:]) && !m.replaced.Swap(true) {
			m.o.Logger.Error("another node has taken the place of this one, which the others refuse: its data directory is an old one; stop this node, and remove the directory if it is not needed", "replica", m.self, "node", a.Nodes[m.self-1])
		}
	}
	if s.Role.Leads {
		for _, a := range answers {
			if !a.Returning || a.Floor < s.Role.Term {
				continue
			}
			var to replica.Member
			for _, p := range s.Members {
				if p.ID != s.ID && p.Active && !returning[p.ID] && p.Match > to.Match {
					to = p
				}
			}
			if to.ID != 0 {
				m.o.Logger.Info("a node comes back that may have forgotten what it acknowledged, and needs a leader that was elected since: this one hands over", "replica", a.Place, "to", to.ID)
				n.Transfer(to.ID)
			}
			return
		}
		return
	}
	for _, a := range answers {
		if uint64(a.Place) == s.Role.Leader && a.First > s.Last+1 && m.o.StoreDir != "" {
			n.Abandon(fmt.Errorf("%w: its newest entry is %d, the leader's oldest %d: it begins anew with a snapshot", replica.ErrBehind, s.Last, a.First))
			if m.o.Restart != nil && !m.restarted.Swap(true) {
				m.o.Restart()
			}
			return
		}
	}
}

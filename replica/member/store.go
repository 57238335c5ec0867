package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
	"redoubt/journal"
	"redoubt/replica"
)

// Rows is a store whose log may be taken back: local.Engine.
type Rows interface {
	engine.Engine
	// Replay makes a record visible that is agreed upon.
	Replay(seq uint64, payload []byte) (changed *engine.Batch, err error)
	// Rewind replaces memory by the state of record to.
	Rewind(kept, to uint64, records func(from, to uint64, replay func(seq uint64, payload []byte) error) error) error
}

// Server is what is above the store. Calls do not overlap.
type Server interface {
	// Lead: the server may serve from now on. The store has all that was ever committed.
	Lead(term uint64) error
	// Follow: the server serves no more. When it returns no batch is open that was begun before.
	Follow()
}

// OpenLog opens the log of the store, which is to be Rows: it is for local.Options.Log. The
// cluster is founded.
func (m *Member) OpenLog(o journal.Opening) (journal.Log, error) {
	if o.From > 0 && len(o.Base) == 0 {
		return nil, fmt.Errorf("%w: its data directory has the store of a server that was alone: give another one, and copy the data by redoubt copy or by export and import", ErrOther)
	}
	var have journal.Applied
	if len(o.Base) > 0 {
		var err error
		if have, _, err = journal.ParseApplied(o.Base); err != nil {
			return nil, err
		}
	}
	voters := make([]uint64, len(m.o.Peers))
	for i := range voters {
		voters[i] = uint64(i + 1)
	}
	ret, first, err := m.returning(o.Policy)
	if err != nil {
		return nil, err
	}
	n, err := replica.OpenNode(replica.NodeOptions{
		Return: ret,
		FS:     o.FS, Dir: o.Dir, State: m.file, StateFS: m.o.FS, SegmentBytes: o.SegmentBytes, Policy: o.Policy, Voters: voters, Send: m.send,
		OnDurable: o.OnDurable, Retain: m.o.Retain, Tick: m.o.Tick, Election: m.o.Election, Clock: m.o.Clock, Now: m.o.Now, Boot: m.o.Boot, Logger: m.o.Logger,
	}, have, o.Replay, o.Progress)
	if err != nil {
		return nil, err
	}
	if s := n.Status(); ret != nil && m.o.StoreDir != "" && s.Last+1 < first {
		return nil, errors.Join(fmt.Errorf("%w: its newest entry is %d, the others have none before %d", replica.ErrBehind, s.Last, first), n.Close())
	}
	m.replica.Store(n)
	return log{n}, nil
}

// log is a node as its store sees it.
type log struct{ *replica.Node }

func (l log) Append(epoch uint64, rec []byte) (uint64, error) {
	index, err := l.Node.Append(epoch, rec)
	if errors.Is(err, replica.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", engine.ErrUnknownOutcome, err)
	}
	return index, err
}

// Store is the store of a member as the server sees it. Its tickets are those of the rows, and
// above them, from bit eraShift on, how often commits of this process were taken back: so
// tickets are never used twice, though the entries of the log are.
type Store struct {
	Rows
	m    *Member
	node *replica.Node
	era  atomic.Uint64

	mu   sync.Mutex
	kept []uint64 // by era: the commits of the era behind this one are void
}

const eraShift = 48

// Wrap makes the store of rows whose log OpenLog has opened. Start begins.
func (m *Member) Wrap(rows Rows) *Store {
	s := &Store{Rows: rows, m: m, node: m.replica.Load()}
	m.built.Store(s)
	return s
}

// Start begins to take part in the cluster.
func (s *Store) Start(srv Server) error { return s.node.Start(&machine{s, srv}) }

// Member is the member whose store this is.
func (s *Store) Member() *Member { return s.m }

// Begin implements engine.Engine.
func (s *Store) Begin(o engine.ViewOptions) (engine.View, error) {
	era := s.era.Load()
	v, err := s.Rows.Begin(o)
	if err != nil {
		return nil, err
	}
	return &view{v, era}, nil
}

// view gives tickets of an era. A commit in a later era than that of Begin fails.
type view struct {
	engine.View
	era uint64
}

func (v *view) Commit(b *engine.Batch) (engine.Ticket, error) {
	t, err := v.View.Commit(b)
	if t != 0 {
		t |= engine.Ticket(v.era << eraShift)
	}
	return t, err
}

// Committed implements engine.Engine.
func (s *Store) Committed() engine.Ticket {
	era := s.era.Load()
	return engine.Ticket(era<<eraShift) | s.Rows.Committed()
}

// Durable implements engine.Engine. All tickets of earlier eras are decided: those that are not
// Void are durable.
func (s *Store) Durable() engine.Ticket {
	era := s.era.Load()
	return engine.Ticket(era<<eraShift) | min(s.Rows.Durable(), s.Rows.Committed())
}

// Void reports whether a commit was taken back. Durable is to be read before: it passes a
// void ticket only when Void knows it.
func (s *Store) Void(t engine.Ticket) bool {
	era := uint64(t) >> eraShift
	if era >= s.era.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kept := range s.kept[era:] {
		if uint64(t)&(1<<eraShift-1) > kept {
			return true
		}
	}
	return false
}

// handOverWithin is how long a leader that ends waits for another node to take over.
const handOverWithin = time.Second

// Close implements engine.Engine: it ends the node and its connections, too. A leader hands the
// leadership over before, so that the others need not notice first that it is gone.
func (s *Store) Close() error {
	s.handOver()
	s.node.Stop()
	return errors.Join(s.Rows.Close(), s.m.Close())
}

func (s *Store) handOver() {
	var to replica.Member
	for _, m := range s.node.Status().Members {
		if m.ID != s.node.ID() && m.Active && m.Match > to.Match {
			to = m
		}
	}
	if to.ID == 0 {
		return
	}
	s.node.Transfer(to.ID)
	for end := time.Now().Add(handOverWithin); s.node.Role().Leads && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// Leads reports whether what is read now is the newest state: no other node can lead.
func (s *Store) Leads() bool { return s.node.Leads() }

// confirmWithin is how long a majority has to confirm that this node leads.
const confirmWithin = 5 * time.Second

// Confirm waits until a majority has confirmed that this node leads.
func (s *Store) Confirm() error {
	ctx, cancel := context.WithTimeout(s.m.ctx, confirmWithin)
	defer cancel()
	err := s.node.Confirm(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, replica.ErrNotLeader):
		return fmt.Errorf("%w: %w", engine.ErrNotLeader, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return err
}

// machine is what the node tells its events.
type machine struct {
	*Store
	srv Server
}

// Apply implements replica.Machine.
func (a *machine) Apply(index uint64, payload []byte) error {
	for {
		_, err := a.Rows.Replay(index, payload)
		if err == nil || !errors.Is(err, engine.ErrReadOnly) || a.Rows.Err() != nil {
			return err
		}
		// The disk of the tables is full, for now.
		select {
		case <-a.m.ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Void implements replica.Machine.
func (a *machine) Void(kept uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, kept)
	a.era.Add(1)
}

// Rewind implements replica.Machine.
func (a *machine) Rewind(kept uint64) error { return a.Rows.Rewind(kept, kept, a.node.Replay) }

func (a *machine) Lead(term uint64) error { return a.srv.Lead(term) }
func (a *machine) Follow()                { a.srv.Follow() }

package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"redoubt/journal"
)

// What the machine asks of its node.

// HeadRoom implements journal.Log: a record begins with its Head.
func (n *Node) HeadRoom() int { return headSize }

// Epoch implements journal.Log. What is evaluated in an epoch is appended in it, or not at all.
func (n *Node) Epoch() uint64 { return n.epochs.Load() }

// Append implements journal.Log: it adds an entry behind all others and sends it to the other
// nodes. If the node stops meanwhile the error is ErrUnknownOutcome.
func (n *Node) Append(epoch uint64, rec []byte) (index uint64, err error) {
	data := append(make([]byte, 0, len(rec)), rec...)
	Head{Time: uint64(n.o.Now().UnixMilli()), Type: journal.EntryRows, Version: entryVersion}.put(data)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.err != nil:
		return 0, n.err
	case n.closed:
		return 0, journal.ErrClosed
	case !n.writable || epoch != n.epochs.Load():
		return 0, ErrNotLeader
	}
	life := n.life
	if index, err = n.core.Propose(n.o.Clock(), n.role.Term, data); err != nil {
		if errors.Is(err, ErrBroken) {
			n.fail(err)
			err = n.err
		}
		n.act()
		return 0, err
	}
	n.act()
	switch {
	case n.err != nil:
		return 0, fmt.Errorf("%w: %w", ErrUnknownOutcome, n.err)
	case n.life != life || n.log.Last() < index:
		return 0, fmt.Errorf("%w: the log of this replica", journal.ErrFull)
	}
	n.setHave(index)
	return index, nil
}

// Last is the index of the newest entry that the machine has.
func (n *Node) Last() uint64 { return n.last.Load() }

// Durable is the index up to which all entries are committed: a quorum has them, in the sense
// of the policy. It never decreases.
func (n *Node) Durable() uint64 { return n.durable.Load() }

// Congested reports whether so much is proposed and not committed that writers should wait.
func (n *Node) Congested() bool { return n.last.Load() > n.durable.Load()+maxAhead }

// maxAhead is how many entries may wait to be committed before Congested says so; the core
// refuses entries by their bytes.
const maxAhead = 64 << 10

// Sync implements journal.Log: all that the log has is fsynced here.
func (n *Node) Sync(uint64) error { return n.log.Sync(n.log.Position()) }

// Base implements journal.Log.
func (n *Node) Base(index uint64) ([]byte, error) {
	a, err := n.log.Applied(index)
	a.Committed = max(a.Committed, n.Durable()) // the log is told a little later
	return a.Append(nil), err
}

// LinkTo implements journal.Log. The copy may have entries that are not committed.
func (n *Node) LinkTo(dir string, from uint64) (uint64, error) {
	a, err := n.log.Applied(from)
	if err != nil {
		return 0, err
	}
	last := n.log.Last()
	_, err = n.log.LinkTo(dir, a.Position)
	return last, err
}

// SetPolicy implements journal.Log.
func (n *Node) SetPolicy(p journal.Policy) error { return n.log.SetPolicy(p) }

// Leads reports whether no other node can have become leader, so that what the machine reads
// now is the newest state.
func (n *Node) Leads() bool { return int64(n.o.Clock()) < n.lease.Load() }

// Confirm has a majority confirm that this node was the leader after Confirm was called.
func (n *Node) Confirm(ctx context.Context) error {
	for {
		done := make(chan error, 1)
		n.mu.Lock()
		switch {
		case n.err != nil, n.closed, !n.writable:
			err := n.err
			n.mu.Unlock()
			if err == nil {
				err = ErrNotLeader
			}
			return err
		}
		n.question++
		question := string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n.id), n.question))
		n.asked[question] = done
		if err := n.core.ReadIndex(n.o.Clock(), question); errors.Is(err, ErrBroken) {
			n.fail(err)
		}
		n.act()
		n.mu.Unlock()
		again := time.NewTimer(n.o.Tick * time.Duration(n.o.Election))
		select {
		case err := <-done:
			again.Stop()
			return err
		case <-ctx.Done():
			again.Stop()
			n.mu.Lock()
			delete(n.asked, question)
			n.mu.Unlock()
			return fmt.Errorf("no majority of the nodes answers: %w", ctx.Err())
		case <-again.C: // messages may have been lost
			n.mu.Lock()
			delete(n.asked, question)
			n.mu.Unlock()
		}
	}
}

// answer answers a question of Confirm. mu is held.
func (n *Node) answer(question string, err error) {
	if done := n.asked[question]; done != nil {
		delete(n.asked, question)
		done <- err
	}
}

func (n *Node) answerAll(err error) {
	for question := range n.asked {
		n.answer(question, err)
	}
}

// Transfer asks another node to become leader, if this one leads.
func (n *Node) Transfer(to uint64) {
	n.event(func(now time.Duration) error {
		if !n.role.Leads || to == n.id {
			return nil
		}
		return n.core.Transfer(now, to)
	})
}

// Remove allows the log to forget entries up to index, which the machine has elsewhere. It
// keeps what followers may need: all that some node is known to lack, up to Retain bytes.
func (n *Node) Remove(index uint64) error {
	n.mu.Lock()
	if n.core == nil {
		n.mu.Unlock()
		return nil
	}
	upTo := min(index, n.log.Retained(n.o.Retain))
	if n.role.Leads {
		upTo = index
		for _, m := range n.core.Members() {
			upTo = min(upTo, m.Match)
		}
		upTo = min(index, max(upTo, n.log.Retained(n.o.Retain)))
	}
	n.mu.Unlock()
	return n.log.Remove(math.MaxUint64, upTo)
}

// Replay gives the machine entries from its log again, those behind from and up to upTo, which
// are committed. Machine.Rewind uses it.
func (n *Node) Replay(from, upTo uint64, replay func(index uint64, payload []byte) error) error {
	for lo := from + 1; lo <= upTo; {
		list, err := n.log.RaftLog.Entries(lo, upTo+1, 4<<20)
		if err != nil {
			return fmt.Errorf("reading entry %d: %w", lo, err)
		}
		for _, e := range list {
			if e.Type != journal.EntryRows {
				e.Payload = nil
			}
			if err := replay(e.Index, e.Payload); err != nil {
				return err
			}
		}
		lo += uint64(len(list))
	}
	return nil
}

// NodeStatus is what a person wants to know of a node.
type NodeStatus struct {
	ID                               uint64
	Role                             Role
	Term                             uint64 // the newest that the node has stored or heard of
	Serves                           bool   // it leads, and the machine may append
	Commit                           uint64
	Applied                          uint64
	Last                             uint64 // the newest entry of the log
	Voters                           []uint64
	Members                          []Member // as the leader knows them; empty on a follower
	Queued                           int      // entries that are committed and not applied
	First                            uint64   // the oldest entry that the log has for others
	Returning                        bool     // it has not caught up: see Return
	Floor                            uint64   // of Return
	Lease                            time.Duration
	Elections, Rewinds, FailedWrites int64
}

// Status returns it.
func (n *Node) Status() NodeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := NodeStatus{
		ID: n.id, Role: n.role, Serves: n.writable, Commit: n.durable.Load(), Applied: n.applied.Load(), Last: n.log.Last(), Voters: n.o.Voters,
		Elections: n.figures.elections.Load(), Rewinds: n.figures.rewinds.Load(), FailedWrites: n.figures.failedWrites.Load(),
	}
	s.First, s.Term = n.log.First(), max(n.role.Term, n.file.State().Term)
	if n.o.Return != nil {
		s.Returning, s.Floor = true, n.o.Return.Floor
	}
	if n.writable {
		s.Lease = max(0, time.Duration(n.lease.Load())-n.o.Clock())
	}
	if n.core != nil && n.err == nil && n.role.Leads {
		s.Members = n.core.Members()
	}
	return s
}

// Role returns who leads, as this node knows it.
func (n *Node) Role() Role { return *n.roleInfo.Load() }

// ID is the Raft id of the node.
func (n *Node) ID() uint64 { return n.id }

// Stats are the figures of the log.
func (n *Node) Stats() journal.Stats { return n.log.Stats() }

package local

import (
	"errors"
	"fmt"
	"sync"

	"redoubt/engine"
	"redoubt/journal"
)

// scripted is a log that several processes agree upon, as far as one of them sees it: a Raft
// log in files, of which the test says who leads, what is agreed upon, and what is taken back.
type scripted struct {
	raft   *journal.RaftLog
	told   func()
	policy journal.Policy
	done   chan struct{} // closed by Close

	mu        sync.Mutex
	epoch     uint64
	term      uint64
	leads     bool
	commit    uint64
	refuse    error // of Append
	congested bool
	at        when
	late      chan struct{} // wakes the goroutine that agrees later
}

// when says when a record is agreed upon.
type when int

const (
	byScript when = iota // when the test says so
	atOnce
	later // by a goroutine
)

// opener returns what opens a scripted log and leaves it in s.
func (s *scripted) opener(o journal.Opening) (journal.Log, error) {
	var have journal.Applied
	var err error
	if o.Base != nil {
		var rest []byte
		if have, rest, err = journal.ParseApplied(o.Base); err == nil && string(rest) != "members" {
			err = fmt.Errorf("behind the base is %q", rest)
		}
		if err == nil && have.Index != o.From {
			err = fmt.Errorf("the tables have everything up to %d, their base says %d", o.From, have.Index)
		}
		if err != nil {
			return nil, err
		}
	}
	s.told, s.done, s.late, s.policy = o.OnDurable, make(chan struct{}), make(chan struct{}, 1), o.Policy
	s.raft, err = journal.OpenRaft(o.Options, have, func(h journal.RaftHead, payload []byte) error {
		return o.Replay(h.Index, rowsIn(h, payload))
	}, o.Progress)
	if err != nil {
		return nil, err
	}
	s.commit = s.raft.Committed()
	if s.term, err = s.raft.Term(s.raft.Last()); err != nil {
		return nil, errors.Join(err, s.raft.Close())
	}
	go s.agreeLater(s.done)
	return s, nil
}

func rowsIn(h journal.RaftHead, payload []byte) []byte {
	if h.Type != journal.EntryRows {
		return nil
	}
	return payload
}

func (s *scripted) agreeLater(done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-s.late:
			s.agree(s.raft.Last())
		}
	}
}

func (s *scripted) HeadRoom() int { return journal.RaftRoom }

func (s *scripted) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

func (s *scripted) Append(epoch uint64, rec []byte) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refuse != nil:
		return 0, s.refuse
	case !s.leads || epoch != s.epoch:
		return 0, journal.ErrNotLeader
	}
	index, err := s.add(journal.EntryRows, rec)
	if err != nil {
		return 0, err
	}
	switch s.at {
	case atOnce:
		s.commit = index
	case later:
		wake(s.late)
	}
	return index, nil
}

// add appends an entry of the present term. mu is held.
func (s *scripted) add(kind journal.EntryType, rec []byte) (uint64, error) {
	h := journal.RaftHead{Index: s.raft.Last() + 1, Term: s.term, Commit: s.commit, Type: kind, Version: 1}
	_, err := s.raft.Append(h, rec)
	return h.Index, err
}

func (s *scripted) Durable() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commit
}

func (s *scripted) Congested() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.congested
}

func (s *scripted) Sync(uint64) error { return s.raft.Sync(s.raft.Position()) }

func (s *scripted) Base(seq uint64) ([]byte, error) {
	if seq > s.Durable() {
		return nil, fmt.Errorf("the base of entry %d, which is not agreed upon", seq)
	}
	a, err := s.raft.Applied(seq)
	return append(a.Append(nil), "members"...), err
}

func (s *scripted) Remove(upTo uint64) error {
	a, err := s.raft.Applied(upTo)
	if err != nil {
		return err
	}
	return s.raft.Remove(a.Position, upTo)
}

func (s *scripted) LinkTo(dir string, from uint64) (uint64, error) {
	a, err := s.raft.Applied(from)
	if err == nil {
		_, err = s.raft.LinkTo(dir, a.Position)
	}
	return s.raft.Last(), err
}

func (s *scripted) SetPolicy(p journal.Policy) error { return s.raft.SetPolicy(p) }
func (s *scripted) Stats() journal.Stats             { return s.raft.Stats() }
func (s *scripted) Err() error                       { return s.raft.Err() }

func (s *scripted) Close() error {
	close(s.done)
	return s.raft.Close()
}

// agree has everything up to index agreed upon.
func (s *scripted) agree(index uint64) {
	s.mu.Lock()
	s.commit = max(s.commit, min(index, s.raft.Last()))
	s.raft.Commit(s.commit)
	s.mu.Unlock()
	s.told()
}

// lead makes this process the leader of the next term: it appends an empty entry, and has it and
// all before it agreed upon and replayed.
func (s *scripted) lead(e *Engine) (empty uint64, err error) {
	s.mu.Lock()
	s.term++
	empty, err = s.add(journal.EntryEmpty, make([]byte, journal.RaftRoom))
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	s.agree(empty)
	if err := s.follow(e); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = true
	s.epoch++
	return empty, nil
}

// depose ends the leadership of this process.
func (s *scripted) depose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = false
	s.epoch++
	s.term++
}

// cut takes back what is behind kept, and has memory follow.
func (s *scripted) cut(e *Engine, kept uint64) error {
	if err := s.takeBack(kept); err != nil {
		return err
	}
	return e.Rewind(kept, s.Durable(), s.records)
}

// takeBack writes the cut.
func (s *scripted) takeBack(kept uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.term++
	_, err := s.raft.Cut(kept)
	return err
}

// records is what Rewind reads with.
func (s *scripted) records(from, to uint64, replay func(uint64, []byte) error) error {
	for next := from + 1; next <= to; {
		list, err := s.raft.Entries(next, to+1, 16<<10)
		if err != nil {
			return err
		}
		for _, x := range list {
			if err := replay(x.Index, rowsIn(x.RaftHead, x.Payload)); err != nil {
				return err
			}
		}
		next += uint64(len(list))
	}
	return nil
}

// follow replays what is agreed upon.
func (s *scripted) follow(e *Engine) error {
	return s.records(uint64(e.Committed()), s.Durable(), func(seq uint64, payload []byte) error {
		_, err := e.Replay(seq, payload)
		return err
	})
}

// heard appends what the leader of a term has sent: a commit, or an empty entry if it is nil.
func (s *scripted) heard(term uint64, b *engine.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term = term
	kind, rec := journal.EntryEmpty, make([]byte, journal.RaftRoom)
	if b != nil {
		kind, rec = journal.EntryRows, appendRecord(rec, b)
	}
	_, err := s.add(kind, rec)
	return err
}

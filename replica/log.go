package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/journal"
)

// Log is where entries are kept; Journal is one. A Core reads it, and its owner
// writes what Actions ask for. Entries are those of Raft; see Head for their data.
type Log interface {
	// First is the oldest index that can be read. Term also knows the one before.
	First() uint64
	// Last is the newest index; First - 1 if there is none.
	Last() uint64
	Term(index uint64) (uint64, error)
	// Entries returns entries from lo on and before hi, of at most maxBytes
	// together but at least one.
	Entries(lo, hi, maxBytes uint64) ([]*pb.Entry, error)
	// Committed is the newest index that the log knows to be committed.
	Committed() uint64

	// Cut voids all entries behind index.
	Cut(index uint64) error
	// Append adds an entry behind the newest one.
	Append(e *pb.Entry) error
	// Commit notes what is committed. It need not be durable.
	Commit(index uint64)
}

// Head is what the data of an entry begins with, but for those that the library makes
// itself. In the journal it is part of the record's head.
type Head struct {
	Time    uint64 // milliseconds since 1970, by the leader's clock
	Type    journal.EntryType
	Version uint8
}

// headSize is how many bytes a Head has: time 8, type 1, version 1, zeros 6.
const headSize = 16

// Encode returns the data of an entry.
func Encode(h Head, payload []byte) []byte {
	b := make([]byte, headSize, headSize+len(payload))
	h.put(b)
	return append(b, payload...)
}

// put writes the head to the front of an entry's data.
func (h Head) put(b []byte) {
	clear(b[:headSize])
	binary.BigEndian.PutUint64(b, h.Time)
	b[8], b[9] = byte(h.Type), h.Version
}

// Decode returns what an entry says. An empty one, with which a leader begins its term, has
// no payload; one that changes the members has what the library made.
func Decode(e *pb.Entry) (Head, []byte, error) {
	data := e.GetData()
	switch {
	case e.GetType() == pb.EntryConfChangeV2:
		return Head{Type: journal.EntryConf}, data, nil
	case e.GetType() != pb.EntryNormal:
		return Head{}, nil, fmt.Errorf("%w: entry %d is of type %v", errEntry, e.GetIndex(), e.GetType())
	case len(data) == 0:
		return Head{Type: journal.EntryEmpty}, nil, nil
	case len(data) < headSize:
		return Head{}, nil, fmt.Errorf("%w: entry %d has %d bytes", errEntry, e.GetIndex(), len(data))
	}
	h := Head{Time: binary.BigEndian.Uint64(data), Type: journal.EntryType(data[8]), Version: data[9]}
	if h.Type != journal.EntryRows && h.Type != journal.EntryControl || [6]byte(data[10:]) != [6]byte{} {
		return Head{}, nil, fmt.Errorf("%w: entry %d has a head %x", errEntry, e.GetIndex(), data[:headSize])
	}
	return h, data[headSize:], nil
}

var errEntry = errors.New("not an entry of this program")

// storage lets the library read a Log. The hard state comes from elsewhere.
type storage struct {
	log  Log
	hard *pb.HardState
	conf *pb.ConfState
}

func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) { return s.hard, s.conf, nil }

func (s *storage) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	entries, err := s.log.Entries(lo, hi, maxSize)
	return entries, translate(err)
}

func (s *storage) Term(i uint64) (uint64, error) {
	term, err := s.log.Term(i)
	return term, translate(err)
}

func (s *storage) LastIndex() (uint64, error)  { return s.log.Last(), nil }
func (s *storage) FirstIndex() (uint64, error) { return s.log.First(), nil }

// Snapshot has nothing to give yet: a follower for which the log is too short stays behind.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// translate makes the library's errors of the journal's.
func translate(err error) error {
	switch {
	case errors.Is(err, journal.ErrCompacted):
		return raft.ErrCompacted
	case errors.Is(err, journal.ErrOrder):
		return raft.ErrUnavailable
	}
	return err
}

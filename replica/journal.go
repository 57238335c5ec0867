package replica

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/journal"
)

// Journal is a Log in a journal.
type Journal struct {
	*journal.RaftLog
	rec []byte
}

// maxKeptRecord is the size up to which the buffer for records is kept.
const maxKeptRecord = 1 << 20

// Cut implements Log.
func (j *Journal) Cut(index uint64) error {
	_, err := j.RaftLog.Cut(index)
	return err
}

// Append implements Log.
func (j *Journal) Append(e *pb.Entry) error {
	h, payload, err := Decode(e)
	if err != nil {
		return err
	}
	if cap(j.rec) > maxKeptRecord {
		j.rec = nil
	}
	j.rec = append(append(j.rec[:0], room[:]...), payload...)
	_, err = j.RaftLog.Append(journal.RaftHead{
		Index: e.GetIndex(), Term: e.GetTerm(), Commit: j.Committed(), Time: h.Time, Type: h.Type, Version: h.Version,
	}, j.rec)
	return err
}

var room [journal.RaftRoom]byte

// Entries implements Log.
func (j *Journal) Entries(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	stored, err := j.RaftLog.Entries(lo, hi, maxBytes)
	if err != nil {
		return nil, err
	}
	out := make([]*pb.Entry, len(stored))
	for i, s := range stored {
		out[i] = Entry(s.RaftHead, s.Payload)
	}
	return out, nil
}

// Entry makes Raft's entry of what a journal has.
func Entry(h journal.RaftHead, payload []byte) *pb.Entry {
	e := &pb.Entry{Term: &h.Term, Index: &h.Index}
	switch h.Type {
	case journal.EntryEmpty:
	case journal.EntryConf:
		e.Type, e.Data = pb.EntryConfChangeV2.Enum(), payload
	default:
		e.Data = Encode(Head{h.Time, h.Type, h.Version}, payload)
	}
	return e
}

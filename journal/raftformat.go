package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The bytes of version 2, the segments of a Raft log; FORMAT.md has the tables.
// Records are numbered in the order in which they were written, as in version 1; syncs,
// claims and searches go by this number, and a cut is one more record. The index of an
// entry is another number, which is used again after a cut.

const (
	raftHeaderSize = 72 // of a segment
	raftMeta       = 40 // what an entry has behind HeadRoom, before its payload
	cutSize        = 16 // of the payload of a cut
	raftMarkSize   = 8  // of the payload of a mark
)

// RaftRoom is the number of bytes that a caller of RaftLog.Append leaves free at the front
// of the record.
const RaftRoom = HeadRoom + raftMeta

// EntryType says what the payload of an entry is. The numbers are stored.
type EntryType uint8

const (
	EntryRows    EntryType = 1 // a commit of the store
	EntryEmpty   EntryType = 2 // what a new leader begins its term with
	EntryConf    EntryType = 3 // a change of the members
	EntryControl EntryType = 4 // anything else for the replicas themselves
)

func (t EntryType) String() string {
	switch t {
	case EntryRows:
		return "rows"
	case EntryEmpty:
		return "empty"
	case EntryConf:
		return "conf change"
	case EntryControl:
		return "control"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// RaftHead has the fields of a record of a Raft log besides its payload. An entry has all of
// them. A cut has Index and Term, those of the newest entry that stays. A mark has Commit.
type RaftHead struct {
	Index, Term uint64
	// Commit is the index up to which entries were known to be committed when the
	// record was written: at most Index in an entry.
	Commit  uint64
	Time    uint64 // milliseconds since 1970, by the clock of the leader
	Type    EntryType
	Version uint8 // of the payload's format
}

// put writes the fields between an entry's header and its payload.
func (h RaftHead) put(rec []byte) {
	b := rec[HeadRoom:RaftRoom]
	binary.BigEndian.PutUint64(b, h.Index)
	binary.BigEndian.PutUint64(b[8:], h.Term)
	binary.BigEndian.PutUint64(b[16:], h.Commit)
	binary.BigEndian.PutUint64(b[24:], h.Time)
	binary.BigEndian.PutUint64(b[32:], uint64(h.Type)<<56|uint64(h.Version)<<48)
}

// parse reads a record, header and all, that has raftShape. It returns why the
// record is not valid, or "".
func (h *RaftHead) parse(kind Kind, rec []byte) (why string) {
	b := rec[HeadRoom:]
	switch kind {
	case RaftEntry:
		types := binary.BigEndian.Uint64(b[32:])
		*h = RaftHead{
			Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]), Commit: binary.BigEndian.Uint64(b[16:]),
			Time: binary.BigEndian.Uint64(b[24:]), Type: EntryType(types >> 56), Version: uint8(types >> 48),
		}
		if types&(1<<48-1) != 0 || h.Index == 0 || h.Index == 1<<64-1 || h.Term == 0 || h.Commit > h.Index {
			return "the head of the entry is not valid"
		}
	case RaftCut:
		*h = RaftHead{Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:])}
	case RaftMark:
		*h = RaftHead{Commit: binary.BigEndian.Uint64(b)}
	}
	return ""
}

// raftShape reports whether the lengths of a header are possible in version 2.
func (h head) raftShape() bool {
	switch h.kind {
	case RaftEntry:
		return h.synced < h.seq && h.length >= raftMeta && h.length <= MaxPayload
	case RaftCut:
		return h.synced < h.seq && h.length == cutSize
	case RaftMark:
		return h.synced <= h.seq && h.length == raftMarkSize
	}
	return false
}

// raftBase is the state of a Raft log when a segment begins.
type raftBase struct {
	index, term uint64 // of the entry before
	commit      uint64
}

// put writes the header of a segment of version 2.
func (r raftBase) put(b []byte, log uint32, index, first uint64) {
	putHeader(b, raftVersion, log, index, first)
	binary.BigEndian.PutUint64(b[40:], r.index)
	binary.BigEndian.PutUint64(b[48:], r.term)
	binary.BigEndian.PutUint64(b[56:], r.commit)
	binary.BigEndian.PutUint32(b[64:], 0)
	binary.BigEndian.PutUint32(b[68:], crc32.Checksum(b[:68], castagnoli))
}

func (r *raftBase) parse(b []byte) bool {
	*r = raftBase{binary.BigEndian.Uint64(b[40:]), binary.BigEndian.Uint64(b[48:]), binary.BigEndian.Uint64(b[56:])}
	return crc32.Checksum(b[:68], castagnoli) == binary.BigEndian.Uint32(b[68:]) && r.commit <= r.index && r.index < 1<<64-1
}

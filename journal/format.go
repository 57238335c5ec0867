package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// The bytes of segments and records; FORMAT.md has the tables. A change here
// needs a new version.

const (
	magic       = "RDBTJRNL"
	version     = 1  // of segments that hold data
	raftVersion = 2  // of segments that hold a Raft log; see raftformat.go
	headerSize  = 40 // of a segment of version 1
	align       = 8  // where records may begin
)

// HeadRoom is the number of bytes that a caller of Append leaves free at the front of the
// record, for the record's header.
const HeadRoom = 32

// MaxPayload is the largest payload that a record can have.
const MaxPayload = 1<<32 - 64

// Kind says what a record is. The numbers are stored.
type Kind uint8

const (
	Data Kind = 1 // a payload with its own sequence number
	Mark Kind = 2 // no payload: only says up to where the log was synced

	// Kinds in segments of version 2; see RaftHead.
	RaftEntry Kind = 3 // an entry of a Raft log
	RaftCut   Kind = 4 // entries that came before are void
	RaftMark  Kind = 5 // says up to where the log was synced, and was committed
)

// numbered reports whether a record of the kind has a sequence number of its own.
func (k Kind) numbered() bool { return k != Mark && k != RaftMark }

// room is the size of a record's header. The checksum of a record covers the bytes behind
// its header, and then the header from byte 4 on.
func (k Kind) room() int {
	if k == RaftEntry {
		return RaftRoom
	}
	return HeadRoom
}

// of is the version of the segments that may have records of the kind.
func (k Kind) of() uint32 {
	if k <= Mark {
		return version
	}
	return raftVersion
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is a record's header, decoded.
type head struct {
	sum, length, log uint32
	seq, synced      uint64
	kind             Kind
}

// size is the room that the record takes in the file.
func (h head) size() int64 { return padded(HeadRoom + int64(h.length)) }

func padded(n int64) int64 { return (n + align - 1) &^ (align - 1) }

// put writes the header of rec. payloadSum is the checksum of the bytes behind the header:
// they are summed first, so that this can be done before the sequence number is known.
func (h head) put(rec []byte, payloadSum uint32) {
	b := rec[:h.kind.room()]
	binary.BigEndian.PutUint32(b[4:], h.length)
	binary.BigEndian.PutUint64(b[8:], h.seq)
	binary.BigEndian.PutUint64(b[16:], h.synced)
	binary.BigEndian.PutUint32(b[24:], uint32(h.kind)<<24)
	binary.BigEndian.PutUint32(b[28:], h.log)
	binary.BigEndian.PutUint32(b, crc32.Update(payloadSum, castagnoli, b[4:]))
}

// parse reads a header. ok is false if the bytes cannot be one.
func parse(b []byte) (h head, ok bool) {
	kind := binary.BigEndian.Uint32(b[24:])
	h = head{
		sum: binary.BigEndian.Uint32(b), length: binary.BigEndian.Uint32(b[4:]), log: binary.BigEndian.Uint32(b[28:]),
		seq: binary.BigEndian.Uint64(b[8:]), synced: binary.BigEndian.Uint64(b[16:]), kind: Kind(kind >> 24),
	}
	switch {
	case kind&0xffffff != 0 || h.seq == 1<<64-1:
		return h, false
	case h.kind == Data:
		return h, h.synced < h.seq && h.length <= MaxPayload
	case h.kind == Mark:
		return h, h.length == 0 && h.synced <= h.seq
	default:
		return h, h.raftShape()
	}
}

// sumOf is what the checksum of a record of that kind must be.
func sumOf(rec []byte, kind Kind) uint32 {
	n := kind.room()
	return crc32.Update(crc32.Checksum(rec[n:], castagnoli), castagnoli, rec[4:n])
}

func putSegmentHeader(b []byte, log uint32, index, first uint64) {
	putHeader(b, version, log, index, first)
}

// putHeader writes the fields with which the headers of all versions begin, so that an older
// program can report the version of a newer segment.
func putHeader(b []byte, version, log uint32, index, first uint64) {
	copy(b, magic)
	binary.BigEndian.PutUint32(b[8:], version)
	binary.BigEndian.PutUint32(b[12:], log)
	binary.BigEndian.PutUint64(b[16:], index)
	binary.BigEndian.PutUint64(b[24:], first)
	binary.BigEndian.PutUint32(b[32:], 0)
	binary.BigEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli))
}

var errHeader = errors.New("the segment's header is damaged")

// segmentHead is a segment's header, decoded.
type segmentHead struct {
	version, log uint32
	first        uint64
	base         raftBase // version 2
}

// size is how many bytes the header has.
func (h segmentHead) size() int64 {
	if h.version == raftVersion {
		return raftHeaderSize
	}
	return headerSize
}

// parseSegmentHeader reads the header of the segment with that index. b is the
// beginning of the file, with headerSize bytes or more.
func parseSegmentHeader(b []byte, index uint64) (h segmentHead, err error) {
	if string(b[:8]) != magic || crc32.Checksum(b[:36], castagnoli) != binary.BigEndian.Uint32(b[36:]) {
		return h, errHeader
	}
	h = segmentHead{version: binary.BigEndian.Uint32(b[8:]), log: binary.BigEndian.Uint32(b[12:]), first: binary.BigEndian.Uint64(b[24:])}
	switch h.version {
	case version:
	case raftVersion:
		if len(b) < raftHeaderSize || !h.base.parse(b) {
			return segmentHead{}, errHeader
		}
	default:
		return segmentHead{}, fmt.Errorf("%w: its version is %d, this program knows %d and %d: use the program that wrote it", ErrVersion, h.version, version, raftVersion)
	}
	if binary.BigEndian.Uint64(b[16:]) != index || h.first == 0 || h.first == 1<<64-1 {
		return segmentHead{}, errors.New("the segment's header names another segment")
	}
	return h, nil
}

const suffix = ".jnl"

func segmentName(index uint64) string { return fmt.Sprintf("%08d%s", index, suffix) }

func parseName(name string) (index uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	index, err := strconv.ParseUint(digits, 10, 64)
	return index, err == nil && index > 0 && segmentName(index) == name
}

func zeros(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

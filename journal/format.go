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
	magic      = "RDBTJRNL"
	version    = 1
	headerSize = 40 // of a segment
	align      = 8  // where records may begin
)

// HeadRoom is how many bytes a caller of Append leaves free at the front of the
// record, for the record's header.
const HeadRoom = 32

// MaxPayload is the largest payload that a record can have.
const MaxPayload = 1<<32 - 64

// Kind says what a record is. The numbers are stored.
type Kind uint8

const (
	Data Kind = 1 // a payload with its own sequence number
	Mark Kind = 2 // no payload: only says up to where the log was synced
)

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

// put fills in the header of rec. payloadSum is the checksum of rec[HeadRoom:]:
// the payload goes first into the checksum, so that it can be done before the
// sequence number is known.
func (h head) put(rec []byte, payloadSum uint32) {
	b := rec[:HeadRoom]
	binary.BigEndian.PutUint32(b[4:], h.length)
	binary.BigEndian.PutUint64(b[8:], h.seq)
	binary.BigEndian.PutUint64(b[16:], h.synced)
	binary.BigEndian.PutUint32(b[24:], uint32(h.kind)<<24)
	binary.BigEndian.PutUint32(b[28:], h.log)
	binary.BigEndian.PutUint32(b, crc32.Update(payloadSum, castagnoli, b[4:]))
}

// parse reads a header and says whether it can be one.
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
	default:
		return h, h.kind == Mark && h.length == 0 && h.synced <= h.seq
	}
}

// sumOf is what the checksum of a record must be.
func sumOf(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(payload, castagnoli), castagnoli, header[4:HeadRoom])
}

func putSegmentHeader(b []byte, log uint32, index, first uint64) {
	copy(b, magic)
	binary.BigEndian.PutUint32(b[8:], version)
	binary.BigEndian.PutUint32(b[12:], log)
	binary.BigEndian.PutUint64(b[16:], index)
	binary.BigEndian.PutUint64(b[24:], first)
	binary.BigEndian.PutUint32(b[32:], 0)
	binary.BigEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli))
}

var errHeader = errors.New("the segment's header is damaged")

func parseSegmentHeader(b []byte, index uint64) (log uint32, first uint64, err error) {
	if string(b[:8]) != magic || crc32.Checksum(b[:36], castagnoli) != binary.BigEndian.Uint32(b[36:]) {
		return 0, 0, errHeader
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != version {
		return 0, 0, fmt.Errorf("%w: its version is %d, this program knows %d: use the program that wrote it", ErrVersion, v, version)
	}
	first = binary.BigEndian.Uint64(b[24:])
	if binary.BigEndian.Uint64(b[16:]) != index || first == 0 || first == 1<<64-1 {
		return 0, 0, errors.New("the segment's header names another segment")
	}
	return binary.BigEndian.Uint32(b[12:]), first, nil
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

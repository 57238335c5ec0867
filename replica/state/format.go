package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The bytes of the file; FORMAT.md has the table.

const (
	magic         = "RDBTRAFT"
	version       = 1
	slotSize      = 128
	slotApart     = 4096
	fileSize      = slotApart + slotSize
	flagClean     = 1
	flagReturning = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s State) put(b []byte, serial uint64) {
	clear(b[:slotSize])
	copy(b, magic)
	binary.BigEndian.PutUint32(b[8:], version)
	binary.BigEndian.PutUint64(b[16:], serial)
	copy(b[24:], s.Cluster[:])
	copy(b[40:], s.Node[:])
	copy(b[56:], s.Boot[:])
	binary.BigEndian.PutUint64(b[72:], s.RaftID)
	binary.BigEndian.PutUint64(b[80:], s.Incarnation)
	binary.BigEndian.PutUint64(b[88:], s.Term)
	binary.BigEndian.PutUint64(b[96:], s.Vote)
	var flags uint32
	if s.Clean {
		flags |= flagClean
	}
	if s.Returning {
		flags |= flagReturning
	}
	binary.BigEndian.PutUint32(b[104:], flags)
	binary.BigEndian.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
}

// parse reads a slot. ok is false if it is not valid.
func parse(b []byte) (s State, serial uint64, ok bool, err error) {
	if string(b[:8]) != magic || crc32.Checksum(b[:124], castagnoli) != binary.BigEndian.Uint32(b[124:]) {
		return s, 0, false, nil
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != version {
		return s, 0, false, fmt.Errorf("%w: its version is %d, this program knows %d: use the program that wrote it", ErrVersion, v, version)
	}
	copy(s.Cluster[:], b[24:])
	copy(s.Node[:], b[40:])
	copy(s.Boot[:], b[56:])
	s.RaftID, s.Incarnation = binary.BigEndian.Uint64(b[72:]), binary.BigEndian.Uint64(b[80:])
	s.Term, s.Vote = binary.BigEndian.Uint64(b[88:]), binary.BigEndian.Uint64(b[96:])
	flags := binary.BigEndian.Uint32(b[104:])
	s.Clean, s.Returning = flags&flagClean != 0, flags&flagReturning != 0
	return s, binary.BigEndian.Uint64(b[16:]), true, nil
}

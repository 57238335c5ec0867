package check

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"redoubt/keyspace"
)

// hashSize is the length of the hash in front of a member in a row's key.
const hashSize = 4

func hashOf(member []byte) uint32 { return uint32(xxhash.Sum64(member) >> 32) }

// integers returns what is wrong with a packed set of integers.
func integers(body []byte) string {
	switch {
	case len(body) == 0:
		return "it is empty, and should not be there"
	case len(body)%8 != 0:
		return fmt.Sprintf("%d bytes are no integers of 8", len(body))
	}
	last := uint64(0)
	for i := 0; i < len(body); i += 8 {
		n := binary.BigEndian.Uint64(body[i:])
		if i > 0 && n <= last {
			return fmt.Sprintf("the integer %d is behind %d", int64(n^1<<63), int64(last^1<<63))
		}
		last = n
	}
	return ""
}

// set checks a set in rows: a row for each member, without a value.
type set struct{ value }

func newSet(s *keyspace.Subject) keyspace.Judge {
	v, ok := open(s, 0)
	if !ok {
		return nil
	}
	return &set{v}
}

func (j *set) Row(k keyspace.Kind, rest, value []byte) {
	if k != keyspace.SubRow {
		j.foreign(k, rest)
		return
	}
	if _, ok := j.member(rest); ok && len(value) > 0 {
		j.WrongRow(k, rest, "it has a value: %x", value[:min(len(value), 64)])
	}
}

func (j *set) End() { j.count() }

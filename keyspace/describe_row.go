package keyspace

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// The rows of values in words. A row does not have the type of its value: that is
// known from a meta row that Learn was given, else rows are shown in hexadecimal.

// partKey describes the key of a sub, score or rank row.
func (t *Describer) partKey(home uint16, k Kind, id uint64, rest []byte) string {
	of := " of " + valueName(home, id)
	if len(rest) == 0 {
		return kindNames[byte(k)] + " rows" + of
	}
	what := ""
	switch t.types[id] {
	case String:
		if k == SubRow && len(rest) == 4 {
			what = fmt.Sprintf("chunk %d", binary.BigEndian.Uint32(rest))
		}
	case List:
		if k == SubRow && len(rest) == 8 {
			what = fmt.Sprintf("element at %d", int64(binary.BigEndian.Uint64(rest)^1<<63))
		}
	case Set:
		what = memberKey("member", k, rest)
	case Hash:
		if what = memberKey("field", k, rest); k == ScoreRow && len(rest) >= 8 {
			what = fmt.Sprintf("time %s of field %s", moment(int64(binary.BigEndian.Uint64(rest))), quote(rest[8:]))
		}
	case ZSet:
		what = zsetKey(k, rest)
	case Stream:
		if k == SubRow {
			what = streamKey(rest)
		}
	case Channel:
		what = channelKey(k, rest)
	}
	if what == "" {
		what = kindNames[byte(k)] + " row " + inHex(rest)
	}
	return what + of
}

func memberKey(name string, k Kind, rest []byte) string {
	if k != SubRow || len(rest) < 4 {
		return ""
	}
	return name + " " + quote(rest[4:])
}

func zsetKey(k Kind, rest []byte) string {
	switch {
	case k == ScoreRow && len(rest) >= 8:
		return element(rest)
	case k == RankRow && rest[0] == 1 || k == RankRow && rest[0] == 2:
		name := [...]string{1: "segment", 2: "group of segments"}[rest[0]]
		switch {
		case len(rest) == 1:
			return "first " + name
		case len(rest) >= 9:
			return name + " from " + element(rest[1:])
		}
	}
	return memberKey("member", k, rest)
}

// element describes a score and a member.
func element(e []byte) string {
	return fmt.Sprintf("score %s of member %s", score(e), quote(e[8:]))
}

// score describes a score in its sortable encoding.
func score(b []byte) string {
	bits := binary.BigEndian.Uint64(b)
	if bits>>63 != 0 {
		bits &^= 1 << 63
	} else {
		bits = ^bits
	}
	return strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
}

func streamID(b []byte) string {
	return fmt.Sprintf("%d-%d", binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]))
}

func streamKey(rest []byte) string {
	n := len(rest) - 1
	number := func(at int) uint32 { return binary.BigEndian.Uint32(rest[at:]) }
	switch sort := rest[0]; {
	case sort == 0 && n == 16:
		return "entry " + streamID(rest[1:])
	case sort == 1 && n == 16:
		return "node from " + streamID(rest[1:])
	case sort == 2:
		return "group " + quote(rest[1:])
	case sort == 3 && n >= 4:
		return fmt.Sprintf("consumer %s of group %d", quote(rest[5:]), number(1))
	case sort == 4 && n == 20:
		return fmt.Sprintf("pending entry %s of group %d", streamID(rest[5:]), number(1))
	case sort == 5 && n == 24:
		return fmt.Sprintf("pending entry %s of group %d, consumer %d", streamID(rest[9:]), number(1), number(5))
	}
	return ""
}

func channelPosition(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

func channelKey(k Kind, rest []byte) string {
	switch n := len(rest); {
	case k == SubRow && rest[0] == 0 && n == 9:
		return fmt.Sprintf("message at %d", channelPosition(rest[1:]))
	case k == SubRow && rest[0] == 1 && n == 5:
		return fmt.Sprintf("bucket %d of ids", binary.BigEndian.Uint32(rest[1:]))
	case k == SubRow && rest[0] == 2:
		return "subscriber " + quote(rest[1:])
	case k == ScoreRow && n == 17 && rest[8] == 0:
		return fmt.Sprintf("time %s of message at %d", moment(int64(binary.BigEndian.Uint64(rest))), channelPosition(rest[9:]))
	case k == ScoreRow && n == 11 && rest[8] == 1:
		return fmt.Sprintf("time %s of subscribers, page %d", moment(int64(binary.BigEndian.Uint64(rest))), binary.BigEndian.Uint16(rest[9:]))
	}
	return ""
}

func (t *Describer) channelValue(sort byte, v []byte) string {
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(v[at:])) }
	switch n := len(v); {
	case sort == 0 && n >= 18 && n >= 18+int(v[17]):
		state := ""
		if v[0]&2 != 0 {
			state = ", trimmed"
		}
		id, content := v[18:18+int(v[17])], v[18+int(v[17]):]
		return fmt.Sprintf("id %s, of %s, until %s%s, %s", quote(id), moment(u64(1)), moment(u64(9)), state, t.bytes(content))
	case sort == 1 && n%12 == 0:
		return fmt.Sprintf("%d ids", n/12)
	case sort == 2 && n == 16:
		return fmt.Sprintf("at %d, until %s", u64(0), moment(u64(8)))
	}
	return ""
}

// partValue describes the value of a sub, score or rank row.
func (t *Describer) partValue(k Kind, id uint64, rest, v []byte) string {
	what := ""
	switch is := t.types[id]; {
	case is == Hash && k == SubRow && v[0] == 0:
		return t.bytes(v[1:])
	case is == Hash && k == SubRow && v[0] == 1 && len(v) >= 9:
		return t.bytes(v[9:]) + ", until " + moment(int64(binary.BigEndian.Uint64(v[1:])))
	case is == ZSet && k == SubRow && len(v) == 8:
		return "score " + score(v)
	case is == ZSet && k == RankRow && len(v) == 4:
		return fmt.Sprintf("%d members", binary.BigEndian.Uint32(v))
	case is == ZSet && k == RankRow && len(v) == 12:
		return fmt.Sprintf("%d members in %d segments", binary.BigEndian.Uint64(v), binary.BigEndian.Uint32(v[8:]))
	case is == Stream && k == SubRow && len(rest) > 0:
		what = t.streamValue(rest[0], v)
	case is == Channel && k == SubRow && len(rest) > 0:
		what = t.channelValue(rest[0], v)
	}
	if what == "" {
		what = t.bytes(v)
	}
	return what
}

// bytes shows bytes, or only how many there are.
func (t *Describer) bytes(b []byte) string {
	if t.Values {
		return quote(b)
	}
	return fmt.Sprintf("%d bytes", len(b))
}

func (t *Describer) streamValue(sort byte, v []byte) string {
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(v[at:]) }
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(v[at:])) }
	switch n := len(v); {
	case sort == 1 && n == 36:
		return fmt.Sprintf("up to %s, %d entries, %d deleted", streamID(v), u32(16), u32(20))
	case sort == 2 && n == 60:
		return fmt.Sprintf("number %d, last ID %s, %d read, %d pending up to %s, %d consumers",
			u32(0), streamID(v[4:]), u64(20), u64(28), streamID(v[36:]), u32(52))
	case sort == 3 && n == 28:
		active := "never"
		if u64(12) >= 0 {
			active = moment(u64(12))
		}
		return fmt.Sprintf("number %d, seen %s, active %s, %d pending", u32(0), moment(u64(4)), active, u64(20))
	case sort == 4 && n >= 16:
		return fmt.Sprintf("given to %s at %s, %d times", quote(v[16:]), moment(u64(0)), u64(8))
	}
	return ""
}

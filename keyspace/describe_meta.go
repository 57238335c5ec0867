package keyspace

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Meta rows in words.

// encodings are the names of the encodings that a type has.
var encodings = [...]map[Encoding]string{
	String: {Int: "int", Embedded: "embedded", Raw: "raw", Chunked: "chunked"},
	List:   {Packed: "packed", Rows: "rows"},
	Set:    {Packed: "packed", Rows: "rows", Integers: "integers"},
	ZSet:   {Packed: "packed", Rows: "rows"},
	Hash:   {Packed: "packed", Rows: "rows", PackedTimed: "packed with times", RowsTimed: "rows with times"},
	Stream: {Rows: "rows"},

	Channel: {RowsTimed: "rows with times"},
}

// units are what the size of a value counts, by type.
var units = [...]string{String: "bytes", List: "elements", Set: "members", ZSet: "members", Hash: "fields", Stream: "entries", Channel: "messages"}

// encodingName returns the name of the encoding, "" if the type has no such encoding.
func (m Meta) encodingName() string {
	if int(m.Type) >= len(encodings) {
		return ""
	}
	return encodings[m.Type][m.Encoding]
}

func (t *Describer) meta(value []byte) string {
	m, err := decodeMeta(value)
	if err != nil {
		return fmt.Sprintf("%v: %s", err, inHex(value))
	}
	var b strings.Builder
	name := m.encodingName()
	if name == "" {
		fmt.Fprintf(&b, "%v, encoding %d", m.Type, m.Encoding)
	} else {
		fmt.Fprintf(&b, "%v, %s", m.Type, name)
	}
	switch ref := m.refLen(); {
	case ref > 0:
		r := m.Ref()
		fmt.Fprintf(&b, ", %d %s, %s", r.Size, units[m.Type], valueName(r.Home, r.ID))
		b.WriteString(m.tail(m.Body[ref:]))
	case m.Type == String || name == "":
		fmt.Fprintf(&b, ", %d bytes", len(m.Body))
	default:
		fmt.Fprintf(&b, ", %d %s, %d bytes", m.packedSize(), units[m.Type], len(m.Body))
	}
	if f := m.FieldTimes(); m.Timed() {
		if m.Type == Channel {
			fmt.Fprintf(&b, ", swept at %s", momentOrNever(f.Next))
		} else {
			fmt.Fprintf(&b, ", no field dies before %s", momentOrNever(f.Next))
		}
		if f.End != 0 {
			fmt.Fprintf(&b, ", the last one at %s", moment(f.End))
		}
	}
	if m.Expire != 0 {
		fmt.Fprintf(&b, ", expires %s", moment(m.Expire))
	}
	if t.Values && !m.External() {
		fmt.Fprintf(&b, ": %s", m.contents())
	}
	return b.String()
}

func momentOrNever(ms int64) string {
	if ms == 0 {
		return "ever"
	}
	return moment(ms)
}

// tail describes what a type keeps behind the Ref.
func (m Meta) tail(b []byte) string {
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	switch {
	case m.Type == List && len(b) == 16:
		return fmt.Sprintf(", the first at %d, %d bytes", u64(0), u64(8))
	case m.Type == ZSet && len(b) == 8:
		return fmt.Sprintf(", %d segments in %d groups", u32(0), u32(4))
	case m.Type == Hash && m.Timed() && len(b) == FieldTimesSize+8:
		return fmt.Sprintf(", %d of them with times", u64(FieldTimesSize))
	case m.Type == Stream && len(b) == streamTail:
		return fmt.Sprintf(", last ID %s, first %s, %d added, %d groups", streamID(b), streamID(b[32:]), u64(48), u32(56))
	case m.Type == Channel && len(b) == FieldTimesSize+channelTail:
		b = b[FieldTimesSize:]
		return fmt.Sprintf(", last position %d, first %d, %d ids in %d buckets, %d bytes, %d subscribers",
			u64(0), u64(8), u64(24), u32(84), u64(32), u32(80))
	case len(b) > 0 && !m.Timed():
		return ", " + inHex(b)
	}
	return ""
}

const (
	streamTail  = 144
	channelTail = 105
)

// packedBody returns the entries of a packed collection, and how many entries an element has.
func (m Meta) packedBody() (entries []byte, each int) {
	switch {
	case m.Type == Hash && m.Timed():
		return m.Body[FieldTimesSize:], 3
	case m.Type == Hash:
		return m.Body, 2
	}
	return m.Body, 1
}

// packedSize returns the number of elements that a packed collection claims to have.
func (m Meta) packedSize() int {
	if m.Encoding == Integers {
		return len(m.Body) / 8
	}
	b, each := m.packedBody()
	if len(b) < 2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(b)) / each
}

// contents shows the bytes of a value in its meta row; of a packed collection, its
// entries one by one.
func (m Meta) contents() string {
	if m.Type == String || m.encodingName() == "" {
		return quote(m.Body)
	}
	var list []string
	size := 0
	add := func(s string) bool {
		list = append(list, s)
		size += len(s)
		return size <= shown
	}
	if m.Encoding == Integers {
		for b := m.Body; len(b) >= 8; b = b[8:] {
			if !add(fmt.Sprint(int64(binary.BigEndian.Uint64(b) ^ 1<<63))) {
				break
			}
		}
		return strings.Join(list, " ")
	}
	b, each := m.packedBody()
	b = b[min(2, len(b)):]
	for i := 0; len(b) > 0; i++ {
		n, head := binary.Uvarint(b)
		if head <= 0 || n > uint64(len(b)-head) {
			add("and " + inHex(b))
			break
		}
		entry := b[head : head+int(n)]
		b = b[head+int(n):]
		text := quote(entry)
		switch {
		case m.Type == ZSet && len(entry) >= 8:
			text = element(entry)
		case each == 3 && i%3 == 2 && len(entry) == 8:
			text = "until " + moment(int64(binary.BigEndian.Uint64(entry)))
		case each == 3 && i%3 == 2 && len(entry) == 0:
			continue
		}
		if !add(text) {
			list = append(list, "...")
			break
		}
	}
	return strings.Join(list, " ")
}

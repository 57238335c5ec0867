package check

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"redoubt/keyspace"
)

// channel checks a channel: rows of messages, of buckets of ids and of subscribers, and
// score rows for subscribers and for messages that do not die in the order of positions.
type channel struct {
	value
	last, first, chain, ids, bytes, latest, end int64
	subscribers, buckets                        uint32
	keptWhenEmpty                               bool

	idRows, idEntries, dues, dueRows digest
	readable, content, previous      int64
	readers                          uint32
	soonest, longest                 int64
}

const (
	channelTail  = keyspace.FieldTimesSize + 10*8 + 4 + 4 + 1 + secretSize
	secretSize   = 16
	messageHead  = 1 + 8 + 8 + 1
	idEntry      = 12
	latestSweep  = 1000 // milliseconds after the first death
	timedMessage = 1
	trimmed      = 2
)

func newChannel(s *keyspace.Subject) keyspace.Judge {
	v, ok := open(s, channelTail)
	if !ok {
		return nil
	}
	j := &channel{value: v}
	b := v.tail[keyspace.FieldTimesSize:]
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	j.last, j.first, j.chain, j.ids, j.bytes, j.latest, j.end = number(0), number(1), number(2), number(3), number(4), number(5), number(6)
	expire, maxLen, maxBytes := number(7), number(8), number(9)
	j.subscribers, j.buckets = binary.BigEndian.Uint32(b[80:]), binary.BigEndian.Uint32(b[84:])
	flags := b[88]
	j.keptWhenEmpty = expire != 0 || maxLen != 0 || maxBytes != 0 || flags != 0
	switch {
	case flags > 1:
		s.Wrong("it has the flags %x", flags)
	case expire < 0 || maxLen < 0 || maxBytes < 0:
		s.Wrong("its settings are %d, %d and %d", expire, maxLen, maxBytes)
	case j.buckets == 0:
		s.Wrong("it has no buckets for ids")
		return nil
	}
	return j
}

// idHash is the hash of a message's id, keyed by the channel's secret.
func (j *channel) idHash(id []byte) uint32 {
	secret := j.tail[len(j.tail)-secretSize:]
	return uint32(xxhash.Sum64(append(append([]byte(nil), secret...), id...)) >> 32)
}

// bucketOf is the bucket in which an id with a hash must be.
func (j *channel) bucketOf(hash uint32) uint32 {
	whole := uint32(1)<<bits.Len32(j.buckets-1) - 1
	if b := hash & whole; b < j.buckets {
		return b
	}
	return hash & (whole >> 1)
}

func entryOf(b []byte, hash uint32, position int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, hash), uint64(position))
}

func sortable(position int64) uint64 { return uint64(position) ^ 1<<63 }

func dueMessage(b []byte, at, position int64) []byte {
	return binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64(b, uint64(at)), 0), sortable(position))
}

// dueSubscriber is the entry of a subscriber in a score row: the row's key, then the name.
func dueSubscriber(b []byte, at int64, page uint16, name []byte) []byte {
	return append(binary.BigEndian.AppendUint16(append(binary.BigEndian.AppendUint64(b, uint64(at)), 1), page), name...)
}

// subscriberSize is the size of a subscriber's row: position, death and page.
const subscriberSize = 8 + 8 + 2

// channelSubscriber reads the row of a subscriber.
func channelSubscriber(value []byte) (at, death int64, page uint16) {
	return int64(binary.BigEndian.Uint64(value)), int64(binary.BigEndian.Uint64(value[8:])), binary.BigEndian.Uint16(value[16:])
}

// nextName cuts the first name off those in a score row.
func nextName(names []byte) (name, rest []byte, ok bool) {
	if len(names) < 2 || names[0] == 0 || len(names) < 1+int(names[0]) {
		return nil, nil, false
	}
	return names[1 : 1+names[0]], names[1+names[0]:], true
}

func (j *channel) noteDeath(at int64) {
	if j.soonest == 0 || at < j.soonest {
		j.soonest = at
	}
	j.longest = max(j.longest, at)
}

func (j *channel) Row(k keyspace.Kind, rest, value []byte) {
	switch {
	case k == keyspace.SubRow && len(rest) == 9 && rest[0] == 0:
		j.message(rest, value)
	case k == keyspace.SubRow && len(rest) == 5 && rest[0] == 1:
		j.bucket(rest, value)
	case k == keyspace.SubRow && len(rest) > 1 && rest[0] == 2:
		j.subscriber(rest, value)
	case k == keyspace.ScoreRow && len(rest) == 17 && rest[8] == 0:
		if j.dueRows.add(rest); len(value) > 0 {
			j.WrongRow(k, rest, "it has a value: %x", value[:min(len(value), 64)])
		}
	case k == keyspace.ScoreRow && len(rest) == 11 && rest[8] == 1:
		j.names(rest, value)
	default:
		j.foreign(k, rest)
	}
}

// channelMessage reads the row of a message.
func channelMessage(rest, value []byte) (position, death int64, flags byte, id []byte, ok bool) {
	position = int64(binary.BigEndian.Uint64(rest[1:]) ^ 1<<63)
	if len(value) < messageHead || value[0] > timedMessage|trimmed || len(value) < messageHead+int(value[17]) {
		return position, 0, 0, nil, false
	}
	return position, int64(binary.BigEndian.Uint64(value[9:])), value[0], value[messageHead : messageHead+int(value[17])], true
}

func (j *channel) message(rest, value []byte) {
	wrong := func(format string, args ...any) { j.WrongRow(keyspace.SubRow, rest, format, args...) }
	position, death, flags, id, ok := channelMessage(rest, value)
	if !ok || death <= 0 || len(id) == 0 {
		wrong("its value begins with %x", value[:min(len(value), messageHead)])
		return
	}
	j.rows++
	j.noteDeath(death)
	j.buf = entryOf(j.buf[:0], j.idHash(id), position)
	j.idRows.add(j.buf)
	content := len(value) - messageHead - len(id)
	switch {
	case flags&trimmed == 0:
		j.readable++
		j.content += int64(len(id) + content)
		if position < j.first {
			wrong("it is before the first message that can be read, which is said to be %d", j.first)
		}
	case position >= j.first:
		wrong("it is trimmed, and the first message that can be read is said to be %d", j.first)
	case content > 0:
		wrong("it is trimmed and has %d bytes of content", content)
	}
	if position > j.last {
		wrong("it is behind the newest message, which is said to be %d", j.last)
	}
	if flags&timedMessage != 0 {
		j.buf = dueMessage(j.buf[:0], death, position)
		j.dues.add(j.buf)
		return
	}
	switch {
	case position < j.chain:
		wrong("it has no score row, and the first without one is said to be %d or behind", j.chain)
	case death < j.previous:
		wrong("it dies at %d, one before it at %d, and it has no score row", death, j.previous)
	case death > j.latest:
		wrong("it dies at %d, and the last without a score row is said to die at %d", death, j.latest)
	}
	j.previous = max(j.previous, death)
}

func (j *channel) bucket(rest, value []byte) {
	n := binary.BigEndian.Uint32(rest[1:])
	if len(value) == 0 || len(value)%idEntry != 0 || n >= j.buckets {
		j.WrongRow(keyspace.SubRow, rest, "it has %d bytes, and the channel %d buckets", len(value), j.buckets)
		return
	}
	for ; len(value) > 0; value = value[idEntry:] {
		j.idEntries.add(value[:idEntry])
		if want := j.bucketOf(binary.BigEndian.Uint32(value)); want != n {
			j.WrongRow(keyspace.SubRow, rest, "the id with the hash %x belongs to bucket %d", value[:4], want)
		}
	}
}

// names checks a score row of subscribers.
func (j *channel) names(rest, value []byte) {
	if len(value) == 0 {
		j.WrongRow(keyspace.ScoreRow, rest, "it names nobody")
	}
	for len(value) > 0 {
		name, more, ok := nextName(value)
		if !ok {
			j.WrongRow(keyspace.ScoreRow, rest, "its names end with %x", value[:min(len(value), 64)])
			return
		}
		j.buf = append(append(j.buf[:0], rest...), name...)
		j.dueRows.add(j.buf)
		value = more
	}
}

func (j *channel) subscriber(rest, value []byte) {
	if len(value) != subscriberSize {
		j.WrongRow(keyspace.SubRow, rest, "it has %d bytes, not %d", len(value), subscriberSize)
		return
	}
	j.readers++
	at, death, page := channelSubscriber(value)
	if at > j.last || death <= 0 {
		j.WrongRow(keyspace.SubRow, rest, "it is at %d of %d, and dies at %d", at, j.last, death)
	}
	j.noteDeath(death)
	j.buf = dueSubscriber(j.buf[:0], death, page, rest[1:])
	j.dues.add(j.buf)
}

func (j *channel) End() {
	for _, c := range []struct {
		what      string
		said, has int64
	}{
		{"messages that can be read", j.size, j.readable},
		{"ids", j.ids, j.rows},
		{"bytes", j.bytes, j.content},
		{"subscribers", int64(j.subscribers), int64(j.readers)},
	} {
		if c.said != c.has {
			j.Wrong("it is said to have %d %s, and has %d", c.said, c.what, c.has)
		}
	}
	if j.idRows != j.idEntries {
		j.compareIDs()
	}
	if j.dues != j.dueRows {
		j.compareTimes()
	}
	f := j.Meta.FieldTimes()
	end := j.end
	if j.keptWhenEmpty {
		end = 0
	}
	switch {
	case j.rows == 0 && j.readers == 0 && !j.keptWhenEmpty:
		j.Wrong("it is empty, and should not be there")
	case j.soonest != 0 && (f.Next == 0 || f.Next > j.soonest+latestSweep):
		j.Wrong("something in it dies at %d, and it is said to be swept at %d", j.soonest, f.Next)
	case j.longest > j.end:
		j.Wrong("something in it dies at %d, and the last is said to die at %d", j.longest, j.end)
	case f.End != end:
		j.Wrong("it is said to die at %d, and should at %d", f.End, end)
	}
}

// compareIDs reports the messages and the entries of buckets that do not match.
func (j *channel) compareIDs() {
	it := j.Iter(keyspace.SubRow, []byte{0}, []byte{1})
	for it.Next() {
		if len(it.Rest()) != 9 {
			continue
		}
		position, _, _, id, ok := channelMessage(it.Rest(), it.Value())
		if !ok {
			continue
		}
		hash := j.idHash(id)
		entries, _, ok := j.Get(keyspace.SubRow, binary.BigEndian.AppendUint32([]byte{1}, j.bucketOf(hash)))
		n, want := 0, string(entryOf(nil, hash, position))
		for ; len(entries) >= idEntry; entries = entries[idEntry:] {
			if string(entries[:idEntry]) == want {
				n++
			}
		}
		if ok && n != 1 {
			j.WrongRow(keyspace.SubRow, it.Rest(), "its id is in the bucket %d times", n)
		}
	}
	it.Close()
	it = j.Iter(keyspace.SubRow, []byte{1}, []byte{2})
	for it.Next() {
		for b := it.Value(); len(b) >= idEntry; b = b[idEntry:] {
			position := int64(binary.BigEndian.Uint64(b[4:]))
			row := binary.BigEndian.AppendUint64([]byte{0}, sortable(position))
			v, found, ok := j.Get(keyspace.SubRow, row)
			if !ok {
				continue
			}
			if !found {
				j.WrongRow(keyspace.SubRow, it.Rest(), "it names the message at %d, which does not exist", position)
			} else if _, _, _, id, ok := channelMessage(row, v); ok && j.idHash(id) != binary.BigEndian.Uint32(b) {
				j.WrongRow(keyspace.SubRow, it.Rest(), "it has the hash %x for the message at %d, whose id has %08x", b[:4], position, j.idHash(id))
			}
		}
	}
	it.Close()
}

// compareTimes reports rows that lack their score row, and score rows without such a row.
func (j *channel) compareTimes() {
	missing := func(rest, due, name []byte) {
		names, found, ok := j.Get(keyspace.ScoreRow, due)
		if name != nil {
			found = false
			for more := names; len(more) > 0 && !found; {
				var one []byte
				if one, more, found = nextName(more); !found {
					break
				}
				found = string(one) == string(name)
			}
		}
		if ok && !found {
			j.WrongRow(keyspace.SubRow, rest, "it has no score row for its time")
		}
	}
	it := j.Iter(keyspace.SubRow, nil, nil)
	for it.Next() {
		rest, v := it.Rest(), it.Value()
		switch {
		case len(rest) == 9 && rest[0] == 0:
			if position, death, flags, _, ok := channelMessage(rest, v); ok && flags&timedMessage != 0 {
				missing(rest, dueMessage(nil, death, position), nil)
			}
		case len(rest) > 1 && rest[0] == 2 && len(v) == subscriberSize:
			_, death, page := channelSubscriber(v)
			missing(rest, dueSubscriber(nil, death, page, nil), rest[1:])
		}
	}
	it.Close()
	it = j.Iter(keyspace.ScoreRow, nil, nil)
	for it.Next() {
		rest := it.Rest()
		time := int64(0)
		if len(rest) >= 8 {
			time = int64(binary.BigEndian.Uint64(rest))
		}
		switch {
		case len(rest) == 17 && rest[8] == 0:
			row := append([]byte{0}, rest[9:]...)
			v, found, ok := j.Get(keyspace.SubRow, row)
			at := int64(0)
			if found {
				_, at, _, _, found = channelMessage(row, v)
			}
			if ok && (!found || at != time) {
				j.WrongRow(keyspace.ScoreRow, rest, "nothing dies at its time")
			}
		case len(rest) == 11 && rest[8] == 1:
			seen := make(map[string]bool)
			for name, more, ok := nextName(it.Value()); ok; name, more, ok = nextName(more) {
				if seen[string(name)] {
					j.WrongRow(keyspace.ScoreRow, rest, "it names the subscriber %q twice", name)
					continue
				}
				seen[string(name)] = true
				v, _, ok := j.Get(keyspace.SubRow, append([]byte{2}, name...))
				if !ok {
					continue
				}
				if len(v) != subscriberSize {
					j.WrongRow(keyspace.ScoreRow, rest, "it names the subscriber %q, which does not exist", name)
				} else if _, at, page := channelSubscriber(v); at != time || page != binary.BigEndian.Uint16(rest[9:]) {
					j.WrongRow(keyspace.ScoreRow, rest, "it names the subscriber %q, which dies at %d and is on page %d", name, at, page)
				}
			}
		}
	}
	it.Close()
}

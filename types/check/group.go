package check

import (
	"bytes"
	"encoding/binary"

	"redoubt/keyspace"
)

// The groups of a stream: their consumers, and what is pending.

// ofGroup checks that a group with the number in a row's key exists. The rows of all
// groups come before.
func (j *stream) ofGroup(rest []byte) {
	if number := binary.BigEndian.Uint32(rest[1:]); !j.numbers[number] && len(j.numbers) < manyGroups {
		j.WrongRow(keyspace.SubRow, rest, "no group has the number %d", number)
	}
}

// under opens an iterator over the sub rows whose keys begin with prefix.
func (j *stream) under(prefix []byte) *keyspace.RowIter {
	to := bytes.Clone(prefix)
	for i := len(to) - 1; i >= 0; i-- {
		if to[i]++; to[i] != 0 {
			to = to[:i+1]
			break
		}
	}
	return j.Iter(keyspace.SubRow, prefix, to)
}

func numbered(sort byte, numbers ...uint32) []byte {
	b := []byte{sort}
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func (j *stream) groupRow(rest, v []byte) {
	wrong := func(format string, args ...any) { j.WrongRow(keyspace.SubRow, rest, format, args...) }
	j.groupRows++
	if len(v) != groupSize {
		wrong("its value has %d bytes", len(v))
		return
	}
	number, pending, top := binary.BigEndian.Uint32(v), int64(binary.BigEndian.Uint64(v[28:])), idOf(v[36:])
	consumers, next := binary.BigEndian.Uint32(v[52:]), binary.BigEndian.Uint32(v[56:])
	if number == 0 || number > j.nextGroup {
		wrong("its number is %d, and the last one given is %d", number, j.nextGroup)
	}
	if j.numbers[number] {
		wrong("another group has the number %d, too", number)
		return
	}
	if len(j.numbers) < manyGroups {
		j.numbers[number] = true
	}
	found, owned, ok := j.consumers(number, next)
	if ok && found != consumers {
		wrong("it is said to have %d consumers, and has %d", consumers, found)
	}
	all, ok := j.pending(number, top)
	if !ok {
		return
	}
	if int64(all.n) != pending {
		wrong("it is said to have %d pending entries, and has %d", pending, all.n)
	}
	if all != owned {
		j.differ = true
		j.agree(number)
	}
}

// consumers checks the consumers of a group and their pending entries.
func (j *stream) consumers(group, next uint32) (n uint32, owned digest, ok bool) {
	it := j.under(numbered(rowConsumer, group))
	for it.Next() {
		n++
		rest, v := it.Rest(), it.Value()
		if len(v) != consumerSize {
			j.WrongRow(keyspace.SubRow, rest, "its value has %d bytes", len(v))
			continue
		}
		number, pending := binary.BigEndian.Uint32(v), int64(binary.BigEndian.Uint64(v[20:]))
		if number == 0 || number > next {
			j.WrongRow(keyspace.SubRow, rest, "its number is %d, and the last one given is %d", number, next)
		}
		name, has := rest[5:], int64(0)
		own := j.under(numbered(rowOwned, group, number))
		for own.Next() {
			has++
			j.ownsOf.add(own.Rest())
			if len(own.Rest()) == 9+idSize {
				j.buf = append(append(j.buf[:0], own.Rest()[9:]...), name...)
				owned.add(j.buf)
			}
		}
		if own.Close() && has != pending {
			j.WrongRow(keyspace.SubRow, rest, "it is said to have %d pending entries, and has %d", pending, has)
		}
	}
	return n, owned, it.Close()
}

// pending checks the pending entries of a group.
func (j *stream) pending(group uint32, top id) (all digest, ok bool) {
	it := j.under(numbered(rowPending, group))
	for it.Next() {
		rest, v := it.Rest(), it.Value()
		if len(rest) != 5+idSize || len(v) < pendingHead {
			j.WrongRow(keyspace.SubRow, rest, "it is malformed: %x", v[:min(len(v), 64)])
			continue
		}
		if idOf(rest[5:]).compare(top) > 0 {
			j.WrongRow(keyspace.SubRow, rest, "it is above %v, the last one that is said to be pending", top)
		}
		j.buf = append(append(j.buf[:0], rest[5:]...), v[pendingHead:]...)
		all.add(j.buf)
	}
	return all, it.Close()
}

// numberOf is the number of a consumer; 0 if there is no such consumer.
func (j *stream) numberOf(group uint32, name []byte) (number uint32, ok bool) {
	v, found, ok := j.Get(keyspace.SubRow, append(numbered(rowConsumer, group), name...))
	if !found || len(v) != consumerSize {
		return 0, ok
	}
	return binary.BigEndian.Uint32(v), ok
}

// agree reports the rows of a group's pending entries whose consumer has no row for
// the entry.
func (j *stream) agree(group uint32) {
	it := j.under(numbered(rowPending, group))
	defer it.Close()
	for it.Next() {
		rest, v := it.Rest(), it.Value()
		if len(rest) != 5+idSize || len(v) < pendingHead {
			continue
		}
		name := v[pendingHead:]
		number, ok := j.numberOf(group, name)
		if !ok {
			continue
		}
		if number == 0 {
			j.WrongRow(keyspace.SubRow, rest, "there is no consumer %.64q", name)
			continue
		}
		if _, found, ok := j.Get(keyspace.SubRow, append(numbered(rowOwned, group, number), rest[5:]...)); ok && !found {
			j.WrongRow(keyspace.SubRow, rest, "consumer %.64q has no row for it", name)
		}
	}
}

// compareOwned reports the consumers' rows, of any group, without a matching row of a
// pending entry.
func (j *stream) compareOwned() {
	it := j.under([]byte{rowOwned})
	defer it.Close()
	for it.Next() {
		rest := it.Rest()
		if len(rest) != 9+idSize {
			continue
		}
		group, number := binary.BigEndian.Uint32(rest[1:]), binary.BigEndian.Uint32(rest[5:])
		v, found, ok := j.Get(keyspace.SubRow, append(numbered(rowPending, group), rest[9:]...))
		if !ok {
			continue
		}
		if !found || len(v) < pendingHead {
			j.WrongRow(keyspace.SubRow, rest, "the entry is not pending in the group")
			continue
		}
		if owner, ok := j.numberOf(group, v[pendingHead:]); ok && owner != number {
			j.WrongRow(keyspace.SubRow, rest, "the entry is pending at consumer %.64q, number %d", v[pendingHead:], owner)
		}
	}
}

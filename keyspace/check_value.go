package keyspace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Checking values that have rows of their own: each row belongs to one value,
// each value to one key (or to a garbage row), and a value's rows are as its type
// lays them out. A key may name rows that lie in any slot, so which key owns which rows is
// known only when all slots were seen.

const (
	// fewRows is how many rows of a value the walk over a slot reads before it skips the
	// others: they were read with the value's key.
	fewRows = 16
	// ownersAtOnce is for how many values at once owners are searched.
	ownersAtOnce = 1 << 18
	// bareMax is how many values without rows are remembered.
	bareMax = 1 << 20
	// stringChunk is the size of the chunks of a string.
	stringChunk = 8192
)

// part notes a sub, score or rank row. It returns the key to go on from, nil for the
// next row.
func (c *checker) part(row []byte) []byte {
	if !c.samePart(row) {
		c.found[binary.BigEndian.Uint16(row)].add(c.last)
	} else if c.repeat > fewRows {
		return successor(c.last)
	}
	return nil
}

// samePart reports whether a row belongs to the same kind of rows of the same value
// as the one before.
func (c *checker) samePart(row []byte) bool {
	if bytes.Equal(c.last, row[:partHead]) {
		c.repeat++
		return true
	}
	c.last, c.repeat = append(c.last[:0], row[:partHead]...), 0
	return false
}

// value checks the rows of the external value that a meta row names.
func (c *checker) value(meta []byte, m Meta) {
	c.Values++
	ref := m.Ref()
	c.id(meta, ref.ID)
	c.tell.learnValue(ref, m.Type)
	s := &Subject{Meta: m, c: c, key: meta, ref: ref}
	if ref.Home >= Slots {
		s.Wrong("its rows are said to lie in slot %d", ref.Home)
		return
	}
	if ref.Size < 0 {
		s.Wrong("its size is %d", ref.Size)
	}
	judge, some, whole := c.judgeOf(s), false, true
	for kind := SubRow; kind <= RankRow; kind++ {
		rows := 0
		lo := AppendRowKey(nil, ref, kind)
		last, err := c.try(lo, successor(lo), func(row, value []byte) []byte {
			rows++
			if judge != nil {
				judge.Row(kind, row[partHead:], value)
			}
			return nil
		})
		if err != nil {
			whole = false
			c.unreadable("rows behind "+inHex(last)+" up to "+inHex(successor(lo)), err)
		}
		if rows > 0 {
			some = true
			c.named[ref.Home].add(lo)
		}
		c.Rows += max(0, int64(rows)-fewRows-2) // those that part skips
	}
	if judge != nil && whole {
		judge.End()
	}
	if !some && len(c.bare) < bareMax {
		c.bare = append(c.bare, ref)
	}
}

// judgeOf returns the Judge of the rows of a value; nil if there is none.
func (c *checker) judgeOf(s *Subject) Judge {
	if s.Meta.Type == String {
		return chunks{s}
	}
	if c.examine == nil {
		return nil
	}
	return c.examine(s)
}

// chunks judges the rows of a string. Any row may be missing: its bytes are zeros.
type chunks struct{ *Subject }

func (c chunks) Row(k Kind, rest, value []byte) {
	wrong := func(format string, args ...any) { c.WrongRow(k, rest, format, args...) }
	switch {
	case k != SubRow:
		wrong("a string has no such rows")
		return
	case len(rest) != 4:
		wrong("its key ends with %d bytes, a chunk's with 4", len(rest))
		return
	}
	at := stringChunk * int64(binary.BigEndian.Uint32(rest))
	switch n := len(value); {
	case n == 0:
		wrong("the chunk is empty")
	case n > stringChunk:
		wrong("the chunk has %d bytes, and %d at the most", n, stringChunk)
	case at+int64(n) > c.ref.Size:
		wrong("the chunk ends at %d, and the string at %d", at+int64(n), c.ref.Size)
	case value[n-1] == 0:
		wrong("the chunk ends with a zero, which is not stored")
	}
}

func (chunks) End() {}

// id checks the id that a row names.
func (c *checker) id(row []byte, id uint64) {
	if id == 0 || id >= c.mark {
		c.report("id", c.tell.Key(row), fmt.Sprintf("the id %016x is not below the mark %016x: it might be given again", id, c.mark))
	}
}

func (c *checker) garbage(row, value []byte) {
	if len(value) > 0 {
		c.report("row", c.tell.Key(row), "it has a value: "+inHex(value))
	}
	r := decodeGarbageKey(row)
	c.id(row, r.ID)
	if group := binary.BigEndian.Uint16(row); r.Home&^(expireGroup-1) != group {
		c.report("row", c.tell.Key(row), fmt.Sprintf("it lies with slot %d", group))
	}
	if r.Home >= Slots {
		return
	}
	for kind := byte(kindSub); kind <= kindRank; kind++ {
		lo := appendPart(nil, r.Home, kind, r.ID)
		some := false
		c.walk(lo, successor(lo), func(_, _ []byte) []byte {
			some = true
			return successor(lo)
		})
		if some {
			c.named[r.Home].add(lo)
		}
	}
}

// owned is one kind of rows of a value whose owner is searched.
type owned struct {
	home  uint16
	kind  byte
	id    uint64
	names int // how many keys and garbage rows name it
}

func (o owned) compare(p owned) int {
	return cmp.Or(cmp.Compare(o.home, p.home), cmp.Compare(o.kind, p.kind), cmp.Compare(o.id, p.id))
}

// owners reports rows without an owner, and values that more than one key owns.
func (c *checker) owners() {
	slices.SortFunc(c.bare, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Home, b.Home), cmp.Compare(a.ID, b.ID)) })
	for i := 1; i < len(c.bare); i++ {
		if a, b := c.bare[i-1], c.bare[i]; a.ID == b.ID && a.Home == b.Home {
			c.report("value", valueName(a.Home, a.ID), "two keys name it")
		}
	}
	var list []owned
	for home := range c.named {
		if c.named[home] == c.found[home] {
			continue
		}
		lo := []byte{byte(home >> 8), byte(home), kindSub}
		hi := []byte{byte(home >> 8), byte(home), kindRank + 1}
		c.walk(lo, hi, func(row, _ []byte) []byte {
			if len(row) < partHead {
				return nil // reported before
			}
			if len(list) == ownersAtOnce {
				c.judge(list)
				list = list[:0]
			}
			list = append(list, owned{home: uint16(home), kind: row[2], id: binary.BigEndian.Uint64(row[3:])})
			return successor(row[:partHead])
		})
	}
	if len(list) > 0 {
		c.judge(list)
	}
}

// judge scans all keys and garbage rows for the owners of the values in a sorted list, and
// reports values without one or with several.
func (c *checker) judge(list []owned) {
	note := func(row []byte, kind byte, ref Ref) {
		i, ok := slices.BinarySearchFunc(list, owned{home: ref.Home, kind: kind, id: ref.ID}, owned.compare)
		if !ok {
			return
		}
		if list[i].names++; list[i].names > 1 {
			c.report("value", c.tell.Key(row), fmt.Sprintf("%s belongs to something else, too", valueName(ref.Home, ref.ID)))
		}
	}
	for group := range Groups {
		c.walk(firstOf(group*expireGroup), firstOf((group+1)*expireGroup), func(row, value []byte) []byte {
			kind := byte(0)
			if len(row) > 2 {
				kind = row[2]
			}
			switch {
			case kind == kindMeta:
				if m, err := decodeMeta(value); err == nil && m.External() {
					for kind := byte(kindSub); kind <= kindRank; kind++ {
						note(row, kind, m.Ref())
					}
				}
			case kind >= kindSub && kind <= kindRank:
				return []byte{row[0], row[1], kindExpire}
			case isGarbage(row):
				for kind := byte(kindSub); kind <= kindRank; kind++ {
					note(row, kind, decodeGarbageKey(row))
				}
			}
			return nil
		})
	}
	for _, o := range list {
		if o.names == 0 {
			c.report("orphan", c.tell.Key(appendPart(nil, o.home, o.kind, o.id)), "no key has this value, and no garbage row either")
		}
	}
}

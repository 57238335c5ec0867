package keyspace

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"redoubt/engine"
)

// Checking the rows of a store against FORMAT.md.
//
// Memory does not grow with the store: no list of keys is kept. If two sets of rows
// must be equal (keys with an expiry and expire rows; values that keys name and
// values that have rows), each is reduced to a digest, the number of members and the
// sum of their hashes, in one pass over the rows. Only if two digests differ are rows
// looked up one by one, to name the wrong ones.

// Checked is what Check saw.
type Checked struct {
	Rows, Keys, Volatile, Values int64
	// Complete is false if rows could not be read, or have an unknown format version:
	// counters and the owners of rows were then not compared.
	Complete bool
}

// digest stands for a set of rows.
type digest struct{ n, sum uint64 }

func (p *digest) add(row []byte) { p.n, p.sum = p.n+1, p.sum+engine.Hash(row) }

type checker struct {
	Checked
	r      engine.Reader
	report func(kind, place, what string)
	tell   Describer
	// examine checks values by type; nil if only strings are checked.
	examine Examiner

	dead   map[uint32]bool
	lastKS uint32 // the largest valid keyspace number
	mark   uint64 // all valid ids are below
	counts map[uint32]*count

	expiring, expires digest // of the present group: expire rows as keys require, and as found
	groupComplete     bool

	last   []byte // start of the key of the previous sub, score or rank row
	repeat int    // how many rows in sequence had that start

	named, found []digest // by home: rows of values that keys name; rows that exist
	bare         []Ref    // values that keys name and that have no rows
}

type count struct{ keys, volatile int64 }

// Check reads all rows and calls report for each problem: its kind, for counting, the
// place, and what is wrong. counters are the engine's. examine checks the values of
// collections; strings are checked without it. progress, if not nil, is called with the
// number of slots and rows checked so far.
func Check(r engine.Reader, counters map[string]int64, examine Examiner, report func(kind, place, what string), progress func(slot int, rows int64)) Checked {
	c := &checker{
		Checked: Checked{Complete: true}, r: r, report: report, examine: examine,
		dead: make(map[uint32]bool), counts: make(map[uint32]*count),
		named: make([]digest, Slots), found: make([]digest, Slots),
	}
	if c.system() {
		for group := range Groups {
			c.group(group)
			if progress != nil {
				progress((group+1)*expireGroup, c.Rows)
			}
		}
		c.foreign()
		if c.Complete {
			c.owners()
			c.counters(counters)
		}
	}
	return c.Checked
}

// walk visits the rows of a range. If visit returns a key, walk goes on there. It
// reports rows that cannot be read.
func (c *checker) walk(lo, hi []byte, visit func(row, value []byte) (next []byte)) {
	last, err := c.try(lo, hi, visit)
	switch {
	case err != nil && last != nil:
		c.unreadable("rows behind "+inHex(last)+" up to "+inHex(hi), err)
	case err != nil:
		c.unreadable("rows from "+inHex(lo)+" up to "+inHex(hi), err)
	}
}

// try is walk that returns errors. last is the key of the last row that was visited.
func (c *checker) try(lo, hi []byte, visit func(row, value []byte) (next []byte)) (last []byte, err error) {
	for from := lo; from != nil && err == nil; {
		it := c.r.Iter(from, hi, false)
		from = nil
		for from == nil && it.Next() {
			last = append(last[:0], it.Key()...)
			from = visit(it.Key(), it.Value())
		}
		err = it.Close()
	}
	return last, err
}

func (c *checker) unreadable(place string, err error) {
	c.Complete, c.groupComplete = false, false
	c.report("unreadable", place, err.Error())
}

// get reads a row; ok is false if that failed, which is reported.
func (c *checker) get(row []byte) (value []byte, found, ok bool) {
	value, found, err := c.r.Get(row, nil)
	if err != nil {
		c.unreadable(c.tell.Key(row), err)
	}
	return value, found, err == nil
}

// foreign reports rows between those of the last slot and the system rows.
func (c *checker) foreign() {
	c.walk([]byte{Slots >> 8}, []byte{system}, func(row, _ []byte) []byte {
		c.Rows++
		c.report("row", c.tell.Key(row), "no row begins like this")
		return nil
	})
}

// group checks the rows of a group of slots.
func (c *checker) group(group int) {
	c.expiring, c.expires, c.groupComplete = digest{}, digest{}, true
	slot, end := group*expireGroup, (group+1)*expireGroup
	from := firstOf(slot)
	if last, err := c.try(from, firstOf(end), c.row); err != nil {
		// Go on slot by slot behind the last row that could be read, so that the
		// bad place is known, and no more than needed is skipped.
		if len(last) >= 2 {
			slot, from = int(binary.BigEndian.Uint16(last)), append(last, 0)
		}
		for ; slot < end; slot++ {
			c.walk(from, firstOf(slot+1), c.row)
			from = firstOf(slot + 1)
		}
	}
	if c.expiring != c.expires && c.groupComplete {
		c.expiries(group)
	}
}

// row checks a row of a slot. It returns the key to go on from, nil for the next row.
func (c *checker) row(row, value []byte) []byte {
	c.Rows++
	kind := byte(0)
	if len(row) > 2 {
		kind = row[2]
	}
	switch {
	case kind == kindMeta && len(row) >= metaKeyHead:
		c.meta(row, value)
	case kind >= kindSub && kind <= kindRank && len(row) >= partHead:
		return c.part(row)
	case kind == kindExpire && len(row) >= expireKeyHead:
		c.expireRow(row, value)
	case isGarbage(row):
		c.garbage(row, value)
	default:
		c.report("row", c.tell.Key(row), "no row has such a key")
	}
	return nil
}

// firstOf returns the key from which on the rows of a slot lie, including invalid keys that
// are too short.
func firstOf(slot int) []byte {
	switch {
	case slot == 0:
		return []byte{}
	case slot&0xff == 0:
		return []byte{byte(slot >> 8)}
	}
	return []byte{byte(slot >> 8), byte(slot)}
}

// meta checks a meta row, and counts its key even if the row is wrong.
func (c *checker) meta(row, value []byte) {
	wrong := func(kind, format string, args ...any) { c.report(kind, c.tell.Key(row), fmt.Sprintf(format, args...)) }
	ks, key := binary.BigEndian.Uint32(row[3:]), row[metaKeyHead:]
	c.Keys++
	n := c.of(ks)
	n.keys++
	right := SlotOf(key) == binary.BigEndian.Uint16(row)
	if !right {
		wrong("slot", "the slot of the key is %d", SlotOf(key))
	}
	if _, used := c.tell.dbs[ks]; !used && !c.dead[ks] {
		wrong("keyspace", "no database has the keyspace, and it is not one that was flushed")
	}
	if len(value) >= metaHead && binary.BigEndian.Uint64(value[1:]) != 0 {
		c.Volatile++
		n.volatile++
	}
	m, err := decodeMeta(value)
	if err != nil {
		wrong("meta", "%v: %s", err, inHex(value))
		return
	}
	if what := layout(m); what != "" {
		wrong("meta", "%s", what)
	} else if m.Type != String && !m.External() && c.examine != nil {
		c.examine(&Subject{Meta: m, c: c, key: row})
	}
	if m.due() != 0 && right {
		c.expiring.add(appendExpireKey(nil, binary.BigEndian.Uint16(row), m.due(), ks, key))
	}
	if m.External() {
		c.value(row, m)
	}
}

// layout returns what is wrong with the encoding of a decoded Meta, or "".
func layout(m Meta) string {
	switch {
	case m.encodingName() == "":
		return fmt.Sprintf("type %v has no encoding %d in version %d", m.Type, m.Encoding, FormatVersion)
	case m.Type == String && m.Encoding == Int:
		if n, err := strconv.ParseInt(string(m.Body), 10, 64); err != nil || strconv.FormatInt(n, 10) != string(m.Body) {
			return "it is said to be an integer, and is " + quote(m.Body)
		}
	}
	return ""
}

// of returns the counts of a keyspace number. A corrupt store may have very many: beyond
// 65,536 they are dropped.
func (c *checker) of(ks uint32) *count {
	n := c.counts[ks]
	if n == nil {
		n = new(count)
		if len(c.counts) < 1<<16 {
			c.counts[ks] = n
		}
	}
	return n
}

func (c *checker) expireRow(row, value []byte) {
	x, err := decodeExpireKey(row)
	wrong := func(format string, args ...any) { c.report("expire", c.tell.Key(row), fmt.Sprintf(format, args...)) }
	group := binary.BigEndian.Uint16(row)
	switch {
	case err != nil || x.at <= 0:
		wrong("its time cannot be")
	case x.slot&^(expireGroup-1) != group || x.slot != SlotOf(x.key):
		wrong("the slot of the key is %d, and the row lies with slot %d", SlotOf(x.key), group)
	case len(value) > 0:
		wrong("it has a value: %s", inHex(value))
	}
	c.expires.add(row)
}

// expiries reports the keys without an expire row, and the expire rows without a key,
// of a group of slots.
func (c *checker) expiries(group int) {
	first := uint16(group * expireGroup)
	lo := []byte{byte(first >> 8), byte(first), kindExpire}
	c.walk(lo, successor(lo), func(row, _ []byte) []byte {
		x, err := decodeExpireKey(row)
		if err != nil {
			return nil // reported before
		}
		value, found, ok := c.get(appendMetaKey(nil, x.slot, x.ks, x.key))
		if !ok {
			return nil
		}
		switch m, err := decodeMeta(value); {
		case !found:
			c.report("expire", c.tell.Key(row), "there is no such key")
		case err == nil && m.due() == 0:
			c.report("expire", c.tell.Key(row), "the key has no time of death")
		case err == nil && m.due() != x.at:
			c.report("expire", c.tell.Key(row), "the key dies at another time: "+moment(m.due()))
		}
		return nil
	})
	for slot := first; slot < first+expireGroup; slot++ {
		lo := []byte{byte(slot >> 8), byte(slot), kindMeta}
		c.walk(lo, successor(lo), func(row, value []byte) []byte {
			m, err := decodeMeta(value)
			if err != nil || m.due() == 0 || len(row) < metaKeyHead || SlotOf(row[metaKeyHead:]) != slot {
				return nil
			}
			x := appendExpireKey(nil, slot, m.due(), binary.BigEndian.Uint32(row[3:]), row[metaKeyHead:])
			if _, found, ok := c.get(x); ok && !found {
				c.report("expire", c.tell.Key(row), "it has no expire row for "+moment(m.due()))
			}
			return nil
		})
	}
}

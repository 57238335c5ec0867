package keyspace

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"redoubt/engine"
)

// Checking the rows of a store against FORMAT.md.
//
// Memory does not grow with the store: no list of keys is kept. Where two sets
// of rows must be the same (keys with a time of death and expire rows; values
// that keys name and values that have rows), both are reduced to a digest, a
// number of members and a sum of their hashes, while the rows go by in order.
// Only where two digests differ are rows looked up one by one, to name those at
// fault.

// Checked is what Check saw.
type Checked struct {
	Rows, Keys, Volatile, Values int64
	// Whole is false if rows could not be read, or not be understood at all:
	// counters and the owners of rows were then not compared.
	Whole bool
}

// digest stands for a set of rows.
type digest struct{ n, sum uint64 }

func (p *digest) add(row []byte) { p.n, p.sum = p.n+1, p.sum+engine.Hash(row) }

type checker struct {
	Checked
	r      engine.Reader
	report func(kind, place, what string)
	tell   Teller
	// examine knows the types; nil if only strings are to be understood.
	examine Examiner

	dead   map[uint32]bool
	lastKS uint32 // no keyspace number is above
	mark   uint64 // every id is below
	counts map[uint32]*count

	expiring, expires digest // of the present group: keys, rows
	groupWhole        bool

	last   []byte // start of the key of the sub, score or rank row before
	repeat int    // how many rows began like this

	named, found []digest // by home: rows of values that keys name; rows that there are
	bare         []Ref    // values that keys name and that have no rows
}

type count struct{ keys, volatile int64 }

// Check reads all rows and reports whatever is wrong with them: its kind, by
// which such things may be counted, the place, and what it is. counters are the
// engine's. examine knows how the types lay out their values; strings are known
// without it. progress is told up to which slot it has come; it may be nil.
func Check(r engine.Reader, counters map[string]int64, examine Examiner, report func(kind, place, what string), progress func(slot int, rows int64)) Checked {
	c := &checker{
		Checked: Checked{Whole: true}, r: r, report: report, examine: examine,
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
		if c.Whole {
			c.owners()
			c.counters(counters)
		}
	}
	return c.Checked
}

// walk visits the rows of a range. If visit returns a key, it goes on there. It
// reports what cannot be read.
func (c *checker) walk(lo, hi []byte, visit func(row, value []byte) (next []byte)) {
	last, err := c.try(lo, hi, visit)
	switch {
	case err != nil && last != nil:
		c.unreadable("rows behind "+inHex(last)+" up to "+inHex(hi), err)
	case err != nil:
		c.unreadable("rows from "+inHex(lo)+" up to "+inHex(hi), err)
	}
}

// try is walk without the report. It returns the last row that was visited.
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
	c.Whole, c.groupWhole = false, false
	c.report("unreadable", place, err.Error())
}

// get reads a row; it is not ok if that failed, which is reported.
func (c *checker) get(row []byte) (value []byte, found, ok bool) {
	value, found, err := c.r.Get(row, nil)
	if err != nil {
		c.unreadable(c.tell.Key(row), err)
	}
	return value, found, err == nil
}

// foreign looks for rows between those of the last slot and the system's.
func (c *checker) foreign() {
	c.walk([]byte{Slots >> 8}, []byte{system}, func(row, _ []byte) []byte {
		c.Rows++
		c.report("row", c.tell.Key(row), "no row begins like this")
		return nil
	})
}

// group checks the rows of a group of slots.
func (c *checker) group(group int) {
	c.expiring, c.expires, c.groupWhole = digest{}, digest{}, true
	slot, end := group*expireGroup, (group+1)*expireGroup
	from := firstOf(slot)
	if last, err := c.try(from, firstOf(end), c.row); err != nil {
		// Behind the last row that could be read it goes on slot by slot, so
		// that the bad place is known, and no more is passed over than need be.
		if len(last) >= 2 {
			slot, from = int(binary.BigEndian.Uint16(last)), append(last, 0)
		}
		for ; slot < end; slot++ {
			c.walk(from, firstOf(slot+1), c.row)
			from = firstOf(slot + 1)
		}
	}
	if c.expiring != c.expires && c.groupWhole {
		c.expiries(group)
	}
}

// row checks a row of a slot. It returns where to go on if not behind the row.
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

// firstOf is where the rows of a slot begin, those whose keys are too short to be
// one included.
func firstOf(slot int) []byte {
	switch {
	case slot == 0:
		return []byte{}
	case slot&0xff == 0:
		return []byte{byte(slot >> 8)}
	}
	return []byte{byte(slot >> 8), byte(slot)}
}

// meta checks a key. Its row is counted whatever is wrong with it.
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

// layout says what is wrong with the encoding of a value that decodes.
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

// of returns the counts of a keyspace. A store full of nonsense has many.
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

// expiries finds the keys without expire row, and the expire rows without key,
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

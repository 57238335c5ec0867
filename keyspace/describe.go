package keyspace

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Describer describes rows in words, for people who look into a store. Rows that it
// does not know are shown in hexadecimal, so that nothing is hidden.
type Describer struct {
	// Values: show the bytes of strings, not only how many there are.
	Values bool

	dbs   map[uint32]int // which database has a keyspace number
	types map[uint64]Type
}

// Learn remembers which keyspace number a database has, or of which type an external
// value is, whose own rows do not tell. Other rows are ignored.
func (t *Describer) Learn(row, value []byte) {
	if isMeta(row) {
		if m, err := decodeMeta(value); err == nil && m.External() {
			t.learnValue(m.Ref(), m.Type)
		}
		return
	}
	if len(row) != 4 || row[0] != system || row[1] != sysDatabase || len(value) != 4 {
		return
	}
	if t.dbs == nil {
		t.dbs = make(map[uint32]int)
	}
	db := int(binary.BigEndian.Uint16(row[2:]))
	for ks, of := range t.dbs {
		if of == db {
			delete(t.dbs, ks)
		}
	}
	t.dbs[binary.BigEndian.Uint32(value)] = db
}

// maxTypes is how many values' types are remembered.
const maxTypes = 1 << 16

func (t *Describer) learnValue(ref Ref, is Type) {
	if t.types == nil || len(t.types) >= maxTypes {
		t.types = make(map[uint64]Type)
	}
	t.types[ref.ID] = is
}

func isMeta(row []byte) bool {
	return len(row) >= metaKeyHead && row[0] < Slots>>8 && row[2] == kindMeta
}

// Databases returns the range of the rows that have the databases' keyspace numbers.
func (t *Describer) Databases() (lo, hi []byte) { return sysKey(sysDatabase), sysKey(sysDatabase + 1) }

func (t *Describer) keyspace(ks uint32) string {
	if db, ok := t.dbs[ks]; ok {
		return fmt.Sprintf("database %d (keyspace %d)", db, ks)
	}
	return fmt.Sprintf("keyspace %d", ks)
}

// shown is the largest number of bytes that are shown of a key or value.
const shown = 256

func quote(b []byte) string {
	if len(b) > shown {
		return fmt.Sprintf("%q... (%d bytes)", b[:shown], len(b))
	}
	return fmt.Sprintf("%q", b)
}

func inHex(b []byte) string {
	if len(b) > shown {
		return fmt.Sprintf("%x... (%d bytes)", b[:shown], len(b))
	}
	return fmt.Sprintf("%x", b)
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

var kindNames = map[byte]string{kindSub: "sub", kindScore: "score", kindRank: "rank"}

// Key describes a row by its key.
func (t *Describer) Key(row []byte) string {
	switch {
	case len(row) >= 2 && row[0] == system:
		return t.systemKey(row)
	case len(row) < 3 || binary.BigEndian.Uint16(row) >= Slots:
		return "unknown row " + inHex(row)
	}
	slot := binary.BigEndian.Uint16(row)
	switch kind := row[2]; {
	case kind == kindMeta && len(row) >= metaKeyHead:
		return fmt.Sprintf("key %s of %s, slot %d", quote(row[metaKeyHead:]), t.keyspace(binary.BigEndian.Uint32(row[3:])), slot)
	case kindNames[kind] != "" && len(row) >= partHead:
		return t.partKey(slot, Kind(kind), binary.BigEndian.Uint64(row[3:]), row[partHead:])
	case kind == kindExpire && len(row) >= expireKeyHead:
		x, _ := decodeExpireKey(row)
		return fmt.Sprintf("expire row for %s of key %s of %s, slot %d", moment(x.at), quote(x.key), t.keyspace(x.ks), x.slot)
	case isGarbage(row):
		r := decodeGarbageKey(row)
		return "garbage row of " + valueName(r.Home, r.ID)
	}
	return "unknown row " + inHex(row)
}

func valueName(home uint16, id uint64) string { return fmt.Sprintf("value %016x, slot %d", id, home) }

func (t *Describer) systemKey(row []byte) string {
	rest := row[2:]
	switch what := row[1]; {
	case what == sysDatabase && len(rest) == 2:
		return fmt.Sprintf("number of database %d", binary.BigEndian.Uint16(rest))
	case what == sysKeys && len(rest) == 4:
		return "count of keys of " + t.keyspace(binary.BigEndian.Uint32(rest))
	case what == sysVolatile && len(rest) == 4:
		return "count of keys with an expiry of " + t.keyspace(binary.BigEndian.Uint32(rest))
	case what == sysDead && len(rest) == 4:
		return fmt.Sprintf("note that keyspace %d was flushed", binary.BigEndian.Uint32(rest))
	case what == sysNextKS && len(rest) == 0:
		return "keyspace number given last"
	case what == sysWatermark && len(rest) == 8:
		mark := binary.BigEndian.Uint64(rest)
		return fmt.Sprintf("mark that ids are below %016x (%s)", mark, moment(int64(mark>>idCounterBits)/1000))
	case what == sysFormat && len(rest) == 0:
		return "format version"
	case what == sysLibrary && len(rest) > 0:
		return "library of functions " + quote(rest)
	case what == sysCopy && len(rest) == 0:
		return "mark of an unfinished copy"
	case isCatalog(row):
		return "catalog of a shared store"
	case isFleet(row):
		return fleetKey(row)
	case isMaster(row):
		return masterKey(row)
	}
	return "unknown system row " + inHex(row)
}

// Value describes the value of a row; "" if it is empty.
func (t *Describer) Value(row, value []byte) string {
	switch {
	case isFleet(row):
		return fleetValue(row, value)
	case isMaster(row):
		return masterValue(row, value)
	case len(row) == 4 && row[0] == system && row[1] == sysDatabase && len(value) == 4:
		return fmt.Sprintf("keyspace %d", binary.BigEndian.Uint32(value))
	case len(row) == 2 && row[0] == system && len(value) == 4:
		return fmt.Sprint(binary.BigEndian.Uint32(value))
	case isMeta(row):
		return t.meta(value)
	case len(value) == 0:
		return ""
	case len(row) >= partHead && kindNames[row[2]] != "":
		return t.partValue(Kind(row[2]), binary.BigEndian.Uint64(row[3:]), row[partHead:], value)
	}
	return t.bytes(value)
}

// Row describes a row by its key and value.
func (t *Describer) Row(row, value []byte) string {
	if v := t.Value(row, value); v != "" {
		return t.Key(row) + " = " + v
	}
	return t.Key(row)
}

// Counter describes what a counter counts.
func (t *Describer) Counter(name []byte) string {
	if len(name) == 6 && name[0] == system && (name[1] == sysKeys || name[1] == sysVolatile) {
		return t.systemKey(name)
	}
	return "unknown counter " + inHex(name)
}

// Range describes the rows of a range.
func (t *Describer) Range(lo, hi []byte) string {
	switch {
	case len(lo) == partHead && lo[0] != system && kindNames[lo[2]] != "" && string(successor(lo)) == string(hi):
		return "all " + t.Key(lo)
	case len(lo) == 2 && lo[0] == system && lo[1] == sysWatermark && len(hi) == 10 && string(hi[:2]) == string(lo):
		return "older marks of ids"
	}
	return fmt.Sprintf("rows from %s up to %s", inHex(lo), inHex(hi))
}

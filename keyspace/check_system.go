package keyspace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Checking system rows and counters.

// system checks the system rows, which the other checks depend on. It returns false if
// the format version is not known.
func (c *checker) system() bool {
	version, numbered := uint32(0), false
	wrong := func(row []byte, format string, args ...any) {
		c.report("system", c.tell.Key(row), fmt.Sprintf(format, args...))
	}
	var used []uint32
	c.walk([]byte{system}, nil, func(row, value []byte) []byte {
		c.Rows++
		if len(row) >= 2 && row[1] == sysLibrary {
			c.library(row, value, wrong)
			return nil
		}
		if len(row) == 2 && row[1] == sysCopy {
			wrong(row, "a copy to this store is not finished")
			return nil
		}
		if isFleet(row) {
			if what := c.fleet(row, value); what != "" {
				wrong(row, "%s", what)
			}
			return nil
		}
		if isMaster(row) {
			if what := checkMaster(row, value); what != "" {
				wrong(row, "%s", what)
			}
			return nil
		}
		size, word := 0, uint32(0)
		if len(row) >= 2 && (row[1] == sysDatabase || row[1] == sysNextKS || row[1] == sysFormat) {
			size = 4
		} else if isCatalog(row) {
			size = 8
		}
		if len(value) != size {
			wrong(row, "its value has %d bytes, not %d: %s", len(value), size, inHex(value))
			return nil
		} else if size == 4 {
			word = binary.BigEndian.Uint32(value)
		}
		switch rest := row[min(2, len(row)):]; {
		case len(row) == 4 && row[1] == sysDatabase:
			if db, taken := c.tell.dbs[word]; taken {
				wrong(row, "it has keyspace %d, and so has database %d", word, db)
			} else if word == 0 {
				wrong(row, "it has keyspace 0, which is never given")
			}
			c.tell.Learn(row, value)
			used = append(used, word)
		case len(row) == 6 && row[1] == sysDead:
			c.dead[binary.BigEndian.Uint32(rest)] = true
			used = append(used, binary.BigEndian.Uint32(rest))
		case len(row) == 2 && row[1] == sysNextKS:
			c.lastKS, numbered = word, true
		case len(row) == 10 && row[1] == sysWatermark:
			c.mark = max(c.mark, binary.BigEndian.Uint64(rest))
		case len(row) == 2 && row[1] == sysFormat:
			version = word
		case isCatalog(row): // the store is shared, and gives out ids itself
			c.mark = math.MaxUint64
		default:
			wrong(row, "there is no such system row in version %d", FormatVersion)
		}
		return nil
	})
	for ks := range c.dead {
		if db, ok := c.tell.dbs[ks]; ok {
			c.report("system", c.tell.systemKey(appendSysKey32(nil, sysDead, ks)), fmt.Sprintf("database %d still has it", db))
		}
	}
	switch {
	case version == FormatVersion:
	case version != 0:
		c.Complete = false
		c.report("system", "format version", fmt.Sprintf("the rows have version %d, this program knows %d; they were not looked at", version, FormatVersion))
		return false
	case c.anything():
		c.report("system", "format version", "it is missing")
	}
	switch {
	case !numbered && len(used) > 0:
		c.report("system", "keyspace number given last", "it is missing")
		fallthrough
	case !numbered:
		c.lastKS = math.MaxUint32
	}
	for _, ks := range used {
		if ks > c.lastKS {
			c.report("system", fmt.Sprintf("keyspace %d", ks), fmt.Sprintf("it is in use, but %d was the last number given", c.lastKS))
		}
	}
	return true
}

// library checks the row of a library: its name, and that its source begins with #!.
func (c *checker) library(row, value []byte, wrong func([]byte, string, ...any)) {
	name := row[2:]
	if len(name) == 0 {
		wrong(row, "it has no name")
	}
	for _, b := range name {
		if b != '_' && (b < '0' || b > '9') && (b|32 < 'a' || b|32 > 'z') {
			wrong(row, "no library can have that name")
			break
		}
	}
	if !bytes.HasPrefix(value, []byte("#!")) {
		wrong(row, "its source does not begin with #!: %s", quote(value[:min(len(value), 32)]))
	}
}

// anything reports whether the store has any row.
func (c *checker) anything() (any bool) {
	c.walk([]byte{}, nil, func([]byte, []byte) []byte {
		any = true
		return slices.Clone(reservedEnd)
	})
	return any
}

// reservedEnd is behind all rows of the format.
var reservedEnd = []byte{0xff, 0xff, 0xff, 0xff}

// counters compares the engine's counters with the rows.
func (c *checker) counters(sums map[string]int64) {
	var names []string
	counted := make(map[string]int64)
	for name := range sums {
		names = append(names, name)
	}
	for ks, n := range c.counts {
		for what, v := range map[byte]int64{sysKeys: n.keys, sysVolatile: n.volatile} {
			name := string(appendSysKey32(nil, what, ks))
			if counted[name] = v; sums[name] == 0 && v != 0 {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		row := []byte(name)
		switch known := len(row) == 6 && row[0] == system && (row[1] == sysKeys || row[1] == sysVolatile); {
		case !known:
			c.report("counter", c.tell.Counter(row), fmt.Sprintf("it says %d", sums[name]))
		case sums[name] != counted[name]:
			c.report("counter", c.tell.Counter(row), fmt.Sprintf("it says %d, and there are %d", sums[name], counted[name]))
		}
	}
}

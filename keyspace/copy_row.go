package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"redoubt/engine"
)

// What a copy of all data from one store to another must know of rows: which rows
// are data, what they add up to, and the row that marks an unfinished copy. Package
// copier does the copying.

// ErrUnfinished: a copy or import into the store has not finished.
var ErrUnfinished = errors.New("a copy to this store is not finished")

// CopyRow returns the key of the row that a store has while a copy to it is not
// finished.
func CopyRow() []byte { return sysKey(sysCopy) }

// ImportMark is the value of that row during an import into a shared store.
const ImportMark = "import"

// CopyFinished returns ErrUnfinished if a copy to the store is not finished: the store must
// not be served then.
func CopyFinished(r engine.Reader) error {
	v, found, err := r.Get(CopyRow(), nil)
	if err == nil && found && string(v) == ImportMark {
		return fmt.Errorf("%w: an import has ended early, or is under way: run `redoubt import` again, it begins anew", ErrUnfinished)
	}
	if err == nil && found {
		err = fmt.Errorf("%w: run the same `redoubt copy` again, it goes on where it ended", ErrUnfinished)
	}
	return err
}

// Copied reports whether a row is data, which a copy includes. Other rows belong to a store
// and its processes: the watermarks of ids, which the copy sets by what it has copied,
// and what the front ends of a shared store write.
func Copied(row []byte) bool {
	if len(row) < 2 || row[0] != system {
		return true
	}
	switch row[1] {
	case sysWatermark, sysCatalog, sysMember, sysSecret, sysCopy, sysRole, sysPosition:
		return false
	}
	return true
}

// Used reports whether a row shows that a store has data. The databases' numbers, say,
// exist as soon as a server has opened the store.
func Used(row []byte) bool {
	if len(row) < 2 || row[0] != system {
		return true
	}
	switch row[1] {
	case sysDatabase, sysNextKS, sysFormat:
		return false
	}
	return Copied(row)
}

// SystemRows returns the range of system rows below sysCatalog, which a copy writes
// anew; it has no rows that belong to a shared store alone.
func SystemRows() (lo, hi []byte) { return sysKey(sysDatabase), sysKey(sysCatalog) }

// Readable returns an error unless a store has data in the format version of this
// program.
func Readable(r engine.Reader) error {
	if err := CopyFinished(r); err != nil {
		return err
	}
	v, found, err := r.Get(sysKey(sysFormat), nil)
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("there is no data in it")
	case len(v) != 4 || binary.BigEndian.Uint32(v) != FormatVersion:
		return fmt.Errorf("%w: its rows have version %x and this program knows version %d", engine.ErrFormat, v, FormatVersion)
	}
	return nil
}

// sorts are the names of sorts of rows, by SortOf.
var sorts = [...]string{"other", "meta", "sub", "score", "rank", "expire", "garbage", "system"}

// Sorts is how many sorts of rows there are.
const Sorts = len(sorts)

// SortOf returns the sort of a row, below Sorts.
func SortOf(row []byte) int {
	switch {
	case len(row) > 0 && row[0] == system:
		return Sorts - 1
	case len(row) > 2 && row[2] <= kindGarbage:
		return int(row[2])
	}
	return 0
}

// SortName returns the name of a sort of rows.
func SortName(sort int) string { return sorts[sort] }

// Census is what rows add up to.
type Census struct {
	Spaces map[uint32]Keys // by keyspace number
	MaxID  uint64          // the largest id that a row has or names
}

// Keys are how many keys a keyspace has, and how many of them have an expiry.
type Keys struct{ All, Volatile int64 }

// Add counts a row.
func (c *Census) Add(row, value []byte) {
	switch sort := SortOf(row); {
	case sort == kindMeta && len(row) >= metaKeyHead:
		if c.Spaces == nil {
			c.Spaces = make(map[uint32]Keys)
		}
		ks := binary.BigEndian.Uint32(row[3:])
		n := c.Spaces[ks]
		n.All++
		if len(value) >= metaHead && binary.BigEndian.Uint64(value[1:]) != 0 {
			n.Volatile++
		}
		c.Spaces[ks] = n
		if m, err := decodeMeta(value); err == nil && m.External() {
			c.MaxID = max(c.MaxID, m.Ref().ID)
		}
	case sort >= kindSub && sort <= kindRank && len(row) >= partHead:
		c.MaxID = max(c.MaxID, binary.BigEndian.Uint64(row[3:]))
	case sort == kindGarbage && len(row) >= partHead: // the id is last
		c.MaxID = max(c.MaxID, binary.BigEndian.Uint64(row[len(row)-8:]))
	}
}

// Join adds the counts of another Census.
func (c *Census) Join(d *Census) {
	if c.Spaces == nil {
		c.Spaces = make(map[uint32]Keys)
	}
	for ks, n := range d.Spaces {
		sum := c.Spaces[ks]
		c.Spaces[ks] = Keys{sum.All + n.All, sum.Volatile + n.Volatile}
	}
	c.MaxID = max(c.MaxID, d.MaxID)
}

// Counters yields what the engine's counters should be.
func (c *Census) Counters(yield func(name []byte, sum int64) bool) {
	for ks, n := range c.Spaces {
		if !yield(appendSysKey32(nil, sysKeys, ks), n.All) || !yield(appendSysKey32(nil, sysVolatile, ks), n.Volatile) {
			return
		}
	}
}

// Watermark returns the largest watermark of ids that a store has.
func Watermark(r engine.Reader) (uint64, error) { return loadWatermark(r) }

// RaiseWatermark puts a watermark into a batch: new ids will be above it.
func RaiseWatermark(b *engine.Batch, mark uint64) {
	b.Put(appendSysKey64(nil, sysWatermark, mark), nil)
}

// EachGarbage calls visit with each garbage row and the ranges of the rows of the value that
// it names.
func EachGarbage(r engine.Reader, visit func(row []byte, ranges [][2][]byte) error) error {
	for group := range Groups {
		slot := group * expireGroup
		lo := []byte{byte(slot >> 8), byte(slot), kindGarbage}
		it := r.Iter(lo, successor(lo), false)
		var err error
		for err == nil && it.Next() {
			row := it.Key() // group:2 06 home:2 id:8
			if len(row) != 3+2+8 {
				continue
			}
			home, id := binary.BigEndian.Uint16(row[3:]), binary.BigEndian.Uint64(row[5:])
			var ranges [][2][]byte
			for kind := byte(kindSub); kind <= kindRank; kind++ {
				from := appendPart(nil, home, kind, id)
				ranges = append(ranges, [2][]byte{from, successor(from)})
			}
			err = visit(row, ranges)
		}
		if err = errors.Join(err, it.Close()); err != nil {
			return err
		}
	}
	return nil
}

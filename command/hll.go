package command

import (
	"redoubt/keyspace"
	"redoubt/types/hll"
)

// HyperLogLogCommands are the commands that estimate the number of distinct elements.
var HyperLogLogCommands = []*Command{pfadd, pfcount, pfmerge, pfdebug, pfselftest}

// Errors of HyperLogLogs.
const (
	ErrNotHLL     = Error("WRONGTYPE Key is not a valid HyperLogLog string value.")
	ErrCorruptHLL = Error("INVALIDOBJ Corrupted HLL object detected")
	errNoHLL      = Error("ERR The specified key does not exist")
	errNotSparse  = Error("ERR HLL encoding is not sparse")
)

// hllError maps the type's errors to their texts.
func hllError(err error) error {
	switch err {
	case hll.ErrNotHLL:
		return ErrNotHLL
	case hll.ErrCorrupt:
		return ErrCorruptHLL
	}
	return err
}

var pfadd = &Command{
	Name: "pfadd", Group: HyperLogLog, Since: "2.8.9", Arity: -2,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key [element...]",
	Summary:    "Adds elements to a HyperLogLog and tells whether its estimate may have changed.",
	Complexity: "O(1) for each element",
	Run: func(c *Ctx) error {
		v, err := hll.Find(c.Tx, c.Args[1])
		if err != nil {
			return hllError(err)
		}
		changes := 0
		if !v.Exists() {
			v.Bytes = hll.New()
			changes++
		}
		for _, element := range c.Args[2:] {
			changed, err := v.Add(element, c.Limits.HyperLogLog)
			if err != nil {
				return hllError(err)
			}
			if changed {
				changes++
			}
		}
		if changes > 0 {
			v.Own()
			hll.Invalidate(v.Bytes)
			v.Store()
			c.Tx.Changed(keyspace.StringEv, "pfadd", c.Args[1])
			c.Tx.FX.Changes += changes - 1
		} else if !v.Raw() {
			v.Store()
		}
		c.Reply.Int(bit(changes > 0))
		return nil
	},
}

// pfcount reads, but stores the estimate of a single key with the key. So the executor treats it
// as a write (MayReplicate), and clients see a read.
var pfcount = &Command{
	Name: "pfcount", Group: HyperLogLog, Since: "2.8.9", Arity: -2,
	Flags: ReadOnly | MayReplicate, Keys: KeyRange(1, -1, 1, RW|Access),
	ReadsOnly:  func(args [][]byte) bool { return len(args) > 2 },
	Syntax:     "key...",
	Summary:    "Estimates how many different elements were added to one or several HyperLogLogs.",
	Complexity: "O(1) for one key whose estimate is kept, else O(N) where N is the number of keys",
	Run: func(c *Ctx) error {
		if len(c.Args) > 2 {
			return c.countUnion()
		}
		v, err := hll.Read(c.Tx, c.Args[1])
		if err != nil {
			return hllError(err)
		}
		if !v.Exists() {
			c.Reply.Int(0)
			return nil
		}
		n, known := hll.Cached(v.Bytes)
		if !known {
			if n, err = hll.Count(v.Bytes); err != nil {
				return hllError(err)
			}
			if c.Tx.Writable {
				v.Own()
				hll.SetCached(v.Bytes, n)
				c.Tx.FX.Changes++
			}
		}
		if c.Tx.Writable && (!known || !v.Raw()) {
			v.Store()
		}
		c.Reply.Int(int64(n))
		return nil
	},
}

// countUnion estimates the number of elements of the union of all keys.
func (c *Ctx) countUnion() error {
	var all hll.Registers
	if _, err := c.mergeHLLs(&all, c.Args[1:]); err != nil {
		return err
	}
	c.Reply.Int(int64(all.Count()))
	return nil
}

// mergeHLLs merges the registers of some keys, and reports whether one of them is dense.
func (c *Ctx) mergeHLLs(all *hll.Registers, keys [][]byte) (dense bool, err error) {
	for _, key := range keys {
		held := c.Tx.Held()
		v, err := hll.Read(c.Tx, key)
		if err != nil {
			return false, hllError(err)
		}
		if !v.Exists() {
			continue
		}
		if err := all.Merge(v.Bytes); err != nil {
			return false, hllError(err)
		}
		dense = dense || hll.Dense(v.Bytes)
		c.Tx.Release(held)
	}
	return dense, nil
}

// pfmerge: the key that is written is one of those that are read.
var pfmerge = &Command{
	Name: "pfmerge", Group: HyperLogLog, Since: "2.8.9", Arity: -2,
	Flags:      Write | DenyOOM,
	Keys:       append(OneKey(1, RW|Access|Insert), KeyRange(2, -1, 1, RO|Access)...),
	Syntax:     "destkey:key [sourcekey:key...]",
	Summary:    "Adds what is in some HyperLogLogs to another one.",
	Complexity: "O(N) where N is the number of keys",
	Run: func(c *Ctx) error {
		var all hll.Registers
		dense, err := c.mergeHLLs(&all, c.Args[1:])
		if err != nil {
			return err
		}
		v, err := hll.Find(c.Tx, c.Args[1])
		if err != nil {
			return hllError(err)
		}
		if !v.Exists() {
			v.Bytes = hll.New()
		}
		v.Own()
		if dense && !hll.Dense(v.Bytes) {
			if v.Bytes, err = hll.ToDense(v.Bytes); err != nil {
				return hllError(err)
			}
		}
		if v.Bytes, err = hll.Raise(v.Bytes, &all, c.Limits.HyperLogLog); err != nil {
			return hllError(err)
		}
		hll.Invalidate(v.Bytes)
		v.Store()
		c.Tx.Changed(keyspace.StringEv, "pfadd", c.Args[1])
		c.Reply.OK()
		return nil
	},
}

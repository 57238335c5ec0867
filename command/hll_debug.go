package command

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"redoubt/types/hll"
)

// pfdebug shows the inside of a HyperLogLog, for tests.
var pfdebug = &Command{
	Name: "pfdebug", Group: HyperLogLog, Since: "2.8.9", Arity: 3,
	Flags: Write | DenyOOM | Admin | SysCmd, Keys: OneKey(2, RW|Access),
	Syntax:     "subcommand key",
	Summary:    "Shows the inside of a HyperLogLog, for those who test it.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		v, err := hll.Find(c.Tx, c.Args[2])
		if err != nil {
			return hllError(err)
		}
		if !v.Exists() {
			return errNoHLL
		}
		converted := false
		toDense := func() error {
			if hll.Dense(v.Bytes) {
				return nil
			}
			if v.Bytes, err = hll.ToDense(v.Bytes); err != nil {
				return hllError(err)
			}
			converted = true
			c.Tx.FX.Changes++
			return nil
		}
		switch sub := c.Args[1]; {
		case isWord(sub, "getreg"):
			if err := toDense(); err != nil {
				return err
			}
			var all hll.Registers
			if err := all.Merge(v.Bytes); err != nil {
				return hllError(err)
			}
			c.Reply.Array(len(all))
			for _, r := range all {
				c.Reply.Int(int64(r))
			}
		case isWord(sub, "decode"):
			if hll.Dense(v.Bytes) {
				return errNotSparse
			}
			c.Reply.Bulk(hll.Describe(v.Bytes))
		case isWord(sub, "encoding"):
			if hll.Dense(v.Bytes) {
				c.Reply.Status("dense")
			} else {
				c.Reply.Status("sparse")
			}
		case isWord(sub, "todense"):
			if err := toDense(); err != nil {
				return err
			}
			c.Reply.Int(bit(converted))
		default:
			return Error(fmt.Sprintf("ERR Unknown PFDEBUG subcommand '%s'", cString(sub)))
		}
		if converted || !v.Raw() {
			v.Store()
		}
		return nil
	},
}

// pfselftest adds a known number of elements, and compares the estimates on the way with that
// number, and the estimates of both encodings with each other.
var pfselftest = &Command{
	Name: "pfselftest", Group: HyperLogLog, Since: "2.8.9", Arity: 1,
	Flags:      Admin | SysCmd | OnWorker,
	Summary:    "Checks that HyperLogLogs count right.",
	Complexity: "O(1), but it takes a while",
	Run: func(c *Ctx) error {
		const most = 1_000_000
		small := hll.New()
		large, err := hll.ToDense(hll.New())
		if err != nil {
			return hllError(err)
		}
		var element [8]byte
		seed := c.Rand().Uint64()
		for n, next := 1, 1; n <= most; n++ {
			binary.LittleEndian.PutUint64(element[:], uint64(n)^seed)
			if small, _, err = hll.Add(small, element[:], c.Limits.HyperLogLog); err != nil {
				return hllError(err)
			}
			if large, _, err = hll.Add(large, element[:], 0); err != nil {
				return hllError(err)
			}
			if n < next {
				continue
			}
			next *= 10
			if err := compareHLLs(c, small, large, n); err != nil {
				return err
			}
		}
		c.Reply.OK()
		return nil
	},
}

func compareHLLs(c *Ctx, small, large []byte, n int) error {
	if int64(n) < c.Limits.HyperLogLog/2 && hll.Dense(small) {
		return Error("ERR TESTFAILED sparse encoding not used")
	}
	a, err := hll.Count(small)
	if err != nil {
		return hllError(err)
	}
	b, err := hll.Count(large)
	if err != nil {
		return hllError(err)
	}
	dense, err := hll.ToDense(small)
	if err != nil || !bytes.Equal(dense[hll.HeadSize:], large[hll.HeadSize:]) || a != b {
		return Error("ERR TESTFAILED dense/sparse disagree")
	}
	// Six times the standard error; a small number may well be off by one.
	allowed := math.Ceil(6 * 1.04 / 128 * float64(n))
	if d := math.Abs(float64(b) - float64(n)); d > max(1, allowed) {
		return Error(fmt.Sprintf("ERR TESTFAILED Too big error. card:%d abserr:%.0f", n, d))
	}
	return nil
}

package command

import (
	"math"

	"redoubt/types/str"
	"redoubt/wire"
)

// lcs needs far less memory than Redis, but refuses the same arguments.
var lcs = &Command{
	Name: "lcs", Group: String, Since: "7.0.0", Arity: -3,
	Flags: ReadOnly, Keys: KeyRange(1, 1, 1, RO|Access),
	Syntax:     "key1:key key2:key#0 [LEN] [IDX] [MINMATCHLEN min-match-len:integer] [WITHMATCHLEN]",
	Summary:    "Finds the longest common subsequence of two strings.",
	Complexity: "O(N*M) where N and M are the lengths of the strings",
	Run: func(c *Ctx) error {
		a, errA := str.Read(c.Tx, c.Args[1])
		b, errB := str.Read(c.Tx, c.Args[2])
		if errA != nil || errB != nil {
			return ErrLCSType
		}
		o, err := parseLCS(c.Args[3:])
		if err != nil {
			return err
		}
		if a.Len() >= math.MaxUint32-1 || b.Len() >= math.MaxUint32-1 {
			return ErrLCSTooLong
		}
		cells := uint64(a.Len()+1) * uint64(b.Len()+1)
		if cells > uint64(c.Limits.MaxBulk)/4 {
			return ErrLCSMemory
		}
		// The rows of bits are computed at 8 bytes for 64 cells, and the walk
		// back looks at each byte.
		if c.Tx.Heavy(int64(cells/8) + a.Len() + b.Len()) {
			return nil
		}
		need := a.Len() + b.Len()
		if !o.len {
			need += int64(cells / 8)
		}
		if !c.Tx.Take(need) {
			return nil
		}
		x := a.AppendRange(c.Tx, nil, 0, a.Len())
		y := b.AppendRange(c.Tx, nil, 0, b.Len())
		if c.Tx.Err() != nil {
			return nil
		}
		switch {
		case o.idx:
			o.replyIndexes(c.Reply, x, y)
		case o.len:
			c.Reply.Int(int64(str.LCSLen(x, y)))
		default:
			c.Reply.Bulk(str.LCS(x, y, nil))
		}
		return nil
	},
}

type lcsOptions struct {
	len, idx, withLen bool
	minLen            int64
}

func parseLCS(args [][]byte) (o lcsOptions, err error) {
	for i := 0; i < len(args); i++ {
		switch {
		case isWord(args[i], "idx"):
			o.idx = true
		case isWord(args[i], "len"):
			o.len = true
		case isWord(args[i], "withmatchlen"):
			o.withLen = true
		case isWord(args[i], "minmatchlen") && i+1 < len(args):
			i++
			if o.minLen, err = integer(args[i]); err != nil {
				return o, err
			}
		default:
			return o, ErrSyntax
		}
	}
	if o.len && o.idx {
		return o, ErrLCSBoth
	}
	return o, nil
}

// replyIndexes writes where the matches are, from the last to the first.
func (o *lcsOptions) replyIndexes(w *wire.Writer, a, b []byte) {
	var matches []str.Match
	n := len(str.LCS(a, b, func(m str.Match) {
		if int64(m.Len()) >= o.minLen {
			matches = append(matches, m)
		}
	}))
	w.Map(2)
	w.BulkString("matches")
	w.Array(len(matches))
	for _, m := range matches {
		if o.withLen {
			w.Array(3)
		} else {
			w.Array(2)
		}
		w.Array(2)
		w.Int(int64(m.AStart))
		w.Int(int64(m.AEnd))
		w.Array(2)
		w.Int(int64(m.BStart))
		w.Int(int64(m.BEnd))
		if o.withLen {
			w.Int(int64(m.Len()))
		}
	}
	w.BulkString("len")
	w.Int(int64(n))
}

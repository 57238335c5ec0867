package command

import (
	"math"

	"redoubt/number"
)

// Commands on whole databases, and the two that wait for replicas.

// dbSize counts keys that are past their time until they are removed, as Redis
// does.
var dbSize = &Command{
	Name: "dbsize", Group: Server, Since: "1.0.0", Arity: 1,
	Flags: ReadOnly | Fast, Categories: CatKeyspace,
	Tips:    []string{"request_policy:all_shards", "response_policy:agg_sum"},
	Summary: "Counts the keys of the selected database.",
	Run: func(c *Ctx) error {
		c.Reply.Int(c.Tx.Size())
		return nil
	},
}

var flushDB = &Command{
	Name: "flushdb", Group: Server, Since: "1.0.0", Arity: -1,
	Flags: Write | Exclusive, Categories: CatKeyspace | CatDangerous,
	Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
	Syntax:  "[ASYNC@4.0.0|SYNC@6.2.0]",
	Summary: "Removes all keys of the selected database.",
	Run:     func(c *Ctx) error { return flush(c, c.Tx.DB, c.Tx.DB+1) },
}

var flushAll = &Command{
	Name: "flushall", Group: Server, Since: "1.0.0", Arity: -1,
	Flags: Write | Exclusive, Categories: CatKeyspace | CatDangerous,
	Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
	Syntax:  "[ASYNC@4.0.0|SYNC@6.2.0]",
	Summary: "Removes all keys of all databases.",
	Run:     func(c *Ctx) error { return flush(c, 0, c.Tx.Space.Databases()) },
}

// flush empties the databases from first up to limit. It takes no time either
// way: the rows are cleared in the background, so SYNC and ASYNC are the same.
func flush(c *Ctx, first, limit int) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !isWord(c.Args[1], "sync") && !isWord(c.Args[1], "async") {
		return ErrSyntax
	}
	selected := c.Tx.DB
	for db := first; db < limit; db++ {
		c.Tx.DB = db
		c.Tx.FX.Changes += int(c.Tx.Size())
		c.Tx.Flush(db)
	}
	c.Tx.DB = selected
	c.Reply.OK()
	return nil
}

var swapDB = &Command{
	Name: "swapdb", Group: Server, Since: "4.0.0", Arity: 3,
	Flags: Write | Fast | Exclusive, Categories: CatKeyspace | CatDangerous,
	Syntax:  "index1:integer index2:integer",
	Summary: "Exchanges the contents of two databases.",
	Run: func(c *Ctx) error {
		a, err := int32Arg(c.Args[1], ErrFirstDB)
		if err != nil {
			return err
		}
		b, err := int32Arg(c.Args[2], ErrSecondDB)
		if err != nil {
			return err
		}
		if n := c.Tx.Space.Databases(); a < 0 || b < 0 || a >= n || b >= n {
			return ErrDBRange
		}
		if a != b {
			c.Tx.Swap(a, b)
		}
		c.Tx.FX.Changes++
		c.Reply.OK()
		return nil
	},
}

// wait answers as a server without replicas does when the time is up, but at
// once: no replica will come to acknowledge anything.
var wait = &Command{
	Name: "wait", Group: Generic, Since: "3.0.0", Arity: 3,
	Categories: CatConnection,
	Tips:       []string{"request_policy:all_shards", "response_policy:agg_min"},
	Syntax:     "numreplicas:integer timeout:integer",
	Summary:    "Counts the replicas that have this connection's writes; there are none.",
	Run: func(c *Ctx) error {
		if _, ok := number.ParseInt(c.Args[1]); !ok {
			return ErrNotInteger
		}
		if err := timeoutMillis(c, c.Args[2]); err != nil {
			return err
		}
		c.Reply.Int(0)
		return nil
	},
}

// waitAOF: every write that was answered is in the journal, so the local copy
// counts as reached.
var waitAOF = &Command{
	Name: "waitaof", Group: Generic, Since: "7.2.0", Arity: 4,
	Flags: NoScript, Categories: CatConnection,
	Tips:    []string{"request_policy:all_shards", "response_policy:agg_min"},
	Syntax:  "numlocal:integer numreplicas:integer timeout:integer",
	Summary: "Tells whether this connection's writes are in the journal, here and on replicas.",
	Run: func(c *Ctx) error {
		local, ok := number.ParseInt(c.Args[1])
		if !ok {
			return ErrNotInteger
		}
		if local < 0 || local > 1 {
			return rangeError(0, 1)
		}
		if n, ok := number.ParseInt(c.Args[2]); !ok || n < 0 {
			return ErrNotPositive
		}
		if err := timeoutMillis(c, c.Args[3]); err != nil {
			return err
		}
		c.Reply.Array(2)
		c.Reply.Int(1)
		c.Reply.Int(0)
		return nil
	},
}

// timeoutMillis checks a timeout given in milliseconds.
func timeoutMillis(c *Ctx, arg []byte) error {
	n, ok := number.ParseInt(arg)
	switch {
	case !ok:
		return ErrTimeout
	case n < 0:
		return ErrTimeoutSign
	case n > math.MaxInt64-c.Tx.Now:
		return ErrTimeoutRange
	}
	return nil
}

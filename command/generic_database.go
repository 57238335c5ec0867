package command

import (
	"math"

	"redoubt/number"
	"redoubt/wire"
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
	Flags: Write | Exclusive | AlwaysPropagates, Categories: CatKeyspace | CatDangerous,
	Tips:    []string{"request_policy:all_shards", "response_policy:all_succeeded"},
	Syntax:  "[ASYNC@4.0.0|SYNC@6.2.0]",
	Summary: "Removes all keys of the selected database.",
	Run:     func(c *Ctx) error { return flush(c, c.Tx.DB, c.Tx.DB+1) },
}

var flushAll = &Command{
	Name: "flushall", Group: Server, Since: "1.0.0", Arity: -1,
	Flags: Write | Exclusive | AlwaysPropagates, Categories: CatKeyspace | CatDangerous,
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

// wait runs on a worker: what the client has written before is committed then, and so in the
// stream.
var wait = &Command{
	Name: "wait", Group: Generic, Since: "3.0.0", Arity: 3,
	Flags: OnWorker | AwaitsAcks, Categories: CatConnection,
	Tips:    []string{"request_policy:all_shards", "response_policy:agg_min"},
	Syntax:  "numreplicas:integer timeout:integer",
	Summary: "Waits until so many replicas have this connection's writes, and counts those that do.",
	Run: func(c *Ctx) error {
		n, ok := number.ParseInt(c.Args[1])
		if !ok {
			return ErrNotInteger
		}
		timeout, err := timeoutMillis(c, c.Args[2])
		if err != nil {
			return err
		}
		return c.awaitAcks(n, timeout, false, (*wire.Writer).Int)
	},
}

// awaitAcks waits until n replicas have everything that was written so far. reply writes how
// many have.
func (c *Ctx) awaitAcks(n, timeout int64, fsynced bool, reply func(w *wire.Writer, n int64)) error {
	replicas := c.Replicas
	if replicas == nil { // and none will come
		reply(c.Reply, 0)
		return nil
	}
	end := replicas.End()
	count := func() int64 { return int64(replicas.Acked(end, fsynced)) }
	if acked := count(); acked >= n || c.NoBlock {
		reply(c.Reply, acked)
		return nil
	}
	return &Block{Timeout: timeout, Acks: &Acks{Offset: end, Replicas: n, Fsynced: fsynced, Reply: func(w *wire.Writer) { reply(w, count()) }}}
}

// waitAOF: every write that was answered is in the journal, so the local copy
// counts as reached.
var waitAOF = &Command{
	Name: "waitaof", Group: Generic, Since: "7.2.0", Arity: 4,
	Flags: NoScript | OnWorker | AwaitsAcks, Categories: CatConnection,
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
		n, ok := number.ParseInt(c.Args[2])
		if !ok || n < 0 {
			return ErrNotPositive
		}
		timeout, err := timeoutMillis(c, c.Args[3])
		if err != nil {
			return err
		}
		return c.awaitAcks(n, timeout, true, func(w *wire.Writer, n int64) {
			w.Array(2)
			w.Int(1)
			w.Int(n)
		})
	},
}

// timeoutMillis reads a timeout given in milliseconds; 0 is for ever.
func timeoutMillis(c *Ctx, arg []byte) (int64, error) {
	n, ok := number.ParseInt(arg)
	switch {
	case !ok:
		return 0, ErrTimeout
	case n < 0:
		return 0, ErrTimeoutSign
	case n > math.MaxInt64-c.Tx.Now:
		return 0, ErrTimeoutRange
	}
	return n, nil
}

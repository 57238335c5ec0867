package command

import (
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
	"redoubt/wire"
)

// bench runs commands one by one over an engine in memory, as an executor
// would, without one.
type bench struct {
	t      testing.TB
	eng    engine.Engine
	space  *keyspace.Space
	table  *Table
	batch  engine.Batch
	fx     keyspace.Effects
	limits Limits
	now    int64
	proto  int
}

// outcome is what a run had for effects.
type outcome struct {
	changes int
	events  []string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{t: t, eng: mem.New(), table: NewTable(All()...), limits: Limits{MaxBulk: 512 << 20}, now: 1_700_000_000_000, proto: 2}
	space, err := keyspace.Open(b.eng, 16)
	if err != nil {
		t.Fatal(err)
	}
	b.space = space
	return b
}

func (b *bench) begin() *keyspace.Tx {
	b.t.Helper()
	view, err := b.eng.Begin(engine.ViewOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	tx := &keyspace.Tx{
		Space: b.space, Rows: engine.Txn{View: view, Batch: &b.batch}, FX: &b.fx,
		Now: b.now, NowMicros: b.now * 1000, Writable: true, Latched: true, Worker: true, OneState: true, Listening: ^keyspace.Class(0),
	}
	tx.Start()
	return tx
}

func (b *bench) commit(tx *keyspace.Tx) (o outcome) {
	b.t.Helper()
	if err := tx.Err(); err != nil {
		b.t.Fatal(err)
	}
	if _, err := tx.Rows.View.Commit(&b.batch); err != nil {
		b.t.Fatal(err)
	}
	tx.Rows.View.Close()
	b.space.Publish(&b.fx)
	o.changes = b.fx.Changes
	for _, e := range b.fx.Events {
		if e.Class != keyspace.ExpiredEv {
			o.events = append(o.events, e.Name+" "+string(e.Key))
		}
	}
	b.batch.Reset()
	b.fx.Reset()
	return o
}

// run runs a command and returns its reply and its effects.
func (b *bench) run(args ...string) ([]byte, outcome) {
	b.t.Helper()
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	c := &Ctx{Args: raw, Limits: &b.limits, Reply: &wire.Writer{Proto: b.proto}}
	if c.Cmd = b.table.Find(raw); c.Cmd == nil {
		b.t.Fatalf("no command %q", args)
	}
	if !c.Cmd.ArityOK(len(args)) {
		c.Reply.Error(Text(ArityError(c.Cmd.FullName)))
		return c.Reply.Buf, outcome{}
	}
	c.Tx = b.begin()
	c.Tx.Writable = c.Cmd.Flags&(Write|MayReplicate) != 0
	mark := c.Tx.Start()
	if err := c.Cmd.Run(c); err != nil {
		c.Tx.Rollback(mark)
		c.Reply.Buf = c.Reply.Buf[:0]
		c.Reply.Error(Text(err))
	}
	return c.Reply.Buf, b.commit(c.Tx)
}

// find returns a key's meta row.
func (b *bench) find(key string) keyspace.Meta {
	b.t.Helper()
	tx := b.begin()
	tx.Writable = false
	m := tx.Find([]byte(key))
	b.commit(tx)
	return m
}

// storeList makes a key something that is no string.
func (b *bench) storeList(key string) {
	b.t.Helper()
	tx := b.begin()
	tx.Store([]byte(key), keyspace.Meta{}, keyspace.Meta{Type: keyspace.List, Body: []byte{0}})
	b.commit(tx)
}

// allocations measures what a call allocates. tx is one that begin returned.
func (b *bench) allocations(tx *keyspace.Tx, call []string) float64 {
	c := &Ctx{Tx: tx, Limits: &b.limits, Reply: &wire.Writer{Proto: 2}}
	for _, a := range call {
		c.Args = append(c.Args, []byte(a))
	}
	c.Cmd = b.table.Find(c.Args)
	return testing.AllocsPerRun(100, func() {
		tx.Start()
		c.Reply.Buf = c.Reply.Buf[:0]
		if err := c.Cmd.Run(c); err != nil {
			b.t.Fatal(err)
		}
		b.batch.Reset()
		b.fx.Reset()
	})
}

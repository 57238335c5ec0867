package str

import (
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
)

// store runs executions over an engine in memory.
type store struct {
	t     testing.TB
	eng   engine.Engine
	space *keyspace.Space
	batch engine.Batch
	fx    keyspace.Effects
	tx    keyspace.Tx
}

func newStore(t testing.TB) *store {
	t.Helper()
	s := &store{t: t, eng: mem.New()}
	space, err := keyspace.Open(s.eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.space = space
	return s
}

// do runs f as one execution and commits it.
func (s *store) do(f func(tx *keyspace.Tx)) {
	s.t.Helper()
	s.begin()
	f(&s.tx)
	s.end()
}

func (s *store) begin() {
	s.t.Helper()
	view, err := s.eng.Begin(engine.ViewOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.tx = keyspace.Tx{
		Space: s.space, Rows: engine.Txn{View: view, Batch: &s.batch}, FX: &s.fx,
		Now: 1_700_000_000_000, NowMicros: 1_700_000_000_000_000,
		Writable: true, Latched: true, Worker: true, Listening: ^keyspace.Class(0),
	}
	s.tx.Start()
}

func (s *store) end() {
	s.t.Helper()
	if err := s.tx.Err(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.tx.Rows.View.Commit(&s.batch); err != nil {
		s.t.Fatal(err)
	}
	s.space.Publish(&s.fx)
	s.batch.Reset()
	s.fx.Reset()
	s.tx.Rows.View.Close()
}

// rows counts the rows of all kinds but meta and system rows.
func (s *store) rows() (n int) {
	s.t.Helper()
	snap, err := s.eng.Snapshot()
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := snap.Close(); err != nil {
			s.t.Fatal(err)
		}
	}()
	it := snap.Iter(nil, []byte{0xff}, false)
	for it.Next() {
		if k := it.Key(); k[2] == 2 {
			n++
			if v := it.Value(); len(v) == 0 || v[len(v)-1] == 0 {
				s.t.Fatalf("chunk % x ends with zeros", k)
			}
		}
	}
	if err := it.Close(); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// small makes the limits small for one test, which must not be parallel.
func small(t *testing.T, inline, chunk int64) {
	i, e, c := inlineMax, editMax, chunkSize
	inlineMax, editMax, chunkSize = inline, inline/2, chunk
	t.Cleanup(func() { inlineMax, editMax, chunkSize = i, e, c })
}

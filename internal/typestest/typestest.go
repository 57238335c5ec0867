// Package typestest runs executions over an engine in memory, for the tests of
// the types.
package typestest

import (
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
)

// Store is an empty database and a clock that stands still.
type Store struct {
	Now   int64 // Unix milliseconds; tests may set it
	FX    keyspace.Effects
	Space *keyspace.Space
	Eng   engine.Engine

	t     testing.TB
	batch engine.Batch
	tx    keyspace.Tx
}

// New makes a store.
func New(t testing.TB) *Store {
	t.Helper()
	s := &Store{t: t, Eng: mem.New(), Now: 1_700_000_000_000}
	space, err := keyspace.Open(s.Eng, 2)
	if err != nil {
		t.Fatal(err)
	}
	s.Space = space
	return s
}

// Do runs f as one execution that may write, and commits it. FX holds the effects
// until the next call.
func (s *Store) Do(f func(tx *keyspace.Tx)) {
	s.t.Helper()
	if err := s.Try(f); err != nil {
		s.t.Fatal(err)
	}
}

// Try is Do that returns the failure of the execution, which is then undone.
func (s *Store) Try(f func(tx *keyspace.Tx)) error {
	s.t.Helper()
	view, err := s.Eng.Begin(true)
	if err != nil {
		s.t.Fatal(err)
	}
	defer view.Close()
	s.batch.Reset()
	s.FX.Reset()
	s.tx = keyspace.Tx{
		Space: s.Space, Rows: engine.Txn{View: view, Batch: &s.batch}, FX: &s.FX,
		Now: s.Now, NowMicros: s.Now * 1000,
		Writable: true, Latched: true, Worker: true, Listening: ^keyspace.Class(0),
	}
	s.tx.Start()
	f(&s.tx)
	if err := s.tx.Err(); err != nil {
		return err
	}
	if _, err := view.Commit(&s.batch); err != nil {
		s.t.Fatal(err)
	}
	s.Space.Publish(&s.FX)
	return nil
}

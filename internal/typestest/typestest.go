// Package typestest runs executions over an engine, for the tests of the types and of
// packages that work on whole stores.
package typestest

import (
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
)

// Store is a store and a clock that stands still.
type Store struct {
	Now   int64 // Unix milliseconds; tests may set it
	DB    int   // the database of executions
	FX    keyspace.Effects
	Space *keyspace.Space
	Eng   engine.Engine

	t     testing.TB
	batch engine.Batch
	tx    keyspace.Tx
}

// SomeTime is the time of the clock: 2023-11-14 22:13:20 UTC, in milliseconds.
const SomeTime = 1_700_000_000_000

// New makes an empty store in memory, with two databases.
func New(t testing.TB) *Store {
	t.Helper()
	return On(t, mem.New(), 2)
}

// On opens the store of an engine.
func On(t testing.TB, eng engine.Engine, databases int) *Store {
	t.Helper()
	s := &Store{t: t, Eng: eng, Now: SomeTime}
	space, err := keyspace.Open(s.Eng, databases)
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

// DoIn is Do in a database.
func (s *Store) DoIn(db int, f func(tx *keyspace.Tx)) {
	s.t.Helper()
	was := s.DB
	defer func() { s.DB = was }()
	s.DB = db
	s.Do(f)
}

// Try is Do that returns the failure of the execution, which is then undone.
func (s *Store) Try(f func(tx *keyspace.Tx)) error {
	s.t.Helper()
	view, err := s.Eng.Begin(engine.ViewOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer view.Close()
	s.batch.Reset()
	s.batch.GroupBy(keyspace.RowGroup)
	s.FX.Reset()
	s.tx = keyspace.Tx{
		Space: s.Space, Rows: engine.Txn{View: view, Batch: &s.batch}, FX: &s.FX, DB: s.DB,
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

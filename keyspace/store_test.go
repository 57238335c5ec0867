package keyspace

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

// store is a keyspace over an engine in memory with a clock of its own.
type testStore struct {
	t     testing.TB
	eng   engine.Engine
	space *Space
	now   int64 // Unix milliseconds

	view  engine.View
	batch engine.Batch
	fx    Effects
	tx    Tx
}

const testDatabases = 4

// testNow is 2023-11-14 22:13:20 UTC.
const testNow = 1_700_000_000_000

// cheap is an engine that says that its range deletes are cheap.
type cheap struct{ engine.Engine }

func (c cheap) Capabilities() engine.Capabilities {
	caps := c.Engine.Capabilities()
	caps.CheapRangeDelete = true
	return caps
}

func newTestStore(t testing.TB) *testStore { return openStore(t, mem.New()) }

func openStore(t testing.TB, eng engine.Engine) *testStore {
	t.Helper()
	space, err := Open(eng, testDatabases)
	if err != nil {
		t.Fatal(err)
	}
	return &testStore{t: t, eng: eng, space: space, now: testNow}
}

// begin opens a batch; run does executions in it; commit ends it.
func (s *testStore) begin() {
	s.t.Helper()
	view, err := s.eng.Begin(engine.ViewOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.view = view
	s.batch.Reset()
	s.fx.Reset()
	s.tx = Tx{
		Space: s.space, Rows: engine.Txn{View: view, Batch: &s.batch}, FX: &s.fx,
		Writable: true, Latched: true, Worker: true, Listening: ^Class(0),
	}
}

// exec runs f as one execution of the open batch, in a database.
func (s *testStore) exec(db int, f func(*Tx)) TxMark {
	s.t.Helper()
	mark := s.tx.Start()
	s.tx.DB, s.tx.Now, s.tx.NowMicros = db, s.now, s.now*1000
	f(&s.tx)
	if err := s.tx.Err(); err != nil {
		s.t.Fatal(err)
	}
	return mark
}

func (s *testStore) commit() {
	s.t.Helper()
	if _, err := s.view.Commit(&s.batch); err != nil {
		s.t.Fatal(err)
	}
	s.space.Publish(&s.fx)
	s.view.Close()
}

// do runs f as the only execution of a batch.
func (s *testStore) do(db int, f func(*Tx)) {
	s.t.Helper()
	s.begin()
	s.exec(db, f)
	s.commit()
}

// set stores a plain string.
func (s *testStore) set(db int, key, value string, expire int64) {
	s.t.Helper()
	s.do(db, func(tx *Tx) { put(tx, key, value, expire) })
}

func put(tx *Tx, key, value string, expire int64) {
	k := []byte(key)
	tx.Store(k, tx.Find(k), Meta{Type: String, Encoding: Raw, Expire: expire, Body: []byte(value)})
}

// putExternal stores a value of n rows of its own, which hold its name.
func putExternal(tx *Tx, key string, n int, expire int64) {
	k := []byte(key)
	old := tx.Find(k)
	ref := tx.NewRef(k, int64(n))
	for i := range n {
		tx.PutRow(binary.BigEndian.AppendUint32(AppendRowKey(nil, ref, SubRow), uint32(i)), fmt.Appendf(nil, "%s/%d", key, i))
	}
	tx.Store(k, old, Meta{Type: String, Encoding: Chunked, Expire: expire, Body: append(AppendRef(nil, ref), "tail"...)})
}

// external reads back what putExternal stored.
func external(tx *Tx, m Meta) (rows []string) {
	lo := AppendRowKey(nil, m.Ref(), SubRow)
	it := tx.IterRows(lo, successor(lo), false)
	for it.Next() {
		rows = append(rows, string(it.Value()))
	}
	tx.CloseRows(it)
	return rows
}

// get returns a string's bytes, or "(none)".
func (s *testStore) get(db int, key string) (value string) {
	s.t.Helper()
	s.begin()
	defer s.view.Close()
	s.tx.Writable = false
	s.exec(db, func(tx *Tx) {
		m := tx.Find([]byte(key))
		if value = string(m.Body); !m.Exists() {
			value = "(none)"
		}
	})
	return value
}

// rows counts the rows of each kind; system rows count as kind 0xff.
func (s *testStore) rows() map[byte]int {
	s.t.Helper()
	n := make(map[byte]int)
	s.eachRow(func(k, _ []byte) {
		if k[0] == system {
			n[system]++
		} else {
			n[k[2]]++
		}
	})
	return n
}

func (s *testStore) eachRow(visit func(key, value []byte)) {
	s.t.Helper()
	snap, err := s.eng.Snapshot()
	if err != nil {
		s.t.Fatal(err)
	}
	defer snap.Close()
	it := snap.Iter(nil, nil, false)
	for it.Next() {
		visit(it.Key(), it.Value())
	}
	if err := it.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// sweep expires every key that is due.
func (s *testStore) sweep() (removed int) {
	s.t.Helper()
	for group := range Groups {
		for {
			s.begin()
			list, err := s.space.Due(s.view, group, s.now, 3)
			if err != nil {
				s.t.Fatal(err)
			}
			s.exec(0, func(tx *Tx) {
				for _, d := range list {
					tx.Expire(d)
				}
			})
			removed += s.fx.Expired
			s.commit()
			if len(list) == 0 {
				break
			}
		}
	}
	return removed
}

// clear does all the background clearing.
func (s *testStore) clear(limit int) {
	s.t.Helper()
	var c Clearing
	for more, steps := true, 0; more; steps++ {
		s.do(0, func(tx *Tx) { more = tx.Clear(&c, limit) })
		if steps > 1_000_000 {
			s.t.Fatal("clearing does not end")
		}
	}
}

func (s *testStore) count(db int) (keys, volatile int64) {
	s.t.Helper()
	keys, volatile, err := s.space.Count(db)
	if err != nil {
		s.t.Fatal(err)
	}
	return keys, volatile
}

// seeded returns random numbers and logs how to get the same ones again.
func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

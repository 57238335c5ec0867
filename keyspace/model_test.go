package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

// The model test runs random operations on a keyspace and on plain maps, and
// compares: what keys hold, how many there are, and in the end every row of the
// engine, so that nothing is lost and nothing is left over.

type modelKey struct {
	rows   int // of its own; 0: a plain string
	origin string
	expire int64
}

type model struct {
	s   *testStore
	rng *rand.Rand
	dbs [testDatabases]map[string]modelKey
}

func TestRandomOperationsAgainstAModel(t *testing.T) {
	t.Parallel()
	for _, eng := range []engine.Engine{mem.New(), cheap{mem.New()}} {
		m := &model{s: openStore(t, eng), rng: seeded(t)}
		for db := range m.dbs {
			m.dbs[db] = make(map[string]modelKey)
		}
		for range 1500 {
			m.batch()
		}
		m.finish()
	}
}

// batch runs a few operations in one batch; some are rolled back.
func (m *model) batch() {
	s := m.s
	s.begin()
	for range 1 + m.rng.IntN(4) {
		db := m.rng.IntN(testDatabases)
		before := m.clone()
		mark := s.exec(db, func(tx *Tx) { m.operation(tx, db) })
		if m.rng.IntN(5) == 0 {
			s.tx.Rollback(mark)
			m.dbs = before
		}
		s.exec(db, func(tx *Tx) {
			equal(s.t, "size inside the batch", tx.Size(), len(m.dbs[db]))
		})
	}
	s.commit()
	for db := range m.dbs {
		keys, volatile := s.count(db)
		want := 0
		for _, k := range m.dbs[db] {
			if k.expire != 0 {
				want++
			}
		}
		equal(s.t, "counts", []int64{keys, volatile}, []int{len(m.dbs[db]), want})
	}
	switch m.rng.IntN(20) {
	case 0:
		s.now += m.rng.Int64N(50)
	case 1:
		s.sweep()
		m.expire()
	case 2:
		var c Clearing
		s.do(0, func(tx *Tx) { tx.Clear(&c, 1+m.rng.IntN(20)) })
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
}

func (m *model) clone() (c [testDatabases]map[string]modelKey) {
	for db := range m.dbs {
		c[db] = make(map[string]modelKey)
		for k, v := range m.dbs[db] {
			c[db][k] = v
		}
	}
	return c
}

// find is Tx.Find for both sides: a key past its time is removed by it.
func (m *model) find(tx *Tx, db int, key string) (Meta, modelKey) {
	tx.DB = db
	got := tx.Find([]byte(key))
	want, ok := m.dbs[db][key]
	if ok && want.expire != 0 && want.expire <= m.s.now {
		delete(m.dbs[db], key)
		ok = false
	}
	switch {
	case got.Exists() != ok:
		m.s.t.Errorf("%q in %d: exists %v, want %v", key, db, got.Exists(), ok)
	case !ok:
		want = modelKey{}
	case got.Expire != want.expire || got.External() != (want.rows > 0):
		m.s.t.Errorf("%q in %d: %+v, want %+v", key, db, got, want)
	case want.rows > 0:
		list := external(tx, got)
		for i, v := range list {
			equal(m.s.t, "row", v, fmt.Sprintf("%s/%d", want.origin, i))
		}
		equal(m.s.t, "rows", len(list), want.rows)
	}
	return got, want
}

func (m *model) operation(tx *Tx, db int) {
	name := func() string {
		if m.rng.IntN(3) == 0 {
			return fmt.Sprintf("{tag}%d", m.rng.IntN(8))
		}
		return fmt.Sprint("key", m.rng.IntN(16))
	}
	expiry := func() int64 { return []int64{0, m.s.now + 1 + m.rng.Int64N(60)}[m.rng.IntN(2)] }
	key, other, db2 := name(), name(), m.rng.IntN(testDatabases)
	switch m.rng.IntN(12) {
	case 0, 1, 2:
		m.find(tx, db, key)
		at := expiry()
		put(tx, key, key, at)
		m.dbs[db][key] = modelKey{expire: at, origin: key}
	case 3, 4:
		m.find(tx, db, key)
		at, n := expiry(), 1+m.rng.IntN(5)
		putExternal(tx, key, n, at)
		m.dbs[db][key] = modelKey{rows: n, expire: at, origin: key}
	case 5, 6:
		if got, _ := m.find(tx, db, key); got.Exists() {
			tx.Remove([]byte(key), got)
			delete(m.dbs[db], key)
		}
	case 7: // rename or move
		got, want := m.find(tx, db, key)
		old, _ := m.find(tx, db2, other)
		if got.Exists() && (key != other || db != db2) {
			tx.DB = db
			tx.Detach([]byte(key), got)
			delete(m.dbs[db], key)
			tx.DB = db2
			if old.Exists() {
				tx.Remove([]byte(other), old)
			}
			tx.Store([]byte(other), Meta{}, got)
			m.dbs[db2][other] = want
		}
	case 8: // copy over what is there
		got, want := m.find(tx, db, key)
		old, _ := m.find(tx, db2, other)
		if got.Exists() && (key != other || db != db2) {
			tx.DB = db2
			tx.Store([]byte(other), old, tx.Duplicate([]byte(other), got))
			m.dbs[db2][other] = want
		}
	case 9: // another expiry
		if got, want := m.find(tx, db, key); got.Exists() {
			n := got
			n.Expire = expiry()
			want.expire = n.Expire
			tx.Store([]byte(key), got, n)
			m.dbs[db][key] = want
		}
	case 10:
		if m.rng.IntN(10) == 0 {
			tx.Flush(db)
			m.dbs[db] = make(map[string]modelKey)
		}
	case 11:
		tx.Swap(db, db2)
		m.dbs[db], m.dbs[db2] = m.dbs[db2], m.dbs[db]
	}
}

// expire is what a sweep does to the model.
func (m *model) expire() {
	for db := range m.dbs {
		for k, v := range m.dbs[db] {
			if v.expire != 0 && v.expire <= m.s.now {
				delete(m.dbs[db], k)
			}
		}
	}
}

// finish sweeps and clears, and then looks at every row.
func (m *model) finish() {
	s := m.s
	s.sweep()
	m.expire()
	s.clear(7)
	want := make(map[byte]int)
	for db := range m.dbs {
		var names, got []string
		for k, v := range m.dbs[db] {
			names = append(names, k)
			want[kindMeta]++
			want[kindSub] += v.rows
			if v.expire != 0 {
				want[kindExpire]++
			}
		}
		s.do(db, func(tx *Tx) {
			tx.Walk(0, nil, func(slot uint16, key []byte, meta Meta) bool {
				equal(s.t, "slot", slot, SlotOf(key))
				got = append(got, string(key))
				return true
			})
			for _, k := range names {
				m.find(tx, db, k)
			}
		})
		slices.Sort(names)
		slices.Sort(got)
		equal(s.t, "names", got, names)
	}
	rows := s.rows()
	for kind := byte(kindMeta); kind <= kindGarbage; kind++ {
		equal(s.t, fmt.Sprintf("rows of kind %d", kind), rows[kind], want[kind])
	}
	s.eachRow(func(k, _ []byte) {
		if k[0] == system && k[1] == sysDead {
			s.t.Errorf("keyspace % x was not cleared", k)
		}
	})
}

package keyspace

import (
	"fmt"

	"redoubt/engine"
)

// Counting keys exactly. The counters of an engine of one process are exact, and a
// recount verifies them. Those of a shared store are sums that each process keeps in
// memory and stores periodically, so what a process had not stored when it was
// killed is lost: a recount finds the difference and adds it.

// Recount is a count of the keys of one database.
type Recount struct {
	ks   uint32
	snap engine.Snapshot
	was  [2]int64 // the counters at the moment of the snapshot
	// Keys and Volatile are how many keys there were at that moment, and how many of
	// them with an expiry. Like the counters they include expired keys that are not
	// removed yet.
	Keys, Volatile int64
}

// BeginRecount fixes the moment of a count. No commit of this process may be under
// way: the whole keyspace is latched. The caller must call End.
func (s *Space) BeginRecount(db int) (*Recount, error) {
	snap, err := s.eng.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("count keys: %w", err)
	}
	r := &Recount{ks: s.dbs[db].Load(), snap: snap}
	r.was, err = s.sums(r.ks)
	if err != nil {
		r.End()
		return nil, err
	}
	return r, nil
}

// End releases the snapshot of the count.
func (r *Recount) End() error { return r.snap.Close() }

func (s *Space) sums(ks uint32) (sums [2]int64, err error) {
	for i, what := range []byte{sysKeys, sysVolatile} {
		if sums[i], err = s.eng.Counter(appendSysKey32(nil, what, ks)); err != nil {
			return sums, fmt.Errorf("count keys: %w", err)
		}
	}
	return sums, nil
}

// CountAll counts the keys of r's database. It may take long, and ends early if stop reports true.
func (s *Space) CountAll(r *Recount, stop func() bool) error {
	t := Tx{
		Space: s, FX: &Effects{}, Latched: true, Worker: true, OneState: true,
		Rows:    engine.Txn{View: engine.FrozenView{Snapshot: r.snap}, Batch: &engine.Batch{}},
		Numbers: []uint32{r.ks}, // Now is 0: no key is dead
	}
	r.Keys, r.Volatile = 0, 0
	t.Walk(0, nil, func(_ uint16, _ []byte, m Meta) bool {
		r.Keys++
		if m.Expire != 0 {
			r.Volatile++
		}
		return r.Keys%4096 != 0 || !stop()
	})
	if t.err != nil {
		return fmt.Errorf("count keys: %w", t.err)
	}
	return nil
}

// Correct adds to the counters what they are wrong by, and returns it.
//
// On an engine of one process the result is exact. On a shared one the counters move
// while others write, and keys written in the last seconds may be counted and not
// be in the counters yet. So nothing is added if the count lies between the
// counters of now and those at its moment; else its distance to the nearer one.
// Under load the result may still be wrong by what others write in a second or
// two; a recount in quiet times is exact.
func (t *Tx) Correct(r *Recount) (keys, volatile int64) {
	now := r.was
	if !t.Space.store.exact() {
		var err error
		if now, err = t.Space.sums(r.ks); err != nil {
			t.Fail(err)
		}
	}
	keys, volatile = beyond(r.Keys, r.was[0], now[0]), beyond(r.Volatile, r.was[1], now[1])
	if !t.writable() {
		return 0, 0
	}
	if keys != 0 {
		t.count(sysKeys, r.ks, keys)
	}
	if volatile != 0 {
		t.count(sysVolatile, r.ks, volatile)
	}
	return keys, volatile
}

// beyond returns how far n lies above both a and b, or below both; 0 if between them.
func beyond(n, a, b int64) int64 {
	return n - min(max(n, min(a, b)), max(a, b))
}

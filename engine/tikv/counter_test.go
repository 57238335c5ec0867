package tikv

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"redoubt/engine"
	"redoubt/engine/sums"
)

func TestSums(t *testing.T) {
	t.Parallel()
	for _, s := range []sums.Sums{{}, {"": 1}, {"a": -1, "b": 1 << 62, "long key \x00": -1 << 62}} {
		got, err := sums.Decode(s.Encode())
		if err != nil || !maps.Equal(got, s) {
			t.Errorf("%v became %v, %v", s, got, err)
		}
		if b := s.Encode(); len(b) > 0 {
			if _, err := sums.Decode(b[:len(b)-1]); !errors.Is(err, engine.ErrCorrupt) {
				t.Errorf("%v without its last byte: %v", s, err)
			}
		}
	}
	for _, b := range []string{"\xff", "\x05ab", "\x01a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := sums.Decode([]byte(b)); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
	}
	if got := (sums.Sums{"a": 1}).Plus(sums.Sums{"a": 1, "b": 2}, -1); !maps.Equal(got, sums.Sums{"b": -2}) {
		t.Errorf("plus: %v", got)
	}
}

// stored are all rows of counters.
func stored(t *testing.T, e *Engine) map[uint64]counterRow {
	t.Helper()
	var all map[uint64]counterRow
	err := e.counterTxn(context.Background(), func(_ *transaction.KVTxn, rows map[uint64]counterRow) error {
		all = rows
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func addTo(t *testing.T, e *Engine, delta int64) {
	t.Helper()
	var b engine.Batch
	b.Add([]byte("n"), delta)
	v, _ := e.Begin(engine.ViewOptions{})
	defer v.Close()
	if _, err := v.Commit(&b); err != nil {
		t.Fatal(err)
	}
}

func count(e *Engine) int64 {
	n, _ := e.Counter([]byte("n"))
	return n
}

// age makes the row of a process old, as if it had stored nothing for a while.
func age(t *testing.T, e *Engine, id uint64, by time.Duration) {
	t.Helper()
	err := e.counterTxn(context.Background(), func(tx *transaction.KVTxn, rows map[uint64]counterRow) error {
		at := oracle.GoTimeToTS(oracle.GetTimeFromTS(tx.StartTS()).Add(-by))
		return tx.Set(e.counterKey(id), appendValue(nil, rows[id].sums.Encode(), at))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exchange(t *testing.T, all ...*Engine) {
	t.Helper()
	for _, e := range all {
		if err := e.counters.exchange(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// quiet is an engine that exchanges counters only when the test says so.
func (m *mock) quiet(t *testing.T) *Engine {
	e := m.open(t, Options{every: time.Hour})
	t.Cleanup(func() {
		if err := e.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func TestCounterRows(t *testing.T) {
	t.Parallel()
	m := newMock(t)
	one, two := m.quiet(t), m.quiet(t)
	addTo(t, one, 5)
	addTo(t, two, 7)
	if a, b := count(one), count(two); a != 5 || b != 7 {
		t.Errorf("before an exchange: %d and %d", a, b)
	}
	exchange(t, one, two, one)
	if a, b := count(one), count(two); a != 12 || b != 12 {
		t.Errorf("after it: %d and %d", a, b)
	}
	rows := stored(t, one)
	if len(rows) != 2 || rows[one.counters.id].sums["n"] != 5 {
		t.Errorf("rows: %v", rows)
	}
	// Nothing changes: nothing is stored.
	exchange(t, one, two)
	if again := stored(t, one); !again[one.counters.id].at.Equal(rows[one.counters.id].at) {
		t.Error("a row was stored again for nothing")
	}
	// Who leaves takes its row along.
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	rows = stored(t, one)
	if _, there := rows[two.counters.id]; there || rows[leftID].sums["n"] != 7 {
		t.Errorf("rows: %v", rows)
	}
	exchange(t, one)
	if got := count(one); got != 12 {
		t.Errorf("after one has left: %d", got)
	}
	// A new one knows at once.
	if got := count(m.quiet(t)); got != 12 {
		t.Errorf("a new process counts %d", got)
	}
}

// The row of a process that was killed stays, and is adopted when it is old. One that
// lives nevertheless finds that out, and nothing is counted twice.
func TestCounterOfTheDead(t *testing.T) {
	t.Parallel()
	m := newMock(t)
	one, slow := m.quiet(t), m.quiet(t)
	addTo(t, slow, 7)
	exchange(t, slow)
	age(t, one, slow.counters.id, takenForDead/2)
	if three := m.quiet(t); count(three) != 7 || len(stored(t, one)) != 1 {
		t.Errorf("a young row: %d, %v", count(three), stored(t, one))
	}
	age(t, one, slow.counters.id, 2*takenForDead)
	if three := m.quiet(t); count(three) != 7 {
		t.Errorf("an old row: %d", count(three))
	}
	rows := stored(t, one)
	if _, there := rows[slow.counters.id]; there || rows[leftID].sums["n"] != 7 {
		t.Errorf("rows: %v", rows)
	}
	addTo(t, slow, 1)
	exchange(t, slow, one)
	if a, b := count(slow), count(one); a != 8 || b != 8 {
		t.Errorf("the one taken for dead counts %d, another one %d", a, b)
	}
	if err := slow.Close(); err != nil {
		t.Fatal(err)
	}
	exchange(t, one)
	if rows := stored(t, one); count(one) != 8 || rows[leftID].sums["n"] != 8 {
		t.Errorf("after it has left: %d, %v", count(one), rows)
	}
}

// A row is stored now and then even if nothing changes, so that it does not look dead.
func TestCounterIsKeptYoung(t *testing.T) {
	t.Parallel()
	e := newMock(t).quiet(t)
	addTo(t, e, 1)
	exchange(t, e)
	first := stored(t, e)[e.counters.id].at
	e.counters.storedAt = time.Now().Add(-2 * storeEvery)
	age(t, e, e.counters.id, time.Second)
	exchange(t, e)
	if again := stored(t, e)[e.counters.id].at; again.Before(first) {
		t.Errorf("stored at %v, then at %v", first, again)
	}
}

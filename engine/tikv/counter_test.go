package tikv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/oracle"

	"redoubt/engine"
	"redoubt/engine/sums"
)

// stored are all rows of counters.
func stored(t *testing.T, e *Engine) map[uint64]sums.Row {
	t.Helper()
	var all map[uint64]sums.Row
	err := e.UpdateCounters(context.Background(), func(_ sums.Tx, rows map[uint64]sums.Row) error {
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
	err := e.UpdateCounters(context.Background(), func(at sums.Tx, rows map[uint64]sums.Row) error {
		tx := at.(counterTx)
		old := oracle.GoTimeToTS(at.Now().Add(-by))
		return tx.Set(e.counterKey(id), appendValue(nil, rows[id].Sums.Encode(), old))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exchange(t *testing.T, all ...*Engine) {
	t.Helper()
	for _, e := range all {
		if err := e.counters.Exchange(context.Background()); err != nil {
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
	if len(rows) != 2 || rows[one.counters.ID()].Sums["n"] != 5 {
		t.Errorf("rows: %v", rows)
	}
	// Nothing changes: nothing is stored.
	exchange(t, one, two)
	if again := stored(t, one); !again[one.counters.ID()].At.Equal(rows[one.counters.ID()].At) {
		t.Error("a row was stored again for nothing")
	}
	// Who leaves takes its row along.
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	rows = stored(t, one)
	if _, there := rows[two.counters.ID()]; there || rows[sums.Left].Sums["n"] != 7 {
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
	age(t, one, slow.counters.ID(), sums.TakenForDead/2)
	if three := m.quiet(t); count(three) != 7 || len(stored(t, one)) != 1 {
		t.Errorf("a young row: %d, %v", count(three), stored(t, one))
	}
	age(t, one, slow.counters.ID(), 2*sums.TakenForDead)
	if three := m.quiet(t); count(three) != 7 {
		t.Errorf("an old row: %d", count(three))
	}
	rows := stored(t, one)
	if _, there := rows[slow.counters.ID()]; there || rows[sums.Left].Sums["n"] != 7 {
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
	if rows := stored(t, one); count(one) != 8 || rows[sums.Left].Sums["n"] != 8 {
		t.Errorf("after it has left: %d, %v", count(one), rows)
	}
}

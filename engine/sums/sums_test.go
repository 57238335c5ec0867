package sums

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"redoubt/engine"
)

func TestSums(t *testing.T) {
	t.Parallel()
	for _, s := range []Sums{{}, {"": 1}, {"a": -1, "b": 1 << 62, "long key \x00": -1 << 62}} {
		got, err := Decode(s.Encode())
		if err != nil || !maps.Equal(got, s) {
			t.Errorf("%v became %v, %v", s, got, err)
		}
		if b := s.Encode(); len(b) > 0 {
			if _, err := Decode(b[:len(b)-1]); !errors.Is(err, engine.ErrCorrupt) {
				t.Errorf("%v without its last byte: %v", s, err)
			}
		}
	}
	for _, b := range []string{"\xff", "\x05ab", "\x01a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := Decode([]byte(b)); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
	}
	if got := (Sums{"a": 1}).Plus(Sums{"a": 1, "b": 2}, -1); !maps.Equal(got, Sums{"b": -2}) {
		t.Errorf("plus: %v", got)
	}
}

// table is a Table in memory, whose clock the test sets.
type table struct {
	now  time.Time
	rows map[uint64]Row
	lost int // answers to be lost of what is written
}

func (t *table) UpdateCounters(_ context.Context, f func(Tx, map[uint64]Row) error) error {
	before := maps.Clone(t.rows)
	if err := f(t, maps.Clone(t.rows)); err != nil {
		return err
	}
	if t.lost > 0 && !maps.EqualFunc(before, t.rows, func(a, b Row) bool { return a.At.Equal(b.At) && maps.Equal(a.Sums, b.Sums) }) {
		t.lost--
		return engine.ErrUnknownOutcome
	}
	return nil
}

func (t *table) Now() time.Time { return t.now }

func (t *table) PutCounters(id uint64, s Sums) error {
	t.rows[id] = Row{s, t.now}
	return nil
}

func (t *table) DeleteCounters(id uint64) error {
	delete(t.rows, id)
	return nil
}

func process(t *testing.T, in *table, id uint64, add int64) *Counters {
	t.Helper()
	c, err := Open(t.Context(), in, id)
	if err != nil {
		t.Fatal(err)
	}
	var b engine.Batch
	b.Add([]byte("n"), add)
	c.Add(&b)
	if err := c.Exchange(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// A row is stored now and then even if nothing changes, so that it does not look dead.
func TestCountersAreKeptYoung(t *testing.T) {
	t.Parallel()
	in := &table{now: time.Now(), rows: map[uint64]Row{}}
	c := process(t, in, 1, 5)
	first := in.now
	in.now = first.Add(TakenForDead / 2)
	for _, due := range []bool{false, true} {
		if due {
			c.storedAt = time.Now().Add(-2 * storeEvery)
		}
		if err := c.Exchange(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := in.rows[1].At; again.After(first) != due {
			t.Errorf("stored at %v, then at %v", first, again)
		}
	}
}

// Answers that are lost while a process leaves have nothing counted twice, or not at all.
func TestLeaveLosesAnswers(t *testing.T) {
	t.Parallel()
	in := &table{now: time.Now(), rows: map[uint64]Row{}}
	c := process(t, in, 1, 5)
	var b engine.Batch
	b.Add([]byte("n"), 2)
	c.Add(&b)
	in.lost = 2
	if err := c.Leave(t.Context()); err != nil || in.lost != 0 {
		t.Fatalf("%v, %d answers are left to be lost", err, in.lost)
	}
	if _, there := in.rows[1]; there || in.rows[Left].Sums["n"] != 7 {
		t.Errorf("rows: %v", in.rows)
	}
}

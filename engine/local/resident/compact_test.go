package resident

import (
	"encoding/binary"
	"fmt"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
)

// After an eviction that leaves few rows everywhere, Compact brings them together,
// and the memory goes back. Rows, dirty or not, and their order stay what they are.
func TestCompact(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	n := 100_000
	if race.Enabled {
		n = 30_000
	}
	s := newSet(t, true)
	model := map[string]string{}
	key := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte{7, 7, 2}, uint32(i)*2654435761) }
	put := func(seq uint64, from, to, step int) {
		apply(t, s, seq, func(b *engine.Batch) {
			for i := from; i < to; i += step {
				k, v := key(i), fmt.Sprintf("%0*d", 20+rng.IntN(200), i)
				b.Put(k, []byte(v))
				model[string(k)] = v
			}
		})
	}
	put(1, 0, n, 1)
	s.Take(0x707)
	s.Finish(0x707)
	put(2, 0, n, 9) // these are dirty
	for range 3 {
		s.Evict(s.Bytes() * 4 / 5)
	}
	before := s.Mapped()
	moved := 0
	for m := s.Compact(1 << 30); m > 0; m = s.Compact(1 << 30) {
		moved += m
		s.Trim()
	}
	check(t, s)
	if after := s.Mapped(); moved == 0 || after > before*3/4 {
		t.Errorf("%d rows were moved, and memory went from %d to %d", moved, before, after)
	}
	left := 0
	for k, v := range model {
		got, state, _ := s.Get([]byte(k), engine.Hash([]byte(k)), nil)
		if state == Found {
			left++
		}
		if state == Absent || state == Found && string(got) != v {
			t.Fatalf("row % x is %q, state %d", k, got, state)
		}
	}
	if left < n/9 {
		t.Errorf("%d rows are left, %d are dirty", left, n/9)
	}
	// They can still be written, changed and taken away.
	s.Take(0x707)
	copied := 0
	if err := s.Copy(0x707, func(k, v []byte, _ bool) error {
		if copied++; model[string(k)] != string(v) {
			return fmt.Errorf("row % x is %q", k, v)
		}
		return nil
	}); err != nil || copied < n/9 {
		t.Errorf("%d rows were copied: %v", copied, err)
	}
	s.Finish(0x707)
	put(3, 0, n, 7)
	s.Take(0x707)
	s.Finish(0x707)
	for range 4 {
		s.Evict(1 << 30)
	}
	check(t, s)
	if s.rows.Load() != 0 || s.arena.Used() != 0 {
		t.Errorf("%d rows are left, and %d bytes in the arena", s.rows.Load(), s.arena.Used())
	}
}

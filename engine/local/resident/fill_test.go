package resident

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
)

// storeModel is a set, what it should show, and the store behind it.
type storeModel struct {
	t      *testing.T
	s      *Set
	rng    *rand.Rand
	rows   map[string]string // what there is
	stored map[string]string // what the store has been told
	seq    uint64
}

// key is one of a few rows in three units of three parts.
func (m *storeModel) key() string {
	return string([]byte{'a', byte('p' + m.rng.IntN(3)), byte(1 + m.rng.IntN(3)), byte('a' + m.rng.IntN(12))})
}

// commit changes some rows, or deletes a unit.
func (m *storeModel) commit() {
	m.seq++
	apply(m.t, m.s, m.seq, func(b *engine.Batch) {
		for range 1 + m.rng.IntN(4) {
			switch key := m.key(); m.rng.IntN(8) {
			case 0:
				unit := key[:3]
				b.DeleteRange([]byte(unit), []byte{unit[0], unit[1], unit[2] + 1})
				maps.DeleteFunc(m.rows, func(k, _ string) bool { return strings.HasPrefix(k, unit) })
			case 1, 2:
				b.Delete([]byte(key))
				delete(m.rows, key)
			default:
				m.rows[key] = fmt.Sprint(m.seq, strings.Repeat("x", m.rng.IntN(40)))
				b.Put([]byte(key), []byte(m.rows[key]))
			}
		}
	})
}

// round writes a part back, as engine/local does; now and then it fails.
func (m *storeModel) round() {
	no := Part([]byte(m.key()))
	if !m.s.Take(no) {
		return
	}
	if m.rng.IntN(5) == 0 {
		m.s.Return(no)
		return
	}
	for _, d := range m.s.Deletions(no) {
		maps.DeleteFunc(m.stored, func(k, _ string) bool { return k >= string(d.Lo) && k < string(d.Hi) })
	}
	err := m.s.Copy(no, func(key, value []byte, deleted bool) error {
		if delete(m.stored, string(key)); !deleted {
			m.stored[string(key)] = string(value)
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.s.Finish(no)
}

// look reads a row, and brings it in if the store has to be asked. Meanwhile others
// may do anything.
func (m *storeModel) look(key string) State {
	m.t.Helper()
	hash := engine.Hash([]byte(key))
	value, state, token := m.s.Get([]byte(key), hash, nil)
	want, there := m.rows[key]
	switch stored, has := m.stored[key]; {
	case state == Found && (!there || string(value) != want), state == Absent && there:
		m.t.Fatalf("%q: state %d, %q, want %q, %v", key, state, value, want, there)
	case state == Unknown && (has != there || stored != want):
		m.t.Fatalf("%q is not in memory, and the store has %q, %v; want %q, %v", key, stored, has, want, there)
	case state == Unknown:
		if m.rng.IntN(8) == 0 { // long enough for the row to change, to be written back, and to be evicted
			for range m.rng.IntN(40) {
				m.step()
			}
		}
		if err := m.s.Load([]byte(key), hash, []byte(stored), has, token); err != nil {
			m.t.Fatal(err)
		}
	}
	return state
}

// fill fills a part while others do anything, and reports whether that succeeded.
func (m *storeModel) fill() bool {
	no := Part([]byte(m.key()))
	f := m.s.Fill(no)
	if f == nil {
		return false
	}
	prefix := string(PartKey(no))
	var all []string
	read := maps.Clone(m.stored)
	for key := range read {
		if strings.HasPrefix(key, prefix) {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	var c Chunk
	for rows := range slices.Chunk(all, 5) {
		c.Reset()
		for _, key := range rows {
			c.Put([]byte(key), []byte(read[key]))
		}
		if m.rng.IntN(3) == 0 {
			m.step()
		}
		ok, err := f.Add(&c)
		if err != nil {
			m.t.Fatal(err)
		}
		if !ok {
			return false
		}
	}
	if !f.Done() {
		return false
	}
	if m.s.Fill(no) != nil {
		m.t.Fatalf("part %x is not whole when it is filled", no)
	}
	return true
}

// step does one thing.
func (m *storeModel) step() {
	switch m.rng.IntN(8) {
	case 0, 1, 2:
		m.commit()
	case 3, 4:
		m.round()
	case 5:
		m.s.Evict(int64(m.rng.IntN(600)))
	case 6:
		m.s.Clear()
	case 7:
		m.look(m.key())
	}
}

// Rows are changed, written back, evicted, read from the store again and filled in, in
// any order and one within another. What is in memory is right, and for what is not
// the store is (invariants 1 to 3).
func TestRowsComeAndGo(t *testing.T) {
	t.Parallel()
	for _, empty := range []bool{true, false} {
		t.Run(fmt.Sprintf("empty=%v", empty), func(t *testing.T) {
			t.Parallel()
			m := &storeModel{t: t, s: newSet(t, empty), rng: seeded(t), rows: make(map[string]string), stored: make(map[string]string)}
			filled, unknown := 0, 0
			for range race.Or(3000, 20000) {
				m.step()
				if m.rng.IntN(6) == 0 && m.fill() {
					filled++
				}
				if m.look(m.key()) == Unknown {
					unknown++
				}
			}
			check(t, m.s)
			for p := range byte(3) {
				for u := range byte(3) {
					for k := range byte(12) {
						m.look(string([]byte{'a', 'p' + p, 1 + u, 'a' + k}))
					}
				}
			}
			if filled < 20 || unknown < 100 {
				t.Errorf("parts were filled %d times, and the store asked %d times: the test tests little", filled, unknown)
			}
		})
	}
}

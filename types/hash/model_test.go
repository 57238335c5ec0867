package hash

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// The limits under which the same operations run: always packed, always rows, and
// such that hashes unfold at some moment.
var forms = map[string]types.Limits{
	"packed":    {HashEntries: 1 << 20, HashValue: 1 << 20},
	"rows":      {HashEntries: 0, HashValue: 0},
	"unfolding": {HashEntries: 6, HashValue: 12},
}

// plain is a hash as plainly as possible.
type plain map[string]plainField

type plainField struct {
	value string
	at    int64
}

func (p plain) live(now int64) plain {
	out := plain{}
	for f, e := range p {
		if e.at == 0 || e.at > now {
			out[f] = e
		}
	}
	return out
}

var testKey = []byte("h")

// formTest is a store with one hash that is changed in one form.
type formTest struct {
	*typestest.Store
	t      *testing.T
	name   string
	limits types.Limits
}

// with runs f on the opened hash and saves it.
func (s *formTest) with(f func(h *Hash)) (gone bool) {
	s.t.Helper()
	s.Do(func(tx *keyspace.Tx) {
		h, err := Open(tx, testKey, &s.limits)
		if err != nil {
			s.t.Fatal(err)
		}
		defer h.Release()
		f(h)
		gone = h.Save()
	})
	return gone
}

// read runs f on the hash without saving.
func (s *formTest) read(f func(h *Hash)) {
	s.t.Helper()
	s.Do(func(tx *keyspace.Tx) {
		tx.Writable = false
		h, err := Read(tx, testKey)
		if err != nil {
			s.t.Fatal(err)
		}
		defer h.Release()
		f(h)
	})
}

// all is the hash as Each shows it.
func (s *formTest) all() plain {
	out := plain{}
	s.read(func(h *Hash) {
		h.Each(func(field []byte, e Entry) bool {
			if _, twice := out[string(field)]; twice {
				s.t.Fatalf("%s: Each visits %q twice", s.name, field)
			}
			out[string(field)] = plainField{string(e.Value), e.At}
			return true
		})
		if n := h.Len(); n != int64(len(out)) {
			s.t.Fatalf("%s: Len is %d, Each visits %d", s.name, n, len(out))
		}
	})
	return out
}

// TestFormsAgree drives all forms with the same random operations and compares
// them with a map.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	for round := range 30 {
		seed := uint64(round)*7919 + 12345
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agree(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func agree(t *testing.T, rng *rand.Rand) {
	var tests []*formTest
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		tests = append(tests, &formTest{Store: typestest.New(t), t: t, name: name, limits: forms[name]})
	}
	now := tests[0].Now
	want := plain{}
	timed := rng.IntN(3) > 0 // some hashes have no times at all
	fields := 4 + rng.IntN(20)
	for step := range 250 {
		if timed && rng.IntN(8) == 0 {
			now += int64(rng.IntN(40))
			for _, s := range tests {
				s.Now = now
			}
		}
		field := fmt.Sprintf("f%d", rng.IntN(fields))
		value := bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, rng.IntN(14))
		at := int64(0)
		if timed && rng.IntN(2) == 0 {
			at = now + 1 + int64(rng.IntN(60))
		}
		op := rng.IntN(10)
		live := want.live(now)
		was, had := live[field]
		for _, s := range tests {
			var answer any
			var expect any
			gone := s.with(func(h *Hash) {
				switch {
				case op < 4:
					answer, expect = h.Set([]byte(field), value, at), !had
				case op < 5:
					e, ok := h.Get([]byte(field))
					h.Replace([]byte(field), value, e)
					answer, expect = ok, had
				case op < 7:
					answer, expect = h.Delete([]byte(field)), had
				default:
					e, ok := h.Get([]byte(field))
					if ok {
						h.SetAt([]byte(field), e, at)
					}
					answer, expect = fmt.Sprint(ok, string(e.Value), e.At), fmt.Sprint(had, was.value, was.at)
				}
			})
			if answer != expect {
				t.Fatalf("step %d, %s: operation %d on %q: %v, want %v", step, s.name, op, field, answer, expect)
			}
			if left := len(live); gone != (op >= 5 && op < 7 && had && left == 1) {
				t.Fatalf("step %d, %s: gone is %v, and %d fields were there", step, s.name, gone, left)
			}
		}
		want = live
		switch {
		case op < 4:
			want[field] = plainField{string(value), at}
		case op < 5:
			want[field] = plainField{string(value), was.at}
		case op < 7:
			delete(want, field)
		case had:
			want[field] = plainField{was.value, at}
		}
		for _, s := range tests {
			s.check(want)
		}
		if timed && rng.IntN(6) == 0 {
			now += int64(rng.IntN(30))
			for _, s := range tests {
				s.Now = now
				s.Do(func(tx *keyspace.Tx) { ExpireFields(tx, testKey, 1+rng.IntN(4)) })
				s.check(want)
			}
		}
	}
}

// check compares the hash with what it should be, in every way in which it can be
// read, and what is stored with what FORMAT.md says.
func (s *formTest) check(want plain) {
	s.t.Helper()
	live := want.live(s.Now)
	if got := s.all(); !maps.Equal(got, live) {
		s.t.Fatalf("%s has %v, want %v", s.name, got, live)
	}
	scanned, cursor := plain{}, uint64(0)
	for range 1000 {
		s.read(func(h *Hash) {
			cursor = h.Scan(cursor, 3, func(f []byte, e Entry) { scanned[string(f)] = plainField{string(e.Value), e.At} })
		})
		if cursor == 0 {
			break
		}
	}
	if !maps.Equal(scanned, live) {
		s.t.Fatalf("%s: a scan finds %v, want %v", s.name, scanned, live)
	}
	s.checkRows()
}

// checkRows holds the stored rows against each other.
func (s *formTest) checkRows() {
	s.t.Helper()
	var m keyspace.Meta
	stored := map[string]int64{}  // field to time
	indexed := map[string]int64{} // the same, from the rows by time
	var pack packed
	s.Do(func(tx *keyspace.Tx) {
		tx.Writable = false
		m = tx.Find(testKey)
		switch {
		case !m.Exists():
		case !m.External():
			pack.open(tx, m)
			pack.each(func(f []byte, e Entry) bool {
				stored[string(f)] = e.At
				return true
			})
			if int64(len(stored)) != pack.size() {
				s.t.Fatalf("%s: %d fields, and %d are counted", s.name, len(stored), pack.size())
			}
		default:
			var r rows
			r.open(tx, m)
			r.each(func(f []byte, e Entry) bool {
				stored[string(f)] = e.At
				return true
			})
			it := tx.IterKind(m.Ref(), keyspace.ScoreRow, nil, nil, false)
			for it.Next() {
				k := it.Key()[keyspace.RowKeyHead:]
				indexed[string(k[8:])] = int64(binary.BigEndian.Uint64(k))
			}
			tx.CloseRows(it)
			if int64(len(stored)) != r.size() {
				s.t.Fatalf("%s: %d rows, and %d are counted", s.name, len(stored), r.size())
			}
			if int64(len(indexed)) != r.volatile {
				s.t.Fatalf("%s: %d rows by time, and %d are counted", s.name, len(indexed), r.volatile)
			}
			for f, at := range stored {
				if at != indexed[f] {
					s.t.Fatalf("%s: %q dies at %d, and its row by time says %d", s.name, f, at, indexed[f])
				}
			}
		}
	})
	first, last, all := int64(0), int64(0), true
	for _, at := range stored {
		if at == 0 {
			all = false
			continue
		}
		if first == 0 || at < first {
			first = at
		}
		last = max(last, at)
	}
	if !all {
		last = 0
	}
	f := m.FieldTimes()
	if f.End != last || first == 0 && f.Next != 0 || f.Next > first || first != 0 && f.Next == 0 {
		s.t.Fatalf("%s: times are %+v, should be %d and %d", s.name, f, first, last)
	}
}

package keyspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

// checked is what Check reports, a line each.
func checked(s *testStore, r engine.Reader) (list []string, sum Checked) {
	counters := make(map[string]int64)
	for ks := uint32(0); ks < 100; ks++ {
		for _, what := range []byte{sysKeys, sysVolatile} {
			name := appendSysKey32(nil, what, ks)
			n, err := s.eng.Counter(name)
			if err != nil {
				s.t.Fatal(err)
			}
			if n != 0 {
				counters[string(name)] = n
			}
		}
	}
	slots := 0
	sum = Check(r, counters, nil, func(kind, place, what string) {
		list = append(list, kind+": "+place+": "+what)
	}, func(slot int, rows int64) { slots = slot })
	if sum.Complete && slots != Slots {
		s.t.Errorf("progress ended at slot %d", slots)
	}
	return list, sum
}

func (s *testStore) check() []string {
	s.t.Helper()
	snap, err := s.eng.Snapshot()
	if err != nil {
		s.t.Fatal(err)
	}
	defer snap.Close()
	list, _ := checked(s, snap)
	return list
}

// raw commits rows as they are.
func (s *testStore) raw(f func(b *engine.Batch)) {
	s.t.Helper()
	view, err := s.eng.Begin(engine.ViewOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer view.Close()
	var b engine.Batch
	f(&b)
	if _, err := view.Commit(&b); err != nil {
		s.t.Fatal(err)
	}
}

// putChunks stores a chunked string with the given chunks; nil ones are zeros.
func putChunks(tx *Tx, key string, size, expire int64, chunks ...[]byte) {
	k := []byte(key)
	old := tx.Find(k)
	ref := tx.NewRef(k, size)
	for i, c := range chunks {
		if c != nil {
			tx.PutRow(binary.BigEndian.AppendUint32(AppendRowKey(nil, ref, SubRow), uint32(i)), c)
		}
	}
	tx.Store(k, old, Meta{Type: String, Encoding: Chunked, Expire: expire, Body: AppendRef(nil, ref)})
}

var fullChunk = bytes.Repeat([]byte("x"), stringChunk)

// populate makes a healthy store with something of everything.
func populate(s *testStore) {
	s.do(0, func(tx *Tx) {
		put(tx, "foo", "bar", 0)
		put(tx, "", "the empty key", testNow+5)
		put(tx, "{foo}dies", "soon", testNow+1000)
		tx.Store([]byte("n"), Meta{}, Meta{Type: String, Encoding: Int, Body: []byte("-42")})
		putChunks(tx, "big", 2*stringChunk+3, testNow+1000, fullChunk, nil, []byte("end"))
		putChunks(tx, "zeros", 1<<30, 0)
		putChunks(tx, "large", 40*stringChunk, 0, fullChunks(40)...)
	})
	s.do(1, func(tx *Tx) { put(tx, "foo", "other", testNow+7) })
	s.do(2, func(tx *Tx) { put(tx, "flushed", "x", testNow+7); putChunks(tx, "flushed big", 3, 0, []byte("abc")) })
	s.do(2, func(tx *Tx) { tx.Flush(2) })
	s.do(0, func(tx *Tx) { // its rows stay in another slot
		m := tx.Find([]byte("big"))
		tx.Detach([]byte("big"), m)
		tx.Store([]byte("moved"), Meta{}, m)
	})
	s.do(3, func(tx *Tx) {
		putChunks(tx, "gone", 3, 0, []byte("abc"))
		tx.Remove([]byte("gone"), tx.Find([]byte("gone")))
	})
	s.do(0, func(tx *Tx) { tx.Swap(1, 3) })
}

func fullChunks(n int) (list [][]byte) {
	for range n {
		list = append(list, fullChunk)
	}
	return list
}

func TestCheckPassesAHealthyStore(t *testing.T) {
	t.Parallel()
	for _, eng := range []engine.Engine{mem.New(), cheap{mem.New()}} {
		s := openStore(t, eng)
		if list := s.check(); len(list) > 0 {
			t.Errorf("an empty store: %q", list)
		}
		populate(s)
		snap, err := eng.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		list, sum := checked(s, snap)
		if len(list) > 0 {
			t.Errorf("populated: %q", list)
		}
		rows := int64(0)
		s.eachRow(func(_, _ []byte) { rows++ })
		equal(t, "rows, keys, of them with an expiry, with rows", sum, Checked{rows, 10, 5, 4, true})
		if err := snap.Close(); err != nil {
			t.Fatal(err)
		}
		s.clear(3)
		s.now += 1 << 20
		s.sweep()
		if list := s.check(); len(list) > 0 {
			t.Errorf("cleared and expired: %q", list)
		}
	}
	s := &testStore{t: t, eng: mem.New(), space: new(Space)}
	if list := s.check(); len(list) > 0 {
		t.Errorf("without any row: %q", list)
	}
}

// Whatever the keyspace itself does gives rows that pass.
func TestCheckPassesRandomOperations(t *testing.T) {
	t.Parallel()
	for _, eng := range []engine.Engine{mem.New(), cheap{mem.New()}} {
		m := &model{s: openStore(t, eng), rng: seeded(t)}
		for db := range m.dbs {
			m.dbs[db] = make(map[string]modelKey)
		}
		for range 5 {
			for range 100 {
				m.batch()
			}
			for _, what := range m.s.check() {
				if !strings.Contains(what, "the chunk ends at") { // its chunks are not those of a string
					t.Error(what)
				}
			}
		}
	}
}

func TestCheckFinds(t *testing.T) {
	t.Parallel()
	slot := SlotOf([]byte("foo"))
	meta := func(key string) []byte { return appendMetaKey(nil, SlotOf([]byte(key)), 1, []byte(key)) }
	str := func(expire int64) []byte {
		return append(appendMetaHead(nil, Meta{Type: String, Encoding: Raw, Expire: expire}), "x"...)
	}
	add := func(b *engine.Batch, ks uint32, keys, volatile int64) {
		b.Add(appendSysKey32(nil, sysKeys, ks), keys)
		b.Add(appendSysKey32(nil, sysVolatile, ks), volatile)
	}
	ref := func(s *testStore, key string) (r Ref) {
		s.do(0, func(tx *Tx) { r = tx.Find([]byte(key)).Ref() })
		return r
	}
	u32 := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, c := range []struct {
		name  string
		wreck func(s *testStore, b *engine.Batch)
		want  []string // beginnings of what is reported, in order
	}{
		{"a row of one byte", func(_ *testStore, b *engine.Batch) { b.Put([]byte{0x11}, nil) },
			[]string{"row: unknown row 11: no row has such a key"}},
		{"a row of two bytes", func(_ *testStore, b *engine.Batch) { b.Put([]byte{0, 0}, nil) },
			[]string{"row: unknown row 0000: "}},
		{"an unknown kind", func(_ *testStore, b *engine.Batch) { b.Put([]byte{0x2f, 0x96, 9, 1}, nil) },
			[]string{"row: unknown row 2f960901: "}},
		{"a short sub row", func(_ *testStore, b *engine.Batch) { b.Put([]byte{0x2f, 0x96, kindSub, 1}, nil) },
			[]string{"row: unknown row 2f960201: "}},
		{"a short expire row", func(_ *testStore, b *engine.Batch) { b.Put([]byte{0x2f, 0x80, kindExpire, 1}, nil) },
			[]string{"row: unknown row 2f800501: "}},
		{"a slot that is none", func(_ *testStore, b *engine.Batch) { b.Put([]byte{0x40, 0, kindMeta}, nil) },
			[]string{"row: unknown row 400001: no row begins like this"}},
		{"a meta row of no type", func(s *testStore, b *engine.Batch) { b.Put(meta("foo"), make([]byte, 9)) },
			[]string{`meta: key "foo" of database 0 (keyspace 1), slot 12182: store is corrupt: `}},
		{"a short meta row", func(s *testStore, b *engine.Batch) { b.Put(meta("foo"), []byte{0x10}) },
			[]string{`meta: key "foo" of database 0 (keyspace 1), slot 12182: store is corrupt: meta row of 1 bytes: 10`}},
		{"a negative time", func(s *testStore, b *engine.Batch) { b.Put(meta("foo"), str(-1)) },
			[]string{`meta: key "foo" `, "counter: count of keys with an expiry of database 0 (keyspace 1): it says 3, and there are 4"}},
		{"a type that has no encoding yet", func(s *testStore, b *engine.Batch) {
			b.Put(meta("foo"), appendMetaHead(nil, Meta{Type: List, Encoding: 9}))
		}, []string{`meta: key "foo" of database 0 (keyspace 1), slot 12182: type list has no encoding 9 in version 1`}},
		{"an encoding that is none", func(s *testStore, b *engine.Batch) {
			b.Put(meta("foo"), appendMetaHead(nil, Meta{Type: String, Encoding: 4}))
		}, []string{`meta: key "foo" of database 0 (keyspace 1), slot 12182: type string has no encoding 4 in version 1`}},
		{"an integer that is none", func(s *testStore, b *engine.Batch) {
			b.Put(meta("foo"), append(appendMetaHead(nil, Meta{Type: String, Encoding: Int}), "042"...))
		}, []string{`meta: key "foo" of database 0 (keyspace 1), slot 12182: it is said to be an integer, and is "042"`}},
		{"a key in a wrong slot", func(s *testStore, b *engine.Batch) {
			b.Put(appendMetaKey(nil, slot+1, 1, []byte("foo")), str(0))
			add(b, 1, 1, 0)
		}, []string{`slot: key "foo" of database 0 (keyspace 1), slot 12183: the slot of the key is 12182`}},
		{"a keyspace of nobody", func(s *testStore, b *engine.Batch) {
			b.Put(appendMetaKey(nil, slot, 77, []byte("foo")), str(0))
			add(b, 77, 1, 0)
		}, []string{`keyspace: key "foo" of keyspace 77, slot 12182: no database has`}},
		{"a key without expire row", func(s *testStore, b *engine.Batch) { b.Put(meta("foo"), str(testNow)); add(b, 1, 0, 1) },
			[]string{`expire: key "foo" of database 0 (keyspace 1), slot 12182: it has no expire row for 2023-11-14T22:13:20.000Z`}},
		{"an expire row without key", func(s *testStore, b *engine.Batch) {
			b.Put(appendExpireKey(nil, slot, testNow, 1, []byte("{foo}?")), nil)
		}, []string{`expire: expire row for 2023-11-14T22:13:20.000Z of key "{foo}?" of database 0 (keyspace 1), slot 12182: there is no such key`}},
		{"an expire row of a key that does not die", func(s *testStore, b *engine.Batch) {
			b.Put(appendExpireKey(nil, slot, testNow, 1, []byte("foo")), nil)
		}, []string{`expire: expire row for 2023-11-14T22:13:20.000Z of key "foo" of database 0 (keyspace 1), slot 12182: the key has no time of death`}},
		{"an expire row for another time", func(s *testStore, b *engine.Batch) {
			b.Put(appendExpireKey(nil, slot, testNow, 1, []byte("{foo}dies")), nil)
		}, []string{`expire: expire row for 2023-11-14T22:13:20.000Z of key "{foo}dies" of database 0 (keyspace 1), slot 12182: the key dies at another time: 2023-11-14T22:13:21.000Z`}},
		{"both of them differ", func(s *testStore, b *engine.Batch) { b.Put(meta("{foo}dies"), str(testNow+1)) },
			[]string{`expire: expire row for 2023-11-14T22:13:21.000Z`, `expire: key "{foo}dies" of database 0 (keyspace 1), slot 12182: it has no expire row for 2023-11-14T22:13:20.001Z`}},
		{"an expire row in a wrong group", func(s *testStore, b *engine.Batch) {
			row := appendExpireKey(nil, slot, testNow+1000, 1, []byte("{foo}dies"))
			b.Delete(row)
			row = bytes.Clone(row)
			row[1]++
			b.Put(row, nil)
		}, []string{
			`expire: expire row for 2023-11-14T22:13:21.000Z of key "{foo}dies" of database 0 (keyspace 1), slot 12182: the slot of the key is 12182, and the row lies with slot 12161`,
			`expire: key "{foo}dies" of database 0 (keyspace 1), slot 12182: it has no expire row`}},
		{"an expire row with a value", func(s *testStore, b *engine.Batch) {
			b.Put(appendExpireKey(nil, slot, testNow+1000, 1, []byte("{foo}dies")), []byte{1})
		}, []string{`expire: expire row for 2023-11-14T22:13:21.000Z of key "{foo}dies" of database 0 (keyspace 1), slot 12182: it has a value: 01`}},
		{"an id that is to come", func(s *testStore, b *engine.Batch) {
			r := ref(s, "moved")
			r.ID = s.space.watermark.Load()
			b.Put(meta("foo"), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked}), r))
		}, []string{`id: key "foo" of database 0 (keyspace 1), slot 12182: the id `}},
		{"rows nowhere", func(s *testStore, b *engine.Batch) {
			r := ref(s, "moved")
			r.Home = Slots
			b.Put(meta("foo"), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked}), r))
		}, []string{`value: key "foo" of database 0 (keyspace 1), slot 12182: its rows are said to lie in slot 16384`}},
		{"a string that is too short for its chunks", func(s *testStore, b *engine.Batch) {
			r := ref(s, "moved")
			r.Size--
			b.Put(meta("moved"), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked, Expire: testNow + 1000}), r))
		}, []string{`value: chunk 2 of value `}},
		{"a negative size", func(s *testStore, b *engine.Batch) {
			r := ref(s, "zeros")
			r.Size = -1
			b.Put(meta("zeros"), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked}), r))
		}, []string{`value: key "zeros" of database 0 (keyspace 1), slot 7479: its size is -1`}},
		{"an empty chunk", func(s *testStore, b *engine.Batch) {
			b.Put(append(AppendRowKey(nil, ref(s, "large"), SubRow), u32(3)...), nil)
		},
			[]string{`value: chunk 3 of value `}},
		{"a long chunk", func(s *testStore, b *engine.Batch) {
			b.Put(append(AppendRowKey(nil, ref(s, "large"), SubRow), u32(30)...), append([]byte("y"), fullChunk...))
		}, []string{`value: chunk 30 of value `}},
		{"a chunk that ends with zero", func(s *testStore, b *engine.Batch) {
			b.Put(append(AppendRowKey(nil, ref(s, "large"), SubRow), u32(39)...), []byte{1, 0})
		}, []string{`value: chunk 39 of value `}},
		{"a row that is no chunk", func(s *testStore, b *engine.Batch) {
			b.Put(append(AppendRowKey(nil, ref(s, "large"), SubRow), 1), []byte{1})
		}, []string{`value: sub row 01 of value `}},
		{"rows of no value", func(s *testStore, b *engine.Batch) {
			b.Put(append(appendPart(nil, slot, kindSub, 99), 0, 0, 0, 0), []byte{1})
			b.Put(append(appendPart(nil, slot, kindSub, 99), 0, 0, 0, 1), []byte{1})
			b.Put(append(appendPart(nil, slot, kindRank, 99), 0), nil)
		}, []string{
			"orphan: sub rows of value 0000000000000063, slot 12182: no key has this value",
			"orphan: rank rows of value 0000000000000063, slot 12182: "}},
		{"a score row of a string", func(s *testStore, b *engine.Batch) {
			r := ref(s, "moved")
			b.Put(append(appendPart(nil, r.Home, kindScore, r.ID), "12345678m"...), nil)
		}, []string{"value: score row 31323334353637386d of value "}},
		{"a key whose value was lost by its meta row", func(s *testStore, b *engine.Batch) { b.Put(meta("large"), str(0)) },
			[]string{"orphan: sub rows of value "}},
		{"two keys with one value", func(s *testStore, b *engine.Batch) {
			b.Put(meta("foo"), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked}), ref(s, "moved")))
		}, []string{`value: key "foo" of database 0 (keyspace 1), slot 12182: value `}},
		{"two keys with one value that has no rows", func(s *testStore, b *engine.Batch) {
			b.Put(meta("foo"), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked}), ref(s, "zeros")))
		}, []string{`value: value `}},
		{"a value that is garbage as well", func(s *testStore, b *engine.Batch) {
			r := ref(s, "large")
			b.Put(appendGarbageKey(nil, r.Home, r.ID), nil)
		}, []string{`value: key "large" of database 0 `}},
		{"a garbage row with a value", func(s *testStore, b *engine.Batch) { b.Put(appendGarbageKey(nil, slot, 99), []byte{1}) },
			[]string{"row: garbage row of value 0000000000000063, slot 12182: it has a value: 01"}},
		{"a garbage row of an id to come", func(s *testStore, b *engine.Batch) {
			b.Put(appendGarbageKey(nil, slot, 1<<63), nil)
		}, []string{"id: garbage row of value 8000000000000000, slot 12182: the id"}},
		{"a garbage row in another group", func(s *testStore, b *engine.Batch) {
			row := appendGarbageKey(nil, slot, 99)
			row[0] = 0
			b.Put(row, nil)
		}, []string{"row: garbage row of value 0000000000000063, slot 12182: it lies with slot 128"}},
		{"a counter that is off", func(s *testStore, b *engine.Batch) { add(b, 1, 1, 0) },
			[]string{"counter: count of keys of database 0 (keyspace 1): it says 8, and there are 7"}},
		{"a counter of a keyspace without keys", func(s *testStore, b *engine.Batch) { add(b, 5, 0, 2) },
			[]string{"counter: count of keys with an expiry of database 2 (keyspace 5): it says 2, and there are 0"}},
		{"a key that is not counted", func(s *testStore, b *engine.Batch) { b.Put(meta("new"), str(0)) },
			[]string{"counter: count of keys of database 0 (keyspace 1): it says 7, and there are 8"}},
		{"two databases with one number", func(s *testStore, b *engine.Batch) { b.Put(sysKey16(sysDatabase, 9), u32(1)) },
			[]string{"system: number of database 9: it has keyspace 1, and so has database 0"}},
		{"keyspace 0", func(s *testStore, b *engine.Batch) { b.Put(sysKey16(sysDatabase, 9), u32(0)) },
			[]string{"system: number of database 9: it has keyspace 0"}},
		{"a number that was not given yet", func(s *testStore, b *engine.Batch) { b.Put(sysKey16(sysDatabase, 9), u32(6)) },
			[]string{"system: keyspace 6: it is in use, but 5 was the last number given"}},
		{"a flushed keyspace in use", func(s *testStore, b *engine.Batch) { b.Put(appendSysKey32(nil, sysDead, 1), nil) },
			[]string{"system: note that keyspace 1 was flushed: database 0 still has it"}},
		{"a database row of a wrong size", func(s *testStore, b *engine.Batch) { b.Put(sysKey16(sysDatabase, 9), []byte{1}) },
			[]string{"system: number of database 9: its value has 1 bytes, not 4: 01"}},
		{"a system row that is none", func(s *testStore, b *engine.Batch) { b.Put(appendSysKey32(nil, sysKeys, 1), nil) },
			[]string{"system: count of keys of database 0 (keyspace 1): there is no such system row"}},
		{"a library that is none", func(s *testStore, b *engine.Batch) { b.Put(append(sysKey(sysLibrary), "a b"...), []byte("x")) },
			[]string{`system: library of functions "a b": no library can have that name`, `system: library of functions "a b": its source does not begin with #!: "x"`}},
		{"a role that is none", func(s *testStore, b *engine.Batch) { b.Put(sysKey(sysRole), []byte("x")) },
			[]string{"system: role: invalid character 'x'"}},
		{"a place in a stream of a wrong size", func(s *testStore, b *engine.Batch) { b.Put(PositionRow(), make([]byte, 51)) },
			[]string{"system: place in the master's stream: store is corrupt: the row of a position has 51 bytes"}},
		{"no last number", func(s *testStore, b *engine.Batch) { b.Delete(sysKey(sysNextKS)) },
			[]string{"system: keyspace number given last: it is missing"}},
		{"no format version", func(s *testStore, b *engine.Batch) { b.Delete(sysKey(sysFormat)) },
			[]string{"system: format version: it is missing"}},
		{"rows of another version", func(s *testStore, b *engine.Batch) { b.Put(sysKey(sysFormat), u32(2)) },
			[]string{"system: format version: the rows have version 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(t)
			populate(s)
			s.raw(func(b *engine.Batch) { c.wreck(s, b) })
			got := s.check()
			ok := len(got) == len(c.want)
			for i := 0; ok && i < len(got); i++ {
				ok = strings.HasPrefix(got[i], c.want[i])
			}
			if !ok {
				t.Errorf("reported:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// Every row says something that another row can be held to: without it the check
// complains, but for what may be missing.
func TestCheckMissesNoRow(t *testing.T) {
	t.Parallel()
	s := openStore(t, cheap{mem.New()})
	populate(s)
	type row struct{ key, value []byte }
	var rows []row
	s.eachRow(func(k, v []byte) { rows = append(rows, row{bytes.Clone(k), bytes.Clone(v)}) })
	var teller Describer
	for _, r := range rows {
		s.raw(func(b *engine.Batch) { b.Delete(r.key) })
		list := s.check()
		// A chunk may be missing: it is zeros then. So may the number of a
		// database without keys.
		optional := r.key[0] != system && r.key[2] == kindSub ||
			r.key[0] == system && r.key[1] == sysDatabase && binary.BigEndian.Uint32(r.value) > 2
		if !optional && len(list) == 0 {
			t.Errorf("without %s: %q", teller.Row(r.key, r.value), list)
		}
		s.raw(func(b *engine.Batch) { b.Put(r.key, r.value) })
	}
	if list := s.check(); len(list) > 0 {
		t.Errorf("with all of them: %q", list)
	}
}

// broken is a reader of which some rows cannot be read.
type broken struct {
	engine.Reader
	bad []byte
}

var errBroken = errors.New("the disk is broken")

func (b broken) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	it := b.Reader.Iter(lo, hi, reverse)
	if bytes.Compare(lo, b.bad) <= 0 && (hi == nil || bytes.Compare(b.bad, hi) < 0) {
		return &brokenIterator{Iterator: it, bad: b.bad}
	}
	return it
}

func (b broken) Edge(lo, hi []byte, reverse bool, buf []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(b, lo, hi, reverse, buf)
}

type brokenIterator struct {
	engine.Iterator
	bad  []byte
	over bool
}

func (i *brokenIterator) Next() bool {
	more := i.Iterator.Next()
	i.over = more && bytes.Compare(i.Key(), i.bad) >= 0
	return more && !i.over
}

func (i *brokenIterator) Close() error {
	if err := i.Iterator.Close(); err != nil || !i.over {
		return err
	}
	return errBroken
}

// What cannot be read is reported, and the rest is checked all the same.
func TestCheckGoesOnBehindABadPlace(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	populate(s)
	last := appendMetaKey(nil, SlotOf([]byte("foo"))+1, 1, []byte("foo")) // a wrong slot, behind the bad place
	s.raw(func(b *engine.Batch) { b.Put(last, appendMetaHead(nil, Meta{Type: String})) })
	snap, err := s.eng.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	list, sum := checked(s, broken{snap, appendMetaKey(nil, SlotOf([]byte("foo")), 1, []byte("foo"))})
	text := strings.Join(list, "\n")
	if sum.Complete || !strings.Contains(text, "unreadable: rows from 2f96 up to 2f97: the disk is broken") || !strings.Contains(text, "slot: key") || strings.Count(text, "unreadable") != 1 {
		t.Errorf("whole %v: %s", sum.Complete, text)
	}
	if strings.Contains(text, "counter") || strings.Contains(text, "orphan") {
		t.Errorf("it compared what it could not count: %s", text)
	}
}

func TestTeller(t *testing.T) {
	t.Parallel()
	var teller Describer
	teller.Learn(sysKey16(sysDatabase, 0), binary.BigEndian.AppendUint32(nil, 1))
	id := appendPart(nil, 6392, kindSub, 0x305120c0f27d0000)
	for _, c := range []struct {
		row, value []byte
		want       string
	}{
		{appendMetaKey(nil, 12182, 1, []byte("foo")), append(appendMetaHead(nil, Meta{Type: String, Encoding: Embedded}), "bar"...),
			`key "foo" of database 0 (keyspace 1), slot 12182 = string, embedded, 3 bytes`},
		{appendMetaKey(nil, 12182, 9, []byte{0xff}), append(appendMetaHead(nil, Meta{Type: String, Encoding: Int, Expire: testNow}), "1"...),
			`key "\xff" of keyspace 9, slot 12182 = string, int, 1 bytes, expires 2023-11-14T22:13:20.000Z`},
		{appendMetaKey(nil, 12182, 1, nil), AppendRef(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked}), Ref{ID: 0x305120c0f27d0000, Home: 6392, Size: 70000}),
			`key "" of database 0 (keyspace 1), slot 12182 = string, chunked, 70000 bytes, value 305120c0f27d0000, slot 6392`},
		{appendMetaKey(nil, 12182, 1, nil), []byte{1}, `key "" of database 0 (keyspace 1), slot 12182 = store is corrupt: meta row of 1 bytes: 01`},
		{append(id, 0, 0, 0, 2), make([]byte, 8192), "sub row 00000002 of value 305120c0f27d0000, slot 6392 = 8192 bytes"},
		{appendExpireKey(nil, 12182, testNow, 1, []byte("foo")), nil, `expire row for 2023-11-14T22:13:20.000Z of key "foo" of database 0 (keyspace 1), slot 12182`},
		{appendGarbageKey(nil, 6392, 7), nil, "garbage row of value 0000000000000007, slot 6392"},
		{sysKey16(sysDatabase, 2), []byte{0, 0, 0, 5}, "number of database 2 = keyspace 5"},
		{sysKey(sysNextKS), []byte{0, 0, 0, 5}, "keyspace number given last = 5"},
		{sysKey(sysFormat), []byte{0, 0, 0, 1}, "format version = 1"},
		{appendSysKey32(nil, sysDead, 3), nil, "note that keyspace 3 was flushed"},
		{appendSysKey64(nil, sysWatermark, 0x305120c5b7310000), nil, "mark that ids are below 305120c5b7310000 (2023-11-14T22:13:30.004Z)"},
		{appendSysKey32(nil, sysKeys, 1), nil, "count of keys of database 0 (keyspace 1)"},
		{append(sysKey(sysLibrary), "lib"...), []byte("#!lua name=lib\n"), `library of functions "lib" = 15 bytes`},
		{sysKey(sysRole), []byte(`{"master":"h 1"}`), `role = "{\"master\":\"h 1\"}"`},
		{PositionRow(), Position{ID: strings.Repeat("a", 40), Offset: 7, DB: 2}.AppendTo(nil),
			"place in the master's stream = offset 7 of " + strings.Repeat("a", 40) + ", database 2"},
		{[]byte{system, 99}, []byte{1}, "unknown system row ff63 = 1 bytes"},
		{[]byte{0x2f, 0x96, 9}, nil, "unknown row 2f9609"},
		{nil, nil, "unknown row "},
	} {
		if got := teller.Row(c.row, c.value); got != c.want {
			t.Errorf("%x:\n got %s\nwant %s", c.row, got, c.want)
		}
	}
	equal(t, "a value's rows", teller.Range(id, successor(id)), "all sub rows of value 305120c0f27d0000, slot 6392")
	equal(t, "marks", teller.Range(sysKey(sysWatermark), appendSysKey64(nil, sysWatermark, 9)), "older marks of ids")
	equal(t, "a range", teller.Range([]byte{1}, []byte{2}), "rows from 01 up to 02")
	equal(t, "a counter", teller.Counter(appendSysKey32(nil, sysKeys, 1)), "count of keys of database 0 (keyspace 1)")
	equal(t, "no counter", teller.Counter([]byte{1}), "unknown counter 01")
	teller.Values = true
	equal(t, "with values", teller.Value(appendMetaKey(nil, 1, 1, nil), append(appendMetaHead(nil, Meta{Type: String}), "bar"...)), `string, int, 3 bytes: "bar"`)
	equal(t, "a chunk with values", teller.Value(append(id, 0), []byte(strings.Repeat("y", 300))), fmt.Sprintf("%q... (300 bytes)", strings.Repeat("y", 256)))
}

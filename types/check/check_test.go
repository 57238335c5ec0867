package check_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types/check"
	"redoubt/types/pack"
)

// findings are what a check of a store reports, a line each.
func findings(t testing.TB, s *typestest.Store) (list []string) {
	t.Helper()
	counters := make(map[string]int64)
	for ks := range byte(4) {
		for _, what := range []byte{2, 3} {
			name := []byte{0xff, what, 0, 0, 0, ks}
			n, err := s.Eng.Counter(name)
			if err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				counters[string(name)] = n
			}
		}
	}
	snap, err := s.Eng.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	keyspace.Check(snap, counters, check.Examine, func(kind, place, what string) {
		list = append(list, kind+": "+place+": "+what)
	}, nil)
	return list
}

// raw commits rows as they are.
func raw(t testing.TB, s *typestest.Store, f func(b *engine.Batch)) {
	t.Helper()
	view, err := s.Eng.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var b engine.Batch
	f(&b)
	if _, err := view.Commit(&b); err != nil {
		t.Fatal(err)
	}
}

func TestHealthyStore(t *testing.T) {
	t.Parallel()
	s := typestest.New(t)
	for _, st := range steps {
		s.Do(st.run)
		if list := findings(t, s); len(list) > 0 {
			t.Fatalf("after %s: %q", st.name, list)
		}
	}
}

// A set with groups of segments.
func TestHealthyLargeSortedSet(t *testing.T) {
	t.Parallel()
	s := typestest.New(t)
	n := 400_000
	few := testing.Short() || race.Enabled
	if few {
		n = 2000
	}
	s.Do(manyScores("Z", n))
	if list := findings(t, s); len(list) > 0 {
		t.Fatalf("%q", list)
	}
	groups := 0
	for _, r := range rowsOf(t, s) {
		if r.key[0] != 0xff && r.key[2] == byte(keyspace.RankRow) && r.key[keyspace.RowKeyHead] == 2 {
			groups++
		}
	}
	if groups < 2 && !few {
		t.Errorf("%d groups: the test tested nothing", groups)
	}
}

// Every row says something that another row can be held to.
func TestMissesNoRow(t *testing.T) {
	t.Parallel()
	s := populate(t)
	var teller keyspace.Describer
	rows := rowsOf(t, s)
	for _, r := range rows {
		teller.Learn(r.key, r.value)
	}
	alike := make(map[string]int)
	for _, r := range rows {
		if r.key[0] == 0xff {
			continue // keyspace's tests have those
		}
		head := string(r.key[:min(len(r.key), keyspace.RowKeyHead)])
		if alike[head]++; alike[head] > 20 && alike[head]%50 != 0 {
			continue // some will do
		}
		raw(t, s, func(b *engine.Batch) { b.Delete(r.key) })
		if len(findings(t, s)) == 0 {
			t.Errorf("without %s nothing is reported", teller.Row(r.key, r.value))
		}
		raw(t, s, func(b *engine.Batch) { b.Put(r.key, r.value) })
	}
	if list := findings(t, s); len(list) > 0 {
		t.Errorf("with all of them: %q", list)
	}
}

// Whatever bytes there are, the check comes to an end and says so.
func TestAnyDamage(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := populate(t)
	var rows []row
	for _, r := range rowsOf(t, s) {
		if r.key[0] != 0xff && !bytes.HasPrefix(r.key, []byte{0x3a, 0xb7, 2}) && !bytes.HasPrefix(r.key, []byte{0x3a, 0xb7, 3}) {
			rows = append(rows, r)
		}
	}
	reported, times := 0, 1000
	if race.Enabled {
		times = 100
	}
	for range times {
		r := rows[rng.IntN(len(rows))]
		key, value := bytes.Clone(r.key), bytes.Clone(r.value)
		mutate := func(b []byte, from int) []byte {
			switch n := len(b) - from; {
			case n <= 0 || rng.IntN(5) == 0:
				return append(b, byte(rng.IntN(256)))
			case rng.IntN(3) == 0:
				return b[:from+rng.IntN(n)]
			default:
				b[from+rng.IntN(n)] = byte(rng.IntN(256))
				return b
			}
		}
		if rng.IntN(3) == 0 {
			key = mutate(key, min(len(key), keyspace.RowKeyHead))
		} else {
			value = mutate(value, 0)
		}
		raw(t, s, func(b *engine.Batch) { b.Delete(r.key); b.Put(key, value) })
		if len(findings(t, s)) > 0 {
			reported++
		}
		raw(t, s, func(b *engine.Batch) { b.Delete(key); b.Put(r.key, r.value) })
	}
	if list := findings(t, s); len(list) > 0 {
		t.Errorf("after all was mended: %q", list)
	}
	if reported < times/2 {
		t.Errorf("only %d of %d were reported", reported, times)
	}
}

// place names a row of the store that the steps make.
type place struct {
	key  string
	kind keyspace.Kind // 0: the meta row
	rest string
}

// find returns a row.
func (p place) find(t testing.TB, s *typestest.Store) (key, value []byte) {
	t.Helper()
	s.Do(func(tx *keyspace.Tx) {
		m := tx.Find([]byte(p.key))
		if !m.Exists() {
			t.Fatalf("there is no key %s", p.key)
		}
		if p.kind == 0 {
			slot := keyspace.SlotOf([]byte(p.key))
			key = append([]byte{byte(slot >> 8), byte(slot), 1, 0, 0, 0, 1}, p.key...)
		} else {
			key = append(keyspace.AppendRowKey(nil, m.Ref(), p.kind), p.rest...)
		}
		v, _ := tx.GetRow(key)
		value = bytes.Clone(v)
	})
	return key, value
}

// metaHead is the length of what a meta row has in front of its body.
const metaHead = 9

func be64(n int64) string  { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
func be32(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// sid is a stream's ID.
func sid(ms, seq int64) string { return be64(ms) + be64(seq) }

// The rests of some keys, by the hashes in the golden file.
const (
	rowF = "\xd0\x0d\xba\x5c" + "f"
	rowA = "\xd2\x4e\xc4\xf1" + "a"
	rowB = "\x78\x45\x2a\xa1" + "b"
)

func TestFinds(t *testing.T) {
	t.Parallel()
	minus1, oneHalf := "\x40\x0f\xff\xff\xff\xff\xff\xff", "\xbf\xf8\x00\x00\x00\x00\x00\x00"
	at := func(off int, text string) func([]byte) []byte { // bytes behind the head become others
		return func(v []byte) []byte { copy(v[off:], text); return v }
	}
	body := func(text string) func([]byte) []byte {
		return func(v []byte) []byte { return append(v[:metaHead], text...) }
	}
	be := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	packed := func(entries ...string) string {
		var b pack.Buf
		for _, e := range entries {
			b = b.Append([]byte(e))
		}
		return string(b)
	}
	const ref = metaHead + keyspace.RefSize
	const chanTail = ref + keyspace.FieldTimesSize
	msg := func(position byte) string { return "\x00\x80\x00\x00\x00\x00\x00\x00" + string([]byte{position}) }
	meta := func(key string) place { return place{key: key} }
	sub := func(key, rest string) place { return place{key, keyspace.SubRow, rest} }
	score := func(key, rest string) place { return place{key, keyspace.ScoreRow, rest} }
	rank := func(key, rest string) place { return place{key, keyspace.RankRow, rest} }
	size := func(n int64) func([]byte) []byte { return at(metaHead+10, be64(n)) }
	for _, c := range []struct {
		name string
		at   place
		to   func(old []byte) []byte // what the row becomes; nil deletes it
		want []string                // parts of what is reported, one each
	}{
		{"a packed value that cannot be read", meta("l"), body("\x00\x02\x01a"), []string{"a packed value of 4 bytes says that it has 2 entries"}},
		{"a packed value without entries", meta("l"), body("\x00\x00"), []string{"it is empty"}},
		{"a packed value that is too large", meta("l"), body(packed(strings.Repeat("x", 70000))), []string{"it has 70005 bytes, and packed values 65536"}},
		{"an odd number of entries", meta("h"), func(v []byte) []byte {
			v[0] = 0x50
			return append(v[:metaHead], packed("f", "v", "g")...)
		}, []string{"3 entries are no fields", `the key has no time`}},
		{"a field twice", meta("h"), body(be64(now+1000) + be64(0) + packed("f", "1", be64(now+1000), "f", "2", "")), []string{`"f" is in it twice`}},
		{"a field's time of a wrong length", meta("h"), body(be64(now+1000) + be64(0) + packed("f", "1", be64(now+1000), "g", "2", "x")), []string{`field 1 has the time 78`}},
		{"a first time that is too late", meta("h"), body(be64(now+1000) + be64(now+2000) + packed("f", "1", be64(now+1), "g", "2", be64(now+2000))), []string{"a field dies at 1700000000001, and the first is said to die at 1700000001000"}},
		{"a last time that is wrong", meta("h"), body(be64(now+1000) + be64(now+3000) + packed("f", "1", be64(now+1000), "g", "2", be64(now+2000))), []string{"its last field dies at 1700000002000, and is said to die at 1700000003000"}},
		{"a last time though a field stays", meta("h"), body(be64(now+1000) + be64(now+2000) + packed("f", "1", be64(now+1000), "g", "2", "")), []string{"its last field dies at 0, and is said to die at 1700000002000"}},
		{"a set with a member twice", meta("s"), body(packed("b", "a", "b")), []string{`"b" is in it twice`}},
		{"integers in a wrong order", meta("i"), at(metaHead, "\x80\x00\x00\x00\x00\x00\x00\x02"), []string{"the integer 1 is behind 2"}},
		{"an integer twice", meta("i"), at(metaHead, "\x80\x00\x00\x00\x00\x00\x00\x01"), []string{"the integer 1 is behind 1"}},
		{"a part of an integer", meta("i"), body("\x80\x00\x00"), []string{"3 bytes are no integers"}},
		{"no integers", meta("i"), body(""), []string{"it is empty"}},
		{"packed scores in a wrong order", meta("z"), body(packed(oneHalf+"b", minus1+"a")), []string{`member "a" is not in its place`}},
		{"a packed member twice", meta("z"), body(packed(minus1+"a", oneHalf+"a")), []string{`"a" is in it twice`}},
		{"a packed element without score", meta("z"), body(packed(minus1+"a", "x")), []string{"an element has 1 bytes"}},
		{"a packed score that is none", meta("z"), body(packed(strings.Repeat("\xff", 8) + "a")), []string{`member "a": its score is not a number`}},

		{"a wrong size of a set", meta("S"), size(5), []string{"it is said to have 5 members, and has 4"}},
		{"a body that is too long", meta("S"), func(v []byte) []byte { return append(v, 0) }, []string{"has 1 bytes behind the ref, not 0"}},
		{"a member that is missing", sub("S", rowA), nil, []string{"it is said to have 4 members, and has 3"}},
		{"a member too many", sub("S", "\x18\x7a\x67\x5b"+"z"), be(""), []string{`member "z" of value`, "it is said to have 4 members, and has 5"}},
		{"a member under a wrong hash", sub("S", "\x00\x00\x00\x00"+"a"), be(""), []string{"its key has the hash 00000000, not d24ec4f1", "has 5"}},
		{"a member with a value", sub("S", rowA), be("x"), []string{`member "a" of value 305120c0f2000001, slot 10902: it has a value: 78; it belongs to key "S"`}},
		{"a score row of a set", score("S", "12345678x"), be(""), []string{"a set has no such row"}},
		{"a rank row of a set", rank("S", "\x01"), be("x"), []string{"a set has no such row"}},

		{"a wrong size of a hash", meta("H"), size(2), []string{"it is said to have 2 fields, and has 3"}},
		{"a field without its flags", sub("H", rowF), be(""), []string{`field "f" of value 305120c0f2000000, slot 2508: its value begins with`, `time 2023-11-14T22:13:21.000Z of field "f"`, "3 fields are said to have times, and 2 have", "its last field dies at 0"}},
		{"a field with flags that there are not", sub("H", rowF), be("\x02x"), []string{"its value begins with 0278", "the time of the field is 0", "3 fields are said", "its last field dies at 0"}},
		{"a field without time row", score("H", be64(now+1000)+"f"), nil, []string{`field "f" of value 305120c0f2000000, slot 2508: it dies at 1700000001000, and has no score row`}},
		{"a time row without field", score("H", be64(now+1000)+"x"), be(""), []string{"there is no such field"}},
		{"a time row for another time", score("H", be64(now+1001)+"f"), be(""), []string{"the time of the field is 1700000001000"}},
		{"a time row with a value", score("H", be64(now+1000)+"f"), be("x"), []string{"it has a value: 78"}},
		{"a wrong number of fields with times", meta("H"), at(ref+16, be64(2)), []string{"2 fields are said to have times, and 3 have"}},
		{"a wrong last time", meta("H"), at(ref+8, be64(now+5000)), []string{"its last field dies at 1700000003000, and is said to die at 1700000005000"}},
		{"times that the meta row does not have", meta("H"), func(v []byte) []byte {
			v[0] = 0x51
			return v[:ref]
		}, []string{"3 fields have times, and the meta row has none", "the key has no time of death"}},
		{"a rank row of a hash", rank("H", "\x01"), be("x"), []string{"a hash has no such row"}},

		{"a wrong size of a sorted set", meta("Z"), size(4), []string{"it is said to have 4 members, and has 3"}},
		{"a member without score row", score("Z", minus1+"a"), nil, []string{`member "a" of value 305120c0f2000002, slot 15295: it has no score row`}},
		{"a score row without member", score("Z", minus1+"x"), be(""), []string{`score -1 of member "x" of value 305120c0f2000002, slot 15295: there is no such member`}},
		{"a member with another score", sub("Z", rowA), be(oneHalf), []string{"it has no score row for its score", "the member has another score"}},
		{"a score of a wrong length", sub("Z", rowA), be("x"), []string{"its score has 1 bytes", "the member has another score"}},
		{"a score row with a value", score("Z", minus1+"a"), be("x"), []string{"it has a value: 78"}},
		{"a score that is minus zero", score("Z", "\x7f\xff\xff\xff\xff\xff\xff\xff"+"a"), be(""), []string{"minus zero", "the member has another score"}},
		{"a short score row", score("Z", "x"), be(""), []string{"a zset has no such row"}},
		{"a segment that nobody counts", rank("Z", "\x01"), be("\x00\x00\x00\x03"), []string{"it is said to have 0 segments in 0 groups, and has 1 in 0"}},
		{"a wrong count of a segment", rank("R", "\x01"), be("\x00\x00\x01\x81"), []string{"first segment of value 305120c0f2000003, slot 15031: it is said to have 385 members, and has 384"}},
		{"no first segment", rank("R", "\x01"), nil, []string{"does not begin with the first element", "members, and has 600", "2 segments in 0 groups, and has 1 in 0"}},
		{"a segment too many", rank("R", "\x01\xff"), be("\x00\x00\x00\x00"), []string{"", "", ""}},
		{"a segment's value of a wrong length", rank("R", "\x01"), be("x"), []string{"", "", "its value has 1 bytes", ""}},
		{"a level that is none", rank("R", "\x03"), be("\x00\x00\x00\x01"), []string{"a zset has no such row"}},
		{"a group that nobody counts", rank("R", "\x02"), be(be64(600) + be32(2)), []string{"2 segments in 0 groups, and has 2 in 1"}},
		{"a group with a wrong count", rank("R", "\x02"), be(be64(601) + be32(2)), []string{"first group of segments of value 305120c0f2000003, slot 15031: it is said to have 601 members in 2 segments, and has 600 in 2", "groups"}},
		{"a group with a wrong number of segments", rank("R", "\x02"), be(be64(600) + be32(3)), []string{"it is said to have 600 members in 3 segments, and has 600 in 2", "groups"}},
		{"a group that does not begin with a segment", rank("R", "\x02"+minus1+"x"), be(be64(0) + be32(0)), []string{"", "", "groups"}},
		{"wrong numbers of segments", meta("R"), at(ref, be32(3)), []string{"it is said to have 3 segments in 0 groups, and has 2 in 0"}},

		{"a wrong size of a list", meta("L"), size(3), []string{"it is said to have 3 elements, and has 4"}},
		{"a wrong head of a list", meta("L"), at(ref, be64(0)), []string{"element at -1 of value 305120c0f2000004, slot 2376: the next element should be at 0"}},
		{"wrong bytes of a list", meta("L"), at(ref+8, be64(13)), []string{"its elements are said to take 13 bytes, and take 12"}},
		{"a gap in a list", sub("L", "\x80\x00\x00\x00\x00\x00\x00\x01"), nil, []string{"element at 2 of value", "it is said to have 4 elements, and has 3", "bytes"}},
		{"an element too many", sub("L", "\x80\x00\x00\x00\x00\x00\x00\x03"), be("x"), []string{"it is said to have 4 elements, and has 5", "bytes"}},
		{"a list's row without index", sub("L", "\x80"), be("x"), []string{"a list has no such row"}},

		{"a wrong size of a stream", meta("x"), size(3), []string{"it is said to have 3 entries, and has 2"}},
		{"a wrong last ID", meta("x"), at(ref, sid(1, 2)), []string{"its last entry is 1-3, and the last ID is said to be 1-2"}},
		{"a wrong first entry", meta("x"), at(ref+32, sid(1, 2)), []string{"its first entry is 1-1, and is said to be 1-2"}},
		{"a first entry of an empty stream", meta("e"), at(ref+32, sid(1, 2)), []string{"it has no entries, and the first is said to be 1-2"}},
		{"fewer entries added than there are", meta("x"), at(ref+48, be64(1)), []string{"it has 2 entries, and 1 are said to have been added"}},
		{"a wrong number of groups", meta("x"), at(ref+56, be32(2)), []string{"it is said to have 2 groups, and has 1"}},
		{"a group number to come", meta("x"), at(ref+60, be32(0)), []string{"its number is 1, and the last one given is 0"}},
		{"a wrong number of nodes", meta("x"), at(ref+64, be64(2)), []string{"it is said to have 2 nodes from 1-1 besides the last, and has 1"}},
		{"a wrong first node", meta("x"), at(ref+72, sid(1, 2)), []string{"its first node is from 1-1 and has 1 entries; it is said to be from 1-2 with 1"}},
		{"a wrong end of the last node", meta("x"), at(ref+108, sid(1, 2)), []string{"its node from 1-3 to 1-2 is not in its place", "entry 1-3 of value 305120c0f2000006, slot 16287: it lies behind the end of its node, 1-2"}},
		{"a wrong count of the last node", meta("x"), at(ref+124, be32(2)), []string{"its node from 1-3 is said to have 2 entries, and has 1"}},
		{"a wrong count of a node", sub("x", "\x01"+sid(1, 1)), at(16, be32(2)), []string{"its first node is", "its node from 1-1 is said to have 2 entries, and has 1"}},
		{"a node that is missing", sub("x", "\x01"+sid(1, 1)), nil, []string{"entry 1-1 of value 305120c0f2000006, slot 16287: it lies in no node", "1 nodes"}},
		{"a node's row of a wrong length", sub("x", "\x01"+sid(1, 1)), be("x"), []string{"it lies in no node", "its value has 1 bytes", "1 nodes"}},
		{"an entry that is missing", sub("x", "\x00"+sid(1, 3)), nil, []string{"its node from 1-3 is said to have 1 entries, and has 0", "2 entries, and has 1"}},
		{"an entry that cannot be read", sub("x", "\x00"+sid(1, 3)), be("\x01\x01f"), []string{"entry 1-3 of value 305120c0f2000006, slot 16287: its fields and values cannot be read"}},
		{"a row of no sort", sub("x", "\x06"), be("x"), []string{"a stream has no such row"}},
		{"a score row of a stream", score("x", "12345678"), be("x"), []string{"a stream has no such row"}},
		{"a group's row of a wrong length", sub("x", "\x02g"), be("x"), slices.Repeat([]string{""}, 7)},
		{"a wrong number of consumers", sub("x", "\x02g"), at(52, be32(3)), []string{`group "g" of value 305120c0f2000006, slot 16287: it is said to have 3 consumers, and has 2`}},
		{"a wrong number of pending entries", sub("x", "\x02g"), at(28, be64(3)), []string{"it is said to have 3 pending entries, and has 2"}},
		{"a pending entry above the last", sub("x", "\x02g"), at(36, sid(1, 1)), []string{"pending entry 1-2 of group 1 of value 305120c0f2000006, slot 16287: it is above 1-1"}},
		{"a consumer of no group", sub("x", "\x03"+be32(7)+"c"), be(be32(1) + be64(now) + be64(now) + be64(0)), []string{`consumer "c" of group 7 of value 305120c0f2000006, slot 16287: no group has the number 7`}},
		{"a consumer's number to come", sub("x", "\x03"+be32(1)+"d"), at(0, be32(9)), []string{"its number is 9, and the last one given is 2"}},
		{"a consumer that is missing", sub("x", "\x03"+be32(1)+"c"), nil, []string{`there is no consumer "c"`, `there is no consumer "c"`, "2 consumers, and has 1", "is pending at consumer", "is pending at consumer"}},
		{"a consumer's row of a wrong length", sub("x", "\x03"+be32(1)+"d"), be("x"), []string{"its value has 1 bytes"}},
		{"a wrong number of a consumer's entries", sub("x", "\x03"+be32(1)+"d"), at(20, be64(1)), []string{"it is said to have 1 pending entries, and has 0"}},
		{"a pending entry that is missing", sub("x", "\x04"+be32(1)+sid(1, 1)), nil, []string{"it is said to have 2 pending entries, and has 1", "pending entry 1-1 of group 1, consumer 1 of value 305120c0f2000006, slot 16287: the entry is not pending in the group"}},
		{"a pending entry of another consumer", sub("x", "\x04"+be32(1)+sid(1, 1)), at(16, "d"), []string{`consumer "d" has no row for it`, `the entry is pending at consumer "d", number 2`}},
		{"a pending entry of no group", sub("x", "\x04"+be32(7)+sid(1, 1)), be(be64(now) + be64(1) + "c"), []string{"no group has the number 7"}},
		{"a pending entry without a consumer's row", sub("x", "\x05"+be32(1)+be32(1)+sid(1, 1)), nil, []string{`consumer "c" of group 1 of value 305120c0f2000006, slot 16287: it is said to have 2 pending entries, and has 1`, `consumer "c" has no row for it`}},
		{"a consumer's row that nobody has", sub("x", "\x05"+be32(1)+be32(9)+sid(1, 1)), be(""), []string{`the entry is pending at consumer "c", number 1`}},
		{"a consumer's row with a value", sub("x", "\x05"+be32(1)+be32(1)+sid(1, 1)), be("x"), []string{"it has a value: 78"}},

		{"a wrong size of a channel", meta("c"), size(3), []string{"it is said to have 3 messages that can be read, and has 2"}},
		{"a wrong number of ids", meta("c"), at(chanTail+24, be64(4)), []string{"it is said to have 4 ids, and has 3"}},
		{"wrong bytes of a channel", meta("c"), at(chanTail+32, be64(4)), []string{"it is said to have 4 bytes, and has 12"}},
		{"a wrong number of subscribers", meta("c"), at(chanTail+80, be32(2)), []string{"it is said to have 2 subscribers, and has 1"}},
		{"a wrong first message", meta("c"), at(chanTail+8, be64(1)), []string{"message at 1 of value 305120c0f2000007, slot 7365: it is trimmed, and the first message that can be read is said to be 1"}},
		{"a wrong last message", meta("c"), at(chanTail, be64(2)), []string{"message at 3 of value 305120c0f2000007, slot 7365: it is behind the newest message, which is said to be 2"}},
		{"a chain that begins too late", meta("c"), at(chanTail+16, be64(2)), []string{"message at 1 of value 305120c0f2000007, slot 7365: it has no score row, and the first without one is said to be 2 or behind"}},
		{"a sweep that comes too late", meta("c"), at(ref, be64(now+2001)), []string{"something in it dies at 1700000001000, and it is said to be swept at 1700000002001", "expire row", "expire row"}},
		{"an end of a channel that stays", meta("c"), at(ref+8, be64(now+5000)), []string{"it is said to die at 1700000005000, and should at 0"}},
		{"an end that is too early", meta("c"), at(chanTail+48, be64(now+5000)), []string{"something in it dies at 1700001841152, and the last is said to die at 1700000005000"}},
		{"a channel without anything", meta("n"), at(chanTail+56, be64(0)), []string{"it is empty"}},
		{"no buckets", meta("c"), at(chanTail+84, be32(0)), []string{"it has no buckets"}},
		{"another number of buckets", meta("c"), at(chanTail+84, be32(2)), []string{"belongs to bucket 1", "belongs to bucket 1"}},
		{"a body of a channel that is too short", meta("n"), func(v []byte) []byte { return v[:len(v)-1] }, []string{"behind the ref, not 121"}},
		{"a message that is missing", sub("c", msg(3)), nil, []string{"said to have 2 messages that can be read, and has 1", "said to have 3 ids, and has 2", "bytes", "bucket 0 of ids of value 305120c0f2000007, slot 7365: it names the message at 3, which does not exist"}},
		{"a message of another id", sub("c", msg(3)), at(19, "9"), []string{"its id is in the bucket 0 times", "it has the hash 2a23b69f for the message at 3"}},
		{"a message with flags that there are not", sub("c", msg(3)), at(0, "\x04"), []string{"its value begins with 04", "messages", "ids", "bytes"}},
		{"a message without its time row", score("c", be64(now+1000)+"\x00"+msg(2)[1:]), nil, []string{"message at 2 of value 305120c0f2000007, slot 7365: it has no score row for its time"}},
		{"a time row without message", score("c", be64(now+1000)+"\x00"+msg(9)[1:]), be(""), []string{"nothing dies at its time"}},
		{"a bucket of a wrong length", sub("c", "\x01"+be32(0)), be("x"), []string{"it has 1 bytes", "its id is in the bucket 0 times", "its id is in the bucket 0 times", "its id is in the bucket 0 times"}},
		{"a subscriber that is missing", sub("c", "\x02s"), nil, []string{"said to have 1 subscribers, and has 0", `it names the subscriber "s", which does not exist`}},
		{"a subscriber beyond the clock", sub("c", "\x02s"), at(0, be64(4)), []string{"it is at 4 of 3"}},
		{"a subscriber without its time row", score("c", be64(now+1841152)+"\x01\x00\x00"), nil, []string{`subscriber "s" of value 305120c0f2000007, slot 7365: it has no score row for its time`}},
		{"a subscriber on another page", sub("c", "\x02s"), at(17, "\x01"), []string{"it has no score row for its time", `it names the subscriber "s", which dies at 1700001841152 and is on page 1`}},
		{"a time row of nobody", score("c", be64(now+1841153)+"\x01\x00\x00"), be(""), []string{"it names nobody"}},
		{"a time row with half a name", score("c", be64(now+1841152)+"\x01\x00\x00"), be("\x01s\x02t"), []string{"its names end with 0274"}},
		{"a name that is twice in a time row", score("c", be64(now+1841152)+"\x01\x00\x00"), be("\x01s\x01s"), []string{`it names the subscriber "s" twice`}},
		{"a row that no channel has", sub("c", "\x03s"), be("x"), []string{"a channel has no such row"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := populate(t)
			key, value := c.at.find(t, s)
			raw(t, s, func(b *engine.Batch) {
				if c.to == nil {
					b.Delete(key)
				} else {
					b.Put(key, c.to(value))
				}
			})
			got := findings(t, s)
			lacks := len(got) != len(c.want)
			for _, w := range c.want {
				lacks = lacks || !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) })
			}
			if lacks {
				t.Errorf("reported:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

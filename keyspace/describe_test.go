package keyspace

import (
	"encoding/binary"
	"strings"
	"testing"
)

// Rows of collections in words, once the type of their value is known.
func TestTellerOnCollections(t *testing.T) {
	t.Parallel()
	u32 := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	u64 := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	const at = testNow
	const where = " of value 0000000000000007, slot 6392"
	ref := func(size int64) string { return string(AppendRef(nil, Ref{ID: 7, Home: 6392, Size: size})) }
	tail := u64(5) + u64(1) + u64(0) + u64(0) + u64(2) + u64(0) + u64(9) + u32(1) + u32(3)
	tail += strings.Repeat("\x00", streamTail-len(tail))
	onePointFive, minusOne := "\xbf\xf8\x00\x00\x00\x00\x00\x00", "\x40\x0f\xff\xff\xff\xff\xff\xff"
	type row struct {
		kind        Kind
		rest, value string
		want        string
	}
	for _, c := range []struct {
		meta   Meta
		want   string
		values string // with the bytes
		rows   []row
	}{
		{meta: Meta{Type: List, Body: []byte("\x00\x02\x01a\x011")}, want: "list, packed, 2 elements, 6 bytes", values: `"a" "1"`},
		{meta: Meta{Type: List, Encoding: Rows, Body: []byte(ref(3) + u64(1<<64-1) + u64(9))},
			want: "list, rows, 3 elements, value 0000000000000007, slot 6392, the first at -1, 9 bytes",
			rows: []row{
				{SubRow, "\x7f\xff\xff\xff\xff\xff\xff\xff", "abc", "element at -1" + where + " = 3 bytes"},
				{SubRow, "\x7f", "", "sub row 7f" + where},
				{ScoreRow, "\x7f", "", "score row 7f" + where},
			}},
		{meta: Meta{Type: Set, Encoding: Integers, Body: []byte("\x7f\xff\xff\xff\xff\xff\xff\xfe" + u64(1<<63+1))}, want: "set, integers, 2 members, 16 bytes", values: "-2 1"},
		{meta: Meta{Type: Set, Encoding: Rows, Body: []byte(ref(3))}, want: "set, rows, 3 members, value 0000000000000007, slot 6392",
			rows: []row{{SubRow, "\x00\x01\x02\x03a b", "", `member "a b"` + where}, {SubRow, "\x00\x01", "", "sub row 0001" + where}}},
		{meta: Meta{Type: Hash, Body: []byte("\x00\x02\x01a\x011")}, want: "hash, packed, 1 fields, 6 bytes", values: `"a" "1"`},
		{meta: Meta{Type: Hash, Encoding: PackedTimed, Body: []byte(u64(at) + u64(0) + "\x00\x06\x01a\x011\x08" + u64(at) + "\x01b\x012\x00")},
			want:   "hash, packed with times, 2 fields, 36 bytes, no field dies before 2023-11-14T22:13:20.000Z",
			values: `"a" "1" until 2023-11-14T22:13:20.000Z "b" "2"`},
		{meta: Meta{Type: Hash, Encoding: RowsTimed, Expire: at, Body: []byte(ref(2) + u64(at) + u64(at+1000) + u64(2))},
			want: "hash, rows with times, 2 fields, value 0000000000000007, slot 6392, 2 of them with times, no field dies before 2023-11-14T22:13:20.000Z, the last one at 2023-11-14T22:13:21.000Z, expires 2023-11-14T22:13:20.000Z",
			rows: []row{
				{SubRow, "\x00\x01\x02\x03f", "\x00abc", `field "f"` + where + " = 3 bytes"},
				{SubRow, "\x00\x01\x02\x03f", "\x01" + u64(at) + "abc", `field "f"` + where + " = 3 bytes, until 2023-11-14T22:13:20.000Z"},
				{SubRow, "\x00\x01\x02\x03f", "\x02", `field "f"` + where + " = 1 bytes"},
				{ScoreRow, u64(at) + "f", "", `time 2023-11-14T22:13:20.000Z of field "f"` + where},
			}},
		{meta: Meta{Type: ZSet, Body: []byte("\x00\x01\x09" + onePointFive + "m")}, want: "zset, packed, 1 members, 12 bytes", values: `score 1.5 of member "m"`},
		{meta: Meta{Type: ZSet, Encoding: Rows, Body: []byte(ref(600) + u32(2) + u32(0))}, want: "zset, rows, 600 members, value 0000000000000007, slot 6392, 2 segments in 0 groups",
			rows: []row{
				{SubRow, "\x00\x01\x02\x03m", minusOne, `member "m"` + where + " = score -1"},
				{ScoreRow, minusOne + "m", "", `score -1 of member "m"` + where},
				{RankRow, "\x01", u32(300), "first segment" + where + " = 300 members"},
				{RankRow, "\x01" + onePointFive + "m", u32(300), `segment from score 1.5 of member "m"` + where + " = 300 members"},
				{RankRow, "\x02", u64(600) + u32(2), "first group of segments" + where + " = 600 members in 2 segments"},
				{RankRow, "\x03", "x", "rank row 03" + where + " = 1 bytes"},
			}},
		{meta: Meta{Type: Stream, Encoding: Rows, Body: []byte(ref(3) + tail)},
			want: "stream, rows, 3 entries, value 0000000000000007, slot 6392, last ID 5-1, first 2-0, 9 added, 1 groups",
			rows: []row{
				{SubRow, "\x00" + u64(5) + u64(1), "\x00", "entry 5-1" + where + " = 1 bytes"},
				{SubRow, "\x01" + u64(5) + u64(1), u64(6) + u64(0) + u32(2) + u32(1) + u32(30) + u64(0), "node from 5-1" + where + " = up to 6-0, 2 entries, 1 deleted"},
				{SubRow, "\x02g", u32(1) + u64(5) + u64(1) + u64(4) + u64(2) + u64(5) + u64(0) + u32(3) + u32(4),
					`group "g"` + where + " = number 1, last ID 5-1, 4 read, 2 pending up to 5-0, 3 consumers"},
				{SubRow, "\x03" + u32(1) + "c", u32(2) + u64(at) + u64(1<<64-1) + u64(3),
					`consumer "c" of group 1` + where + " = number 2, seen 2023-11-14T22:13:20.000Z, active never, 3 pending"},
				{SubRow, "\x04" + u32(1) + u64(5) + u64(1), u64(at) + u64(3) + "c",
					"pending entry 5-1 of group 1" + where + ` = given to "c" at 2023-11-14T22:13:20.000Z, 3 times`},
				{SubRow, "\x05" + u32(1) + u32(2) + u64(5) + u64(1), "", "pending entry 5-1 of group 1, consumer 2" + where},
				{SubRow, "\x09", "x", "sub row 09" + where + " = 1 bytes"},
			}},
	} {
		value := append(appendMetaHead(nil, c.meta), c.meta.Body...)
		key := appendMetaKey(nil, 1, 1, []byte("k"))
		var teller Describer
		equal(t, c.want, teller.Value(key, value), c.want)
		if c.values != "" {
			shows := Describer{Values: true}
			equal(t, c.want+" with values", shows.Value(key, value), c.want+": "+c.values)
		}
		teller.Learn(key, value)
		for _, r := range c.rows {
			row := append(appendPart(nil, 6392, byte(r.kind), 7), r.rest...)
			equal(t, r.want, teller.Row(row, []byte(r.value)), r.want)
		}
	}
}

// Rows that are shorter than they should be are shown as they are.
func TestTellerOnAnyBytes(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for is := String; is <= Channel; is++ {
		teller := Describer{Values: true}
		teller.learnValue(Ref{ID: 7}, is)
		for range 2000 {
			b := make([]byte, rng.IntN(80))
			for i := range b {
				b[i] = byte(rng.IntN(6))
			}
			cut := rng.IntN(len(b) + 1)
			kind := byte(kindSub + rng.IntN(3))
			teller.Row(append(appendPart(nil, 1, kind, 7), b[:cut]...), b[cut:])
			m := Meta{Type: is, Encoding: Encoding(rng.IntN(6)), Body: b}
			teller.Row(appendMetaKey(nil, 1, 1, nil), append(appendMetaHead(nil, m), b...))
		}
	}
}

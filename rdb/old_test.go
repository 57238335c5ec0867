package rdb

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redoubt/number"
)

// Encodings that no server at hand writes any more, made by hand. A real Redis has
// read each of them as we do: TestRedisReadsOld.

// payload puts an end to a value.
func payload(version uint16, parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	b = binary.LittleEndian.AppendUint16(b, version)
	return binary.LittleEndian.AppendUint64(b, Checksum(0, b))
}

func rdbLen(n int) []byte {
	e := Encoder{}
	e.length(uint64(n))
	return e.Buf
}

// rdbString is a string in plain bytes.
func rdbString(s string) []byte { return append(rdbLen(len(s)), s...) }

// ziplist packs strings as Redis before 7 did.
func ziplist(items ...string) []byte {
	b := make([]byte, ziplistHead)
	before, last := 0, ziplistHead
	for _, s := range items {
		at := len(b)
		last = at
		if before < 0xfe {
			b = append(b, byte(before))
		} else {
			b = binary.LittleEndian.AppendUint32(append(b, 0xfe), uint32(before))
		}
		n, isInt := number.ParseInt([]byte(s))
		le := binary.LittleEndian
		switch {
		case isInt && n >= 0 && n <= 12:
			b = append(b, 0xf1+byte(n))
		case isInt && n == int64(int8(n)):
			b = append(b, 0xfe, byte(n))
		case isInt && n == int64(int16(n)):
			b = le.AppendUint16(append(b, 0xc0), uint16(n))
		case isInt && n >= -1<<23 && n < 1<<23:
			b = append(b, 0xf0, byte(n), byte(n>>8), byte(n>>16))
		case isInt && n == int64(int32(n)):
			b = le.AppendUint32(append(b, 0xd0), uint32(n))
		case isInt:
			b = le.AppendUint64(append(b, 0xe0), uint64(n))
		case len(s) < 1<<6:
			b = append(append(b, byte(len(s))), s...)
		case len(s) < 1<<14:
			b = append(append(b, 0x40|byte(len(s)>>8), byte(len(s))), s...)
		default:
			b = append(binary.BigEndian.AppendUint32(append(b, 0x80), uint32(len(s))), s...)
		}
		before = len(b) - at
	}
	b = append(b, packEnd)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], uint32(last))
	binary.LittleEndian.PutUint16(b[8:], uint16(min(len(items), manyEntries)))
	return b
}

// listpack packs strings as Redis does since 7.
func listpack(items ...string) []byte {
	b := make([]byte, listpackHead)
	for _, s := range items {
		b = appendListpack(b, []byte(s))
	}
	b = append(b, packEnd)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint16(b[4:], uint16(min(len(items), manyEntries)))
	return b
}

// zipmap packs fields and values as Redis before 2.6 did, with unused bytes here and
// there.
func zipmap(items ...string) []byte {
	b := []byte{byte(min(len(items)/2, 0xfe))}
	for i, s := range items {
		if len(s) < 0xfe {
			b = append(b, byte(len(s)))
		} else {
			b = binary.LittleEndian.AppendUint32(append(b, 0xfe), uint32(len(s)))
		}
		if i%2 == 1 {
			b = append(b, byte(i%5))
		}
		b = append(b, s...)
		if i%2 == 1 {
			b = append(b, make([]byte, i%5)...)
		}
	}
	return append(b, packEnd)
}

// textScore is a score as Redis before 4.0 wrote it.
func textScore(s string) []byte {
	switch s {
	case "inf":
		return []byte{254}
	case "-inf":
		return []byte{255}
	}
	return append([]byte{byte(len(s))}, s...)
}

// oldValue is a payload and what it holds.
type oldValue struct {
	sample
	payload []byte
}

func oldValues() (list []oldValue) {
	add := func(name string, k Kind, items []string, version uint16, parts ...[]byte) {
		list = append(list, oldValue{sample{name: name, kind: k, items: items}, payload(version, parts...)})
	}
	items := append(append([]string{""}, integers...), texts()...)
	items = append(items, strings.Repeat("long ", 5000))
	var plain []byte
	for _, s := range items {
		plain = append(plain, rdbString(s)...)
	}
	add("list", List, items, 6, []byte{typeList}, rdbLen(len(items)), plain)
	add("list-ziplist", List, items, 6, []byte{typeListZiplist}, rdbString(string(ziplist(items...))))
	many := numbered(70000, "%d")
	add("list-ziplist-many", List, many, 6, []byte{typeListZiplist}, rdbString(string(ziplist(many...))))
	add("list-listpack-many", List, many, 10, []byte{typeListQuicklist2}, rdbLen(1), rdbLen(nodePacked), rdbString(string(listpack(many...))))
	add("list-quicklist", List, append(items, "a", "b"), 7, []byte{typeListQuicklist}, rdbLen(3),
		rdbString(string(ziplist(items...))), rdbString(string(ziplist())), rdbString(string(ziplist("a", "b"))))
	add("set", Set, items, 6, []byte{typeSet}, rdbLen(len(items)), plain)

	scores := []string{"a", "1", "b", "-1.5", "c", "inf", "d", "-inf", "e", "0", "f", "1e+300", "7", "3.0000000000000004", "", "17", "i", "0.10000000000000001"}
	var text, binaries []byte
	for i := 0; i < len(scores); i += 2 {
		text = append(append(text, rdbString(scores[i])...), textScore(scores[i+1])...)
		f, _ := strconv.ParseFloat(scores[i+1], 64)
		binaries = binary.LittleEndian.AppendUint64(append(binaries, rdbString(scores[i])...), math.Float64bits(f))
	}
	add("zset-text", ZSet, scores, 6, []byte{typeZSet}, rdbLen(len(scores)/2), text)
	add("zset-binary", ZSet, scores, 8, []byte{typeZSet2}, rdbLen(len(scores)/2), binaries)
	// In the order of scores, as Redis relies on it.
	ordered := []string{"d", "-inf", "b", "-1.5", "e", "0", "i", "0.10000000000000001", "a", "1", "7", "3.0000000000000004", "", "17", "f", "1e+300", "c", "inf"}
	add("zset-ziplist", ZSet, ordered, 6, []byte{typeZSetZiplist}, rdbString(string(ziplist(ordered...))))
	add("zset-listpack", ZSet, ordered, 10, []byte{typeZSetListpack}, rdbString(string(listpack(ordered...))))

	pairs := append([]string{"", "empty name", "empty value", ""}, numbered(9, "field%d", "%d", "%d", "value %d")...)
	pairs = append(pairs, "long", strings.Repeat("long", 100), strings.Repeat("f", 300), "-5")
	var fields []byte
	for _, s := range pairs {
		fields = append(fields, rdbString(s)...)
	}
	add("hash", Hash, pairs, 6, []byte{typeHash}, rdbLen(len(pairs)/2), fields)
	add("hash-zipmap", Hash, pairs, 6, []byte{typeHashZipmap}, rdbString(string(zipmap(pairs...))))
	lots := numbered(300, "f%d", "%d")
	add("hash-zipmap-many", Hash, lots, 6, []byte{typeHashZipmap}, rdbString(string(zipmap(lots...))))
	add("hash-ziplist", Hash, pairs, 6, []byte{typeHashZiplist}, rdbString(string(ziplist(pairs...))))
	return append(list, oldStream())
}

// oldStream is a stream as Redis 5 and 6 wrote it: without counters.
func oldStream() oldValue {
	node := func(items ...string) []byte { return rdbString(string(listpack(items...))) }
	id := func(ms, seq uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, ms), seq)
	}
	millis := func(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	group := func(name string, ms, seq int) []byte {
		return append(append(rdbString(name), rdbLen(ms)...), rdbLen(seq)...)
	}
	p := payload(9, []byte{typeStream}, rdbLen(2),
		rdbString(string(id(100, 5))),
		node("2", "1", "1", "f", "0", // two entries and a deleted one, all with the field f
			"2", "0", "0", "one", "4",
			"3", "0", "1", "gone", "4",
			"0", "3", "-5", "2", "g", "2", "h", "x", "8"),
		rdbString(string(id(200, 0))),
		node("1", "0", "2", "a", "b", "0", "2", "0", "0", "1", "2", "5"),
		rdbLen(3), rdbLen(200), rdbLen(0), // length and last id
		rdbLen(4),
		group("begin", 0, 0), rdbLen(0), rdbLen(0),
		group("end", 200, 0), rdbLen(1), id(100, 5), millis(1700000000000), rdbLen(2),
		rdbLen(2), rdbString("c"), millis(1700000000001), rdbLen(0),
		rdbString("d"), millis(1700000000002), rdbLen(1), id(100, 5),
		group("first", 100, 5), rdbLen(0), rdbLen(0),
		group("middle", 103, 0), rdbLen(0), rdbLen(0),
	)
	return oldValue{sample{name: "stream", kind: Stream, want: `100-5 f one
103-0 g 2 h x
200-0 a 1 b 2
length 3 last 200-0 first 100-5 deleted 0-0 added 3
group "begin" 0-0 0
group "end" 200-0 3
consumer "c"
consumer "d"
pending 100-5 1700000000000 2
group "first" 100-5 1
group "middle" 103-0 -1
`}, p}
}

func TestOldEncodings(t *testing.T) {
	t.Parallel()
	for _, o := range oldValues() {
		got, err := describe(o.payload, Options{})
		if want := o.wanted(); err != nil || got != want {
			t.Errorf("%s: %v\n got %.1000s\nwant %.1000s", o.name, err, got, want)
		}
	}
}

// timedValues are hashes as release candidates of 7.4 wrote them, and as 7.4 does.
func timedValues() (list []oldValue) {
	items := []string{"c", "3", "33177117419999", "a", "1", "33177117420000", "5", "six", "33177117420001", "b", "2", "0"}
	var early, late []byte
	const base = 33177117419999
	for i := 0; i < len(items); i += 3 {
		at, _ := strconv.Atoi(items[i+2])
		pair := append(rdbString(items[i]), rdbString(items[i+1])...)
		early = append(append(early, rdbLen(at)...), pair...)
		if at != 0 {
			at -= base - 1
		}
		late = append(append(late, rdbLen(at)...), pair...)
	}
	first := binary.LittleEndian.AppendUint64(nil, base)
	packed := rdbString(string(listpack(items...)))
	add := func(name string, parts ...[]byte) {
		list = append(list, oldValue{sample{name: name, kind: Hash, items: items, timed: true, since: "7.4.0"}, payload(12, parts...)})
	}
	add("timed-early", []byte{typeHashTimedEarly}, rdbLen(4), early)
	add("timed", []byte{typeHashTimed}, first, rdbLen(4), late)
	add("timed-listpack-early", []byte{typeHashListpackEXEarly}, packed)
	add("timed-listpack", []byte{typeHashListpackEX}, first, packed)
	return list
}

func TestTimedHashes(t *testing.T) {
	t.Parallel()
	for _, o := range timedValues() {
		got, err := describe(o.payload, Options{})
		if want := o.wanted(); err != nil || got != want {
			t.Errorf("%s: %v\n got %.1000s\nwant %.1000s", o.name, err, got, want)
		}
	}
}

// Everything that a value must not be is refused, with a checksum that is right.
func TestMalformed(t *testing.T) {
	t.Parallel()
	id := rdbString(string(make([]byte, 15)) + "\x01")
	lp := func(items ...string) []byte { return rdbString(string(listpack(items...))) }
	zl := func(items ...string) []byte { return rdbString(string(ziplist(items...))) }
	spoil := func(b []byte, at int, with ...byte) []byte {
		s := append([]byte(nil), b...)
		if at < 0 {
			at += len(s)
		}
		copy(s[at:], with)
		return rdbString(string(s))
	}
	intset := func(width, n uint32, data ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, width), n)
		return rdbString(string(append(b, data...)))
	}
	info := []byte("\x00\x00\x00\x00\x00\x00\x00\x00") // of an empty stream of version 2
	entry := []string{"1", "0", "1", "f", "0", "2", "0", "0", "v", "4"}
	with := func(i int, s string) []byte {
		changed := append([]string(nil), entry...)
		changed[i] = s
		return lp(changed...)
	}
	one := []byte("\x01\x00\x01\x00\x01\x00\x00\x01")
	group := []byte("\x01\x01g\x00\x00\x00")
	nack := append(append(make([]byte, 15), 1), make([]byte, 9)...)
	for name, parts := range map[string][][]byte{
		"nothing":                    {{}},
		"unknown type":               {{8}, rdbString("x")},
		"another unknown type":       {{26}, rdbString("x")},
		"a module of 4.0 RC":         {{6}, rdbString("x")},
		"a module":                   {{7}, rdbString("x")},
		"no string":                  {{typeString}},
		"short string":               {{typeString}, {5}, []byte("four")},
		"more behind":                {{typeString}, rdbString("x"), {0}},
		"bad length":                 {{typeString}, {0x82}, make([]byte, 20)},
		"long length":                {{typeString}, {len64, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		"cut length":                 {{typeString}, {len32, 0, 0}},
		"bad encoding":               {{typeString}, {0xc4}, rdbString("x")},
		"cut integer":                {{typeString}, {0xc1, 0}},
		"lzf: huge":                  {{typeString}, {0xc3, 1}, {len32, 0x1f, 0xff, 0xff, 0xff}, {0}},
		"lzf: cut":                   {{typeString}, {0xc3, 5, 9, 0}},
		"lzf: refers before":         {{typeString}, {0xc3, 4, 4, 0, 'a', 0x20, 9}},
		"lzf: shorter":               {{typeString}, {0xc3, 2, 5, 0, 'a'}},
		"lzf: longer":                {{typeString}, {0xc3, 4, 2, 2, 'a', 'b', 'c'}},
		"lzf: literal cut":           {{typeString}, {0xc3, 2, 5, 4, 'a'}},
		"lzf: reference cut":         {{typeString}, {0xc3, 4, 9, 1, 'a', 'b', 0xe0}},
		"lzf: element is longer":     {{typeList, 1}, {0xc3, 4, 2, 2, 'a', 'b', 'c'}},
		"empty list":                 {{typeList, 0}},
		"empty set":                  {{typeSet, 0}},
		"empty zset":                 {{typeZSet2, 0}},
		"empty hash":                 {{typeHash, 0}},
		"list of too many":           {{typeList}, {len32, 0xff, 0xff, 0xff, 0xff}, rdbString("a")},
		"list of one missing":        {{typeList, 2}, rdbString("a")},
		"encoded count":              {{typeList, 0xc0, 1}, rdbString("a")},
		"set with a duplicate":       {{typeSet, 2}, rdbString("1"), {0xc0, 1}},
		"zset with a duplicate":      {{typeZSet, 2}, rdbString("a"), textScore("1"), rdbString("a"), textScore("2")},
		"zset with NaN":              {{typeZSet, 1}, rdbString("a"), {253}},
		"zset with NaN text":         {{typeZSet, 1}, rdbString("a"), textScore("nan")},
		"zset with text":             {{typeZSet, 1}, rdbString("a"), textScore("one")},
		"zset with a cut text":       {{typeZSet, 1}, rdbString("a"), {5, '1'}},
		"zset2 with NaN":             {{typeZSet2, 1}, rdbString("a"), {0, 0, 0, 0, 0, 0, 0xf8, 0x7f}},
		"zset2 cut":                  {{typeZSet2, 1}, rdbString("a"), {0, 0, 0}},
		"hash with a duplicate":      {{typeHash, 2}, rdbString("a"), rdbString("1"), rdbString("a"), rdbString("2")},
		"hash without a value":       {{typeHash, 1}, rdbString("a")},
		"listpack: empty":            {{typeSetListpack}, lp()},
		"listpack: hash, empty":      {{typeHashListpack}, lp()},
		"listpack: zset, empty":      {{typeZSetListpack}, lp()},
		"listpack: short":            {{typeSetListpack}, rdbString("\x06\x00\x00\x00\x00\x00")},
		"listpack: wrong size":       {{typeSetListpack}, spoil(listpack("a", "b"), 0, 99)},
		"listpack: wrong count":      {{typeSetListpack}, spoil(listpack("a", "b"), 4, 3)},
		"listpack: no end":           {{typeSetListpack}, spoil(listpack("a", "b"), -1, 0)},
		"listpack: early end":        {{typeSetListpack}, spoil(listpack("a", "b"), 9, 0xff)},
		"listpack: bad code":         {{typeSetListpack}, spoil(listpack("a", "b"), 6, 0xf7)},
		"listpack: bad back length":  {{typeSetListpack}, spoil(listpack("a", "b"), 8, 7)},
		"listpack: long entry":       {{typeSetListpack}, spoil(listpack("a", "b"), 6, 0x90)},
		"listpack: huge entry":       {{typeSetListpack}, spoil(listpack("aaaaaaaa", "b"), 6, 0xf0, 0xff, 0xff, 0xff, 0xff)},
		"listpack: cut integer":      {{typeSetListpack}, spoil(listpack("a", "b"), 9, 0xf4)},
		"listpack: duplicate":        {{typeSetListpack}, lp("a", "5", "b", "5")},
		"listpack: odd hash":         {{typeHashListpack}, lp("a", "b", "c")},
		"listpack: hash, duplicate":  {{typeHashListpack}, lp("a", "b", "a", "c")},
		"listpack: zset, duplicate":  {{typeZSetListpack}, lp("a", "1", "a", "2")},
		"listpack: no score":         {{typeZSetListpack}, lp("a", "x")},
		"listpack: NaN":              {{typeZSetListpack}, lp("a", "nan")},
		"listpackex: two":            {{typeHashListpackEXEarly}, lp("a", "1")},
		"listpackex: no time":        {{typeHashListpackEXEarly}, lp("a", "1", "x")},
		"listpackex: negative":       {{typeHashListpackEXEarly}, lp("a", "1", "-1")},
		"listpackex: late":           {{typeHashListpackEXEarly}, lp("a", "1", "281474976710656")},
		"listpackex: order":          {{typeHashListpackEXEarly}, lp("a", "1", "6", "b", "2", "5")},
		"listpackex: order of none":  {{typeHashListpackEXEarly}, lp("a", "1", "0", "b", "2", "5")},
		"listpackex: duplicate":      {{typeHashListpackEXEarly}, lp("a", "1", "0", "a", "2", "0")},
		"listpackex: cut":            {{typeHashListpackEX}, {0, 0}},
		"timed: duplicate":           {{typeHashTimedEarly, 2}, {0}, rdbString("a"), rdbString("1"), {0}, rdbString("a"), rdbString("2")},
		"timed: late":                {{typeHashTimedEarly, 1}, rdbLen(1 << 48), rdbString("a"), rdbString("1")},
		"timed: late base":           {{typeHashTimed}, {0, 0, 0, 0, 0, 0, 0, 0x7f}, {1, 1}, rdbString("a"), rdbString("1")},
		"timed: late sum":            {{typeHashTimed}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0}, {1, 9}, rdbString("a"), rdbString("1")},
		"timed: empty":               {{typeHashTimed}, make([]byte, 9)},
		"ziplist: empty":             {{typeListZiplist}, zl()},
		"ziplist: wrong size":        {{typeListZiplist}, spoil(ziplist("a", "b"), 0, 99)},
		"ziplist: wrong tail":        {{typeListZiplist}, spoil(ziplist("a", "b"), 4, 10)},
		"ziplist: wrong count":       {{typeListZiplist}, spoil(ziplist("a", "b"), 8, 9)},
		"ziplist: wrong before":      {{typeListZiplist}, spoil(ziplist("a", "b"), 13, 4)},
		"ziplist: bad code":          {{typeListZiplist}, spoil(ziplist("a", "b"), 11, 0xc1)},
		"ziplist: long entry":        {{typeListZiplist}, spoil(ziplist("a", "b"), 11, 0x3f)},
		"ziplist: cut length":        {{typeListZiplist}, spoil(ziplist("a", ""), -2, 0x80)},
		"ziplist: odd hash":          {{typeHashZiplist}, zl("a")},
		"ziplist: hash, duplicate":   {{typeHashZiplist}, zl("1", "b", "1", "c")},
		"ziplist: zset, empty":       {{typeZSetZiplist}, zl()},
		"zipmap: empty":              {{typeHashZipmap}, rdbString("\x00\xff")},
		"zipmap: no end":             {{typeHashZipmap}, rdbString("\x00\x00")},
		"zipmap: wrong count":        {{typeHashZipmap}, spoil(zipmap("a", "1", "b", "2"), 0, 3)},
		"zipmap: duplicate":          {{typeHashZipmap}, rdbString(string(zipmap("a", "1", "a", "2")))},
		"zipmap: cut":                {{typeHashZipmap}, rdbString("\x01\x05abc\xff")},
		"zipmap: no value":           {{typeHashZipmap}, rdbString("\x01\x01a\xff")},
		"zipmap: gap too long":       {{typeHashZipmap}, rdbString("\x01\x01a\x01\x09b\xff")},
		"intset: empty":              {{typeSetIntset}, intset(2, 0)},
		"intset: width":              {{typeSetIntset}, intset(3, 1, 0, 0, 0)},
		"intset: size":               {{typeSetIntset}, intset(2, 2, 0, 0)},
		"intset: overflowing size":   {{typeSetIntset}, intset(8, 1<<29, 0)},
		"intset: twice":              {{typeSetIntset}, intset(2, 2, 5, 0, 5, 0)},
		"intset: order":              {{typeSetIntset}, intset(2, 2, 5, 0, 4, 0)},
		"intset: short":              {{typeSetIntset}, rdbString("\x02\x00\x00")},
		"quicklist: empty":           {{typeListQuicklist2, 0}},
		"quicklist: of empty":        {{typeListQuicklist, 1}, zl()},
		"quicklist: node kind":       {{typeListQuicklist2, 1, 3}, lp("a")},
		"quicklist: empty plain":     {{typeListQuicklist2, 1, nodePlain, 0}},
		"quicklist: missing node":    {{typeListQuicklist2, 2, nodePacked}, lp("a")},
		"stream: id size":            {{typeStream2, 1}, rdbString("short"), lp(entry...), one, {0}},
		"stream: empty node":         {{typeStream2, 1}, id, lp(), info, {0}},
		"stream: length":             {{typeStream2, 1}, id, lp(entry...), info, {0}},
		"stream: length of nothing":  {{typeStream2, 0}, one, {0}},
		"stream: count":              {{typeStream2, 1}, id, with(0, "2"), one, {0}},
		"stream: negative count":     {{typeStream2, 1}, id, with(0, "-1"), one, {0}},
		"stream: count is text":      {{typeStream2, 1}, id, with(0, "x"), one, {0}},
		"stream: deleted":            {{typeStream2, 1}, id, with(1, "1"), one, {0}},
		"stream: huge deleted":       {{typeStream2, 1}, id, with(1, "9223372036854775807"), one, {0}},
		"stream: fields":             {{typeStream2, 1}, id, with(2, "2"), one, {0}},
		"stream: huge fields":        {{typeStream2, 1}, id, with(2, "9223372036854775807"), one, {0}},
		"stream: negative fields":    {{typeStream2, 1}, id, with(2, "-1"), one, {0}},
		"stream: no zero":            {{typeStream2, 1}, id, with(4, "1"), one, {0}},
		"stream: flags":              {{typeStream2, 1}, id, with(5, "0"), one, {0}},
		"stream: marked as deleted":  {{typeStream2, 1}, id, with(5, "3"), one, {0}},
		"stream: id is text":         {{typeStream2, 1}, id, with(6, "x"), one, {0}},
		"stream: parts":              {{typeStream2, 1}, id, with(9, "5"), one, {0}},
		"stream: id zero":            {{typeStream2, 1}, id, with(7, "-1"), one, {0}},
		"stream: more in the node":   {{typeStream2, 1}, id, lp(append(entry, "1")...), one, {0}},
		"stream: order":              {{typeStream2, 1}, id, lp(append([]string{"2"}, append(entry[1:], entry[5:]...)...)...), []byte("\x02\x00\x01\x00\x01\x00\x00\x02"), {0}},
		"stream: order of nodes":     {{typeStream2, 2}, id, lp(entry...), id, lp(entry...), []byte("\x02\x00\x01\x00\x01\x00\x00\x02"), {0}},
		"stream: last":               {{typeStream2, 1}, id, lp(entry...), []byte("\x01\x00\x00\x00\x01\x00\x00\x01"), {0}},
		"stream: cut info":           {{typeStream2, 0}, info[1:]},
		"stream: too many groups":    {{typeStream2, 0}, info, {9}, group[1:]},
		"stream: cut group":          {{typeStream2, 0}, info, group[:4]},
		"stream: group twice":        {{typeStream2, 0}, info, {2}, group[1:], {0, 0}, group[1:], {0, 0}},
		"stream: pending, no owner":  {{typeStream2, 0}, info, group, {1}, nack, {0}},
		"stream: pending twice":      {{typeStream2, 0}, info, group, {2}, nack, nack, {0}},
		"stream: cut pending":        {{typeStream2, 0}, info, group, {1}, nack[:20]},
		"stream: consumer twice":     {{typeStream2, 0}, info, group, {0, 2}, rdbString("c"), make([]byte, 9), rdbString("c"), make([]byte, 9)},
		"stream: owned, not pending": {{typeStream2, 0}, info, group, {0, 1}, rdbString("c"), make([]byte, 8), {1}, nack[:16]},
		"stream: owned twice":        {{typeStream2, 0}, info, group, {1}, nack, {1}, rdbString("c"), make([]byte, 8), {2}, nack[:16], nack[:16]},
		"stream: cut consumer":       {{typeStream3, 0}, info, group, {0, 1}, rdbString("consumer"), make([]byte, 8), {0}},
		"stream: more behind":        {{typeStream2, 0}, info, {0, 0}},
	} {
		got, err := describe(payload(10, parts...), Options{})
		if !errors.Is(err, ErrFormat) || errors.Is(err, ErrPayload) {
			t.Errorf("%s: %v, %s", name, err, got)
		}
		if strings.HasSuffix(name, "empty") != errors.Is(err, ErrEmpty) && !strings.HasPrefix(name, "stream") &&
			!strings.HasPrefix(name, "empty") && name != "quicklist: of empty" && name != "quicklist: empty plain" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What these were made from is right.
	for name, parts := range map[string][][]byte{
		"stream":       {{typeStream2, 1}, id, lp(entry...), one, {0}},
		"empty stream": {{typeStream2, 0}, info, {0}},
		"group":        {{typeStream2, 0}, info, group, {0, 0}},
		"owned":        {{typeStream2, 0}, info, group, {1}, nack, {1}, rdbString("c"), make([]byte, 8), {1}, nack[:16]},
		"timed":        {{typeHashTimedEarly, 1}, rdbLen(1<<48 - 1), rdbString("a"), rdbString("1")},
	} {
		if _, err := describe(payload(10, parts...), Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Lengths that promise much cost nothing: memory is taken for what has come. The test
// does not run beside others, since it measures.
func TestPromises(t *testing.T) {
	long, huge := []byte{len32, 0x1f, 0xff, 0xff, 0xff}, []byte{len64, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	pad := make([]byte, 200)
	for _, n := range [][]byte{long, huge, {0x7f, 0xff}} {
		var values [][]byte
		for code := range kinds {
			values = append(values, slices.Concat([]byte{byte(code)}, n, pad))
		}
		values = append(values,
			slices.Concat([]byte{typeString, 0xc3, 100}, n, pad),                                  // compressed
			slices.Concat([]byte{typeList, 5, 0xc3, 100}, n, pad),                                 // an element
			slices.Concat([]byte{typeSetListpack, 0xc3, 100}, n, pad),                             // a packed one
			slices.Concat([]byte{typeHashTimed}, pad[:8], n, pad),                                 // behind the time
			slices.Concat([]byte{typeStream2, 0}, pad[:8], n, pad),                                // groups
			slices.Concat([]byte{typeStream2, 0}, pad[:8], []byte{1, 1, 'g', 0, 0, 0}, n, pad),    // pending
			slices.Concat([]byte{typeStream2, 0}, pad[:8], []byte{1, 1, 'g', 0, 0, 0, 0}, n, pad), // consumers
		)
		for _, v := range values {
			p := payload(10, v)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := describe(p, Options{})
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<10 {
				t.Errorf("% x...: %v, and %d bytes of memory", v[:12], err, took)
			}
		}
	}
}

package rdb

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// sample is a value that real servers of several versions have dumped into
// testdata.
type sample struct {
	name string
	kind Kind
	// items are the elements of a list, the members of a set, fields and values (and
	// times, if timed), or members and scores.
	items []string
	timed bool
	// encoding is what OBJECT ENCODING says where the sample was recorded.
	encoding string
	// since is the first version that has such a value.
	since string
	// setup are calls to be made first; of a stream they make the value too.
	setup []string
	// want is what describe says, for a stream.
	want string
}

// wanted is what describe must say of the sample.
func (s sample) wanted() string {
	if s.kind == Stream {
		return s.want
	}
	var d describer
	for i := 0; i < len(s.items); i++ {
		one := []byte(s.items[i])
		next := func() string { i++; return s.items[i] }
		switch s.kind {
		case String:
			d.piece(one)
		case List:
			d.element(one)
		case Set:
			d.member(one)
		case ZSet:
			f, _ := strconv.ParseFloat(next(), 64)
			d.scored(one, f)
		case Hash:
			value, at := []byte(next()), int64(0)
			if s.timed {
				at, _ = strconv.ParseInt(next(), 10, 64)
			}
			d.field(one, value, at)
		}
	}
	return d.text(s.kind)
}

// calls are the calls that make the sample at key k.
func (s sample) calls() (calls [][]string) {
	for _, line := range s.setup {
		calls = append(calls, strings.Fields(line))
	}
	name := map[Kind]string{String: "SET", List: "RPUSH", Set: "SADD", ZSet: "ZADD", Hash: "HSET"}[s.kind]
	for i := 0; i < len(s.items); {
		call := []string{name, "k"}
		switch s.kind {
		case String, List, Set:
			call = append(call, s.items[i])
			i++
		case ZSet:
			call = append(call, s.items[i+1], s.items[i])
			i += 2
		case Hash:
			call = append(call, s.items[i], s.items[i+1])
			if i += 2; s.timed {
				if i++; s.items[i-1] != "0" {
					calls = append(calls, call)
					call = []string{"HPEXPIREAT", "k", s.items[i-1], "FIELDS", "1", call[2]}
				}
			}
		}
		calls = append(calls, call)
	}
	return calls
}

// numbered are strings with a number in each.
func numbered(n int, formats ...string) (list []string) {
	for i := range n {
		for _, f := range formats {
			if strings.Contains(f, "%") {
				f = fmt.Sprintf(f, i)
			}
			list = append(list, f)
		}
	}
	return list
}

// noise are bytes that do not compress, the same ones each time.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// integers are integers at the edges of every encoding.
var integers = []string{
	"0", "1", "-1", "12", "13", "63", "64", "127", "128", "-128", "-129", "4095", "4096", "-4096", "-4097", "8191",
	"32767", "32768", "-32768", "-32769", "8388607", "8388608", "-8388608", "-8388609", "2147483647", "2147483648",
	"-2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "007", "+1", "-0", "1.5",
}

// texts are strings at the edges of every length.
func texts() (list []string) {
	for _, n := range []int{1, 20, 21, 63, 64, 127, 128, 253, 254, 255, 4095, 4096} {
		list = append(list, strings.Repeat("x", n-1)+"y")
	}
	return append(list, "a\x00b\xff\xfe\r\n")
}

const large = "CONFIG SET list-max-listpack-size 5"

// samples are the values that are recorded.
func samples() (list []sample) {
	add := func(s sample) { list = append(list, s) }
	for i, s := range append([]string{"", noise(100), noise(20000), strings.Repeat("abcd", 5000), strings.Repeat("z", 70000)},
		append(integers, texts()...)...) {
		add(sample{name: fmt.Sprintf("string-%d", i), kind: String, items: []string{s}})
	}
	everything := append(append([]string{""}, integers...), texts()...)
	add(sample{name: "list-listpack", kind: List, items: append([]string{""}, integers...), encoding: "listpack", since: "7.2.0"})
	add(sample{name: "list-one-node", kind: List, items: []string{"a", "b", "a"}})
	add(sample{name: "list-quicklist", kind: List, items: append(everything, everything...), encoding: "quicklist", setup: []string{large}})
	add(sample{name: "list-compressed", kind: List, items: numbered(200, "element %d and some more", "%d"), encoding: "quicklist",
		setup: []string{large, "CONFIG SET list-compress-depth 1"}})
	add(sample{name: "list-plain-nodes", kind: List, items: append(texts(), noise(300), "a", "b"), encoding: "quicklist",
		setup: []string{"DEBUG QUICKLIST-PACKED-THRESHOLD 100b"}})
	add(sample{name: "set-int16", kind: Set, items: []string{"3", "-5", "32767", "-32768", "0"}, encoding: "intset"})
	add(sample{name: "set-int32", kind: Set, items: []string{"3", "-5", "32768", "-2147483648"}, encoding: "intset"})
	add(sample{name: "set-int64", kind: Set, items: []string{"9223372036854775807", "-9223372036854775808", "1"}, encoding: "intset"})
	add(sample{name: "set-small", kind: Set, items: append([]string{"", "x"}, integers...)})
	add(sample{name: "set-listpack", kind: Set, items: []string{"a", "1", "", "-4097"}, encoding: "listpack", since: "7.2.0"})
	add(sample{name: "set-table", kind: Set, items: append(everything, numbered(200, "m%d")...), encoding: "hashtable"})
	scores := []string{"a", "1", "b", "-1.5", "c", "inf", "d", "-inf", "e", "0", "f", "1e300", "g", "5e-324", "7", "3.0000000000000004",
		"", "1700000000000", "i", "0.1"}
	add(sample{name: "zset-listpack", kind: ZSet, items: scores, encoding: "listpack"})
	add(sample{name: "zset-skiplist", kind: ZSet, items: append(scores, numbered(200, "m%d", "%d.25")...), encoding: "skiplist"})
	pairs := append([]string{"", "empty name", "empty value", ""}, numbered(9, "field%d", "%d", "%d", "value %d")...)
	add(sample{name: "hash-listpack", kind: Hash, items: pairs, encoding: "listpack"})
	add(sample{name: "hash-table", kind: Hash, items: append(pairs, "long", strings.Repeat("long ", 500), "noise", noise(65)), encoding: "hashtable"})
	timed := []string{"a", "1", "33177117420000", "b", "2", "0", "5", "six", "33177117420001", "c", "3", "33177117419999"}
	add(sample{name: "hash-listpackex", kind: Hash, items: timed, timed: true, encoding: "listpackex", since: "7.4.0"})
	add(sample{name: "hash-table-timed", kind: Hash, items: append(timed, "d", strings.Repeat("long ", 100), "70368744177000", "e", strings.Repeat("long ", 100), "0"),
		timed: true, encoding: "hashtable", since: "7.4.0"})
	return append(list, streamSamples()...)
}

func streamSamples() []sample {
	many := sample{name: "stream-many", kind: Stream, encoding: "stream", since: "7.2.0", setup: []string{"CONFIG SET stream-node-max-entries 10"}}
	for i := range 55 {
		line := fmt.Sprintf("%d-%d field%d %d other value%d", 1000+i/3, i, i/20, i, i)
		many.setup = append(many.setup, "XADD k "+line)
		if i%7 != 3 {
			many.want += line + "\n"
		}
	}
	for i := 3; i < 55; i += 7 {
		many.setup = append(many.setup, fmt.Sprintf("XDEL k %d-%d", 1000+i/3, i))
	}
	many.want += "length 47 last 1018-54 first 1000-0 deleted 1017-52 added 55\n"
	groups := sample{name: "stream-groups", kind: Stream, encoding: "stream", setup: []string{
		"XADD k 5-1 a 1", "XADD k 5-2 a 2 b 3", "XADD k 18446744073709551615-1 a x", "XADD k 18446744073709551615-18446744073709551615 7 -7",
		"XGROUP CREATE k none $", "XGROUP CREATE k some 0 ENTRIESREAD 2", "XGROUP CREATE k other 5-1",
		"XGROUP CREATECONSUMER k other idle",
		"XREADGROUP GROUP some alice COUNT 2 STREAMS k >", "XREADGROUP GROUP some bob COUNT 1 STREAMS k >",
		"XCLAIM k some bob 0 5-2 TIME 1700000000000 RETRYCOUNT 300", "XCLAIM k some alice 0 5-1 TIME 1600000000000",
		"XCLAIM k some bob 0 18446744073709551615-1 TIME 1500000000000", "XDEL k 5-2",
	}}
	groups.want = `5-1 a 1
18446744073709551615-1 a x
18446744073709551615-18446744073709551615 7 -7
length 3 last 18446744073709551615-18446744073709551615 first 5-1 deleted 5-2 added 4
group "none" 18446744073709551615-18446744073709551615 -1
group "other" 5-1 -1
consumer "idle"
group "some" 18446744073709551615-1 5
consumer "alice"
pending 5-1 1600000000000 2
consumer "bob"
pending 5-2 1700000000000 300
pending 18446744073709551615-1 1500000000000 2
`
	empty := sample{name: "stream-empty", kind: Stream, encoding: "stream", setup: []string{"XGROUP CREATE k g $ MKSTREAM"},
		want: "length 0 last 0-0 first 0-0 deleted 0-0 added 0\ngroup \"g\" 0-0 -1\n"}
	trimmed := sample{name: "stream-trimmed", kind: Stream, encoding: "stream", setup: []string{
		"XADD k 1-1 a 1", "XADD k 2-1 b 2", "XADD k 3-1 c 3", "XTRIM k MAXLEN 1", "XGROUP CREATE k g 2-1",
	}, want: "3-1 c 3\nlength 1 last 3-1 first 3-1 deleted 0-0 added 3\ngroup \"g\" 2-1 -1\n"}
	return []sample{many, groups, empty, trimmed}
}

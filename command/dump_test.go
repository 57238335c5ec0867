package command

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redoubt/budget"
	"redoubt/keyspace"
	"redoubt/rdb"
	"redoubt/types"
	"redoubt/wire"
)

// payloads are what real servers dumped, by the name of the file and of the value.
func payloads(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../rdb/testdata/redis-*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("recorded payloads: %v %v", files, err)
	}
	list := make(map[string]string)
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			name, text, _ := strings.Cut(lines.Text(), " ")
			if name == "#" {
				continue
			}
			p, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			list[filepath.Base(path)+" "+name] = string(p)
		}
	}
	return list
}

// described is what a payload holds, as text that is the same for equal values.
func described(t testing.TB, payload string) string {
	t.Helper()
	v, err := rdb.Open([]byte(payload), rdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var d lines
	add := func(args ...any) error {
		d = append(d, fmt.Sprintf("%q", args))
		return nil
	}
	switch v.Kind {
	case rdb.String:
		var whole []byte
		err = v.String(func(_ int64, b []byte) error { whole = append(whole, b...); return nil })
		add(whole)
	case rdb.List:
		err = v.List(func(b []byte) error { return add(b) })
	case rdb.Set:
		err = v.Set(func(b []byte) error { return add(b) })
	case rdb.ZSet:
		err = v.ZSet(func(b []byte, f float64) error { return add(b, fmt.Sprint(f)) })
	case rdb.Hash:
		err = v.Hash(func(f, b []byte, at int64) error { return add(f, b, strconv.FormatInt(at, 10)) })
	case rdb.Stream:
		err = v.Stream(&d)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v.Kind == rdb.Set || v.Kind == rdb.ZSet || v.Kind == rdb.Hash {
		slices.Sort(d)
	}
	return strings.Join(d, "\n")
}

// lines are a stream as text.
type lines []string

func (l *lines) add(args ...any) error {
	*l = append(*l, fmt.Sprint(args...))
	return nil
}

func (l *lines) Entry(id rdb.ID, fields [][]byte) error {
	return l.add(id, " ", fmt.Sprintf("%q", fields))
}
func (l *lines) Info(i rdb.StreamInfo) error { return l.add(i) }
func (l *lines) Group(name []byte, last rdb.ID, read int64) error {
	return l.add("group ", string(name), last, read)
}
func (l *lines) Consumer(name []byte, seen, active int64) error {
	return l.add("consumer ", string(name), seen, " ", active)
}
func (l *lines) Pending(id rdb.ID, at int64, n uint64) error {
	return l.add("pending ", id, at, " ", n)
}

// bulk is the string in a reply.
func bulk(t testing.TB, reply []byte) string {
	t.Helper()
	head, rest, ok := strings.Cut(string(reply), "\r\n")
	n, err := strconv.Atoi(strings.TrimPrefix(head, "$"))
	if !ok || err != nil || len(rest) != n+2 || head[0] != '$' {
		t.Fatalf("reply %.100q is no string", reply)
	}
	return rest[:n]
}

// newDumpBench has limits as a server has, or such that nothing is packed.
func newDumpBench(t testing.TB, packed bool) *keyBench {
	b := &keyBench{bench: newBench(t)}
	if b.limits.Limits = types.DefaultLimits; !packed {
		b.limits.Limits = types.Limits{ListSize: 1, StreamNodeEntries: 1, StreamNodeBytes: 1}
	}
	return b
}

// What Redis dumped is restored and dumped again without a difference, in both forms
// of each type.
func TestRestoreAndDump(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{true, false} {
		b := newDumpBench(t, packed)
		for name, payload := range payloads(t) {
			reply, o := b.runIn("RESTORE", "k", "0", payload, "REPLACE")
			if string(reply) != "+OK\r\n" || o.changes != 1 || !slices.Contains(o.events, "0 restore k") {
				t.Fatalf("%s: %q %v", name, reply, o)
			}
			if len(o.events) > 2 { // the other one is "new"
				t.Errorf("%s: events %q", name, o.events)
			}
			reply, _ = b.runIn("DUMP", "k")
			if got, want := described(t, bulk(t, reply)), described(t, payload); got != want {
				t.Fatalf("%s, packed %v:\n got %.1000s\nwant %.1000s", name, packed, got, want)
			}
			m := b.find("k")
			if external := m.External(); m.Type != keyspace.String && m.Type != keyspace.Stream && strings.Count(described(t, payload), "\n") > 1 &&
				external == packed && !strings.Contains(name, "table") && !strings.Contains(name, "skiplist") && !strings.Contains(name, "quicklist") && !strings.Contains(name, "list-") {
				t.Errorf("%s, packed %v: external %v", name, packed, external)
			}
		}
		b.runIn("DEL", "k")
		if n := b.rows(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	}
}

// rows counts what is stored besides the system's rows, when what was deleted is
// cleared.
func (b *keyBench) rows() (n int) {
	var c keyspace.Clearing
	for more := true; more; {
		tx := b.begin()
		more = tx.Clear(&c, 1000)
		b.commit(tx)
	}
	tx := b.begin()
	it := tx.IterRows(nil, []byte{0xff}, false)
	for it.Next() {
		n++
	}
	tx.CloseRows(it)
	b.commit(tx)
	return n
}

// The encodings are those that the same value has when it is made by commands.
func TestRestoredEncoding(t *testing.T) {
	t.Parallel()
	b := newDumpBench(t, true)
	list := payloads(t)
	for name, want := range map[string]string{
		"string-1": "raw", "string-6": "int", "string-17": "int", "string-40": "embstr", "string-0": "embstr", "string-4": "raw",
		"list-listpack": "listpack", "list-quicklist": "quicklist", "set-int64": "intset", "set-listpack": "listpack", "set-table": "hashtable",
		"zset-listpack": "listpack", "zset-skiplist": "skiplist", "hash-listpack": "listpack", "hash-table": "hashtable",
		"hash-listpackex": "listpackex", "hash-table-timed": "hashtable", "stream-many": "stream",
	} {
		b.runIn("RESTORE", "k", "0", list["redis-7.4.1.txt "+name], "REPLACE")
		if got, _ := b.runIn("OBJECT", "ENCODING", "k"); bulk(t, got) != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestRestoreExpiry(t *testing.T) {
	t.Parallel()
	for name, payload := range payloads(t) {
		if !strings.HasPrefix(name, "redis-7.4.1") {
			continue
		}
		b := newDumpBench(t, true)
		b.runIn("RESTORE", "k", "1000", payload)
		if at := b.find("k").Expire; at != b.now+1000 {
			t.Errorf("%s: expires at %d", name, at)
		}
		b.runIn("RESTORE", "k", strconv.FormatInt(b.now+5, 10), payload, "REPLACE", "ABSTTL")
		if at := b.find("k").Expire; at != b.now+5 {
			t.Errorf("%s: expires at %d", name, at)
		}
		reply, o := b.runIn("RESTORE", "k", strconv.FormatInt(b.now, 10), payload, "REPLACE", "ABSTTL")
		if string(reply) != "+OK\r\n" || !slices.Equal(o.events, []string{"0 del k"}) || o.changes != 1 || b.find("k").Exists() {
			t.Errorf("%s, in the past: %q %v", name, reply, o)
		}
		reply, o = b.runIn("RESTORE", "k", "1", payload, "ABSTTL")
		if string(reply) != "+OK\r\n" || o.events != nil || o.changes != 0 {
			t.Errorf("%s, in the past, without a key: %q %v", name, reply, o)
		}
		if n := b.rows(); n != 0 {
			t.Errorf("%s: %d rows are left", name, n)
		}
	}
}

// Fields whose time is over are not restored, and with the last of them the key.
func TestRestoreOldFields(t *testing.T) {
	t.Parallel()
	payload := payloads(t)["redis-7.4.1.txt hash-listpackex"]
	b := newDumpBench(t, true)
	b.now = 33177117420000
	b.runIn("RESTORE", "k", "0", payload)
	reply, _ := b.runIn("DUMP", "k")
	if got := described(t, bulk(t, reply)); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"b"`) || !strings.Contains(got, `"six"`) {
		t.Errorf("left: %s", got)
	}
	e := rdb.Encoder{}
	e.BeginTimedHash(5)
	e.Field([]byte("f"), []byte("v"), 5)
	e.Field([]byte("g"), []byte("w"), 6)
	reply, _ = b.runIn("RESTORE", "gone", "1000", string(e.End()))
	if string(reply) != "+OK\r\n" || b.find("gone").Exists() {
		t.Errorf("all fields gone: %q", reply)
	}
}

// A payload grows only after the memory of both, the one that there is and the one that it
// is copied to, was had from the pool.
func TestDumpAsksBeforeItGrows(t *testing.T) {
	t.Parallel()
	b := newDumpBench(t, false)
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 8<<20) // which cannot be compressed
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	b.runIn("SET", "string", string(noise[:4<<20]))
	for part := range slices.Chunk(noise, 10_000) {
		b.runIn("RPUSH", "list", string(part))
		b.runIn("SADD", "set", string(part))
	}
	dump := func(key string, buf []byte, limit int64) (_ []byte, held int64, err error) {
		var pool budget.Pool
		pool.SetLimit(limit)
		lease := pool.Lease()
		defer lease.Release()
		tx := b.begin()
		defer tx.Rows.View.Close()
		tx.Lease = &lease
		buf = AppendDump(tx, buf, []byte(key), tx.Find([]byte(key)))
		return buf, lease.Held(), tx.Err()
	}
	for _, key := range []string{"list", "set"} {
		refused := 0
		for limit := int64(4 << 20); limit < 16<<20; limit += 900_000 {
			buf, held, err := dump(key, nil, limit)
			if err == nil {
				t.Errorf("%s of %d bytes fits into a pool of %d", key, len(noise), limit)
			}
			// Each step is by a quarter: what there was before is four fifths.
			if n := int64(cap(buf)); n > 2<<20 {
				if refused++; held < n+n*3/4 {
					t.Errorf("%s, a pool of %d: a payload of %d bytes was made with %d from the pool", key, limit, n, held)
				}
			}
		}
		if refused < 10 {
			t.Errorf("%s: only %d payloads were refused when they were large", key, refused)
		}
	}
	// The string alone would have room.
	buf, _, err := dump("string", noise[:2<<20:2<<20], 6<<20)
	if !errors.Is(err, budget.ErrTooLarge) || cap(buf) > 3<<20 {
		t.Errorf("a string behind other replies: a payload of %d bytes, %v", cap(buf), err)
	}
	if _, _, err := dump("string", nil, 6<<20); err != nil {
		t.Error(err)
	}
}

// A payload that is damaged leaves everything as it was.
func TestRestoreDamaged(t *testing.T) {
	t.Parallel()
	b := newDumpBench(t, false)
	b.runIn("SET", "k", "old")
	before := b.rows()
	e := rdb.Encoder{}
	e.BeginSet()
	for _, m := range []string{"a", "b", "a"} {
		e.Element([]byte(m))
	}
	payload := string(e.End())
	for _, args := range [][]string{{"RESTORE", "k", "0", payload, "REPLACE"}, {"RESTORE", "j", "0", payload}, {"RESTORE", "k", "1", payload, "REPLACE", "ABSTTL"}} {
		reply, o := b.runIn(args...)
		if string(reply) != "-ERR Bad data format\r\n" || o.events != nil || o.changes != 0 {
			t.Errorf("%.20q: %q %v", args, reply, o)
		}
	}
	bad := []byte(payload)
	bad[1] ^= 1
	if reply, _ := b.runIn("RESTORE", "k", "0", string(bad), "REPLACE"); string(reply) != "-ERR DUMP payload version or checksum are wrong\r\n" {
		t.Errorf("%q", reply)
	}
	if got, _ := b.runIn("GET", "k"); bulk(t, got) != "old" || b.rows() != before {
		t.Errorf("%q and %d rows, there were %d", got, b.rows(), before)
	}
}

// A large value is not held by the execution, neither restored nor dumped, besides
// its rows and its payload.
func TestLargeValuesAreNotHeld(t *testing.T) {
	t.Parallel()
	const n = 5_000
	b := newDumpBench(t, true)
	text := bytes.Repeat([]byte("x"), 200)
	for _, kind := range []string{"list", "set", "zset", "hash", "timed", "stream", "string"} {
		e := rdb.Encoder{}
		switch kind {
		case "list":
			e.BeginList()
		case "set":
			e.BeginSet()
		case "zset":
			e.BeginZSet()
		case "hash":
			e.BeginHash()
		case "timed":
			e.BeginTimedHash(b.now + 1)
		case "stream":
			e.BeginStream(false)
		case "string":
			e.BeginString(n * int64(len(text)))
		}
		for i := range n {
			member := fmt.Appendf(text[:180:180], "%020d", i)
			switch kind {
			case "list", "set":
				e.Element(member)
			case "zset":
				e.Member(member, float64(i%1000))
			case "hash":
				e.Field(member, text, 0)
			case "timed":
				e.Field(member, text, b.now+int64(1+i))
			case "stream":
				e.Entry(rdb.ID{Ms: uint64(i + 1)}, [][]byte{[]byte("f"), member})
			case "string":
				e.Piece(member)
			}
		}
		if kind == "stream" {
			e.EndEntries(rdb.StreamInfo{Length: n, Last: rdb.ID{Ms: n}, First: rdb.ID{Ms: 1}, Added: n})
		}
		payload := e.End()
		for _, args := range [][][]byte{
			{[]byte("RESTORE"), []byte(kind), []byte("0"), payload},
			{[]byte("DUMP"), []byte(kind)},
		} {
			c := &Ctx{Cmd: b.table.Find(args), Args: args, Limits: &b.limits, Reply: &wire.Writer{Proto: 2}, Usage: noUsage{}}
			c.Tx = b.begin()
			if err := c.Cmd.Run(c); err != nil || c.Tx.Err() != nil {
				t.Fatal(kind, err, c.Tx.Err())
			}
			if held := c.Tx.Held(); held > 512<<10 {
				t.Errorf("%s %s: the execution holds %d bytes, the payload has %d", args[0], kind, held, len(payload))
			}
			b.commit(c.Tx)
			if len(args) == 2 && described(t, bulk(t, c.Reply.Buf)) != described(t, string(payload)) {
				t.Errorf("%s: another value was dumped", kind)
			}
		}
	}
}

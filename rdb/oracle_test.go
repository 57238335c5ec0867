package rdb_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/rdb"
)

var record = flag.Bool("record", false, "write testdata/redis-VERSION.txt from a real Redis")

// server is a real Redis and a connection to it.
type server struct {
	t       *testing.T
	c       *respclient.Client
	version string
}

func startServer(t *testing.T) *server {
	t.Helper()
	r := testserver.StartRedis(t)
	c, err := respclient.Dial(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &server{t, c, r.Version}
}

func (s *server) do(args ...string) respclient.Value {
	s.t.Helper()
	v, err := s.c.Do(args...)
	if err != nil {
		s.t.Fatalf("%.100q: %v", args, err)
	}
	return v
}

// make makes a sample at key k of an empty server and returns its payload.
func (s *server) make(m rdb.Sample) []byte {
	s.t.Helper()
	s.do("FLUSHALL")
	s.do("CONFIG", "SET", "list-max-listpack-size", "-2", "list-compress-depth", "0", "stream-node-max-entries", "100")
	s.do("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "0")
	for _, call := range m.Calls {
		if v := s.do(call...); v.IsError() {
			s.t.Fatalf("%s: %.100q: %s", m.Name, call, v)
		}
	}
	if v := s.do("OBJECT", "ENCODING", "k"); m.Encoding != "" && v.Str != m.Encoding {
		s.t.Fatalf("%s has encoding %s", m.Name, v)
	}
	return []byte(s.do("DUMP", "k").Str)
}

// TestRecord writes the recorded payloads anew:
//
//	REDIS_SERVER=/path/to/redis-server go test ./rdb -run TestRecord -record
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("not asked to record")
	}
	s := startServer(t)
	var b strings.Builder
	fmt.Fprintf(&b, "# Payloads of DUMP by Redis %s, written by go test ./rdb -run TestRecord -record\n", s.version)
	for _, m := range rdb.Samples() {
		if m.Since <= s.version {
			fmt.Fprintf(&b, "%s %s\n", m.Name, hex.EncodeToString(s.make(m)))
		}
	}
	if err := os.WriteFile("testdata/redis-"+s.version+".txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A real Redis restores what we write, and it is what it was.
func TestRedisRestoresOurs(t *testing.T) {
	testserver.Oracle(t)
	s := startServer(t)
	s.do("CONFIG", "SET", "sanitize-dump-payload", "yes")
	n := 0
	for _, m := range rdb.Samples() {
		if m.Since > s.version {
			continue
		}
		theirs := s.make(m)
		for _, compress := range []bool{false, true} {
			ours, err := rdb.Encode(theirs, compress)
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			s.do("DEL", "j")
			if v := s.do("RESTORE", "j", "0", string(ours)); v.Str != "OK" {
				t.Errorf("%s, compress %v: %s", m.Name, compress, v)
				continue
			}
			s.same(m.Name, "k", "j")
			n++
		}
	}
	t.Logf("%d values restored by %s", n, s.version)
}

// same compares two keys by what the server itself says of them.
func (s *server) same(name, k, j string) {
	s.t.Helper()
	if v := s.do("DEBUG", "DIGEST-VALUE", k, j); len(v.Elems) != 2 || v.Elems[0].Str != v.Elems[1].Str {
		s.t.Errorf("%s: %s", name, v)
	}
	var texts [2]string
	for i, key := range []string{k, j} {
		var err error
		if texts[i], err = rdb.Exactly([]byte(s.do("DUMP", key).Str)); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
	}
	if texts[0] != texts[1] {
		s.t.Errorf("%s\n got %.1000s\nwant %.1000s", name, texts[1], texts[0])
	}
	one, two := s.do("OBJECT", "ENCODING", k), s.do("OBJECT", "ENCODING", j)
	if one.Str != two.Str && !strings.Contains(name, "plain-nodes") && !strings.Contains(name, "quicklist") {
		s.t.Logf("%s: encoding %s, was %s", name, two, one)
	}
}

// A real Redis restores the payloads that were made by hand: what it makes of them is
// what we read.
func TestRedisReadsOld(t *testing.T) {
	testserver.Oracle(t)
	s := startServer(t)
	s.do("CONFIG", "SET", "sanitize-dump-payload", "yes")
	for _, o := range rdb.Old() {
		if o.Since > s.version {
			continue
		}
		s.do("DEL", "k")
		if v := s.do("RESTORE", "k", "0", string(o.Payload)); v.Str != "OK" {
			t.Errorf("%s: %s", o.Name, v)
			continue
		}
		got, err := rdb.Describe([]byte(s.do("DUMP", "k").Str), rdb.Options{})
		if err != nil || got != o.Want {
			t.Errorf("%s: %v\n got %.1000s\nwant %.1000s", o.Name, err, got, o.Want)
		}
	}
}

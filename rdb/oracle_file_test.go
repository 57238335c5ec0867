package rdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/rdb"
)

// fillForFile makes every sample that the server knows, each at a key of its name, and what
// else a file can have. It returns how many samples there are.
func (s *server) fillForFile() (n int) {
	s.t.Helper()
	for _, m := range rdb.Samples() {
		if m.Since > s.version && s.version >= "7" {
			continue
		}
		known := true
		for _, call := range m.Calls {
			known = known && !s.do(call...).IsError()
		}
		s.do("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "0")
		if !known {
			s.do("DEL", "k")
			continue
		}
		s.do("RENAME", "k", m.Name)
		n++
	}
	s.do("SET", "expiring", "late", "PX", "1")
	s.do("SET", "expiring", "late")
	s.do("PEXPIREAT", "expiring", "4000000000123")
	s.do("SELECT", "3")
	s.do("SET", "elsewhere", "in database 3")
	s.do("SELECT", "0")
	if s.version >= "7" {
		if v := s.do("FUNCTION", "LOAD", rdb.FileLibrary); v.IsError() {
			s.t.Fatal(v)
		}
	}
	return n
}

// TestRecordFile writes the recorded files anew, as testdata/README.md tells.
func TestRecordFile(t *testing.T) {
	if !*record {
		t.Skip("not asked to record")
	}
	config := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(config, []byte("save \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := testserver.StartRedisFile(t, config)
	c, err := respclient.Dial(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := &server{t, c, r.Version}
	policy := "allkeys-lfu"
	if s.version >= "7.2" && s.version < "7.3" {
		policy = "allkeys-lru" // so that one file has idle times
	}
	s.do("CONFIG", "SET", "maxmemory-policy", policy)
	n := s.fillForFile()
	if v := s.do("SAVE"); v.Str != "OK" {
		t.Fatal(v)
	}
	dir := s.do("CONFIG", "GET", "dir").Elems[1].Str
	b, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), "REDIS") {
		t.Fatalf("%.20q", b)
	}
	name := fmt.Sprintf("testdata/file-%s.rdb", s.version)
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d samples, %d bytes", name, n, len(b))
}

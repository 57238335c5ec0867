// Package oracle compares the interpreter with that of a real Redis: recorded
// chunks and random programs, run by both, give the same result or the same error
// to the byte. It runs with REDOUBT_ORACLE=1 and a redis-server.
package oracle

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/lua/internal/corpus"
)

var record = flag.Bool("record", false, "write what Redis gives into the corpus")

const testdata = "../testdata/"

// redis is a real Redis that runs the harness.
type redis struct {
	conn    *respclient.Client
	harness string
}

func start(t testing.TB) *redis {
	t.Helper()
	testserver.Oracle(t)
	text, err := os.ReadFile(testdata + "harness.lua")
	if err != nil {
		t.Fatal(err)
	}
	r := testserver.StartRedis(t)
	r.Needs(t, "7.2")
	conn, err := respclient.Dial(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &redis{conn, string(text)}
}

func (r *redis) run(t testing.TB, source string) string {
	t.Helper()
	v, err := r.conn.Do("EVAL", r.harness, "0", source)
	if err != nil {
		t.Fatal(err)
	}
	return v.Str
}

// What is recorded is what Redis gives. With -record it is written.
func TestCorpusIsRedis(t *testing.T) {
	r := start(t)
	files, err := filepath.Glob(testdata + "*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		cases, err := corpus.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cases {
			c := &cases[i]
			got := r.run(t, c.Source)
			if !*record && got != c.Result {
				t.Errorf("%s:%d: %s\nRedis gives %s\nrecorded is %s", file, c.Line, c.Source, got, c.Result)
			}
			c.Result = got
		}
		if *record {
			if err := corpus.Write(file, cases); err != nil {
				t.Fatal(err)
			}
		}
	}
}

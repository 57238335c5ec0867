// Package cql_test runs whole servers whose rows are in partitions: on a real Cassandra node, if
// `make test-cql` has started one, and on a store in memory, which needs nothing.
package cql_test

import (
	"path/filepath"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/internal/testserver/oncql"
	"redoubt/test/script"
)

// TestScripts runs the command scripts.
func TestScripts(t *testing.T) {
	t.Parallel()
	oncql.Options(t) // or skip
	runScripts(t, "cql", func(t *testing.T) testserver.Options { return oncql.Options(t) })
}

// TestScriptsInMemory runs the command scripts on a partitioned store in memory: what they
// find there is not the driver's or the node's.
func TestScriptsInMemory(t *testing.T) {
	t.Parallel()
	runScripts(t, "cql", func(*testing.T) testserver.Options { return testserver.Options{Engine: "partitioned"} })
}

// tooLong are scripts with names that are too long for this engine: docs/cql.md.
var tooLong = map[string]bool{"hash/hset": true, "set/sadd": true}

func runScripts(t *testing.T, engine string, options func(t *testing.T) testserver.Options) {
	paths, err := script.Find(filepath.Join("..", "script", "testdata"), "")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	for name, path := range paths {
		if tooLong[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := script.ParseFile(name, path)
			if err != nil {
				t.Fatal(err)
			}
			clock := testserver.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			o := options(t)
			o.Clock = clock
			o.Args = []string{"--enable-debug-command", "yes"}
			proto := 2 + len(name)%2
			target := &script.Target{
				Addr: testserver.Start(t, o).Addr, Proto: proto, Now: clock.Now, Advance: clock.Advance, Timeout: time.Minute,
				Cases: []string{"redoubt", engine, []string{"resp2", "resp3"}[proto-2], "plain"},
			}
			if err := f.Run(target); err != nil {
				t.Error(err)
			}
		})
	}
}

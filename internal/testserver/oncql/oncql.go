// Package oncql makes servers of tests keep their data in a Cassandra node. It is separate from
// testserver, so that only tests that use it are linked with the driver.
package oncql

import (
	"log/slog"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/cql"
	"redoubt/internal/testcql"
	"redoubt/internal/testserver"
	"redoubt/keyspace"
)

// Options are those of a server with a store of its own on the node that all tests share. The
// test is skipped if there is none.
func Options(t testing.TB) testserver.Options {
	t.Helper()
	return At(testcql.Host(t), testcql.Prefix(t), 20*time.Second)
}

// At is the same on any node, with the time that a command may take.
func At(host, prefix string, timeout time.Duration) testserver.Options {
	return testserver.Options{Engine: "cql", Open: func(_ testing.TB, log *slog.Logger) (engine.Engine, error) {
		e, err := cql.Open(cql.Options{
			Hosts: []string{host}, Keyspace: testcql.Keyspace, Prefix: prefix, Timeout: timeout,
			Slots: keyspace.Slots, Apart: keyspace.Apart(), Logger: log,
		})
		if err != nil {
			return nil, err // and not an interface that holds a nil engine
		}
		return e, nil
	}}
}

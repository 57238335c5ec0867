// Package ontikv makes servers of tests keep their data in a TiKV cluster. It is separate
// from testserver, so that only tests that use it are linked with TiKV's client.
package ontikv

import (
	"log/slog"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/tikv"
	"redoubt/internal/testserver"
	"redoubt/internal/testtikv"
	"redoubt/keyspace"
)

// Options are those of a server with a store of its own on the cluster that the tests
// of a package share. The test is skipped if there is none.
func Options(t testing.TB) testserver.Options {
	t.Helper()
	return At(testtikv.Shared(t), testtikv.Prefix(t), 20*time.Second)
}

// At is the same on any cluster, with the time that a command may take.
func At(pd, prefix string, timeout time.Duration) testserver.Options {
	return testserver.Options{Engine: "tikv", Open: func(_ testing.TB, log *slog.Logger) (engine.Engine, error) {
		return tikv.Open(tikv.Options{PD: []string{pd}, Prefix: prefix, Unused: keyspace.Unused(), Timeout: timeout, Logger: log})
	}}
}

package testserver

import (
	"testing"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types/check"
)

// checkRows checks the rows of a server at the end of its test, as `redoubt check` would:
// every test must leave a consistent store.
func checkRows(t testing.TB, eng engine.Engine) {
	snap, err := eng.Snapshot()
	if err != nil {
		return // the test has broken its engine
	}
	defer snap.Close()
	n := 0
	keyspace.Check(snap, nil, check.Examine, func(kind, place, what string) {
		// A snapshot does not have the counters, and an injected read error is no
		// inconsistency.
		if kind == "counter" || kind == "unreadable" {
			return
		}
		if n++; n <= 10 {
			t.Errorf("the store is not in order: %s: %s: %s", kind, place, what)
		}
	}, nil)
}

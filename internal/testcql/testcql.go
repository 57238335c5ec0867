package testcql

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// Keyspace is where tests make their table.
const Keyspace = "redoubt_test"

// Host is the address of the node that all tests share. The test is skipped if there is
// none.
func Host(t testing.TB) string {
	t.Helper()
	host := os.Getenv("REDOUBT_CQL")
	if host == "" {
		t.Skip("this did NOT run: it needs a Cassandra node: run `make test-cql` (with Java 17 and Maven), or set REDOUBT_CQL to the address of one")
	}
	return host
}

// Prefix returns a new random prefix. Rows that a test leaves under it are not removed.
func Prefix(testing.TB) string { return fmt.Sprintf("test-%016x", rand.Uint64()) }

// Command cluster starts and stops the Cassandra node of the tests. The Makefile's targets
// cql-up, cql-down and test-cql run it.
package main

import (
	"fmt"
	"os"

	"redoubt/internal/testcluster"
	"redoubt/internal/testcql"
)

func main() {
	testcluster.Main(
		testcluster.Verb{Name: "install", Run: func([]string) error {
			_, err := testcql.Install(os.Stderr)
			return err
		}},
		testcluster.Verb{Name: "up", Args: "<directory>", Run: func(args []string) error {
			addr, err := testcql.Up(args[0], os.Stderr)
			if err == nil {
				fmt.Println(addr)
			}
			return err
		}},
		testcluster.Verb{Name: "down", Args: "<directory>", Run: func(args []string) error { return testcql.Down(args[0]) }},
	)
}

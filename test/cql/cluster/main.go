// Command cluster starts and stops the Cassandra node of the tests. The Makefile's targets
// cql-up, cql-down and test-cql run it.
package main

import (
	"fmt"
	"os"

	"redoubt/internal/testcql"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "install":
		_, err := testcql.Install(os.Stderr)
		return err
	case len(args) == 2 && args[0] == "up":
		addr, err := testcql.Up(args[1], os.Stderr)
		if err == nil {
			fmt.Println(addr)
		}
		return err
	case len(args) == 2 && args[0] == "down":
		return testcql.Down(args[1])
	}
	return fmt.Errorf("usage: cluster install | up <directory> | down <directory>")
}

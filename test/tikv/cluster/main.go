// Command cluster builds, starts and stops the TiKV test cluster for people.
// The Makefile's targets tikv-build, tikv-up and tikv-down run it.
package main

import (
	"fmt"
	"os"

	"redoubt/internal/testcluster"
	"redoubt/internal/testtikv"
)

func main() {
	testcluster.Main(
		testcluster.Verb{Name: "build", Run: func([]string) error {
			_, err := testtikv.Build(os.Stderr)
			return err
		}},
		testcluster.Verb{Name: "up", Args: "<directory>", Run: up},
		testcluster.Verb{Name: "down", Args: "<directory>", Run: func(args []string) error { return testtikv.Down(args[0]) }},
	)
}

func up(args []string) error {
	bin, err := testtikv.Build(os.Stderr)
	if err != nil {
		return err
	}
	pd, err := testtikv.Up(bin, args[0], os.Stderr)
	if err != nil {
		return err
	}
	fmt.Printf("PD listens on %s; the data is in %s\n", pd, args[0])
	fmt.Printf("  go run ./cmd/redoubt --engine tikv --tikv-pd %s\n", pd)
	fmt.Printf("  make tikv-down stops it\n")
	return nil
}

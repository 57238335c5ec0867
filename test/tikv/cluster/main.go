// Command cluster builds, starts and stops the TiKV test cluster for people.
// The Makefile's targets tikv-build, tikv-up and tikv-down run it.
package main

import (
	"fmt"
	"os"

	"redoubt/internal/testtikv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "build":
		_, err := testtikv.Build(os.Stderr)
		return err
	case len(args) == 2 && args[0] == "up":
		bin, err := testtikv.Build(os.Stderr)
		if err != nil {
			return err
		}
		pd, err := testtikv.Up(bin, args[1], os.Stderr)
		if err != nil {
			return err
		}
		fmt.Printf("PD listens on %s; the data is in %s\n", pd, args[1])
		fmt.Printf("  go run ./cmd/redoubt --engine tikv --tikv-pd %s\n", pd)
		fmt.Printf("  make tikv-down stops it\n")
		return nil
	case len(args) == 2 && args[0] == "down":
		return testtikv.Down(args[1])
	}
	return fmt.Errorf("usage: cluster build | up <directory> | down <directory>")
}

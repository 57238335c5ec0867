// Package testcluster is the frame of the commands by which people and the Makefile start and
// stop the clusters that tests run on.
package testcluster

import (
	"fmt"
	"os"
	"strings"
)

// Verb is what such a command can do.
type Verb struct {
	Name string
	Args string // names of its arguments, for the usage
	Run  func(args []string) error
}

// Main runs the verb that the process's arguments name, and ends the process if it fails.
func Main(verbs ...Verb) {
	if err := run(os.Args[1:], verbs); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string, verbs []Verb) error {
	var usage []string
	for _, v := range verbs {
		if len(args) > 0 && args[0] == v.Name && len(args)-1 == len(strings.Fields(v.Args)) {
			return v.Run(args[1:])
		}
		usage = append(usage, strings.TrimSpace(v.Name+" "+v.Args))
	}
	return fmt.Errorf("usage: cluster %s", strings.Join(usage, " | "))
}

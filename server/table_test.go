package server

import (
	"testing"

	"redoubt/command/commandtest"
)

// The whole table is what a real Redis says about its commands.
func TestTable(t *testing.T) {
	srv := &Server{}
	srv.buildTable()
	commandtest.Check(t, srv.table, commandtest.Options{
		Recorded: "../command/testdata", Scripts: "../test/script/testdata", Whole: true,
	})
}

// Every command can be run: by a handler of its own, by the session, or by its
// subcommands.
func TestEveryCommandRuns(t *testing.T) {
	srv := &Server{}
	srv.buildTable()
	for _, c := range srv.table.All() {
		if c.Run == nil && srv.locals[c] == nil && len(c.Subs) == 0 {
			t.Errorf("%s has no handler", c.FullName)
		}
	}
}

package command_test

import (
	"testing"

	"redoubt/command"
	"redoubt/command/commandtest"
)

// The commands of this package are what a real Redis says they are.
func TestTable(t *testing.T) {
	commandtest.Check(t, command.NewTable(command.All()...), commandtest.Options{
		Recorded: "testdata", Scripts: "../test/script/testdata",
	})
}

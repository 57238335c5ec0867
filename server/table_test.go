package server

import (
	"testing"

	"redoubt/command"
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
		if c.Run == nil && srv.locals[c.Declared] == nil && len(c.Subs) == 0 {
			t.Errorf("%s has no handler", c.FullName)
		}
	}
}

// A command that uses channels must say which arguments they are, or nobody asks
// whether its user may.
func TestChannelsOfCommands(t *testing.T) {
	srv := &Server{}
	srv.buildTable()
	want := map[string]command.ChannelFlags{
		"publish": command.Publish, "spublish": command.Publish | command.ShardChannel,
		"subscribe": command.Subscribe, "ssubscribe": command.Subscribe | command.ShardChannel,
		"psubscribe": command.Subscribe | command.ChannelPattern,
	}
	for _, c := range srv.table.All() {
		if c.Channels.Flags != want[c.FullName] {
			t.Errorf("%s: channel flags %b, want %b", c.FullName, c.Channels.Flags, want[c.FullName])
		}
		delete(want, c.FullName)
	}
	if len(want) > 0 {
		t.Errorf("no such commands: %v", want)
	}
}

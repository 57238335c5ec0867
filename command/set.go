package command

// SetCommands are the commands on sets.
var SetCommands = []*Command{}

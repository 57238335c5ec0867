package command

// StreamCommands are the commands on streams.
var StreamCommands = []*Command{}

package command

// DumpCommands are the commands that carry values from one server to another.
var DumpCommands = []*Command{}

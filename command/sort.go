package command

// SortCommands are the commands that sort the elements of a key.
var SortCommands = []*Command{}

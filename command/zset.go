package command

// ZSetCommands are the commands on sorted sets.
var ZSetCommands = []*Command{}

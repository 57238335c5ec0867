package command

// HashCommands are the commands on hashes.
var HashCommands = []*Command{}

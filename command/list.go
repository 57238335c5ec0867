package command

// ListCommands are the commands on lists.
var ListCommands = []*Command{}

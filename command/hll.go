package command

// HyperLogLogCommands are the commands that count different elements by estimate.
var HyperLogLogCommands = []*Command{}

package command

// GeoCommands are the commands on places, which are sorted sets.
var GeoCommands = []*Command{}

package command

// All are the commands of this package, by group.
func All() [][]*Command {
	return [][]*Command{GenericCommands, StringCommands, BitmapCommands}
}

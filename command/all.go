package command

// All are the commands of this package, by group.
func All() [][]*Command {
	return [][]*Command{
		GenericCommands, StringCommands, BitmapCommands, HashCommands, ListCommands, SetCommands, ZSetCommands,
		StreamCommands, HyperLogLogCommands, GeoCommands, DumpCommands, SortCommands,
		TransactionCommands, PubSubCommands, ChannelCommands,
	}
}

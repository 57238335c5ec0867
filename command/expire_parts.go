package command

import (
	"redoubt/keyspace"
	"redoubt/types/channel"
	"redoubt/types/hash"
)

// ExpireParts removes parts of a value that are past their time, up to a limit or so, and
// returns how many: fields of a hash, messages and subscribers of a channel. It is for the
// sweeper.
func ExpireParts(tx *keyspace.Tx, key []byte, limit int) int {
	m := tx.Find(key)
	switch {
	case !m.Timed():
		return 0
	case m.Type == keyspace.Channel:
		return channel.ExpireParts(tx, key, m, limit)
	}
	return hash.ExpireFields(tx, key, limit)
}

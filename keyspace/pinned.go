package keyspace

// Pinned reports whether an engine should pin a row in memory: a rank row, which has
// counts of a sorted set. There is about one for some hundred elements, and to find
// a rank takes many of them.
func Pinned(key []byte) bool { return len(key) > 2 && key[0] != system && key[2] == kindRank }

package keyspace

// Keep says which rows an engine should have in memory before all others: those that
// count a sorted set. There is about one for some hundred elements, and to find a
// rank takes many of them.
func Keep(key []byte) bool { return len(key) > 2 && key[0] != system && key[2] == kindRank }

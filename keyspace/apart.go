package keyspace

// Apart returns the beginnings of ranges of system rows that a partitioned store keeps in
// partitions of their own, as the first two bytes of keys: the catalog row, which every
// process reads several times a second, and the member rows, which each writes every second,
// lie apart from the other system rows.
func Apart() []uint16 {
	return []uint16{system << 8, system<<8 | sysCatalog, system<<8 | sysMember, system<<8 | (sysMember + 1)}
}

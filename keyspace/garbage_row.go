package keyspace

import "encoding/binary"

// Garbage rows name deleted values whose rows are still
// there. They lie with the first slot of their group, as expire rows do: background work
// reads Groups ranges and not one per slot.

const garbageKeySize = 13

// appendGarbageKey appends the key of the garbage row of a value.
func appendGarbageKey(b []byte, home uint16, id uint64) []byte {
	group := home &^ (expireGroup - 1)
	b = append(b, byte(group>>8), byte(group), kindGarbage, byte(home>>8), byte(home))
	return binary.BigEndian.AppendUint64(b, id)
}

// isGarbage reports whether a row key has the kind and length of a garbage row's.
func isGarbage(k []byte) bool { return len(k) == garbageKeySize && k[2] == kindGarbage }

// decodeGarbageKey returns the Ref of the value that a garbage row names, without its size.
func decodeGarbageKey(k []byte) Ref {
	return Ref{Home: binary.BigEndian.Uint16(k[3:]), ID: binary.BigEndian.Uint64(k[5:])}
}

// garbageRange returns the range of the garbage rows of a group.
func garbageRange(group int) (lo, hi []byte) {
	slot := group * expireGroup
	return []byte{byte(slot >> 8), byte(slot), kindGarbage}, []byte{byte(slot >> 8), byte(slot), kindGarbage + 1}
}

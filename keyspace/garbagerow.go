package keyspace

import "encoding/binary"

// Garbage rows name values that were deleted and whose rows are still there. They
// lie with the first slot of their group, as expire rows do: whoever looks for
// garbage looks at Groups places and not at each slot.

const garbageKeySize = 13

// appendGarbageKey appends the key of the garbage row of a value.
func appendGarbageKey(b []byte, home uint16, id uint64) []byte {
	group := home &^ (expireGroup - 1)
	b = append(b, byte(group>>8), byte(group), kindGarbage, byte(home>>8), byte(home))
	return binary.BigEndian.AppendUint64(b, id)
}

// isGarbage says whether a key of the right kind can be a garbage row's.
func isGarbage(k []byte) bool { return len(k) == garbageKeySize && k[2] == kindGarbage }

// decodeGarbageKey returns which value a garbage row names; its size is not known.
func decodeGarbageKey(k []byte) Ref {
	return Ref{Home: binary.BigEndian.Uint16(k[3:]), ID: binary.BigEndian.Uint64(k[5:])}
}

// garbageRange is where the garbage rows of a group are.
func garbageRange(group int) (lo, hi []byte) {
	slot := group * expireGroup
	return []byte{byte(slot >> 8), byte(slot), kindGarbage}, []byte{byte(slot >> 8), byte(slot), kindGarbage + 1}
}

package keyspace

// Unused are ranges of row keys in which no version of the format has rows: first bytes
// between those of slots and those of system rows, and kinds from 20 on. A store that is
// kept behind a prefix finds there the rows of a store whose prefix begins with its own,
// if what the other one has more is printable text: behind a first byte that could be a
// slot's comes, as a rule, a second and a third one that make no kind.
func Unused() (ranges [][2][]byte) {
	const text, textEnd, noKind = 0x20, 0x7f, 0x20
	ranges = append(ranges, [2][]byte{{Slots >> 8}, {system}})
	for a := byte(text); a < Slots>>8; a++ {
		ranges = append(ranges, [2][]byte{{a, 0xff, noKind}, {a + 1}}) // its system rows, behind one character
		for b := byte(text); b < textEnd; b++ {
			ranges = append(ranges, [2][]byte{{a, b, noKind}, {a, b + 1}})
		}
	}
	return ranges
}

package keyspace

// Unused returns ranges of row keys in which no version of the format has rows: first bytes
// between those of slots and of system rows, and kinds from 0x20 on. A store behind a prefix
// finds there the rows of a store whose prefix extends its own, if the extension is
// printable text: its first byte could be a slot's, but as a rule the third byte is no kind.
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

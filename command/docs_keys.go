package command

import "strings"

// The keys of the few commands that a KeySpec of fixed form cannot describe:
// what SET and BITFIELD do with their key depends on their options, and SORT's
// destination stands behind one.

// varying has a function say what a call does with the key.
func varying(specs []KeySpec, vary func(args [][]byte) KeyFlags) []KeySpec {
	specs[0].Flags |= VariableFlags
	specs[0].Vary = vary
	return specs
}

// sortKeys are the keys of SORT and, without a destination, of SORT_RO. Those
// that its patterns name are no arguments.
func sortKeys(store bool) []KeySpec {
	unknown := KeySpec{Flags: RO | Access, Begin: Begin{Unknown: true}, Find: Find{Unknown: true}, Search: searchNone}
	unknown.Notes = "Keys that the patterns of BY and GET name; nobody can tell them from the arguments."
	specs := append(OneKey(1, RO|Access), unknown)
	if store {
		specs = append(specs, KeySpec{Flags: OW | Update, Begin: Begin{Unknown: true}, Find: Find{Unknown: true},
			Notes: "The destination behind STORE, which may stand anywhere.", Search: searchStore})
	}
	return specs
}

// varySet is KeySpec.Vary of SET: with GET it reads the old value.
func varySet(args [][]byte) KeyFlags {
	for _, a := range args[min(3, len(args)):] {
		if strings.EqualFold(string(a), "get") {
			return RW | Access | Update
		}
	}
	return OW | Update
}

// varyBitfield is KeySpec.Vary of BITFIELD: with GET alone it only reads.
func varyBitfield(args [][]byte) KeyFlags {
	for i := 2; i < len(args); i++ {
		left := len(args) - i - 1
		switch word := strings.ToLower(string(args[i])); {
		case word == "get" && left >= 2:
			i += 2
		case word == "overflow" && left >= 1:
			i++
		default:
			return RW | Access | Update
		}
	}
	return RO | Access
}

// searchNone is KeySpec.Search of keys that no argument tells, as those that
// SORT's patterns name.
func searchNone([][]byte, func(int)) {}

// searchStore is KeySpec.Search of SORT's destination: the last STORE counts.
func searchStore(args [][]byte, visit func(int)) {
	at := 0
	for i := 2; i < len(args); i++ {
		switch strings.ToLower(string(args[i])) {
		case "limit":
			i += 2
		case "get", "by":
			i++
		case "store":
			if i+1 < len(args) {
				at = i + 1
			}
		}
	}
	if at > 0 {
		visit(at)
	}
}

package differential

import (
	"slices"
	"strconv"
)

func (g *generator) stringCommand() []string {
	k := g.key()
	switch g.IntN(22) {
	case 0, 1:
		return append([]string{"SET", k, g.value()}, g.options("nx", "xx", "get", "keepttl", "persist")...)
	case 2:
		args := []string{"SET", k, g.value()}
		if g.newer && g.chance(50) {
			args = append(args, g.word(pick(g, []string{"ifeq", "ifne"})), g.value())
		}
		return append(args, g.options("nx", "get", "get", "keepttl")...)
	case 3:
		return []string{"GET", k}
	case 4:
		return []string{"SETNX", k, g.value()}
	case 5:
		return []string{"SETEX", k, g.span(true), g.value()}
	case 6:
		return []string{"PSETEX", k, g.span(false), g.value()}
	case 7:
		return []string{"GETSET", k, g.value()}
	case 8:
		return []string{"GETDEL", k}
	case 9, 10:
		return append([]string{"GETEX", k}, g.options("persist", "persist", "persist", "keepttl", "nx")...)
	case 11:
		return append([]string{"MGET"}, g.keys(6)...)
	case 12:
		args := []string{pick(g, []string{"MSET", "MSETNX"})}
		for _, k := range g.keys(4) {
			args = append(args, k, g.value())
		}
		return args
	case 13:
		return []string{"APPEND", k, g.value()}
	case 14:
		return []string{"STRLEN", k}
	case 15:
		return []string{pick(g, []string{"GETRANGE", "GETRANGE", "SUBSTR"}), k, g.index(), g.index()}
	case 16, 17:
		at := g.index()
		if g.chance(5) {
			at = pick(g, []string{"536870912", "536870911000", "9223372036854775807"})
		}
		return []string{"SETRANGE", k, at, g.value()}
	case 18:
		return []string{pick(g, []string{"INCR", "DECR"}), k}
	case 19:
		return []string{pick(g, []string{"INCRBY", "DECRBY"}), k, g.int(g.value(), strconv.Itoa(g.IntN(2000)-1000))}
	case 20:
		return []string{"INCRBYFLOAT", k, pick(g, floats)}
	}
	// A counter that certainly counts.
	g.ops = append(g.ops, op{args: []string{"SET", k, pick(g, []string{"0", "10", "9223372036854775806", "-9223372036854775807", "2.5", "1e3"})}})
	return []string{pick(g, []string{"INCR", "DECR", "INCRBYFLOAT", "INCRBY"}), k, pick(g, floats)}
}

func (g *generator) bitmapCommand() []string {
	k := g.key()
	switch g.IntN(10) {
	case 0, 1:
		return []string{"SETBIT", k, g.bitOffset(), g.int("0", "1", "1", "1", "2", "-1")}
	case 2:
		return []string{"GETBIT", k, g.bitOffset()}
	case 3:
		return slices.Concat([]string{"BITCOUNT", k}, g.bitRange(2))
	case 4:
		return slices.Concat([]string{"BITPOS", k, g.int("0", "1", "0", "1", "2")}, g.bitRange(1))
	case 5, 6:
		args := []string{"BITOP", g.word(pick(g, []string{"and", "or", "xor", "not", "and", "or", "xor", "nand"})), g.key()}
		if g.newer && g.chance(40) {
			args[1] = g.word(pick(g, []string{"diff", "diff1", "andor", "one"}))
			args = append(args, g.key())
		}
		return append(args, g.keys(4)...)
	}
	args := []string{pick(g, []string{"BITFIELD", "BITFIELD", "BITFIELD_RO"}), k}
	reads := args[0] == "BITFIELD_RO" && g.chance(80)
	for g.chance(75) && len(args) < 20 {
		args = append(args, g.bitfield(reads)...)
	}
	return args
}

// bitRange is nothing, or a start and an end and a unit, of which at least a
// number come; sometimes fewer.
func (g *generator) bitRange(least int) (out []string) {
	if g.chance(30) {
		return nil
	}
	n := least + g.IntN(4-least)
	if g.chance(5) {
		n = 1 + g.IntN(4)
	}
	all := []string{g.index(), g.index(), g.word(pick(g, []string{"bit", "byte", "bit", "byte", "bits"})), g.value()}
	return all[:n]
}

func (g *generator) bitfield(reads bool) []string {
	if g.chance(15) {
		return []string{g.word("overflow"), g.word(pick(g, []string{"wrap", "sat", "fail", "sat", "fail", "none"}))}
	}
	kind := pick(g, []string{"u8", "i8", "u4", "i5", "u1", "i1", "u16", "i16", "u32", "i32", "u63", "i64", "i63", "u3", "i13"})
	if g.chance(5) {
		kind = pick(g, []string{"u64", "i65", "u0", "i0", "U8", "8", "", "u", "i-1", "u08", "i8x"})
	}
	at := g.bitOffset()
	if g.chance(30) {
		at = "#" + strconv.Itoa(g.IntN(10))
	}
	if reads || g.chance(30) {
		return []string{g.word("get"), kind, at}
	}
	arg := g.int("0", "1", "-1", "127", "128", "255", "256", "-128", "-129", "100", "9223372036854775807", "-9223372036854775808", "65535")
	return []string{g.word(pick(g, []string{"set", "incrby"})), kind, at, arg}
}

func (g *generator) keyCommand() []string {
	k := g.key()
	switch g.IntN(30) {
	case 0, 1:
		return append([]string{pick(g, []string{"DEL", "UNLINK"})}, g.keys(3)...)
	case 2:
		return append([]string{pick(g, []string{"EXISTS", "TOUCH"})}, g.keys(5)...)
	case 3:
		return []string{"TYPE", k}
	case 4, 5:
		return []string{pick(g, []string{"RENAME", "RENAMENX"}), k, g.key()}
	case 6, 7:
		args := []string{"COPY", k, g.key()}
		for g.chance(50) && len(args) < 8 {
			switch g.IntN(5) {
			case 0, 1:
				args = append(args, g.word("replace"))
			case 2, 3:
				args = append(args, g.word("db"), g.db())
			case 4:
				args = append(args, g.word(pick(g, []string{"db", "foo"})))
			}
		}
		return args
	case 8:
		return []string{"MOVE", k, g.db()}
	case 9, 10, 11, 12:
		return g.expireCommand(k)
	case 13, 14, 15:
		return []string{pick(g, []string{"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"}), k}
	case 16:
		return []string{"PERSIST", k}
	case 17, 18:
		return []string{"OBJECT", g.word("encoding"), k}
	case 19:
		return []string{"KEYS", pick(g, patterns)}
	case 20:
		return []string{"RANDOMKEY"}
	case 21, 22:
		return []string{"SELECT", g.db()}
	case 23:
		return []string{"SWAPDB", g.db(), g.db()}
	case 24:
		if g.chance(80) { // else nothing ever grows
			return []string{"GET", k}
		}
		args := []string{pick(g, []string{"FLUSHDB", "FLUSHDB", "FLUSHALL"})}
		if g.chance(40) {
			args = append(args, g.word(pick(g, []string{"sync", "async", "now"})))
		}
		return args
	}
	return []string{"SET", k, g.value()}
}

func (g *generator) expireCommand(k string) []string {
	name := pick(g, []string{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"})
	at := ""
	switch name {
	case "EXPIRE":
		at = g.span(true)
	case "PEXPIRE":
		at = g.span(false)
	case "EXPIREAT":
		at = g.moment(true)
	default:
		at = g.moment(false)
	}
	args := []string{name, k, at}
	for g.chance(35) && len(args) < 6 {
		args = append(args, g.word(pick(g, []string{"nx", "xx", "gt", "lt", "gt", "lt", "foo"})))
	}
	return args
}

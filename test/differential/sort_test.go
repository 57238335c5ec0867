package differential

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"redoubt/internal/testserver"
)

// SORT, compared with a real Redis, and between the engines where there is none.

// sortOps makes lists, sets and sorted sets of numbers and words, weights for
// their elements, and sorts them. It stays away from what Redis leaves to chance:
// the order of members of large sets and of sorted sets, hence also that of those
// with equal text, and the order of equal text with LIMIT.
func sortOps(rng *rand.Rand, length int) (ops []op) {
	do := func(args ...string) { ops = append(ops, op{args: args}) }
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	small := chance(50)
	limits := map[string]string{
		"list-max-listpack-size": "-2", "set-max-listpack-entries": "128", "set-max-intset-entries": "512", "zset-max-listpack-entries": "128",
		"hash-max-listpack-entries": "128",
	}
	for _, name := range []string{
		"list-max-listpack-size", "set-max-listpack-entries", "set-max-intset-entries", "zset-max-listpack-entries", "hash-max-listpack-entries",
	} {
		value := limits[name]
		if !small {
			value = pick("1", "3")
		}
		do("CONFIG", "SET", name, value)
	}
	element := func() string {
		switch {
		case chance(60):
			return strconv.Itoa(rng.IntN(40) - 10)
		case chance(50):
			return strconv.FormatFloat(rng.NormFloat64()*100, 'g', -1, 64)
		case chance(30):
			return pick("a", "b", "aa", "B", "ä", "z z", "")
		}
		return pick("1.0", "1e3", "0x10", "-inf", "inf", " 5", "+5", "1e-5", "123456789012345678")
	}
	keys := []string{"list", "set", "zset", "none", "str"}
	do("SET", "str", "x")
	for len(ops) < length {
		e := element()
		switch p := rng.IntN(100); {
		case p < 12:
			do(pick("RPUSH", "LPUSH"), "list", e, pick(element(), element(), "a\x00b", "a\x00a"))
		case p < 20:
			do("SADD", "set", e, element())
		case p < 28:
			do("ZADD", "zset", strconv.Itoa(rng.IntN(5)), e, "1.5", element())
		case p < 38:
			do("SET", "w_"+e, element())
		case p < 46:
			do("HSET", "h_"+e, pick("f", "g"), element())
		case p < 49:
			do("DEL", pick("list", "set", "zset", "w_"+e, "h_"+e, "d"))
		case p < 52:
			do("LPOP", "list")
		default:
			do(sortCall(rng, pick, chance, small, keys)...)
			if chance(30) {
				do("LRANGE", "d", "0", "-1")
				do("TYPE", "d")
			}
		}
	}
	return ops
}

func sortCall(rng *rand.Rand, pick func(...string) string, chance func(int) bool, small bool, keys []string) (args []string) {
	name, key := pick("SORT", "SORT", "SORT_RO"), pick(keys...)
	args = []string{name, key}
	alpha, by := chance(60), ""
	if alpha {
		args = append(args, pick("ALPHA", "alpha"))
	}
	if chance(50) {
		if by = pick("w_*", "h_*->f", "h_*->g", "nosort", "w_*->f", "h_*->", "*"); by == "nosort" && key == "set" && !small {
			by = "w_*"
		}
		if alpha && by != "nosort" && (key == "zset" || key == "set" && !small) {
			by = "nosort"
			args[1] = "list"
		}
		args = append(args, "BY", by)
	}
	if !alpha && chance(40) {
		args = append(args, "LIMIT", strconv.Itoa(rng.IntN(12)-2), strconv.Itoa(rng.IntN(12)-2))
	}
	for range rng.IntN(3) {
		args = append(args, "GET", pick("#", "w_*", "h_*->f", "h_*->g", "x"))
	}
	if chance(50) {
		args = append(args, pick("ASC", "DESC"))
	}
	if name == "SORT" && chance(25) || chance(3) {
		args = append(args, "STORE", pick("d", "d", "d", "list"))
	}
	return args
}

func TestSortEngines(t *testing.T) {
	t.Parallel()
	sequencesOf(t, 30, sortOps, []target{
		redoubtTarget(t, testserver.Options{Engine: "mem"}, false, 1),
		redoubtTarget(t, testserver.Options{Engine: "mem", Pipes: true}, false, 20),
		redoubtTarget(t, testserver.Options{Engine: "local"}, false, 20),
		redoubtTarget(t, testserver.Options{Engine: "cold"}, false, 20),
	})
}

func TestSortRedis(t *testing.T) {
	testserver.Oracle(t)
	sequencesOf(t, 300, sortOps, []target{redisTarget(t), redoubtTarget(t, testserver.Options{Engine: "mem"}, false, 20)})
}

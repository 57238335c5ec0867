package differential

import (
	"math"
	"slices"
	"strings"
)

// The commands on sorted sets that list members, or take several sets.

// zelems is a list of members, with their scores if asked for.
func (m *model) zelems(list []string, scores map[string]float64, with bool) string {
	var out []string
	for _, member := range list {
		switch {
		case with && m.proto == 3:
			out = append(out, array(bulk(member), m.double(scores[member])))
		case with:
			out = append(out, bulk(member), m.double(scores[member]))
		default:
			out = append(out, bulk(member))
		}
	}
	return array(out...)
}

// zstore stores a result.
func (m *model) zstore(key string, list []string, scores map[string]float64) string {
	m.del(key)
	z := newZSet()
	for _, member := range list {
		z.set(member, scores[member])
	}
	m.putZSet(key, z)
	return num(int64(len(list)))
}

func (m *model) zrange(name string, a []string) string {
	dst := ""
	store := name == "zrangestore"
	if store {
		dst, a = a[0], a[1:]
	}
	free := store || name == "zrange"
	rev := strings.HasPrefix(name, "zrev")
	by := "rank"
	switch {
	case strings.HasSuffix(name, "byscore"):
		by = "score"
	case strings.HasSuffix(name, "bylex"):
		by = "lex"
	}
	with, offset, limit, chosen, turned := false, int64(0), int64(-1), false, false
	for rest := a[3:]; len(rest) > 0; rest = rest[1:] {
		switch word := strings.ToLower(rest[0]); {
		case word == "withscores" && !store:
			with = true
		case word == "limit" && len(rest) > 2:
			var ok1, ok2 bool
			offset, ok1 = integer(rest[1])
			limit, ok2 = integer(rest[2])
			if !ok1 || !ok2 {
				return fail(notInt)
			}
			rest = rest[2:]
		case free && !turned && word == "rev":
			rev, turned = true, true
		case free && !chosen && (word == "byscore" || word == "bylex"):
			by, chosen = word[2:], true
		default:
			return fail(syntax)
		}
	}
	if limit != -1 && by == "rank" {
		return fail("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	}
	if with && by == "lex" {
		return fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
	}
	low, high := a[1], a[2]
	var in func(string, float64) bool
	var err string
	start, ok1 := integer(low)
	stop, ok2 := integer(high)
	if by == "rank" {
		if !ok1 || !ok2 {
			return fail(notInt)
		}
	} else {
		if rev {
			low, high = high, low
		}
		if in, err = zmatch(by == "lex", low, high); err != "" {
			return err
		}
	}
	z, err := m.zsetAt(a[0])
	if err != "" {
		return err
	}
	if z == nil {
		z = newZSet()
	}
	list := z.list()
	if in != nil {
		list = z.matching(in)
	}
	if rev {
		slices.Reverse(list)
	}
	switch {
	case in == nil:
		list = byNumbers(list, start, stop)
	case offset < 0 || offset > int64(len(list)):
		list = nil
	default:
		list = list[offset:]
		if limit >= 0 {
			list = list[:min(limit, int64(len(list)))]
		}
	}
	if store {
		return m.zstore(dst, list, z.scores)
	}
	return m.zelems(list, z.scores, with)
}

// take removes the first members, or the last, and returns them.
func (m *model) take(key string, z *zsetValue, count int64, last bool) []string {
	list := z.list()
	if last {
		slices.Reverse(list)
	}
	list = list[:min(count, int64(len(list)))]
	left := &zsetValue{map[string]float64{}, z.large}
	for member, score := range z.scores {
		if !slices.Contains(list, member) {
			left.scores[member] = score
		}
	}
	m.putZSet(key, left)
	return list
}

func (m *model) zpop(name string, a []string) string {
	if len(a) > 2 {
		return fail(syntax)
	}
	count := int64(1)
	if len(a) == 2 {
		n, ok := integer(a[1])
		if !ok || n < 0 {
			return fail("ERR value is out of range, must be positive")
		}
		count = n
	}
	z, err := m.zsetAt(a[0])
	if err != "" {
		return err
	}
	if z == nil || count == 0 {
		return array()
	}
	reply := m.zelems(m.take(a[0], z, count, name == "zpopmax"), z.scores, true)
	if len(a) == 1 && m.proto == 3 { // the only element is not an array of its own
		return strings.TrimPrefix(reply, "*1\r\n")
	}
	return reply
}

func (m *model) zmpop(_ string, a []string) string {
	n, ok := integer(a[0])
	if !ok || n < 1 {
		return fail("ERR numkeys should be greater than 0")
	}
	if n >= int64(len(a)-1) {
		return fail(syntax)
	}
	keys, rest := a[1:1+n], a[1+n:]
	where := strings.ToLower(rest[0])
	if where != "min" && where != "max" {
		return fail(syntax)
	}
	count := int64(-1)
	for rest = rest[1:]; len(rest) > 0; rest = rest[2:] {
		if count != -1 || !strings.EqualFold(rest[0], "count") || len(rest) < 2 {
			return fail(syntax)
		}
		if count, ok = integer(rest[1]); !ok || count < 1 {
			return fail("ERR count should be greater than 0")
		}
	}
	for _, key := range keys {
		z, err := m.zsetAt(key)
		if err != "" {
			return err
		}
		if z == nil {
			continue
		}
		var out []string
		for _, member := range m.take(key, z, max(1, count), where == "max") {
			out = append(out, array(bulk(member), m.double(z.scores[member])))
		}
		return array(bulk(key), array(out...))
	}
	return m.nullArray()
}

// zinput is a set or a sorted set with its weight.
type zinput struct {
	key    string
	scores map[string]float64
	weight float64
}

func (m *model) zinputs(keys []string) (list []*zinput, err string) {
	for _, key := range keys {
		in := &zinput{key: key, weight: 1, scores: map[string]float64{}}
		if e, ok := m.get(key); ok {
			switch v := e.coll.(type) {
			case *zsetValue:
				in.scores = v.scores
			case *setValue:
				for _, member := range v.members {
					in.scores[member] = 1
				}
			default:
				return nil, fail(wrongType)
			}
		}
		list = append(list, in)
	}
	return list, ""
}

func (m *model) zalgebra(name string, a []string) string {
	dst, full := "", name
	kind, store := strings.CutSuffix(name, "store")
	if store {
		dst, a = a[0], a[1:]
	}
	kind, card := strings.CutSuffix(kind, "card")
	n, ok := integer(a[0])
	switch {
	case !ok:
		return fail(notInt)
	case n < 1:
		return fail("ERR at least 1 input key is needed for '%s' command", full)
	case n > int64(len(a)-1):
		return fail(syntax)
	}
	inputs, err := m.zinputs(a[1 : 1+n])
	if err != "" {
		return err
	}
	with, limit, how := false, int64(0), "sum"
	mixes := kind != "zdiff" && !card
	for rest := a[1+n:]; len(rest) > 0; {
		used := 2
		switch word := strings.ToLower(rest[0]); {
		case mixes && word == "weights" && len(rest) > len(inputs):
			for i, in := range inputs {
				if in.weight, ok = zfloat(rest[1+i]); !ok {
					return fail("ERR weight value is not a float")
				}
			}
			used = 1 + len(inputs)
		case mixes && word == "aggregate" && len(rest) > 1:
			if how = strings.ToLower(rest[1]); how != "sum" && how != "min" && how != "max" {
				return fail(syntax)
			}
		case word == "withscores" && !store && !card:
			with, used = true, 1
		case word == "limit" && card && len(rest) > 1:
			if limit, ok = integer(rest[1]); !ok || limit < 0 {
				return fail("ERR LIMIT can't be negative")
			}
		default:
			return fail(syntax)
		}
		rest = rest[used:]
	}
	out := zcombine(kind, how, inputs)
	list := out.list()
	switch {
	case card && limit > 0:
		return num(min(limit, int64(len(list))))
	case card:
		return num(int64(len(list)))
	case store:
		return m.zstore(dst, list, out.scores)
	}
	return m.zelems(list, out.scores, with)
}

// zcombine is the outcome of an operation.
func zcombine(kind, how string, inputs []*zinput) *zsetValue {
	if kind != "zdiff" {
		inputs = slices.Clone(inputs)
		slices.SortStableFunc(inputs, func(x, y *zinput) int { return len(x.scores) - len(y.scores) })
	}
	zero := func(f float64) float64 {
		if math.IsNaN(f) {
			return 0
		}
		return f
	}
	out, in := newZSet(), map[string]int{}
	for i, input := range inputs {
		for member, score := range input.scores {
			in[member]++
			score = zero(score * input.weight)
			old, there := out.scores[member]
			switch {
			case kind == "zdiff" && i > 0: // counted only
			case !there:
				out.scores[member] = score
			case how == "sum":
				out.scores[member] = zero(old + score)
			case how == "min":
				out.scores[member] = min(old, score)
			default:
				out.scores[member] = max(old, score)
			}
		}
	}
	for member := range out.scores {
		if kind == "zinter" && in[member] < len(inputs) || kind == "zdiff" && in[member] > 1 {
			delete(out.scores, member)
		}
	}
	return out
}

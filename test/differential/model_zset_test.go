package differential

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// zsetValue is a sorted set. It is never changed, so that a key and its copy may
// share one.
type zsetValue struct {
	scores map[string]float64
	large  bool
}

func (z *zsetValue) kind() string          { return "zset" }
func (z *zsetValue) at(_ int64) collection { return z }

func (z *zsetValue) encoding() string {
	if z.large {
		return "skiplist"
	}
	return "listpack"
}

// list is the members in their order.
func (z *zsetValue) list() []string {
	return slices.SortedFunc(maps.Keys(z.scores), func(a, b string) int {
		if x, y := z.scores[a], z.scores[b]; x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
}

func (z *zsetValue) set(member string, score float64) {
	if _, ok := z.scores[member]; !ok && (len(z.scores) >= 128 || len(member) > 64) {
		z.large = true
	}
	z.scores[member] = score + 0 // a zero has no sign
}

func newZSet() *zsetValue { return &zsetValue{scores: map[string]float64{}} }

// zsetAt finds a sorted set, as a copy that may be changed; nil if there is none.
func (m *model) zsetAt(key string) (*zsetValue, string) {
	e, ok := m.get(key)
	if !ok {
		return nil, ""
	}
	z, ok := e.coll.(*zsetValue)
	if !ok {
		return nil, fail(wrongType)
	}
	return &zsetValue{maps.Clone(z.scores), z.large}, ""
}

func (m *model) putZSet(key string, z *zsetValue) {
	if len(z.scores) == 0 {
		m.del(key)
		return
	}
	e, _ := m.get(key)
	m.put(key, entry{coll: z, exp: e.exp})
}

const (
	notFloat = "ERR value is not a valid float"
	badBound = "ERR min or max is not a float"
	badLex   = "ERR min or max not valid string range item"
)

var zsetHandlers = map[string]handler{
	"zadd": {-4, (*model).zadd}, "zincrby": {4, (*model).zincrby}, "zrem": {-3, (*model).zrem}, "zcard": {2, (*model).zcard},
	"zscore": {3, (*model).zscore}, "zmscore": {-3, (*model).zmscore}, "zrank": {-3, (*model).zrank}, "zrevrank": {-3, (*model).zrank},
	"zcount": {4, (*model).zcount}, "zlexcount": {4, (*model).zcount},
	"zremrangebyrank": {4, (*model).zremrange}, "zremrangebyscore": {4, (*model).zremrange}, "zremrangebylex": {4, (*model).zremrange},
	"zrange": {-4, (*model).zrange}, "zrevrange": {-4, (*model).zrange}, "zrangebyscore": {-4, (*model).zrange},
	"zrevrangebyscore": {-4, (*model).zrange}, "zrangebylex": {-4, (*model).zrange}, "zrevrangebylex": {-4, (*model).zrange},
	"zrangestore": {-5, (*model).zrange}, "zpopmin": {-2, (*model).zpop}, "zpopmax": {-2, (*model).zpop}, "zmpop": {-4, (*model).zmpop},
	"zunion": {-3, (*model).zalgebra}, "zinter": {-3, (*model).zalgebra}, "zdiff": {-3, (*model).zalgebra}, "zintercard": {-3, (*model).zalgebra},
	"zunionstore": {-4, (*model).zalgebra}, "zinterstore": {-4, (*model).zalgebra}, "zdiffstore": {-4, (*model).zalgebra},
}

// zfloat reads the numbers that the generator makes.
func zfloat(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f)
}

// double prints them: halves and whole numbers.
func (m *model) double(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if math.IsInf(f, 0) {
		text = strings.ToLower(strings.TrimPrefix(text, "+"))
	}
	if m.proto == 3 {
		return "," + text + "\r\n"
	}
	return bulk(text)
}

func (m *model) zadd(_ string, a []string) string {
	key, rest := a[0], a[1:]
	is := map[string]bool{}
	for len(rest) > 0 && slices.Contains([]string{"nx", "xx", "gt", "lt", "ch", "incr"}, strings.ToLower(rest[0])) {
		is[strings.ToLower(rest[0])], rest = true, rest[1:]
	}
	switch {
	case len(rest) == 0 || len(rest)%2 == 1:
		return fail(syntax)
	case is["nx"] && is["xx"]:
		return fail("ERR XX and NX options at the same time are not compatible")
	case is["nx"] && (is["gt"] || is["lt"]) || is["gt"] && is["lt"]:
		return fail("ERR GT, LT, and/or NX options at the same time are not compatible")
	case is["incr"] && len(rest) > 2:
		return fail("ERR INCR option supports a single increment-element pair")
	}
	for i := 0; i < len(rest); i += 2 {
		if _, ok := zfloat(rest[i]); !ok {
			return fail(notFloat)
		}
	}
	z, err := m.zsetAt(key)
	if err != "" {
		return err
	}
	missing := z == nil
	if missing {
		z = newZSet()
	}
	if len(rest)/2 > 128 || missing && len(rest[1]) > 64 {
		z.large = true
	}
	added, changed, reply := int64(0), int64(0), m.null()
	for i := 0; i < len(rest); i += 2 {
		score, _ := zfloat(rest[i])
		old, there := z.scores[rest[i+1]]
		if there && is["nx"] || !there && is["xx"] {
			continue
		}
		if there && is["incr"] {
			if score += old; math.IsNaN(score) {
				return fail("ERR resulting score is not a number (NaN)")
			}
		}
		if there && (is["gt"] && score <= old || is["lt"] && score >= old) {
			continue
		}
		reply = m.double(score)
		if !there {
			added++
		}
		if !there || old != score {
			changed++
		}
		z.set(rest[i+1], score)
	}
	if !missing || !is["xx"] {
		m.putZSet(key, z)
	}
	switch {
	case is["incr"]:
		return reply
	case is["ch"]:
		return num(changed)
	}
	return num(added)
}

func (m *model) zincrby(_ string, a []string) string {
	return m.zadd("", []string{a[0], "incr", a[1], a[2]})
}

func (m *model) zrem(_ string, a []string) string {
	z, err := m.zsetAt(a[0])
	if err != "" || z == nil {
		return orZero(err)
	}
	n := len(z.scores)
	for _, member := range a[1:] {
		delete(z.scores, member)
	}
	m.putZSet(a[0], z)
	return num(int64(n - len(z.scores)))
}

func (m *model) zcard(_ string, a []string) string {
	z, err := m.zsetAt(a[0])
	if err != "" || z == nil {
		return orZero(err)
	}
	return num(int64(len(z.scores)))
}

func (m *model) zmscore(_ string, a []string) string {
	z, err := m.zsetAt(a[0])
	if err != "" {
		return err
	}
	var out []string
	for _, member := range a[1:] {
		reply := m.null()
		if z != nil {
			if score, ok := z.scores[member]; ok {
				reply = m.double(score)
			}
		}
		out = append(out, reply)
	}
	return array(out...)
}

func (m *model) zscore(_ string, a []string) string {
	return strings.TrimPrefix(m.zmscore("", a), "*1\r\n")
}

func (m *model) zrank(name string, a []string) string {
	with := len(a) == 3
	if len(a) > 3 {
		return fail("ERR wrong number of arguments for '%s' command", name)
	}
	if with && !strings.EqualFold(a[2], "withscore") {
		return fail(syntax)
	}
	z, err := m.zsetAt(a[0])
	if err != "" {
		return err
	}
	rank := -1
	if z != nil {
		list := z.list()
		if name == "zrevrank" {
			slices.Reverse(list)
		}
		rank = slices.Index(list, a[1])
	}
	switch {
	case rank < 0 && with:
		return m.nullArray()
	case rank < 0:
		return m.null()
	case with:
		return array(num(int64(rank)), m.double(z.scores[a[1]]))
	}
	return num(int64(rank))
}

// zmatch makes a test of two ends of a range, by score or by name.
func zmatch(lex bool, low, high string) (in func(member string, score float64) bool, err string) {
	if lex {
		return lexMatch(low, high)
	}
	low, lowOpen := strings.CutPrefix(low, "(")
	high, highOpen := strings.CutPrefix(high, "(")
	x, ok1 := zfloat(low)
	y, ok2 := zfloat(high)
	if !ok1 && low != "" || !ok2 && high != "" {
		return nil, fail(badBound)
	}
	return func(_ string, score float64) bool {
		return (score > x || score == x && !lowOpen) && (score < y || score == y && !highOpen)
	}, ""
}

func lexMatch(low, high string) (in func(member string, score float64) bool, err string) {
	for _, s := range []string{low, high} {
		if s != "-" && s != "+" && !strings.HasPrefix(s, "(") && !strings.HasPrefix(s, "[") {
			return nil, fail(badLex)
		}
	}
	return func(member string, _ float64) bool {
		above := low == "-" || low != "+" && (member > low[1:] || member == low[1:] && low[0] == '[')
		below := high == "+" || high != "-" && (member < high[1:] || member == high[1:] && high[0] == '[')
		return above && below
	}, ""
}

func (z *zsetValue) matching(in func(member string, score float64) bool) []string {
	return slices.DeleteFunc(z.list(), func(member string) bool { return !in(member, z.scores[member]) })
}

func (m *model) zcount(name string, a []string) string {
	in, err := zmatch(name == "zlexcount", a[1], a[2])
	if err != "" {
		return err
	}
	z, err := m.zsetAt(a[0])
	if err != "" || z == nil {
		return orZero(err)
	}
	return num(int64(len(z.matching(in))))
}

// byNumbers cuts a part out of a list, by numbers that count from the end if they
// are negative.
func byNumbers(list []string, start, stop int64) []string {
	n := int64(len(list))
	if start < 0 {
		start = max(0, start+n)
	}
	if stop < 0 {
		stop += n
	}
	stop = min(stop, n-1)
	if start > stop {
		return nil
	}
	return list[start : stop+1]
}

func (m *model) zremrange(name string, a []string) string {
	var in func(string, float64) bool
	var err string
	start, ok1 := integer(a[1])
	stop, ok2 := integer(a[2])
	if name == "zremrangebyrank" {
		if !ok1 || !ok2 {
			return fail(notInt)
		}
	} else if in, err = zmatch(name == "zremrangebylex", a[1], a[2]); err != "" {
		return err
	}
	z, err := m.zsetAt(a[0])
	if err != "" || z == nil {
		return orZero(err)
	}
	var gone []string
	if in != nil {
		gone = z.matching(in)
	} else {
		gone = byNumbers(z.list(), start, stop)
	}
	for _, member := range gone {
		delete(z.scores, member)
	}
	m.putZSet(a[0], z)
	return num(int64(len(gone)))
}

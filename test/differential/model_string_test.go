package differential

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

func (m *model) getCmd(_ string, a []string) string {
	if e, ok := m.get(a[0]); ok {
		return bulk(e.val)
	}
	return m.null()
}

func (m *model) set(_ string, a []string) string {
	o, ok := parseOptions(a[2:], true)
	if !ok {
		return fail(syntax)
	}
	at, err := m.optionTime(o, "set")
	if err != "" {
		return err
	}
	old, found := m.get(a[0])
	reply := okReply
	if o.get {
		reply = m.getCmd("", a[:1])
	}
	equal := found && old.val == o.with
	if o.nx && found || o.xx && !found || o.cmp == "ifeq" && !equal || o.cmp == "ifne" && equal {
		if !o.get {
			return m.null()
		}
		return reply
	}
	if o.keep {
		at = old.exp
	}
	m.put(a[0], entry{val: a[1], exp: at})
	return reply
}

func (m *model) setNX(_ string, a []string) string {
	if _, found := m.get(a[0]); found {
		return num(0)
	}
	m.put(a[0], entry{val: a[1]})
	return num(1)
}

func (m *model) setEX(name string, a []string) string {
	at, err := m.when(a[1], name == "setex", true, true, name)
	if err != "" {
		return err
	}
	m.put(a[0], entry{val: a[2], exp: at})
	return okReply
}

func (m *model) getSet(_ string, a []string) string {
	old := m.getCmd("", a)
	m.put(a[0], entry{val: a[1]})
	return old
}

func (m *model) getDel(_ string, a []string) string {
	old := m.getCmd("", a)
	m.del(a[0])
	return old
}

func (m *model) getEX(_ string, a []string) string {
	o, ok := parseOptions(a[1:], false)
	if !ok {
		return fail(syntax)
	}
	e, found := m.get(a[0])
	if !found {
		return m.null()
	}
	at, err := m.optionTime(o, "getex")
	if err != "" {
		return err
	}
	if o.unit != "" || o.persist {
		e.exp = at
		m.put(a[0], e) // and it is gone at once if that is past
	}
	return bulk(e.val)
}

func (m *model) mget(_ string, a []string) string {
	var vals []string
	for _, k := range a {
		if e, _ := m.get(k); e.coll != nil {
			vals = append(vals, m.null())
			continue
		}
		vals = append(vals, m.getCmd("", []string{k}))
	}
	return array(vals...)
}

func (m *model) mset(name string, a []string) string {
	if len(a)%2 != 0 {
		return fail("ERR wrong number of arguments for '%s' command", name)
	}
	nx := name == "msetnx"
	for i := 0; nx && i < len(a); i += 2 {
		if _, found := m.get(a[i]); found {
			return num(0)
		}
	}
	for i := 0; i < len(a); i += 2 {
		m.put(a[i], entry{val: a[i+1]})
	}
	if nx {
		return num(1)
	}
	return okReply
}

func (m *model) append(_ string, a []string) string {
	e, found := m.get(a[0])
	if len(e.val)+len(a[1]) > maxBulk {
		return fail(tooLong)
	}
	e.val += a[1]
	if found {
		e.enc = "raw"
	}
	m.put(a[0], e)
	return num(int64(len(e.val)))
}

func (m *model) strlen(_ string, a []string) string {
	e, _ := m.get(a[0])
	return num(int64(len(e.val)))
}

// span makes indexes that may be negative into a range inside n things;
// lo > hi means that it is empty.
func span(lo, hi, n int64) (int64, int64) {
	if lo < 0 {
		lo = max(0, lo+n)
	}
	if hi < 0 {
		hi = max(0, hi+n)
	}
	return lo, min(hi, n-1)
}

func (m *model) getRange(_ string, a []string) string {
	lo, ok1 := integer(a[1])
	hi, ok2 := integer(a[2])
	if !ok1 || !ok2 {
		return fail(notInt)
	}
	e, _ := m.get(a[0])
	crossed := lo < 0 && hi < 0 && lo > hi
	if lo, hi = span(lo, hi, int64(len(e.val))); crossed || lo > hi {
		return bulk("")
	}
	return bulk(e.val[lo : hi+1])
}

// overwrite puts s at an offset, with zero bytes before it where need be.
func overwrite(val string, at int, s string) string {
	b := []byte(val)
	if grow := at + len(s) - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	copy(b[at:], s)
	return string(b)
}

func (m *model) setRange(_ string, a []string) string {
	at, ok := integer(a[1])
	if !ok {
		return fail(notInt)
	}
	if at < 0 {
		return fail("ERR offset is out of range")
	}
	e, _ := m.get(a[0])
	if a[2] == "" {
		return num(int64(len(e.val)))
	}
	if at > maxBulk || at+int64(len(a[2])) > maxBulk {
		return fail(tooLong)
	}
	e.val, e.enc = overwrite(e.val, int(at), a[2]), "raw"
	m.put(a[0], e)
	return num(int64(len(e.val)))
}

func (m *model) incr(name string, a []string) string {
	by, ok := int64(1), true
	if len(a) == 2 {
		if by, ok = integer(a[1]); !ok {
			return fail(notInt)
		}
	}
	if strings.HasPrefix(name, "decr") {
		if by == minInt64 {
			return fail("ERR decrement would overflow")
		}
		by = -by
	}
	e, found := m.get(a[0])
	n := int64(0)
	if found {
		if n, ok = integer(e.val); !ok {
			return fail(notInt)
		}
	}
	if by > 0 && n > maxInt64-by || by < 0 && n < minInt64-by {
		return fail("ERR increment or decrement would overflow")
	}
	m.put(a[0], entry{val: strconv.FormatInt(n+by, 10), exp: e.exp})
	return num(n + by)
}

// float parses what the C library's strtold takes, as far as the generator
// goes, at the precision of its type.
func float(s string) (*big.Float, bool) {
	low := strings.ToLower(strings.TrimLeft(s, "+-"))
	if low == "inf" || low == "infinity" {
		return new(big.Float).SetInf(s[0] == '-'), true
	}
	if s == "" || strings.ContainsAny(s, "_ \x00") || strings.Trim(s, "0123456789abcdefABCDEFxX.+-pP") != "" {
		return nil, false
	}
	f, _, err := big.ParseFloat(s, 0, 64, big.ToNearestEven)
	if !strings.HasPrefix(low, "0x") { // a leading 0 means nothing here, and p is of hexadecimal numbers
		if strings.Contains(low, "p") {
			return nil, false
		}
		f, _, err = big.ParseFloat(s, 10, 64, big.ToNearestEven)
	}
	return f, err == nil
}

func (m *model) incrFloat(_ string, a []string) string {
	e, found := m.get(a[0])
	n, ok := new(big.Float), true
	if found {
		n, ok = float(e.val)
	}
	by, ok2 := float(a[1])
	if !ok || !ok2 {
		return fail("ERR value is not a valid float")
	}
	if n.IsInf() || by.IsInf() {
		return fail("ERR increment would produce NaN or Infinity")
	}
	text := new(big.Float).SetPrec(64).Add(n, by).Text('f', 17)
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	if text == "-0" || text == "" {
		text = "0"
	}
	m.put(a[0], entry{val: text, exp: e.exp, enc: "embstr"})
	return bulk(text)
}

func (m *model) lcs(_ string, a []string) string {
	var idx, length, withLen bool
	least := int64(0)
	for i := 2; i < len(a); i++ {
		switch o := strings.ToLower(a[i]); {
		case o == "idx":
			idx = true
		case o == "len":
			length = true
		case o == "withmatchlen":
			withLen = true
		case o == "minmatchlen" && i+1 < len(a):
			n, ok := integer(a[i+1])
			if !ok {
				return fail(notInt)
			}
			least = max(0, n)
			i++
		default:
			return fail(syntax)
		}
	}
	if idx && length {
		return fail("ERR If you want both the length and indexes, please just use IDX.")
	}
	x, _ := m.get(a[0])
	y, _ := m.get(a[1])
	pairs := lcsPairs(x.val, y.val)
	switch {
	case length:
		return num(int64(len(pairs)))
	case !idx:
		return bulk(common(pairs, x.val))
	}
	var matches []string
	for i := 0; i < len(pairs); {
		last := i // pairs run backwards; a match is a run of neighbours
		for last+1 < len(pairs) && pairs[last+1] == [2]int{pairs[last][0] - 1, pairs[last][1] - 1} {
			last++
		}
		if n := int64(last - i + 1); n >= least {
			side := func(s int) string { return array(num(int64(pairs[last][s])), num(int64(pairs[i][s]))) }
			match := []string{side(0), side(1)}
			if withLen {
				match = append(match, num(n))
			}
			matches = append(matches, array(match...))
		}
		i = last + 1
	}
	head := "*4"
	if m.proto == 3 {
		head = "%2"
	}
	return fmt.Sprintf("%s\r\n%s%s%s%s", head, bulk("matches"), array(matches...), bulk("len"), num(int64(len(pairs))))
}

// common is the common subsequence, byte by byte.
func common(pairs [][2]int, x string) string {
	b := make([]byte, len(pairs))
	for i, p := range pairs {
		b[len(pairs)-1-i] = x[p[0]]
	}
	return string(b)
}

// lcsPairs are the positions of a longest common subsequence, from its end.
func lcsPairs(x, y string) (pairs [][2]int) {
	best := make([][]int, len(x)+1)
	for i := range best {
		best[i] = make([]int, len(y)+1)
		for j := 1; i > 0 && j <= len(y); j++ {
			if x[i-1] == y[j-1] {
				best[i][j] = best[i-1][j-1] + 1
			} else {
				best[i][j] = max(best[i-1][j], best[i][j-1])
			}
		}
	}
	for i, j := len(x), len(y); i > 0 && j > 0; {
		switch {
		case x[i-1] == y[j-1]:
			i, j = i-1, j-1
			pairs = append(pairs, [2]int{i, j})
		case best[i-1][j] > best[i][j-1]:
			i--
		default:
			j--
		}
	}
	return pairs
}

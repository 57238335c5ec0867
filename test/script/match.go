package script

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pick returns the expectation for a server and a protocol version: the most
// particular one there is.
func (s *step) pick(redis bool, proto int) *block {
	var best *block
	rank := -1
	for i := range s.expect {
		b := &s.expect[i]
		if (b.redis && !redis) || (b.resp3 && proto != 3) {
			continue
		}
		r := 0
		if b.redis {
			r += 2
		}
		if b.resp3 {
			r++
		}
		if r > rank {
			best, rank = b, r
		}
	}
	return best
}

// matches says whether a reply, as lines, is what the block expects.
func (m *modifiers) matches(want, got []string) bool {
	if m.unordered {
		w, g := elements(want, m.pairs), elements(got, m.pairs)
		slices.Sort(w)
		slices.Sort(g)
		return slices.Equal(w, g)
	}
	return m.lines(want, got)
}

func (m *modifiers) lines(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "..." {
		return m.lines(want[1:], got) || (len(got) > 0 && m.lines(want, got[1:]))
	}
	return len(got) > 0 && m.line(want[0], got[0]) && m.lines(want[1:], got[1:])
}

func (m *modifiers) line(want, got string) bool {
	if re, ok := strings.CutPrefix(want, "~ "); ok {
		matched, err := regexp.MatchString("^(?:"+re+")$", got)
		return err == nil && matched
	}
	return want == got || (m.prefix && strings.HasPrefix(got, want))
}

var elementHead = regexp.MustCompile(`^ *[0-9]+([)~>#]) `)

// elements cuts the lines of an aggregate into its elements, without their
// numbers; pairs joins each two elements of an array.
func elements(lines []string, pairs bool) []string {
	var elems []string
	kind := ""
	for _, l := range lines {
		if h := elementHead.FindStringSubmatch(l); h != nil && len(h[0]) <= headWidth(lines) {
			kind = h[1]
			elems = append(elems, kind+l[len(h[0]):])
		} else if len(elems) > 0 {
			elems[len(elems)-1] += "\n" + strings.TrimLeft(l, " ")
		} else {
			return lines // not an aggregate
		}
	}
	if !pairs || kind == "#" {
		return elems
	}
	var joined []string
	for p := range slices.Chunk(elems, 2) {
		joined = append(joined, strings.Join(p, "\n"))
	}
	return joined
}

// headWidth is the width of the numbers in front of the elements: an inner
// aggregate's lines are indented at least that far.
func headWidth(lines []string) int {
	return len(elementHead.FindString(lines[0]))
}

// olderThan compares dotted versions, as in 7.2.0.
func olderThan(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		m, n := 0, 0
		if i < len(x) {
			m, _ = strconv.Atoi(x[i])
		}
		if i < len(y) {
			n, _ = strconv.Atoi(y[i])
		}
		if m != n {
			return m < n
		}
	}
	return false
}

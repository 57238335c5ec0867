package lua

import "strings"

// Lua's patterns, by backtracking as Lua does it: the order of attempts is
// part of what they mean.

const (
	maxCaptures   = 32
	maxPatternRun = 10000 // recursion; Redis has none, and crashes
	specials      = "^$*+?.([%-"

	capUnfinished = -1
	capPosition   = -2
)

type matcher struct {
	c        *Call
	src, pat string
	level    int
	captures [maxCaptures]struct{ start, size int }
	depth    int
	steps    int
	err      error
}

func (c *Call) newMatcher(src, pat string) *matcher {
	return &matcher{c: c, src: src, pat: cutNUL(pat)}
}

// fail notes an error and ends the match.
func (m *matcher) fail(err error) int {
	if m.err == nil {
		m.err = err
	}
	return -1
}

// run tries to match at a position; -1 is no. Errors are in m.err.
func (m *matcher) run(s, p int) int {
	m.level, m.depth = 0, 0
	return m.match(s, p)
}

// step counts a step of the match. It is false when the match has failed.
func (m *matcher) step() bool { return m.work(1) }

// work counts n steps, and tells them to the state's budget now and then.
func (m *matcher) work(n int) bool {
	if m.steps += n; m.steps >= 64 {
		n, m.steps = m.steps, 0
		if err := m.c.st.Work(n); err != nil {
			m.fail(err)
		}
	}
	return m.err == nil
}

func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxPatternRun {
		return m.fail(m.c.Errorf("pattern too complex"))
	}
	r := m.attempt(s, p)
	m.depth--
	return r
}

func (m *matcher) attempt(s, p int) int {
	for m.step() {
		if p == len(m.pat) {
			return s
		}
		switch m.pat[p] {
		case '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.open(s, p+2, capPosition)
			}
			return m.open(s, p+1, capUnfinished)
		case ')':
			return m.close(s, p+1)
		case '%':
			if p+1 < len(m.pat) {
				switch d := m.pat[p+1]; {
				case d == 'b':
					if s = m.balance(s, p+2); s < 0 {
						return -1
					}
					p += 4
					continue
				case d == 'f':
					ep, ok := m.frontier(s, p+2)
					if !ok {
						return -1
					}
					p = ep
					continue
				case isDigit(d):
					if s = m.backReference(s, int(d)); s < 0 {
						return -1
					}
					p += 2
					continue
				}
			}
		case '$':
			if p+1 == len(m.pat) {
				if s == len(m.src) {
					return s
				}
				return -1
			}
		}
		ep := m.classEnd(p)
		if ep < 0 {
			return -1
		}
		hit := s < len(m.src) && m.single(m.src[s], p, ep)
		if ep < len(m.pat) {
			switch m.pat[ep] {
			case '?':
				if hit {
					if r := m.match(s+1, ep+1); r >= 0 || m.err != nil {
						return r
					}
				}
				p = ep + 1
				continue
			case '*':
				return m.greedy(s, p, ep)
			case '+':
				if !hit {
					return -1
				}
				return m.greedy(s+1, p, ep)
			case '-':
				return m.lazy(s, p, ep)
			}
		}
		if !hit {
			return -1
		}
		s++
		p = ep
	}
	return -1
}

func (m *matcher) greedy(s, p, ep int) int {
	n := 0
	for s+n < len(m.src) && m.single(m.src[s+n], p, ep) {
		if n++; !m.step() {
			return -1
		}
	}
	for ; n >= 0 && m.err == nil; n-- {
		if r := m.match(s+n, ep+1); r >= 0 {
			return r
		}
	}
	return -1
}

func (m *matcher) lazy(s, p, ep int) int {
	for m.err == nil {
		if r := m.match(s, ep+1); r >= 0 {
			return r
		}
		if s >= len(m.src) || !m.single(m.src[s], p, ep) {
			return -1
		}
		s++
	}
	return -1
}

func (m *matcher) open(s, p, what int) int {
	if m.level >= maxCaptures {
		return m.fail(m.c.Errorf("too many captures"))
	}
	m.captures[m.level].start, m.captures[m.level].size = s, what
	m.level++
	r := m.match(s, p)
	if r < 0 {
		m.level--
	}
	return r
}

func (m *matcher) close(s, p int) int {
	i := m.level - 1
	for i >= 0 && m.captures[i].size != capUnfinished {
		i--
	}
	if i < 0 {
		return m.fail(m.c.Errorf("invalid pattern capture"))
	}
	m.captures[i].size = s - m.captures[i].start
	r := m.match(s, p)
	if r < 0 {
		m.captures[i].size = capUnfinished
	}
	return r
}

func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pat) {
		return m.fail(m.c.Errorf("unbalanced pattern"))
	}
	begin, end := m.pat[p], m.pat[p+1]
	if s >= len(m.src) || m.src[s] != begin {
		return -1
	}
	for depth, i := 1, s+1; i < len(m.src) && m.step(); i++ {
		switch m.src[i] {
		case end:
			if depth--; depth == 0 {
				return i + 1
			}
		case begin:
			depth++
		}
	}
	return -1
}

func (m *matcher) frontier(s, p int) (next int, ok bool) {
	if p >= len(m.pat) || m.pat[p] != '[' {
		m.fail(m.c.Errorf("missing '[' after '%%f' in pattern"))
		return 0, false
	}
	ep := m.classEnd(p)
	if ep < 0 {
		return 0, false
	}
	before, here := byte(0), byte(0)
	if s > 0 {
		before = m.src[s-1]
	}
	if s < len(m.src) {
		here = m.src[s]
	}
	return ep, !m.inSet(before, p, ep-1) && m.inSet(here, p, ep-1)
}

func (m *matcher) backReference(s, digit int) int {
	i := digit - '1'
	if i < 0 || i >= m.level || m.captures[i].size == capUnfinished {
		return m.fail(m.c.Errorf("invalid capture index"))
	}
	n := m.captures[i].size
	if n == capPosition { // as C compares a length that is huge
		return -1
	}
	start := m.captures[i].start
	if len(m.src)-s < n || !m.work(n>>3) || m.src[start:start+n] != m.src[s:s+n] {
		return -1
	}
	return s + n
}

// classEnd returns where the single-character class at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p >= len(m.pat) {
			return m.fail(m.c.Errorf("malformed pattern (ends with '%%')"))
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for {
			if p >= len(m.pat) {
				return m.fail(m.c.Errorf("malformed pattern (missing ']')"))
			}
			c := m.pat[p]
			p++
			if c == '%' && p < len(m.pat) {
				p++
			}
			if p < len(m.pat) && m.pat[p] == ']' {
				return p + 1
			}
		}
	}
	return p
}

// single reports whether c belongs to the class pat[p:ep].
func (m *matcher) single(c byte, p, ep int) bool {
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, ep-1)
	}
	return m.pat[p] == c
}

// inSet reports whether c belongs to the set that begins at p and whose ] is at end.
func (m *matcher) inSet(c byte, p, end int) bool {
	m.work((end - p) >> 2) // a long set is long work; a failure ends the next step
	in := true
	p++
	if m.pat[p] == '^' {
		in = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case m.pat[p] == '%':
			p++
			if inClass(c, m.pat[p]) {
				return in
			}
		case m.pat[p+1] == '-' && p+2 < end:
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return in
			}
			p += 2
		case m.pat[p] == c:
			return in
		}
	}
	return !in
}

func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 32 || c == 127
	case 'd':
		in = isDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'p':
		in = c > 32 && c < 127 && !isAlpha(c) && !isDigit(c)
	case 's':
		in = isSpace(c)
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || (c|0x20 >= 'a' && c|0x20 <= 'f')
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in == (class >= 'a')
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// capture returns capture i of a match of src[s:e].
func (m *matcher) capture(i, s, e int) (Value, error) {
	if i >= m.level {
		if i != 0 {
			return Nil, m.c.Errorf("invalid capture index")
		}
		return m.c.st.newString(m.src[s:e])
	}
	k := m.captures[i]
	switch k.size {
	case capUnfinished:
		return Nil, m.c.Errorf("unfinished capture")
	case capPosition:
		return Number(float64(k.start + 1)), nil
	}
	return m.c.st.newString(m.src[k.start : k.start+k.size])
}

// values appends the captures, or if there are none and whole is set the match.
func (m *matcher) values(dst []Value, s, e int, whole bool) ([]Value, error) {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		v, err := m.capture(i, s, e)
		if err != nil {
			return dst, err
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// findMatch is find and match.
func (c *Call) findMatch(find bool) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	pat, err := c.CheckString(1)
	if err != nil {
		return err
	}
	init, err := c.OptInt(2, 1)
	if err != nil {
		return err
	}
	init = min(max(relative(init, len(s))-1, 0), len(s))
	if find && (c.Arg(3).Truth() || !strings.ContainsAny(cutNUL(pat), specials)) {
		return c.findPlain(s, pat, init)
	}
	m := c.newMatcher(s, pat)
	p := 0
	if strings.HasPrefix(m.pat, "^") {
		p = 1
	}
	for at := init; at <= len(s); at++ {
		end := m.run(at, p)
		if m.err != nil {
			return m.err
		}
		if end >= 0 {
			if find {
				c.Return(Number(float64(at+1)), Number(float64(end)))
			}
			c.rets, err = m.values(c.rets, at, end, !find)
			return err
		}
		if p == 1 {
			break
		}
	}
	c.Return(Nil)
	return nil
}

func (c *Call) findPlain(s, pat string, init int) error {
	if err := c.st.Work((len(s) - init) >> 4); err != nil {
		return err
	}
	i := strings.Index(s[init:], pat)
	if i < 0 {
		c.Return(Nil)
		return nil
	}
	c.Return(Number(float64(init+i+1)), Number(float64(init+i+len(pat))))
	return nil
}

// Package glob matches names against patterns as Redis does: * ? [abc] [^a-z]
// and \ to take the next character as it is.
//
// Clients depend on the corners of Redis's matcher, so they are kept:
//   - "*" alone does not match the empty string (KEYS treats that pattern apart);
//   - a class that is not closed ends with the pattern: "[^" matches any one
//     character and "[" none;
//   - a range may be given backwards, its ends may be any characters, "]"
//     included, and they are compared as signed bytes;
//   - inside a class a character behind \ is compared by case always; the ends
//     of a range are put in order first and folded then;
//   - a trailing \ stands for itself.
//
// Approach: no recursion. A mismatch behind a * goes back to the newest * alone
// and lets it take one character more, which is enough since what stands before
// that * already matched as early as it could. So the cost is at most the
// product of both lengths, whatever the pattern. Redis gives up on a pattern
// that has more than a thousand * to be tried; so does this.
package glob

// maxStars is how many * may be tried before a match is given up.
const maxStars = 1000

// Match says whether s matches the pattern.
func Match(pattern, s []byte) bool { return match(pattern, s, false) }

// MatchFold is Match with ASCII letters of either case taken as the same.
func MatchFold(pattern, s []byte) bool { return match(pattern, s, true) }

// All says whether the pattern is "*", which commands take as no pattern.
func All(pattern []byte) bool { return len(pattern) == 1 && pattern[0] == '*' }

func match(p, s []byte, fold bool) bool {
	if len(s) == 0 {
		return len(p) == 0
	}
	var (
		i, j         int  // where we are in p and in s
		back         bool // there was a *
		backP, backS int  // behind the newest *, and where it ends in s now
		stars        int
	)
	for {
		switch {
		case j == len(s):
			for i < len(p) && p[i] == '*' {
				i++
			}
			// With something left in the pattern no later start can help: it
			// would have to match in fewer characters still.
			return i == len(p)
		case i < len(p) && p[i] == '*':
			for i < len(p) && p[i] == '*' {
				i++
			}
			if i == len(p) {
				return true
			}
			if stars++; stars > maxStars {
				return false
			}
			back, backP, backS = true, i, j
			continue
		case i < len(p):
			if ok, n := one(p[i:], s[j], fold); ok {
				i += n
				j++
				continue
			}
		}
		if !back {
			return false
		}
		backS++
		i, j = backP, backS
	}
}

// one matches a single character against the start of the pattern, which is
// neither empty nor a *, and says how much of the pattern that takes.
func one(p []byte, c byte, fold bool) (ok bool, n int) {
	switch {
	case p[0] == '?':
		return true, 1
	case p[0] == '[':
		return class(p, c, fold)
	case p[0] == '\\' && len(p) > 1:
		return same(p[1], c, fold), 2
	}
	return same(p[0], c, fold), 1
}

// class matches a character against the class that the pattern begins with.
func class(p []byte, c byte, fold bool) (ok bool, n int) {
	n = 1
	not := n < len(p) && p[n] == '^'
	if not {
		n++
	}
	for ; n < len(p) && p[n] != ']'; n++ {
		left := len(p) - n
		switch {
		case p[n] == '\\' && left >= 2:
			n++
			ok = ok || p[n] == c
		case left >= 3 && p[n+1] == '-':
			ok = ok || within(p[n], p[n+2], c, fold)
			n += 2
		default:
			ok = ok || same(p[n], c, fold)
		}
	}
	return ok != not, min(n+1, len(p))
}

func within(from, to, c byte, fold bool) bool {
	a, b := int8(from), int8(to)
	if a > b {
		a, b = b, a
	}
	x := int8(c)
	if fold { // after they were put in order: that is how Redis does it
		a, b, x = int8(lower(byte(a))), int8(lower(byte(b))), int8(lower(c))
	}
	return a <= x && x <= b
}

func same(a, b byte, fold bool) bool {
	return a == b || fold && lower(a) == lower(b)
}

func lower(c byte) byte {
	if c-'A' < 26 {
		c += 'a' - 'A'
	}
	return c
}

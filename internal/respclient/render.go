package respclient

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// longBulk is the length from which a string is shown by its digest.
const longBulk = 512

// Lines renders the reply as redis-cli does on a terminal, with these
// differences, so that two replies look alike only if they are equal:
//
//   - the null array of RESP2 is (nil array);
//   - a verbatim string is (verbatim txt) "...";
//   - a string of more than 512 bytes is (bulk 70000 bytes sha256 4c2f...);
//   - statuses and errors that hold unprintable bytes, or begin or end with a
//     space, are quoted.
func (v Value) Lines() []string {
	switch v.Kind {
	case Status:
		return []string{plain(v.Str)}
	case Error:
		return []string{"(error) " + plain(v.Str)}
	case BulkErr:
		return []string{"(bulk error) " + Quote(v.Str)}
	case Int:
		return []string{"(integer) " + v.Str}
	case Null:
		return []string{"(nil)"}
	case Double:
		return []string{"(double) " + v.Str}
	case BigNum:
		return []string{"(big number) " + v.Str}
	case Bool:
		if v.Str == "t" {
			return []string{"(true)"}
		}
		return []string{"(false)"}
	case Verbatim:
		format, text, _ := strings.Cut(v.Str, ":")
		return []string{"(verbatim " + plain(format) + ") " + quoteLong(text)}
	case Bulk:
		if v.IsNull {
			return []string{"(nil)"}
		}
		return []string{quoteLong(v.Str)}
	case Array, Set, Push:
		return v.aggregate()
	case Map:
		return v.pairs()
	}
	return []string{fmt.Sprintf("(unknown %q) %q", v.Kind, v.Str)}
}

func (v Value) aggregate() []string {
	name, mark := "array", ")"
	switch v.Kind {
	case Set:
		name, mark = "set", "~"
	case Push:
		name, mark = "push", ">"
	}
	switch {
	case v.IsNull:
		return []string{"(nil " + name + ")"}
	case len(v.Elems) == 0:
		return []string{"(empty " + name + ")"}
	}
	var lines []string
	width := len(strconv.Itoa(len(v.Elems)))
	for i, e := range v.Elems {
		lines = appendIndented(lines, fmt.Sprintf("%*d%s ", width, i+1, mark), e.Lines())
	}
	return lines
}

func (v Value) pairs() []string {
	if len(v.Elems) == 0 {
		return []string{"(empty hash)"}
	}
	var lines []string
	width := len(strconv.Itoa(len(v.Elems) / 2))
	for i := 0; i < len(v.Elems); i += 2 {
		key := v.Elems[i].Lines()
		head := fmt.Sprintf("%*d# ", width, i/2+1)
		if len(key) > 1 { // an aggregate as key: nothing in Redis has that
			key = []string{strings.Join(key, " ")}
		}
		value := v.Elems[i+1].Lines()
		if len(value) == 1 {
			lines = append(lines, head+key[0]+" => "+value[0])
			continue
		}
		lines = append(lines, head+key[0]+" =>")
		for _, l := range value {
			lines = append(lines, strings.Repeat(" ", len(head))+l)
		}
	}
	return lines
}

func appendIndented(lines []string, head string, body []string) []string {
	for i, l := range body {
		if i == 1 {
			head = strings.Repeat(" ", len(head))
		}
		lines = append(lines, head+l)
	}
	return lines
}

// plain is text as it is where that is unambiguous, else quoted.
func plain(s string) string {
	if s == "" || s[0] == ' ' || s[0] == '"' || s[len(s)-1] == ' ' {
		return Quote(s)
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return Quote(s)
		}
	}
	return s
}

func quoteLong(s string) string {
	if len(s) <= longBulk {
		return Quote(s)
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("(bulk %d bytes sha256 %x)", len(s), sum[:8])
}

// Quote quotes a string as redis-cli does.
func Quote(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case '\a':
			b = append(b, `\a`...)
		case '\b':
			b = append(b, `\b`...)
		default:
			if c < ' ' || c > '~' {
				b = fmt.Appendf(b, `\x%02x`, c)
			} else {
				b = append(b, c)
			}
		}
	}
	return string(append(b, '"'))
}

package wire

import (
	"fmt"
	"strconv"
)

// SplitWords splits a line into words as Redis's configuration file and inline
// commands do: separated by space, "..." with escapes \n \r \t \b \a \xHH,
// '...' with the escape \'. ok is false if quotes are unbalanced or a closing
// quote is followed by anything but space.
func SplitWords(line []byte) (words [][]byte, ok bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) || line[i] == 0 {
			return words, true
		}
		var word []byte
		var quote byte
	word:
		for ; ; i++ {
			if i == len(line) {
				if quote != 0 {
					return nil, false
				}
				break
			}
			c := line[i]
			switch {
			case quote == '"' && c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
				v, _ := strconv.ParseUint(string(line[i+2:i+4]), 16, 8)
				word = append(word, byte(v))
				i += 3
			case quote == '"' && c == '\\' && i+1 < len(line):
				i++
				word = append(word, unescape(line[i]))
			case quote == '\'' && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
				i++
				word = append(word, '\'')
			case quote != 0 && c == quote:
				if i+1 < len(line) && !isSpace(line[i+1]) {
					return nil, false
				}
				i++
				break word
			case quote != 0:
				word = append(word, c)
			case isSpace(c) || c == 0:
				break word
			case c == '"' || c == '\'':
				quote = c
			default:
				word = append(word, c)
			}
		}
		if word == nil {
			word = []byte{}
		}
		words = append(words, word)
		if i < len(line) && line[i] == 0 {
			return words, true
		}
	}
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool {
	return c == ' ' || (c >= '\t' && c <= '\r')
}

func isHex(c byte) bool {
	return c-'0' < 10 || (c|32)-'a' < 6
}

// AppendQuoted appends a word in double quotes, with escapes that SplitWords
// decodes, as MONITOR and redis-cli show strings.
func AppendQuoted(dst []byte, word string) []byte {
	dst = append(dst, '"')
	for i := range len(word) {
		switch c := word[i]; c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\a':
			dst = append(dst, `\a`...)
		case '\b':
			dst = append(dst, `\b`...)
		default:
			if c < ' ' || c > '~' {
				dst = fmt.Appendf(dst, `\x%02x`, c)
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}

package wire

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// expand reads a Go string literal in which x{n} repeats the character x.
func expand(s string) ([]byte, error) {
	s = regexp.MustCompile(`(.)\{(\d+)\}`).ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.Atoi(m[2 : len(m)-1])
		return strings.Repeat(m[:1], n)
	})
	text, err := strconv.Unquote(s)
	if err != nil {
		return nil, fmt.Errorf("%s is no string: %w", s, err)
	}
	return []byte(text), nil
}

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in, want string
	}{
		{"", "[]"},
		{"  \t ", "[]"},
		{"a", `["a"]`},
		{" a  b\tc\v\f ", `["a" "b" "c"]`},
		{`"a b" 'c d'`, `["a b" "c d"]`},
		{`""`, `[""]`},
		{`'' ""`, `["" ""]`},
		{`"\x41\x4g\xf\n\r\t\b\a\\\"\q"`, `["Ax4gxf\n\r\t\b\a\\\"q"]`},
		{`'\n\'\ \\ '`, `["\\n'\\ \\\\ "]`},
		{`'\\'`, "unbalanced"}, // only \' is an escape there
		{`a"b c"`, `["ab c"]`},
		{`a'b'`, `["ab"]`},
		{"\"\xff\x00\"", `["\xff\x00"]`},
		{`"a"b`, "unbalanced"},
		{`'a'b`, "unbalanced"},
		{`"a`, "unbalanced"},
		{`'a`, "unbalanced"},
		{`"a\`, "unbalanced"},
		{`"a\"`, "unbalanced"},
		{`'a\'`, "unbalanced"},
		{`a"`, "unbalanced"},
		{"a\x00b", `["a"]`}, // a zero byte ends the line
		{"a \x00b", `["a"]`},
		{"\x00", "[]"},
		{"\"a\x00", "unbalanced"},
	} {
		words, ok := SplitWords([]byte(test.in))
		got := fmt.Sprintf("%q", words)
		if !ok {
			got = "unbalanced"
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.in, got, test.want)
		}
	}
}

// Words in quotes come back as they were.
func FuzzSplitWords(f *testing.F) {
	for _, s := range []string{"", "a b", `"a b" 'c'`, `"\x00\"`, "'\\''"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		words, ok := SplitWords(in)
		if !ok && words != nil {
			t.Fatalf("%q: words although it is malformed", in)
		}
		var line []byte
		for _, w := range words {
			line = append(line, ' ', '"')
			for _, c := range w {
				line = fmt.Appendf(line, `\x%02x`, c)
			}
			line = append(line, '"')
		}
		again, ok := SplitWords(line)
		if !ok || len(again) != len(words) {
			t.Fatalf("%q became %q", words, again)
		}
		for i := range words {
			if !bytes.Equal(words[i], again[i]) {
				t.Fatalf("%q became %q", words, again)
			}
		}
	})
}

// What AppendQuoted writes, SplitWords reads back.
func TestQuotedWordsComeBack(t *testing.T) {
	t.Parallel()
	var all []byte
	for c := range 256 {
		all = append(all, byte(c))
	}
	for _, word := range []string{"", "plain", `a"b\c'd`, "two words", string(all)} {
		words, ok := SplitWords(AppendQuoted(nil, word))
		if !ok || len(words) != 1 || string(words[0]) != word {
			t.Errorf("%q came back as %q", word, words)
		}
	}
}

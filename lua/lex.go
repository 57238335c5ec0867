package lua

import (
	"fmt"
	"strings"
)

// token is a character that stands for itself, or one of those below.
type token int

const (
	tokAnd token = iota + 257
	tokBreak
	tokDo
	tokElse
	tokElseif
	tokEnd
	tokFalse
	tokFor
	tokFunction
	tokIf
	tokIn
	tokLocal
	tokNil
	tokNot
	tokOr
	tokRepeat
	tokReturn
	tokThen
	tokTrue
	tokUntil
	tokWhile
	tokConcat
	tokDots
	tokEq
	tokGe
	tokLe
	tokNe
	tokNumber
	tokName
	tokString
	tokEOF
)

var tokenNames = [...]string{
	"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
	"or", "repeat", "return", "then", "true", "until", "while", "..", "...", "==", ">=", "<=", "~=",
	"<number>", "<name>", "<string>", "<eof>",
}

var reserved = func() map[string]token {
	m := make(map[string]token)
	for t := tokAnd; t <= tokWhile; t++ {
		m[tokenNames[t-tokAnd]] = t
	}
	return m
}()

func (t token) String() string {
	if t >= tokAnd {
		return tokenNames[t-tokAnd]
	}
	if t < ' ' || t == 127 {
		return fmt.Sprintf("char(%d)", int(t))
	}
	return string([]byte{byte(t)})
}

// lexer cuts a chunk into tokens. An error ends it by a panic with a
// *syntaxError, which Compile turns into an error: the parser is a recursive
// descent of a few dozen functions, and this keeps them readable.
type lexer struct {
	src   string
	pos   int
	chunk string
	line  int // of the last character read

	tok      token
	str      string // of a name or string
	num      float64
	start    int // where the text of the last token read begins, and ends
	end      int
	raw      string // that text, where it differs from the source's: Lua names strings by what they mean
	lastLine int    // of the token before this one

	ahead    token // or 0
	aheadStr string
	aheadNum float64
}

type syntaxError struct{ msg string }

// fail ends the compilation. near is the token to name, or 0.
func (l *lexer) fail(msg string, near token) {
	msg = fmt.Sprintf("%s:%d: %s", l.chunk, l.line, msg)
	if near != 0 {
		text := near.String()
		if near == tokNumber || near == tokName || near == tokString {
			text = l.raw
			if text == "" {
				text = l.src[l.start:l.end]
			}
			text, _, _ = strings.Cut(text, "\x00")
		}
		msg += " near '" + text + "'"
	}
	panic(&syntaxError{msg})
}

// failHere ends the compilation at the current token.
func (l *lexer) failHere(msg string) { l.fail(msg, l.tok) }

// next reads the next token.
func (l *lexer) next() {
	l.lastLine = l.line
	if l.ahead != 0 {
		l.tok, l.str, l.num = l.ahead, l.aheadStr, l.aheadNum
		l.ahead = 0
		return
	}
	l.tok = l.scan()
}

// peek reads the token after the current one.
func (l *lexer) peek() token {
	str, num := l.str, l.num
	l.ahead = l.scan()
	l.aheadStr, l.aheadNum = l.str, l.num
	l.str, l.num = str, num
	return l.ahead
}

// char returns the character at the position, or -1 at the end.
func (l *lexer) char() int {
	if l.pos < len(l.src) {
		return int(l.src[l.pos])
	}
	return -1
}

func (l *lexer) newline() {
	c := l.src[l.pos]
	l.pos++
	if d := l.char(); (d == '\n' || d == '\r') && d != int(c) {
		l.pos++
	}
	l.line++
}

func (l *lexer) accept(c byte) bool {
	if l.char() == int(c) {
		l.pos++
		return true
	}
	return false
}

func isNameStart(c int) bool { return c == '_' || (c|0x20 >= 'a' && c|0x20 <= 'z') }
func isNamePart(c int) bool  { return isNameStart(c) || (c >= '0' && c <= '9') }

func (l *lexer) scan() token {
	l.raw = ""
	for {
		l.start = l.pos
		c := l.char()
		switch {
		case c < 0:
			return tokEOF
		case c == '\n' || c == '\r':
			l.newline()
			continue
		case isNameStart(c):
			for isNamePart(l.char()) {
				l.pos++
			}
			l.end = l.pos
			l.str = l.src[l.start:l.end]
			if t, ok := reserved[l.str]; ok {
				return t
			}
			return tokName
		case c >= '0' && c <= '9':
			return l.number()
		case isSpace(byte(c)):
			l.pos++
			continue
		}
		l.pos++
		switch c {
		case '-':
			if !l.accept('-') {
				return '-'
			}
			l.comment()
		case '[':
			level := l.longOpening()
			if level >= 0 {
				l.str = l.long(level, "unfinished long string")
				return tokString
			}
			if level == -1 {
				return '['
			}
			l.end = l.pos
			l.fail("invalid long string delimiter", tokString)
		case '=':
			return l.two('=', tokEq, '=')
		case '<':
			return l.two('=', tokLe, '<')
		case '>':
			return l.two('=', tokGe, '>')
		case '~':
			return l.two('=', tokNe, '~')
		case '"', '\'':
			return l.quoted(byte(c))
		case '.':
			if l.accept('.') {
				return l.two('.', tokDots, tokConcat)
			}
			if d := l.char(); d >= '0' && d <= '9' {
				return l.number()
			}
			return '.'
		default:
			return token(c)
		}
	}
}

func (l *lexer) two(second byte, both, one token) token {
	if l.accept(second) {
		return both
	}
	return one
}

func (l *lexer) comment() {
	if l.accept('[') {
		if level := l.longOpening(); level >= 0 {
			l.long(level, "unfinished long comment")
			return
		}
	}
	for c := l.char(); c >= 0 && c != '\n' && c != '\r'; c = l.char() {
		l.pos++
	}
}

func (l *lexer) number() token {
	for c := l.char(); c == '.' || (c >= '0' && c <= '9'); c = l.char() {
		l.pos++
	}
	if l.accept('e') || l.accept('E') {
		if !l.accept('+') {
			l.accept('-')
		}
	}
	for isNamePart(l.char()) {
		l.pos++
	}
	l.end = l.pos
	f, ok := parseNumber(l.src[l.start:l.end])
	if !ok {
		l.fail("malformed number", tokNumber)
	}
	l.num = f
	return tokNumber
}

// longOpening reads what follows a '[': "=*[" gives the number of '=', a lone
// bracket -1, anything else -2.
func (l *lexer) longOpening() int {
	level := 0
	for l.accept('=') {
		level++
	}
	switch {
	case l.accept('['):
		return level
	case level == 0:
		return -1
	}
	return -2
}

// long reads a string or comment in long brackets, whose opening is read.
func (l *lexer) long(level int, unfinished string) string {
	if c := l.char(); c == '\n' || c == '\r' {
		l.newline()
	}
	var text strings.Builder
	from := l.pos
	for {
		switch c := l.char(); c {
		case -1:
			l.fail(unfinished, tokEOF)
		case '[':
			// Lua 5.0 nested these; 5.1 refuses what would have changed meaning.
			if level == 0 && strings.HasPrefix(l.src[l.pos:], "[[") {
				l.fail("nesting of [[...]] is deprecated", '[')
			}
			l.pos++
		case ']':
			end := l.pos
			l.pos++
			n := 0
			for l.accept('=') {
				n++
			}
			if n == level && l.accept(']') {
				l.end = l.pos
				text.WriteString(l.src[from:end])
				return text.String()
			}
		case '\n', '\r':
			text.WriteString(l.src[from:l.pos])
			text.WriteByte('\n')
			l.newline()
			from = l.pos
		default:
			l.pos++
		}
	}
}

func (l *lexer) quoted(quote byte) token {
	var text []byte
	from := l.pos
	for {
		c := l.char()
		switch {
		case c < 0:
			l.fail("unfinished string", tokEOF)
		case c == '\n' || c == '\r':
			l.raw = string(quote) + string(text) + l.src[from:l.pos]
			l.fail("unfinished string", tokString)
		case c == int(quote):
			plain := l.src[from:l.pos]
			l.pos++
			l.end = l.pos
			if text != nil {
				plain = string(append(text, plain...))
				l.raw = string(quote) + plain + string(quote)
			}
			l.str = plain
			return tokString
		case c == '\\':
			if text == nil {
				text = make([]byte, 0, 32)
			}
			text = append(text, l.src[from:l.pos]...)
			l.pos++
			text = l.escape(quote, text)
			from = l.pos
		default:
			l.pos++
		}
	}
}

func (l *lexer) escape(quote byte, text []byte) []byte {
	c := l.char()
	switch {
	case c < 0:
		return text // the loop of quoted finds the end
	case c == '\n' || c == '\r':
		l.newline()
		return append(text, '\n')
	case c >= '0' && c <= '9':
		n := 0
		for i := 0; i < 3 && l.char() >= '0' && l.char() <= '9'; i++ {
			n = n*10 + l.char() - '0'
			l.pos++
		}
		if n > 255 {
			l.raw = string(quote) + string(text)
			l.fail("escape sequence too large", tokString)
		}
		return append(text, byte(n))
	}
	l.pos++
	if i := strings.IndexByte("abfnrtv", byte(c)); i >= 0 {
		c = int("\a\b\f\n\r\t\v"[i])
	}
	return append(text, byte(c))
}

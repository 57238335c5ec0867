package command

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// The notation of Command.Syntax, and what it means in the argument trees of
// COMMAND DOCS, from which clients such as redis-cli make their hints.
//
//	name               an argument, of type string; one called key is a key
//	name:type          key, string, integer, double, pattern or unix-time
//	name'text'         what hints show instead of the name
//	name#2             the key spec that finds it (a key's is its order otherwise)
//	WORD               a word as it stands: a token. No letter is in lower case
//	name=WORD          the same, when its name is not the word in lower case
//	name=""            the empty string as a token
//	WORD x             x is preceded by a token; x is an argument or a group
//	[x]                x may be left out
//	<a|b>              one of them; [a|b] one of them or none
//	(a b)              a block of arguments that belong together
//	name=<a|b>         a group with a name, also name=(a b), [name=<a|b>]
//	x...               x may be repeated; [x...] may be left out, too
//	[WORD x]...        the token is repeated with x; [WORD x...] has it once
//	x@7.0.0            since that version; x!7.0.0 is deprecated since then
//
// A token that comes before two or more plain arguments in brackets or in an
// alternative belongs to them all: [LIMIT offset count] is the same as [LIMIT
// limit=(offset count)]. Inside (...) and before a bracket it belongs to the
// next argument alone: (COUNT count [ANY]).
//
// A group without a name gets one: that of its token in lower case, or the one
// that Redis uses for such groups (groupName), or "data" for a block.

// Arg is an argument of a command, or a group of them.
type Arg struct {
	Name       string
	Type       ArgType
	Display    string // what hints show; empty for groups
	Token      string
	HasToken   bool // a token may be the empty string
	KeySpec    int  // index into Command.Keys, or -1
	Since      string
	Deprecated string
	Optional   bool
	Multiple   bool
	// MultipleToken: the token is repeated with each occurrence.
	MultipleToken bool
	Args          []*Arg // of a group
}

// ArgType is the type of an argument, by its name in COMMAND DOCS.
type ArgType string

const (
	ArgString   ArgType = "string"
	ArgInteger  ArgType = "integer"
	ArgDouble   ArgType = "double"
	ArgKey      ArgType = "key"
	ArgPattern  ArgType = "pattern"
	ArgUnixTime ArgType = "unix-time"
	ArgToken    ArgType = "pure-token"
	ArgOneOf    ArgType = "oneof"
	ArgBlock    ArgType = "block"
)

func (a *Arg) group() bool { return a.Type == ArgOneOf || a.Type == ArgBlock }

// plain reports whether the argument must be given once, without a token.
func (a *Arg) plain() bool {
	return !a.Optional && !a.HasToken && !a.group()
}

var parsed sync.Map // of Syntax to []*Arg: a command's syntax never changes

// Arguments is the tree of the command's arguments. A test sees to it that the
// syntax of every command can be read.
func (c *Command) Arguments() []*Arg {
	if v, ok := parsed.Load(c.Syntax); ok {
		return v.([]*Arg)
	}
	args, err := ParseSyntax(c.Syntax)
	if err != nil {
		return nil
	}
	parsed.Store(c.Syntax, args)
	return args
}

// ParseSyntax reads the notation.
func ParseSyntax(s string) ([]*Arg, error) {
	p := &syntaxParser{in: s}
	args, err := p.sequence("")
	if err == nil && p.at < len(p.in) {
		err = fmt.Errorf("unexpected %q", p.in[p.at:])
	}
	if err != nil {
		return nil, fmt.Errorf("syntax %q at %d: %w", s, p.at, err)
	}
	p.finish(args)
	return args, nil
}

type syntaxParser struct {
	in   string
	at   int
	keys int
}

// finish gives keys their specs, the first key argument being found by the
// first spec and so on, and nameless groups a name.
func (p *syntaxParser) finish(args []*Arg) {
	for _, a := range args {
		if a.Type == ArgKey {
			if a.KeySpec < 0 {
				a.KeySpec = p.keys
			}
			p.keys = a.KeySpec + 1
		}
		p.finish(a.Args)
		if a.group() && a.Name == "" {
			a.Name = groupName(a)
		}
	}
}

// groupName returns Redis's name for a group of certain words.
func groupName(a *Arg) string {
	if a.Type == ArgBlock {
		return "data"
	}
	switch first := a.Args[0]; first.Token {
	case "NX", "XX":
		return "condition"
	case "GT", "LT":
		return "comparison"
	case "EX", "PX", "EXAT", "PXAT":
		return "expiration"
	case "ASYNC", "SYNC":
		return "flush-type"
	case "ASC", "DESC":
		return "order"
	case "LEFT", "RIGHT", "BEFORE", "AFTER", "MIN", "MAX":
		return "where"
	case "M", "KM", "BYTE", "BIT":
		return "unit"
	case "BYSCORE", "BYLEX":
		return "sortby"
	}
	return "option"
}

func (p *syntaxParser) peek() byte {
	for p.at < len(p.in) && p.in[p.at] == ' ' {
		p.at++
	}
	if p.at == len(p.in) {
		return 0
	}
	return p.in[p.at]
}

// sequence reads elements up to one of the closing characters, which it leaves.
func (p *syntaxParser) sequence(closing string) (out []*Arg, err error) {
	for {
		c := p.peek()
		if c == 0 || strings.IndexByte(closing, c) >= 0 {
			return out, nil
		}
		if strings.HasPrefix(p.in[p.at:], "...") { // with a space before it
			if len(out) == 0 {
				return nil, fmt.Errorf("nothing is repeated")
			}
			if err := p.suffixes(out[len(out)-1]); err != nil {
				return nil, err
			}
			continue
		}
		a, err := p.element()
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
}

// element reads one argument or group, with the token before it.
func (p *syntaxParser) element() (*Arg, error) {
	switch c := p.peek(); c {
	case '[':
		return p.brackets()
	case '<', '(':
		a, err := p.group("")
		if err != nil {
			return nil, err
		}
		return a, p.suffixes(a)
	case ']', '>', ')', '|':
		return nil, fmt.Errorf("unexpected %q", string(c))
	}
	word := p.word()
	if bare, _, _ := strings.Cut(word, "'"); strings.Contains(bare, ".") {
		return nil, fmt.Errorf("%q has a dot, which says that something is repeated", bare)
	}
	if isToken(word) {
		return p.afterToken(word)
	}
	a, err := p.named(word)
	if err != nil {
		return nil, err
	}
	return a, p.suffixes(a)
}

// afterToken reads what a token belongs to, if anything.
func (p *syntaxParser) afterToken(token string) (*Arg, error) {
	pure := token2arg(strings.ToLower(token), token)
	if p.next() != ' ' {
		return pure, p.suffixes(pure)
	}
	switch c := p.peek(); {
	case c == 0 || strings.IndexByte("[]>)|.@!", c) >= 0:
		return pure, nil
	case c != '<' && c != '(':
		start := p.at
		word := p.word()
		p.at = start
		if isToken(word) || isNamedToken(word) {
			return pure, nil
		}
	}
	a, err := p.element()
	if err != nil {
		return nil, err
	}
	a.Token, a.HasToken = token, true
	if a.group() && a.Name == "" {
		a.Name = strings.ToLower(token)
	}
	return a, nil
}

// isNamedToken reports whether a word has the form name=WORD.
func isNamedToken(word string) bool {
	name, token, ok := strings.Cut(word, "=")
	return ok && name != "" && token != ""
}

// next is the character at hand without skipping space.
func (p *syntaxParser) next() byte {
	if p.at == len(p.in) {
		return 0
	}
	return p.in[p.at]
}

// named reads the rest of name:type'text'#2, name=WORD or name=<...>.
func (p *syntaxParser) named(word string) (*Arg, error) {
	if name, token, ok := strings.Cut(word, "="); ok {
		switch {
		case token == `""`:
			return token2arg(name, ""), nil
		case token != "":
			return token2arg(name, token), nil
		case p.next() != '<' && p.next() != '(':
			return nil, fmt.Errorf("nothing is named %s", name)
		}
		return p.group(name)
	}
	a := &Arg{Type: ArgString, KeySpec: -1}
	if head, n, ok := strings.Cut(word, "#"); ok {
		spec, err := strconv.Atoi(n)
		if err != nil {
			return nil, fmt.Errorf("%q is no key spec", n)
		}
		a.KeySpec, word = spec, head
	}
	if head, rest, ok := strings.Cut(word, "'"); ok {
		text, after, closed := strings.Cut(rest, "'")
		if !closed || after != "" {
			return nil, fmt.Errorf("the text of %s does not end", head)
		}
		a.Display, word = text, head
	}
	name, kind, typed := strings.Cut(word, ":")
	a.Name = name
	switch t := ArgType(kind); {
	case typed && (t == ArgString || t == ArgInteger || t == ArgDouble || t == ArgKey || t == ArgPattern || t == ArgUnixTime):
		a.Type = t
	case typed:
		return nil, fmt.Errorf("%q is no type", kind)
	case name == "key":
		a.Type = ArgKey
	}
	if name == "" {
		return nil, fmt.Errorf("an argument has no name")
	}
	if a.Display == "" {
		a.Display = name
	}
	return a, nil
}

// group reads <a|b> or (a b).
func (p *syntaxParser) group(name string) (*Arg, error) {
	closing, kind := ">", ArgOneOf
	if p.in[p.at] == '(' {
		closing, kind = ")", ArgBlock
	}
	p.at++
	a := &Arg{Name: name, Type: kind, KeySpec: -1}
	var err error
	if kind == ArgBlock {
		a.Args, err = p.sequence(closing)
	} else {
		a.Args, err = p.alternatives(closing)
	}
	if err == nil && p.peek() != closing[0] {
		err = fmt.Errorf("%s is missing", closing)
	}
	if err == nil && len(a.Args) == 0 {
		err = fmt.Errorf("an empty group")
	}
	if err != nil {
		return nil, err
	}
	p.at++
	return a, nil
}

// alternatives reads sequences separated by |, each of which becomes one Arg.
func (p *syntaxParser) alternatives(closing string) (out []*Arg, err error) {
	for {
		seq, err := p.sequence(closing + "|")
		if err != nil {
			return nil, err
		}
		if len(seq) == 0 {
			return nil, fmt.Errorf("an empty alternative")
		}
		out = append(out, together(seq))
		if p.peek() != '|' {
			return out, nil
		}
		p.at++
	}
}

// brackets reads [x], [a b] or [a|b].
func (p *syntaxParser) brackets() (*Arg, error) {
	p.at++
	alts, err := p.alternatives("]")
	if err != nil {
		return nil, err
	}
	if p.peek() != ']' {
		return nil, fmt.Errorf("] is missing")
	}
	p.at++
	a := alts[0]
	if len(alts) > 1 {
		a = &Arg{Type: ArgOneOf, KeySpec: -1, Args: alts}
	}
	a.Optional = true
	again := strings.HasPrefix(strings.TrimLeft(p.in[p.at:], " "), "...")
	if err := p.suffixes(a); err != nil {
		return nil, err
	}
	a.MultipleToken = again && a.HasToken
	return a, nil
}

// together makes one argument of a sequence in brackets or in an alternative.
func together(seq []*Arg) *Arg {
	if len(seq) == 1 {
		return seq[0]
	}
	first := seq[0]
	block := &Arg{Type: ArgBlock, KeySpec: -1, Args: seq}
	if !first.HasToken {
		return block
	}
	block.Name = strings.ToLower(first.Token) + "-block"
	if first.Type == ArgToken || first.group() {
		return block
	}
	for _, a := range seq[1:] {
		if !a.plain() {
			return block
		}
	}
	block.Name, block.Token, block.HasToken = strings.ToLower(first.Token), first.Token, true
	first.Token, first.HasToken = "", false
	return block
}

// suffixes reads "...", "@7.0.0" and "!7.0.0" behind an element.
func (p *syntaxParser) suffixes(a *Arg) error {
	for {
		rest := strings.TrimLeft(p.in[p.at:], " ")
		switch {
		case strings.HasPrefix(rest, "..."):
			a.Multiple = true
			p.at = len(p.in) - len(rest) + 3
		case strings.HasPrefix(p.in[p.at:], "@"):
			if a.Since = p.version(); a.Since == "" {
				return fmt.Errorf("no version behind @")
			}
		case strings.HasPrefix(p.in[p.at:], "!"):
			if a.Deprecated = p.version(); a.Deprecated == "" {
				return fmt.Errorf("no version behind !")
			}
		default:
			return nil
		}
	}
}

// version reads the version behind the character at hand.
func (p *syntaxParser) version() string {
	p.at++
	start := p.at
	for p.at < len(p.in) && (p.in[p.at] == '.' || p.in[p.at]-'0' < 10) {
		if strings.HasPrefix(p.in[p.at:], "...") {
			break
		}
		p.at++
	}
	return p.in[start:p.at]
}

// word reads up to space or punctuation. '=' and quoted text are part of it.
func (p *syntaxParser) word() string {
	start, quoted := p.at, false
	for p.at < len(p.in) {
		c := p.in[p.at]
		if c == '\'' {
			quoted = !quoted
		}
		if !quoted && (strings.IndexByte(" []<>()|@!", c) >= 0 || strings.HasPrefix(p.in[p.at:], "...")) {
			break
		}
		p.at++
	}
	return p.in[start:p.at]
}

func token2arg(name, token string) *Arg {
	return &Arg{Name: name, Type: ArgToken, Display: name, Token: token, HasToken: true, KeySpec: -1}
}

func isToken(word string) bool {
	return strings.IndexFunc(word, func(r rune) bool { return r >= 'a' && r <= 'z' }) < 0
}

// Package script runs command scripts: small text files of commands and
// expected replies. README.md describes the format. What is expected was recorded
// from a real Redis, and every engine, protocol, transaction and script has to
// give the same.
package script

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"redoubt/wire"
)

// File is a parsed script. It keeps its lines, so that recording changes
// nothing but expectations.
type File struct {
	Name  string // group/command
	path  string
	lines []string
	steps []*step
}

type action int

const (
	doCommand action = iota // send and read
	send
	receive
	useConn
	advance
	fresh
)

// step is one thing to do.
type step struct {
	line   int // counted from 1
	action action
	words  []string // of a command, not expanded
	conn   string
	wait   time.Duration
	mods   modifiers
	// expect is nil if the script expects nothing yet. from and to are the
	// lines that it stands on, as indexes; from == to where it would stand.
	expect   []block
	from, to int
}

// block is one expected reply.
type block struct {
	redis, resp3 bool
	reason       string
	lines        []string
}

// modifiers are the directives that hold for a command.
type modifiers struct {
	unordered, pairs, prefix bool
	since, until, capture    string
	only, skip               []string
}

// cases are the names that only and skip take.
var cases = []string{"resp2", "resp3", "redoubt", "redis", "mem", "local", "tikv", "cql", "plain", "multi", "eval"}

// ParseFile reads a script.
func ParseFile(name, path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	f, err := parse(name, string(b))
	if err != nil {
		return nil, err
	}
	f.path = path
	return f, nil
}

// Find lists the scripts below dir whose name matches the pattern: a group, a
// group/command, either with wildcards, or all of them if it is empty.
func Find(dir, pattern string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.txt"))
	if err != nil {
		return nil, fmt.Errorf("list scripts: %w", err)
	}
	found := make(map[string]string)
	for _, p := range paths {
		group := filepath.Base(filepath.Dir(p))
		name := group + "/" + strings.TrimSuffix(filepath.Base(p), ".txt")
		whole, err := filepath.Match(pattern, name)
		if err != nil {
			return nil, fmt.Errorf("script pattern %q: %w", pattern, err)
		}
		part, _ := filepath.Match(pattern, group)
		if whole || part || pattern == "" {
			found[name] = p
		}
	}
	return found, nil
}

type parser struct {
	*File
	at       int         // index of the next line
	sections []modifiers // the file's, then those of open sections
	next     modifiers   // for the next command
	pending  bool        // next was changed
}

func parse(name, text string) (*File, error) {
	f := &File{Name: name, lines: strings.Split(strings.TrimRight(text, "\n"), "\n")}
	p := &parser{File: f, sections: []modifiers{{}}}
	for p.at < len(f.lines) {
		line := p.at + 1
		if err := p.one(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if len(p.sections) > 1 || p.pending {
		return nil, fmt.Errorf("%s: ends inside @begin, or with a directive for no command", name)
	}
	return f, nil
}

func (p *parser) one() error {
	text := p.lines[p.at]
	p.at++
	switch {
	case strings.TrimSpace(text) == "", strings.HasPrefix(text, "#"):
		return nil
	case strings.HasPrefix(text, "@"):
		return p.directive(strings.Fields(text[1:]))
	case strings.HasPrefix(text, ">> "):
		return p.command(send, text[3:])
	case strings.HasPrefix(text, "> "):
		return p.command(doCommand, text[2:])
	case text == "<":
		return p.command(receive, "")
	}
	return fmt.Errorf("neither a command nor part of a reply: %q", text)
}

func (p *parser) command(a action, text string) error {
	words, ok := wire.SplitWords([]byte(text))
	if !ok || (len(words) == 0 && a != receive) {
		return fmt.Errorf("unbalanced quotes or no command: %q", text)
	}
	s := &step{line: p.at, action: a, mods: p.sections[len(p.sections)-1].plus(p.next)}
	for _, w := range words {
		s.words = append(s.words, string(w))
	}
	p.next, p.pending = modifiers{}, false
	s.from = p.at
	if a != send {
		if err := p.expectation(s); err != nil {
			return err
		}
	}
	s.to = p.at
	p.steps = append(p.steps, s)
	return nil
}

var blockHead = regexp.MustCompile(`^(?:(resp3)|(redis)(?: (resp3))?):(?: (.*))?$`)

func (p *parser) expectation(s *step) error {
	for ; p.at < len(p.lines); p.at++ {
		text := p.lines[p.at]
		if strings.TrimSpace(text) == "" || strings.ContainsRune("><#@", rune(text[0])) {
			return nil
		}
		if m := blockHead.FindStringSubmatch(text); m != nil {
			b := block{redis: m[2] != "", resp3: m[1]+m[3] != "", reason: m[4]}
			if b.redis != (b.reason != "") {
				return fmt.Errorf("%q: a difference from Redis needs a reason, and nothing else has one", text)
			}
			s.expect = append(s.expect, b)
			continue
		}
		if len(s.expect) == 0 {
			s.expect = append(s.expect, block{})
		}
		last := &s.expect[len(s.expect)-1]
		if re, ok := strings.CutPrefix(text, "~ "); ok {
			if _, err := regexp.Compile(re); err != nil {
				return fmt.Errorf("line %d: %w", p.at+1, err)
			}
		}
		last.lines = append(last.lines, text)
	}
	return nil
}

func (p *parser) directive(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("empty directive")
	}
	name, args := words[0], words[1:]
	switch name {
	case "conn", "advance", "fresh":
		if p.pending {
			return fmt.Errorf("@%s stands between a directive and its command", name)
		}
		return p.act(name, args)
	case "begin", "file":
		var m modifiers
		if err := m.set(args); err != nil {
			return err
		}
		top := &p.sections[len(p.sections)-1]
		if name == "begin" {
			p.sections = append(p.sections, top.plus(m))
		} else if *top = top.plus(m); len(p.sections) > 1 || len(p.steps) > 0 {
			return fmt.Errorf("@file stands behind a command")
		}
		return nil
	case "end":
		if len(p.sections) == 1 {
			return fmt.Errorf("@end without @begin")
		}
		p.sections = p.sections[:len(p.sections)-1]
		return nil
	}
	p.pending = true
	return p.next.set(words)
}

func (p *parser) act(name string, args []string) (err error) {
	s := &step{line: p.at, from: p.at, to: p.at, mods: p.sections[len(p.sections)-1]}
	switch {
	case name == "fresh" && len(args) == 0:
		s.action = fresh
	case name == "conn" && len(args) == 1:
		s.action, s.conn = useConn, args[0]
	case name == "advance" && len(args) == 1:
		s.action = advance
		if s.wait, err = time.ParseDuration(args[0]); err != nil {
			return fmt.Errorf("@advance takes a duration such as 100ms: %w", err)
		}
	default:
		return fmt.Errorf("@%s: wrong number of arguments", name)
	}
	p.steps = append(p.steps, s)
	return nil
}

// set applies one directive.
func (m *modifiers) set(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("no directive given")
	}
	name, args := words[0], words[1:]
	one := len(args) == 1
	switch {
	case name == "unordered" && (len(args) == 0 || one && args[0] == "pairs"):
		m.unordered, m.pairs = true, one
	case name == "prefix" && len(args) == 0:
		m.prefix = true
	case name == "since" && one:
		m.since = args[0]
	case name == "until" && one:
		m.until = args[0]
	case name == "capture" && one:
		m.capture = args[0]
	case name == "only" && len(args) > 0 && slices.Contains(cases, args[0]):
		m.only = append(m.only, args[0])
	case name == "skip" && len(args) > 0 && slices.Contains(cases, args[0]):
		m.skip = append(m.skip, args[0])
	default:
		return fmt.Errorf("unknown directive or wrong arguments: %q", strings.Join(words, " "))
	}
	return nil
}

// plus is what holds inside a section for a command with its own directives.
func (m modifiers) plus(n modifiers) modifiers {
	m.unordered = m.unordered || n.unordered
	m.pairs = m.pairs || n.pairs
	m.prefix = m.prefix || n.prefix
	m.capture = n.capture
	if n.since != "" {
		m.since = n.since
	}
	if n.until != "" {
		m.until = n.until
	}
	m.only = append(slices.Clip(m.only), n.only...)
	m.skip = append(slices.Clip(m.skip), n.skip...)
	return m
}

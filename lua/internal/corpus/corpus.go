// Package corpus reads the recorded chunks of Lua and runs them as Redis would.
//
// A case is lines of source that begin with "> " and a line with the result:
//
//	> return 1 + 1
//	= true 2
//
// Lines that begin with # are comments.
package corpus

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"redoubt/lua"
)

// Case is a chunk and what it gives.
type Case struct {
	Line    int
	Comment string // what stands before it in the file
	Source  string
	Result  string
}

// Read reads a file of cases.
func Read(path string) ([]Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []Case
	var c Case
	var src []string
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, ">"):
			if len(src) == 0 {
				c.Line = i + 1
			}
			src = append(src, strings.TrimPrefix(line[1:], " "))
		case strings.HasPrefix(line, "= "):
			c.Source, c.Result = strings.Join(src, "\n"), unescape(line[2:])
			cases = append(cases, c)
			c, src = Case{}, nil
		case line == "":
		case strings.HasPrefix(line, "#"):
			c.Comment += line + "\n"
		default:
			return nil, fmt.Errorf("%s:%d: %q", path, i+1, line)
		}
	}
	if len(src) > 0 {
		return nil, fmt.Errorf("%s: the last case has no result", path)
	}
	return cases, nil
}

// Write writes a file of cases.
func Write(path string, cases []Case) error {
	var b strings.Builder
	for i, c := range cases {
		if i > 0 {
			b.WriteByte('\n')
		}
		if c.Comment != "" {
			b.WriteString(c.Comment + "\n")
		}
		for _, line := range strings.Split(c.Source, "\n") {
			b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
		}
		b.WriteString("= " + escape(c.Result) + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// A result is one line: bytes that are not printable are written as \xx.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			fmt.Fprintf(&b, "\\%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+2 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		var c byte
		if _, err := fmt.Sscanf(s[i+1:i+3], "%02x", &c); err != nil {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

// Host runs chunks by the harness in a state of ours, prepared like Redis's:
// the globals are read-only and know nothing of names that do not exist.
type Host struct {
	State   *lua.State
	harness lua.Value
}

// NewHost reads the harness and makes a state.
func NewHost(t testing.TB, harness string) *Host {
	t.Helper()
	text, err := os.ReadFile(harness)
	if err != nil {
		t.Fatal(err)
	}
	p, err := lua.Compile(string(text), "user_script")
	if err != nil {
		t.Fatal(err)
	}
	s := lua.New()
	meta := s.NewTable(0, 1)
	s.Register(meta, "__index", func(c *lua.Call) error {
		name, _ := c.Arg(1).ToString()
		return c.Errorf("Script attempted to access nonexistent global variable '%s'", name)
	})
	g := s.Globals()
	for _, lib := range []string{"string", "table", "math", "coroutine", "os"} {
		g.GetStr(lib).Table().SetReadonly(true)
	}
	if err := g.SetStr("redis", s.NewTable(0, 0).Value()); err != nil {
		t.Fatal(err)
	}
	if err := g.SetStr("ARGV", s.NewTable(1, 0).Value()); err != nil {
		t.Fatal(err)
	}
	g.SetMeta(meta)
	g.SetReadonly(true)
	return &Host{State: s, harness: s.Load(p)}
}

// Run returns what the harness says of a chunk.
func (h *Host) Run(source string) string {
	defer h.State.Reset()
	g := h.State.Globals()
	argv := h.State.NewTable(1, 0)
	if err := argv.SetInt(1, lua.String(source)); err != nil {
		return err.Error()
	}
	g.SetReadonly(false)
	err := g.SetStr("ARGV", argv.Value())
	g.SetReadonly(true)
	if err != nil {
		return err.Error()
	}
	r, err := h.State.Call(h.harness)
	if err != nil {
		var e *lua.Error
		if errors.As(err, &e) {
			return "error: " + e.Error()
		}
		return "fatal: " + err.Error()
	}
	if len(r) != 1 {
		return fmt.Sprintf("%d results", len(r))
	}
	return r[0].Str()
}

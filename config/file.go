package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"redoubt/wire"
)

// maxIncludes is how deep include directives may nest; a file that includes
// itself would never end otherwise.
const maxIncludes = 32

// FileError is a mistake in a configuration file or on the command line. Its
// text has the form in which Redis reports one, for people and tools that know
// it.
type FileError struct {
	Name string // of the file; "" for the command line
	Line int    // from 1; 0 for the command line
	Text string // the line
	Err  error
}

func (e *FileError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("Reading the command line\n>>> '%s'\n%s", e.Text, e.Err)
	}
	return fmt.Sprintf("Reading the configuration file %s, at line %d\n>>> '%s'\n%s", e.Name, e.Line, e.Text, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// LoadFile reads a file in the format of redis.conf and remembers its path for
// CONFIG REWRITE. It is for the time before the server runs: immutable
// directives may be set and no hook is called.
func (c *Config) LoadFile(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("can't tell the absolute path of the configuration file: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.loadPath(path, 0); err != nil {
		return err
	}
	c.file = path
	return nil
}

// Load reads directives in the format of redis.conf; name is for errors.
func (c *Config) Load(name string, in io.Reader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(name, in, 0)
}

// Apply sets one directive as a line of a configuration file does: the words
// are its name and its value.
func (c *Config) Apply(words ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.directive(words, 0)
}

func (c *Config) loadPath(path string, depth int) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("can't open config file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	return c.load(path, f, depth)
}

func (c *Config) load(name string, in io.Reader, depth int) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("can't read config file %s: %w", name, err)
	}
	line := 0
	for text := range strings.SplitSeq(string(b), "\n") {
		line++
		text = strings.Trim(text, " \t\r\n")
		words, err := splitLine(text)
		if err == nil && len(words) > 0 {
			err = c.directive(words, depth)
		}
		var inner *FileError
		if errors.As(err, &inner) {
			return err // of an included file, which says where it is
		}
		if err != nil {
			return &FileError{name, line, text, err}
		}
	}
	return nil
}

// splitLine splits a line of a file, which has no words if it is a comment.
func splitLine(text string) ([]string, error) {
	if text == "" || text[0] == '#' {
		return nil, nil
	}
	return splitWords(text)
}

// splitWords splits a text at spaces outside of quotes.
func splitWords(text string) ([]string, error) {
	words, ok := wire.SplitWords([]byte(text))
	if !ok {
		return nil, errors.New("Unbalanced quotes in configuration line")
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out, nil
}

// directive runs one line: a directive of the table, or one of the few that
// have meaning in files alone.
func (c *Config) directive(words []string, depth int) error {
	if len(words) == 0 {
		return errors.New("Bad directive or wrong number of arguments")
	}
	name, values := strings.ToLower(words[0]), words[1:]
	if s := c.byName[name]; s != nil {
		return c.loadSetting(s, values)
	}
	switch {
	case forgotten[name] && len(values) == 1:
		return nil
	case name == "include" && len(values) == 1:
		return c.include(values[0], depth+1)
	case name == "rename-command" && len(values) == 2:
		c.renames = append(c.renames, [2]string{values[0], values[1]})
		return nil
	case name == "user" && len(values) >= 1:
		c.users = append(c.users, values)
		return nil
	case name == "loadmodule" && len(values) >= 1:
		return errors.New("Redoubt loads no modules")
	case name == "sentinel":
		return errors.New("Redoubt is no sentinel")
	}
	return errors.New("Bad directive or wrong number of arguments")
}

func (c *Config) loadSetting(s *setting, values []string) error {
	if s.Flags&MultiArg == 0 && len(values) != 1 {
		return errWords
	}
	if s.Flags&MultiArg != 0 && len(values) == 1 && values[0] != "" {
		// One word may hold the whole list: --save "3600 1".
		split, ok := wire.SplitWords([]byte(values[0]))
		if !ok {
			return errors.New("Unbalanced quotes in configuration line")
		}
		values = values[:0]
		for _, w := range split {
			values = append(values, string(w))
		}
	}
	v, err := s.read(c, values, true)
	if err != nil {
		return err
	}
	s.now.Store(&v)
	return nil
}

// include reads other files. A pattern that finds none is fine: an empty
// conf.d directory.
func (c *Config) include(path string, depth int) error {
	if depth > maxIncludes {
		return errors.New("include directives are nested too deeply")
	}
	if !strings.ContainsAny(path, "*?[") {
		return c.loadPath(path, depth)
	}
	files, err := filepath.Glob(path)
	if err != nil {
		return fmt.Errorf("bad pattern in include: %w", err)
	}
	for _, f := range files {
		if err := c.loadPath(f, depth); err != nil {
			return err
		}
	}
	return nil
}

// Args reads a command line as redis-server does, without the program's name:
// first a configuration file, if the first argument is no option; then "-" as
// first or last argument reads directives from standard input; the others are
// directives, as in --port 7000 --save "" --bind 127.0.0.1 ::1. Directives
// count after the file and standard input. --name=value works too.
func (c *Config) Args(args []string) error { return c.args(args, os.Stdin) }

func (c *Config) args(args []string, stdin io.Reader) error {
	file, fromStdin := "", false
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		file, args = args[0], args[1:]
	}
	var lines [][]string
	open := false // the last line still lacks a value
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case a == "-" && (i == 0 || i == len(args)-1) && !open:
			fromStdin = true
		case strings.HasPrefix(a, "--") && !open:
			words, err := splitOption(a[2:])
			if err != nil {
				return &FileError{Text: a, Err: err}
			}
			if strings.EqualFold(a, "--save") && (i == len(args)-1 || strings.HasPrefix(next, "--")) {
				// A save without a value turns saving off, as Redis has it.
				words = append(words, "")
			}
			lines = append(lines, words)
			open = len(words) == 1
		case len(lines) == 0:
			lines = append(lines, []string{a}) // Redis takes it for a directive
		default:
			lines[len(lines)-1] = append(lines[len(lines)-1], a)
			open = false
		}
	}
	if file != "" {
		if err := c.LoadFile(file); err != nil {
			return err
		}
	}
	if fromStdin {
		if err := c.Load("standard input", stdin); err != nil {
			return err
		}
	}
	for _, words := range lines {
		if err := c.Apply(words...); err != nil {
			var inner *FileError
			if errors.As(err, &inner) {
				return err
			}
			return &FileError{Text: joinLine(words), Err: err}
		}
	}
	return nil
}

// splitOption splits "port", "port 7000" and "port=7000".
func splitOption(a string) ([]string, error) {
	if name, v, ok := strings.Cut(a, "="); ok && !strings.ContainsAny(name, " \t\"'") {
		return []string{name, v}, nil
	}
	return splitWords(a)
}

func joinLine(words []string) string {
	out := words[0]
	for _, w := range words[1:] {
		out += " " + string(wire.AppendQuoted(nil, w))
	}
	return out
}

// Package config holds the server's settings: the directives of Redis, with
// their names, forms, defaults and error texts, and a few of our own.
//
// One table (redis.go, own.go) has a row for each directive. A directive of Redis
// without a meaning here is accepted and stored, so that a redis.conf and tools
// work; an unknown directive is an error.
//
// Reading is lock-free: each directive's value is behind an atomic pointer.
// Setting is serialised by a mutex. New values are computed first, so a CONFIG
// SET of many directives that fails has changed nothing; then they are stored
// and the hooks run, and if a hook fails, the old values are restored.
package config

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"redoubt/glob"
)

// Config is a set of values, one for each directive. It is safe for concurrent
// use once New returned.
type Config struct {
	byName  map[string]*setting // with aliases, in lower case
	names   []string            // all of them, sorted
	rows    []*setting          // without aliases, sorted by name
	file    string
	renames [][2]string
	users   [][]string
	// UserLines, if set, returns the user lines that Rewrite writes, each
	// without the word "user". If nil, the user lines of the file stay.
	UserLines func() []string

	mu       sync.Mutex // held while values change, and by hooks
	saveSeen bool       // a save directive was loaded: the next one adds to it
}

type setting struct {
	Directive
	initial value
	now     atomic.Pointer[value]
	hooks   []*hook
}

type hook struct{ run func() error }

// New returns a configuration of defaults.
func New() *Config { return NewWithMemory(MachineMemory()) }

// NewWithMemory is New on a machine with so many bytes of memory, from which
// the default of maxmemory follows.
func NewWithMemory(bytes uint64) *Config {
	c := &Config{byName: make(map[string]*setting)}
	for _, table := range [][]Directive{redisDirectives, newerDirectives, ownDirectives(bytes)} {
		for _, d := range table {
			c.add(d)
		}
	}
	sort.Strings(c.names)
	sort.Slice(c.rows, func(i, j int) bool { return c.rows[i].Name < c.rows[j].Name })
	return c
}

func (c *Config) add(d Directive) {
	s := &setting{Directive: d}
	v := value{text: d.Default}
	if d.Kind != Special {
		// The table's defaults are valid: a test reads each of them.
		words := []string{d.Default}
		if d.Kind == EnumMulti {
			words = strings.Fields(d.Default)
		}
		v, _ = d.readKind(words)
	}
	s.initial = v
	s.now.Store(&v)
	c.rows = append(c.rows, s)
	for _, name := range append([]string{d.Name}, d.Aliases...) {
		c.byName[name] = s
		c.names = append(c.names, name)
	}
	for _, name := range d.Quiet {
		c.byName[name] = s
	}
}

func (c *Config) lookup(name string) *setting {
	if s := c.byName[name]; s != nil {
		return s
	}
	return c.byName[strings.ToLower(name)]
}

// Lookup returns the row of a directive, by its name or an alias in any case;
// nil when there is none.
func (c *Config) Lookup(name string) *Directive {
	if s := c.lookup(name); s != nil {
		return &s.Directive
	}
	return nil
}

// Directives returns all rows, sorted by name.
func (c *Config) Directives() []*Directive {
	out := make([]*Directive, len(c.rows))
	for i, s := range c.rows {
		out[i] = &s.Directive
	}
	return out
}

// Get returns the text that CONFIG GET shows for a directive, or "".
func (c *Config) Get(name string) string {
	if s := c.lookup(name); s != nil {
		return s.now.Load().text
	}
	return ""
}

// Changed reports whether a directive differs from its default.
func (c *Config) Changed(name string) bool {
	s := c.must(name)
	return s.now.Load().text != s.initial.text
}

// The typed getters are for the program's own use: they panic on a name that is
// not in the table.

// Int returns a number: of bytes for a memory directive, and negative for one
// that was given as a percentage.
func (c *Config) Int(name string) int64 { return c.must(name).now.Load().n }

// Bool returns a yes or no.
func (c *Config) Bool(name string) bool { return c.must(name).now.Load().n != 0 }

// Str returns a string as CONFIG GET shows it.
func (c *Config) Str(name string) string { return c.must(name).now.Load().text }

// Enum returns the word that an enumeration is set to.
func (c *Config) Enum(name string) string { return c.must(name).now.Load().text }

// Has reports whether a list, such as shutdown-on-sigint or bind, has a word.
func (c *Config) Has(name, word string) bool {
	for w := range strings.FieldsSeq(c.must(name).now.Load().text) {
		if w == word {
			return true
		}
	}
	return false
}

func (c *Config) must(name string) *setting {
	s := c.byName[name]
	if s == nil {
		panic("config: no directive is called " + name)
	}
	return s
}

// File is the absolute path of the configuration file, or "".
func (c *Config) File() string { return c.file }

// Renames are the rename-command lines: a command and its new name, which is
// empty when the command is to vanish.
func (c *Config) Renames() [][2]string { return c.renames }

// Users are the words of the user lines, without the word "user".
func (c *Config) Users() [][]string { return c.users }

// Match returns names and values for CONFIG GET. A pattern finds names and
// aliases in any case; a plain name is shown as it was asked for, and finds
// hidden directives too.
func (c *Config) Match(patterns ...string) [][2]string {
	var out [][2]string
	seen := make(map[string]bool)
	show := func(name string, s *setting) {
		if !seen[name] {
			seen[name] = true
			out = append(out, [2]string{name, s.now.Load().text})
		}
	}
	for _, p := range patterns {
		if !strings.ContainsAny(p, "[*?") {
			if s := c.lookup(p); s != nil {
				show(p, s)
			}
			continue
		}
		for _, name := range c.names {
			if s := c.byName[name]; s.Flags&Hidden == 0 && glob.MatchFold([]byte(p), []byte(name)) {
				show(name, s)
			}
		}
	}
	return out
}

// OnChange sets a hook f, called whenever the directive got a new value, which f
// reads with a getter. If f fails, the change is undone, f is called again for the
// old value, and the setter gets the error. f must not set directives.
func (c *Config) OnChange(name string, f func() error) { c.OnChangeOfAny(f, name) }

// OnChangeOfAny is OnChange for several directives: f is called once when one
// CONFIG SET changes more than one of them.
func (c *Config) OnChangeOfAny(f func() error, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &hook{f}
	for _, name := range names {
		s := c.must(name)
		s.hooks = append(s.hooks, h)
	}
}

// Unchanged marks the error of a hook that refused the new value and left
// everything as it was, so that it need not be called for the old value.
func Unchanged(err error) error { return unchanged{err} }

type unchanged struct{ error }

func (e unchanged) Unwrap() error { return e.error }

// ErrLoading is the refusal of a directive that must not change while data is
// being loaded.
var ErrLoading = errors.New("LOADING Redis is loading the dataset in memory")

// Caller is what a CONFIG SET may depend on besides its arguments.
type Caller struct {
	Local   bool // the client is on this machine
	Loading bool // data is being loaded
}

// Set sets one directive at run time, with the words of its value.
func (c *Config) Set(name string, values ...string) error {
	return c.SetAll([][2]string{{name, strings.Join(values, " ")}})
}

// SetAll sets directives at run time, all or none of them. Its errors have the
// texts with which CONFIG SET answers, code included.
func (c *Config) SetAll(pairs [][2]string) error {
	return c.SetAllFor(Caller{}, pairs)
}

// SetAllFor is SetAll on behalf of a client.
func (c *Config) SetAllFor(who Caller, pairs [][2]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	settings, err := c.settable(who, pairs)
	if err != nil {
		return err
	}
	fresh := make([]value, len(pairs))
	for i, s := range settings {
		words := []string{pairs[i][1]}
		if s.Flags&MultiArg != 0 {
			words = splitSpaces(pairs[i][1])
		}
		if fresh[i], err = s.read(c, words, false); err != nil {
			return setError(strings.ToLower(pairs[i][0]), err.Error())
		}
	}
	old := make([]*value, len(pairs))
	var hooks []*hook
	var names []string // of the directives that brought the hooks
	for i, s := range settings {
		old[i] = s.now.Load()
		if *old[i] != fresh[i] || s.Flags&Volatile != 0 {
			s.now.Store(&fresh[i])
			for _, h := range s.hooks {
				if !containsHook(hooks, h) {
					hooks, names = append(hooks, h), append(names, strings.ToLower(pairs[i][0]))
				}
			}
		}
	}
	for i, h := range hooks {
		if err := h.run(); err != nil {
			for j, s := range settings {
				s.now.Store(old[j])
			}
			text, undo := err.Error(), hooks[:i+1]
			if _, ok := err.(unchanged); ok {
				undo = hooks[:i]
			}
			for _, h := range undo {
				if err := h.run(); err != nil {
					text = fmt.Sprintf("%s (and the old value could not be applied again: %s)", text, err)
				}
			}
			return setError(names[i], text)
		}
	}
	return nil
}

// Note changes a directive that a command has changed, although CONFIG SET cannot. No hook is
// called.
func (c *Config) Note(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.must(name).now.Store(&value{text: text})
}

// settable returns the directives of a CONFIG SET, or the first error in the order of the
// arguments.
func (c *Config) settable(who Caller, pairs [][2]string) ([]*setting, error) {
	out := make([]*setting, len(pairs))
	for i, p := range pairs {
		s := c.lookup(p[0])
		switch {
		case s == nil:
			return nil, fmt.Errorf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", p[0])
		case s.Flags&Immutable != 0 && !(s.Flags&Own != 0 && p[1] == s.now.Load().text):
			return nil, setError(p[0], "can't set immutable config")
		case s.Flags&Protected != 0 && !c.protectedAllowed(who):
			return nil, setError(p[0], "can't set protected config")
		case s.Flags&DenyLoading != 0 && who.Loading:
			return nil, ErrLoading
		}
		for _, before := range out[:i] {
			if before == s {
				return nil, setError(p[0], "duplicate parameter")
			}
		}
		out[i] = s
	}
	return out, nil
}

func (c *Config) protectedAllowed(who Caller) bool {
	switch c.Enum("enable-protected-configs") {
	case "yes":
		return true
	case "local":
		return who.Local
	}
	return false
}

func setError(name, reason string) error {
	return fmt.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, reason)
}

func containsHook(list []*hook, h *hook) bool {
	for _, x := range list {
		if x == h {
			return true
		}
	}
	return false
}

// splitSpaces splits a value at each single space; the empty value has no words.
func splitSpaces(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, " ")
}

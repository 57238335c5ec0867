package script

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"redoubt/internal/respclient"
)

// Target is a server that scripts run against.
type Target struct {
	Addr  string
	Proto int
	// Cases are the names from the README that hold: mem, resp2 and so on.
	Cases []string
	// Version of the real Redis; empty if the server is Redoubt.
	Version string
	// Now is the server's time; Advance lets time pass there.
	Now     func() time.Time
	Advance func(time.Duration)
	// Timeout for one reply; zero means respclient.Timeout.
	Timeout time.Duration
}

func (t *Target) redis() bool { return t.Version != "" }

// run is one run of a script.
type run struct {
	*Target
	conns    map[string]*respclient.Client
	conn     string          // name of the current connection
	hello    map[string]bool // connections on which the script sent HELLO
	queueing map[string]bool // and those on which it sent MULTI
	fit      map[string]bool // whether commands can be run by a script
	start    time.Time
	vars     map[string]string
}

// Mismatch is a reply that a script did not expect.
type Mismatch struct {
	Name      string
	Line      int
	Command   string
	Want, Got []string
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s:%d: %s\n  want:\n    %s\n  got:\n    %s", m.Name, m.Line, m.Command,
		strings.Join(m.Want, "\n    "), strings.Join(m.Got, "\n    "))
}

// Run runs a script and returns all that went wrong. After a wrong reply it
// goes on; after a failed connection it does not.
func (f *File) Run(t *Target) error {
	var wrong []error
	err := f.each(t, func(s *step, got []string, expand func(string) (string, error)) error {
		b := s.pick(t.redis(), t.Proto)
		m := &Mismatch{Name: f.Name, Line: s.line, Command: strings.TrimSpace(f.lines[s.line-1]), Got: got}
		if b == nil {
			m.Want = []string{"nothing is expected here yet: record it"}
			wrong = append(wrong, m)
			return nil
		}
		for _, l := range b.lines {
			e, err := expand(l)
			if err != nil {
				return err
			}
			m.Want = append(m.Want, e)
		}
		if !s.mods.matches(m.Want, got) && !(slices.Contains(t.Cases, "eval") && sameFromScript(m.Want, got)) {
			wrong = append(wrong, m)
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// each runs the steps and calls visit with every reply.
func (f *File) each(t *Target, visit func(*step, []string, func(string) (string, error)) error) error {
	r := &run{Target: t, start: t.Now(), vars: make(map[string]string), fit: make(map[string]bool)}
	defer r.closeAll()
	if err := r.fresh(); err != nil {
		return err
	}
	for _, s := range f.steps {
		if !r.wanted(&s.mods) {
			continue
		}
		got, err := r.step(s)
		if err == nil && got != nil {
			err = visit(s, got, r.expand)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", f.Name, s.line, err)
		}
	}
	for name, c := range r.conns {
		if rest := c.Unread(); rest > 0 {
			return fmt.Errorf("%s: connection %s has %d bytes that no command asked for", f.Name, name, rest)
		}
	}
	return nil
}

// wanted says whether a command is for this target.
func (t *Target) wanted(m *modifiers) bool {
	if t.redis() {
		if m.since != "" && olderThan(t.Version, m.since) {
			return false
		}
		if m.until != "" && !olderThan(t.Version, m.until) {
			return false
		}
	}
	for _, c := range m.only {
		if !slices.Contains(t.Cases, c) {
			return false
		}
	}
	for _, c := range m.skip {
		if slices.Contains(t.Cases, c) {
			return false
		}
	}
	return true
}

// step does one step and returns the reply as lines, nil if there is none.
func (r *run) step(s *step) ([]string, error) {
	switch s.action {
	case fresh:
		return nil, r.fresh()
	case advance:
		r.Advance(s.wait)
		r.start = r.start.Add(s.wait)
		return nil, nil
	case useConn:
		r.conn = s.conn
		_, err := r.client()
		return nil, err
	}
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	read := c.Read
	if s.action != receive {
		words := make([]string, len(s.words))
		for i, w := range s.words {
			if words[i], err = r.expand(w); err != nil {
				return nil, err
			}
		}
		if s.action == doCommand {
			words, read = r.wrapped(c, words)
		}
		if err := c.Send(words...); err != nil && !closed(err) {
			return nil, err
		}
		if s.action == send {
			return nil, nil
		}
	}
	v, err := read()
	if closed(err) {
		c.Close()
		delete(r.conns, r.conn)
		delete(r.hello, r.conn)
		return []string{"(connection closed)"}, nil
	}
	if err != nil {
		return nil, err
	}
	if s.mods.capture != "" {
		r.vars[s.mods.capture] = v.Str
	}
	if len(s.words) > 0 && strings.EqualFold(s.words[0], "hello") {
		r.hello[r.conn] = true
	}
	// The text does not tell the nulls of the protocol versions apart.
	if !v.Fits(r.Proto) && (!r.hello[r.conn] || !v.Fits(5-r.Proto)) {
		return append(v.Lines(), fmt.Sprintf("(not as RESP%d has it)", r.Proto)), nil
	}
	return v.Lines(), nil
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// client is the current connection, opened if need be.
func (r *run) client() (*respclient.Client, error) {
	if c := r.conns[r.conn]; c != nil {
		return c, nil
	}
	c, err := respclient.DialProto(r.Addr, r.Proto)
	if err != nil {
		return nil, err
	}
	c.Timeout = respclient.Timeout
	if r.Timeout != 0 {
		c.Timeout = r.Timeout
	}
	r.conns[r.conn] = c
	return c, nil
}

// fresh makes the server empty and opens connection 1 anew.
func (r *run) fresh() error {
	r.closeAll()
	r.conn, r.conns = "1", make(map[string]*respclient.Client)
	r.hello, r.queueing = make(map[string]bool), make(map[string]bool)
	c, err := r.client()
	if err != nil {
		return err
	}
	v, err := c.Do("FLUSHALL")
	if err == nil && v.Str != "OK" {
		err = fmt.Errorf("FLUSHALL: %s", v)
	}
	return err
}

func (r *run) closeAll() {
	for _, c := range r.conns {
		c.Close()
	}
}

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// expand replaces ${...}.
func (r *run) expand(s string) (out string, err error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	out = variable.ReplaceAllStringFunc(s, func(m string) string {
		text, e := r.lookup(m[2 : len(m)-1])
		if e != nil {
			err = e
		}
		return text
	})
	return out, err
}

var relative = regexp.MustCompile(`^(now|nowms)([+-][0-9]+)?$`)

func (r *run) lookup(name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "rep:"); ok {
		count, text, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 {
			return "", fmt.Errorf("${%s}: not a count", name)
		}
		return strings.Repeat(text, n), nil
	}
	if m := relative.FindStringSubmatch(name); m != nil {
		t := r.start.Unix()
		if m[1] == "nowms" {
			t = r.start.UnixMilli()
		}
		if m[2] != "" {
			d, err := strconv.ParseInt(m[2], 10, 64)
			if err != nil {
				return "", fmt.Errorf("${%s}: %w", name, err)
			}
			t += d
		}
		return strconv.FormatInt(t, 10), nil
	}
	if v, ok := r.vars[name]; ok {
		return v, nil
	}
	return "", fmt.Errorf("${%s}: nothing of that name was captured", name)
}

package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"redoubt/gateway/policy"
	"redoubt/gateway/webhook"
)

// maxFile bounds the size of a channels file in bytes.
const maxFile = 1 << 20

// Load reads a channels file. An error names the file and the line of each mistake and
// says what to do. now is the clock by which tokens expire; nil is time.Now.
func Load(file string, now func() time.Time) (*Set, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("channels-file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("channels-file: %s is no regular file of at most %d bytes", file, maxFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("channels-file: %w", err)
	}
	return Parse(file, text, now)
}

// Parse reads the text of a channels file. Paths in it are relative to the file's folder.
func Parse(file string, content []byte, now func() time.Time) (*Set, error) {
	f := &reader{file: file, set: new(Set), now: now}
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 1 { // none: the file is empty
		f.document(resolve(doc.Content[0]))
	}
	if len(f.errs) > 0 {
		return nil, errors.Join(f.errs...)
	}
	return f.set, nil
}

// maxErrors is how many mistakes of a file are reported.
const maxErrors = 10

// reader reads a file and collects its mistakes.
type reader struct {
	file string
	set  *Set
	errs []error
	ids  map[string]int // the lines of the webhooks, by their identifiers
	now  func() time.Time
}

// wrong notes a mistake at a node.
func (f *reader) wrong(n *yaml.Node, format string, args ...any) {
	if len(f.errs) < maxErrors {
		f.errs = append(f.errs, fmt.Errorf("%s:%d: %s", f.file, n.Line, fmt.Sprintf(format, args...)))
	}
}

// warn notes something at a node that is allowed but may be a mistake.
func (f *reader) warn(n *yaml.Node, format string, args ...any) {
	f.set.Warnings = append(f.set.Warnings, fmt.Sprintf("%s:%d: %s", f.file, n.Line, fmt.Sprintf(format, args...)))
}

// elsewhere maps further blocks of the older server's files to the settings that replace them.
var elsewhere = map[string]string{
	"storages": "the database itself stores channels", "http": "use the directives http-*", "logging": "use the directives loglevel and logfile",
	"telemetry": "use the directive metrics-addr", "sentry": "use the directive metrics-addr", "admin": "use the directive http-admin-token",
}

func (f *reader) document(n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		f.channels(n)
		return
	}
	f.mapping(n, "the file", func(key string, at, v *yaml.Node) bool {
		if instead := elsewhere[key]; instead != "" {
			f.warn(at, "%s is ignored here: %s", key, instead)
			return true
		}
		if key == "channels" {
			f.channels(v)
		}
		return key == "channels"
	}, "channels")
}

func (f *reader) channels(n *yaml.Node) {
	for _, item := range f.list(n, "channels") {
		r := &rule{expire: DefaultExpire}
		var hooks *yaml.Node
		f.mapping(item, "a rule of channels", func(key string, at, v *yaml.Node) bool {
			switch key {
			case "regex":
				r.pattern, r.regex = f.regex(v)
			case "expire":
				r.expire = f.duration(v, "expire", time.Millisecond, maxExpire)
			case "jwt":
				r.access = f.access(v)
			case "webhooks":
				hooks = v
			default:
				return false
			}
			return true
		}, "regex", "expire", "jwt", "webhooks")
		if r.pattern == "" {
			f.wrong(item, "regex is missing: say which channels the rule is for, .+ for all")
			continue
		}
		if hooks != nil {
			for _, h := range f.list(hooks, "webhooks") {
				if made := f.hook(r, h); made != nil {
					r.hooks = append(r.hooks, made)
				}
			}
		}
		f.set.rules = append(f.set.rules, r)
		f.templates(item, r)
	}
}

// maxExpire is the longest life of a message: ten years.
const maxExpire = 10 * 365 * 24 * time.Hour

// templates evaluates every template of a rule once, to report one that can never work
// when the file is read.
func (f *reader) templates(at *yaml.Node, r *rule) {
	if r.regex == nil {
		return
	}
	groups := make(map[string]string)
	for _, name := range r.regex.SubexpNames() {
		if name != "" {
			groups[name] = "dummy"
		}
	}
	try := func(t *text) {
		if t == nil {
			return
		}
		if _, err := t.expand(groups); err != nil {
			f.wrong(at, "the template %v: name its group in regex, as (?P<id>[0-9]+) for {{.channel.id}}", err)
		}
	}
	for _, h := range r.hooks {
		try(h.url)
		try(h.deadLetter)
		for _, t := range h.headers {
			try(t)
		}
	}
	if r.access != nil {
		for _, list := range r.access.claims {
			for _, t := range list {
				try(t)
			}
		}
	}
}

func (f *reader) regex(n *yaml.Node) (string, *regexp.Regexp) {
	pattern := f.text(n, "regex")
	if pattern == "" {
		return "", nil
	}
	_, err := regexp.Compile(pattern) // compiled separately: it must not close the group below
	var whole *regexp.Regexp
	if err == nil {
		whole, err = regexp.Compile("^(?:" + pattern + ")$")
	}
	if err != nil {
		f.wrong(n, "%v: regex must be a regular expression of Go (RE2)", err)
		return pattern, nil
	}
	whole.Longest()
	return pattern, whole
}

func (f *reader) access(n *yaml.Node) *access {
	a, cfg := &access{claims: make(map[string][]*text)}, policy.Config{Leeway: policy.DefaultLeeway}
	before := len(f.errs)
	f.mapping(n, "jwt", func(key string, at, v *yaml.Node) bool {
		switch key {
		case "iss":
			cfg.Issuers = f.texts(v, "iss")
		case "aud":
			cfg.Audiences = f.texts(v, "aud")
		case "keys":
			cfg.Keys = append(cfg.Keys, f.keys(v)...)
		case "jwks":
			for _, path := range f.nodes(v) {
				set, err := policy.LoadSet(f.path(f.text(path, "jwks")))
				if err != nil {
					f.wrong(path, "%v", err)
				}
				cfg.Keys = append(cfg.Keys, set...)
			}
		case "claims":
			f.each(v, "claims", func(name string, v *yaml.Node) {
				for _, item := range f.nodes(v) {
					if t := f.template(item, "claims"); t != nil {
						a.claims[name] = append(a.claims[name], t)
					}
				}
				if len(a.claims[name]) == 0 { // an empty list would accept every token
					f.wrong(v, "the claim %s has no value: list those that are accepted, or leave it out", name)
				}
			})
		case "clockSkewLeeway":
			cfg.Leeway = f.duration(v, "clockSkewLeeway", 0, 24*time.Hour)
		default:
			return false
		}
		return true
	}, "iss", "aud", "keys", "jwks", "claims", "clockSkewLeeway")
	if len(f.errs) > before {
		return a
	}
	v, err := policy.New(cfg, f.now)
	if err != nil {
		f.wrong(n, "jwt: %v", err)
	}
	a.verifier = v
	return a
}

func (f *reader) keys(n *yaml.Node) (keys []policy.Key) {
	f.each(n, "keys", func(alg string, v *yaml.Node) {
		if err := policy.CheckAlgorithm(alg); err != nil {
			f.wrong(v, "%v", err)
			return
		}
		files := f.nodes(v)
		if len(files) == 0 {
			f.wrong(v, "%s has no key file", alg)
		}
		for _, file := range files {
			k, err := policy.LoadKey(alg, f.path(f.text(file, "a key file")))
			if err != nil {
				f.wrong(file, "%v", err)
				continue
			}
			keys = append(keys, k)
		}
	})
	return keys
}

func (f *reader) hook(r *rule, n *yaml.Node) *hook {
	before, name := len(f.errs), ""
	h := &hook{Target: webhook.NewTarget(), headers: make(map[string]*text)}
	f.mapping(n, "a webhook", func(key string, at, v *yaml.Node) bool {
		switch key {
		case "name":
			name = f.text(v, key)
			if !hookName.MatchString(name) {
				f.wrong(v, "name must have 1 to 40 of the characters 0-9 a-z _ -")
			}
		case "method":
			if h.Method = strings.ToUpper(f.text(v, key)); h.Method != http.MethodPut && h.Method != http.MethodPost {
				f.wrong(v, "method must be PUT or POST, not %q", h.Method)
			}
		case "url":
			h.url = f.template(v, key)
			if h.url != nil {
				f.url(v, h.url.source)
			}
		case "timeout":
			h.Timeout = f.duration(v, key, time.Millisecond, 10*time.Minute)
		case "connection":
			f.connection(v, h.Target)
		case "retry":
			f.retry(v, h.Target)
		case "headers":
			f.each(v, key, func(name string, v *yaml.Node) {
				if !headerName.MatchString(name) {
					f.wrong(v, "%q is no name of an HTTP header", name)
				}
				if t := f.template(v, "headers"); t != nil {
					if strings.ContainsAny(t.source, "\r\n") {
						f.wrong(v, "the header %s has more than one line", name)
					}
					h.headers[name] = t
				}
			})
		case "maxRedirects":
			h.MaxRedirects = int(f.number(v, key, 0, 100))
		case "secretFile":
			h.Secret = f.secret(v)
		case "deadLetter":
			h.deadLetter = f.template(v, key)
		default:
			return false
		}
		return true
	}, "name", "method", "url", "timeout", "connection", "retry", "headers", "maxRedirects", "secretFile", "deadLetter")
	if h.url == nil {
		if len(f.errs) == before {
			f.wrong(n, "url is missing: say where messages are sent")
		}
		return nil
	}
	if name == "" { // stable as long as regex, method and URL are
		sum := sha256.Sum256([]byte(r.pattern + "\n" + h.Method + " " + h.url.source))
		name = hex.EncodeToString(sum[:8])
	}
	h.ID = webhook.Prefix + name
	if f.ids == nil {
		f.ids = make(map[string]int)
	}
	if line := f.ids[h.ID]; line != 0 {
		f.wrong(n, "the webhook of line %d has the same name %q, or the same regex and url: give each a name of its own", line, name)
	}
	f.ids[h.ID] = n.Line
	if worst := h.Longest(); r.expire <= worst {
		f.warn(n, "expire %v of the rule is short: one message may need %v with all retries, and would be gone before the last; "+
			"set expire above that, or retry less", r.expire, worst)
	}
	return h
}

var (
	hookName   = regexp.MustCompile(`^[0-9a-z_-]{1,40}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// url checks the fixed part of a URL.
func (f *reader) url(n *yaml.Node, source string) {
	host, ok := strings.CutPrefix(source, "https://")
	if !ok {
		host, ok = strings.CutPrefix(source, "http://")
	}
	if !ok {
		f.wrong(n, "url must begin with http:// or https://")
		return
	}
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	if strings.Contains(host, "@") {
		f.wrong(n, "url must not contain a user or a password: use headers")
	}
	if u, err := url.Parse("http://" + host); err == nil && u.Hostname() == "" || host == "" {
		f.wrong(n, "url has no host")
	}
}

func (f *reader) connection(n *yaml.Node, t *webhook.Target) {
	f.mapping(n, "connection", func(key string, at, v *yaml.Node) bool {
		switch key {
		case "max":
			t.MaxConns = int(f.number(v, key, 1, 65536))
		case "maxIdleTime":
			t.IdleTime = f.duration(v, key, time.Millisecond, 24*time.Hour)
		default:
			return false
		}
		return true
	}, "max", "maxIdleTime")
}

func (f *reader) retry(n *yaml.Node, t *webhook.Target) {
	f.mapping(n, "retry", func(key string, at, v *yaml.Node) bool {
		switch key {
		case "force":
			if err := v.Decode(&t.Retry.Force); err != nil {
				f.wrong(v, "force must be true or false")
			}
		case "count":
			t.Retry.Count = int(f.number(v, key, 0, 1000))
		case "interval":
			t.Retry.Interval = f.duration(v, key, time.Millisecond, time.Hour)
		case "intervalMultiplier":
			if err := v.Decode(&t.Retry.Multiplier); err != nil || !(t.Retry.Multiplier >= 1 && t.Retry.Multiplier <= 100) {
				f.wrong(v, "intervalMultiplier must be a number from 1.0 to 100")
				t.Retry.Multiplier = 1
			}
		case "intervalJitter":
			t.Retry.Jitter = f.duration(v, key, 0, time.Hour)
		default:
			return false
		}
		return true
	}, "force", "count", "interval", "intervalMultiplier", "intervalJitter")
}

// minSecret is the least size of the secret of a webhook's signatures in bytes.
const minSecret = 16

func (f *reader) secret(n *yaml.Node) []byte {
	file := f.path(f.text(n, "secretFile"))
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = fmt.Errorf("%s is no regular file of at most %d bytes", file, maxFile)
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		f.wrong(n, "secretFile: %v", err)
		return nil
	}
	if b = []byte(strings.TrimRight(string(b), "\r\n")); len(b) < minSecret {
		f.wrong(n, "secretFile: the secret has %d bytes and needs %d at least: make one with openssl rand -hex 32", len(b), minSecret)
	}
	return b
}

// path resolves a path in the file relative to the file's folder.
func (f *reader) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(filepath.Dir(f.file), p)
}

// Each of the methods below reads one kind of node and notes its mistakes.

// resolve returns the node that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// each visits the entries of a mapping.
func (f *reader) each(n *yaml.Node, what string, visit func(key string, v *yaml.Node)) {
	if n = resolve(n); n.Kind != yaml.MappingNode {
		f.wrong(n, "%s must be a mapping of names to values", what)
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		if seen[key.Value] {
			f.wrong(key, "%s is there twice in %s", key.Value, what)
		}
		seen[key.Value] = true
		visit(key.Value, resolve(n.Content[i+1]))
	}
}

// mapping visits the entries of a mapping; visit returns false for a name that is not known.
func (f *reader) mapping(n *yaml.Node, what string, visit func(key string, at, v *yaml.Node) bool, known ...string) {
	lines := make(map[string]*yaml.Node)
	if n = resolve(n); n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			lines[resolve(n.Content[i]).Value] = resolve(n.Content[i])
		}
	}
	f.each(n, what, func(key string, v *yaml.Node) {
		if !visit(key, lines[key], v) {
			f.wrong(lines[key], "%q is unknown in %s: it may have %s", key, what, strings.Join(known, ", "))
		}
	})
}

// list returns the items of a list.
func (f *reader) list(n *yaml.Node, what string) (items []*yaml.Node) {
	if n = resolve(n); n.Kind != yaml.SequenceNode {
		if n.Tag != "!!null" {
			f.wrong(n, "%s must be a list: begin each item with a dash", what)
		}
		return nil
	}
	for _, item := range n.Content {
		items = append(items, resolve(item))
	}
	return items
}

// nodes returns the items of a list, or the single value in its place.
func (f *reader) nodes(n *yaml.Node) []*yaml.Node {
	if n = resolve(n); n.Kind == yaml.SequenceNode {
		return f.list(n, "")
	}
	return []*yaml.Node{n}
}

func (f *reader) texts(n *yaml.Node, what string) (list []string) {
	for _, item := range f.nodes(n) {
		if s := f.text(item, what); s != "" {
			list = append(list, s)
		}
	}
	return list
}

func (f *reader) text(n *yaml.Node, what string) string {
	if n = resolve(n); n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		f.wrong(n, "%s must be a text that is not empty", what)
		return ""
	}
	return n.Value
}

func (f *reader) template(n *yaml.Node, what string) *text {
	s := f.text(n, what)
	if s == "" {
		return nil
	}
	t, err := newText(s)
	if err != nil {
		f.wrong(n, "%s: %v", what, err)
		return nil
	}
	return t
}

func (f *reader) duration(n *yaml.Node, what string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(f.text(n, what))
	if err != nil || d < least || d > most {
		f.wrong(n, "%s must be a duration from %v to %v, such as 1h30m or 500ms", what, least, most)
		return max(least, time.Second)
	}
	return d
}

func (f *reader) number(n *yaml.Node, what string, least, most int64) int64 {
	var v int64
	if err := n.Decode(&v); err != nil || n.Tag != "!!int" || v < least || v > most {
		f.wrong(n, "%s must be a whole number from %d to %d", what, least, most)
		return least
	}
	return v
}

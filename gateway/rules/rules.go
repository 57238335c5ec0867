// Package rules reads the channels file: which channels there may be, how long their
// messages live, who may use them, and which webhooks they have.
//
// The file is YAML in the format of an older durable publish/subscribe server: a list
// "channels" of rules, each with a regular expression. All rules that match the whole name of
// a channel apply to it together. Without any rule every channel is allowed. A Set is
// immutable; a new file makes a new one.
package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"redoubt/gateway/policy"
	"redoubt/gateway/webhook"
)

// DefaultExpire is how long messages and idle subscribers live if no rule says otherwise.
const DefaultExpire = 30 * time.Minute

// Set is the rules of a file.
type Set struct {
	rules []*rule
	// Warnings name parts of the file that are ignored or may be mistakes, each with its line
	// and what to do.
	Warnings []string
}

// rule is an entry of the list channels.
type rule struct {
	pattern string
	regex   *regexp.Regexp
	expire  time.Duration
	access  *access
	hooks   []*hook
}

// access says which tokens may use the channels of a rule.
type access struct {
	verifier *policy.Verifier
	claims   map[string][]*text
}

// hook is a webhook whose URL and headers depend on the channel.
type hook struct {
	*webhook.Target
	url        *text
	headers    map[string]*text
	deadLetter *text
}

// text is a template whose result depends on the channel.
type text struct {
	source string
	tmpl   *template.Template
}

func newText(source string) (*text, error) {
	t, err := template.New("").Option("missingkey=error").Parse(source)
	if err != nil {
		return nil, fmt.Errorf("%q is no template: %w", source, err)
	}
	return &text{source, t}, nil
}

// expand returns the text for a channel, whose named groups are given.
func (t *text) expand(groups map[string]string) (string, error) {
	if !strings.Contains(t.source, "{{") {
		return t.source, nil
	}
	var b strings.Builder
	if err := t.tmpl.Execute(&b, map[string]any{"channel": groups}); err != nil {
		return "", fmt.Errorf("%q: %w", t.source, err)
	}
	return b.String(), nil
}

// match returns the named groups of a channel's name, nil if the rule does not match it.
func (r *rule) match(channel string) map[string]string {
	m := r.regex.FindStringSubmatch(channel)
	if m == nil {
		return nil
	}
	groups := make(map[string]string)
	for i, name := range r.regex.SubexpNames() {
		if name != "" {
			groups[name] = m[i]
		}
	}
	return groups
}

// Empty reports whether there are no rules, so that every channel is allowed.
func (s *Set) Empty() bool { return len(s.rules) == 0 }

// Allowed reports whether a channel of that name may exist.
func (s *Set) Allowed(channel string) bool {
	return s.Empty() || slices.ContainsFunc(s.rules, func(r *rule) bool { return r.regex.MatchString(channel) })
}

// Guarded reports whether a channel demands a token.
func (s *Set) Guarded(channel string) bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool { return r.access != nil && r.regex.MatchString(channel) })
}

// Verify returns nil if it accepts a token for a channel, else why not: every rule of the
// channel with a jwt block must accept the token. id identifies the token for revocation.
func (s *Set) Verify(channel, token string) (id string, err error) {
	for _, r := range s.rules {
		if r.access == nil {
			continue
		}
		groups := r.match(channel)
		if groups == nil {
			continue
		}
		claims := make(map[string][]string, len(r.access.claims))
		for name, texts := range r.access.claims {
			for _, t := range texts {
				want, err := t.expand(groups)
				if err != nil {
					return "", fmt.Errorf("claim %s: %w", name, err)
				}
				claims[name] = append(claims[name], want)
			}
		}
		if id, err = r.access.verifier.Verify(token, claims); err != nil {
			return "", err
		}
	}
	return id, nil
}

// Leeway returns the largest leeway of any rule: a token may be accepted so much longer than
// its exp claim says.
func (s *Set) Leeway() (d time.Duration) {
	for _, r := range s.rules {
		if r.access != nil {
			d = max(d, r.access.verifier.Leeway())
		}
	}
	return d
}

// Pattern is the part of a rule that the database itself needs.
type Pattern struct {
	Regex  *regexp.Regexp // matches whole names
	Expire time.Duration
	// Subscribers are the subscribers that every channel of the rule has from its first message on.
	Subscribers []string
}

// Patterns returns the rules in the order of the file. If several match a channel, the longest
// expiry applies, and all subscribers.
func (s *Set) Patterns() []Pattern {
	list := make([]Pattern, 0, len(s.rules))
	for _, r := range s.rules {
		p := Pattern{Regex: r.regex, Expire: r.expire}
		for _, h := range r.hooks {
			p.Subscribers = append(p.Subscribers, h.ID)
		}
		list = append(list, p)
	}
	return list
}

// Hooked reports whether any rule has webhooks.
func (s *Set) Hooked() bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool { return len(r.hooks) > 0 })
}

// Hook reports whether a subscriber of a channel is a webhook.
func (s *Set) Hook(channel, subscriber string) bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool {
		return slices.ContainsFunc(r.hooks, func(h *hook) bool { return h.ID == subscriber }) && r.regex.MatchString(channel)
	})
}

// Hooks returns the webhooks of a channel.
func (s *Set) Hooks(channel string) (list []*webhook.Hook, err error) {
	for _, r := range s.rules {
		if len(r.hooks) == 0 {
			continue
		}
		groups := r.match(channel)
		if groups == nil {
			continue
		}
		for _, h := range r.hooks {
			made, err := h.expand(groups)
			if err != nil {
				return nil, fmt.Errorf("webhook %s of channel %s: %w", h.ID, channel, err)
			}
			list = append(list, made)
		}
	}
	return list, nil
}

func (h *hook) expand(groups map[string]string) (made *webhook.Hook, err error) {
	made = &webhook.Hook{Target: h.Target, Headers: make(map[string]string, len(h.headers))}
	if made.URL, err = h.url.expand(groups); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(h.headers)) {
		if made.Headers[name], err = h.headers[name].expand(groups); err != nil {
			return nil, err
		}
	}
	if h.deadLetter != nil {
		made.DeadLetter, err = h.deadLetter.expand(groups)
	}
	return made, err
}

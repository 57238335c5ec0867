package acl

import (
	"strings"

	"redoubt/wire"
)

// How users are shown: in rules that make the same user again.

// String is the user's rules, as ACL LIST and ACL SAVE have them, without its name.
func (u *User) String() string { return u.text }

// Line is the line of an ACL file or a configuration file that makes the user.
func (u *User) Line() string { return "user " + u.name + " " + u.text }

func (u *User) describe() string {
	var b strings.Builder
	for _, f := range u.Flags() {
		b.WriteString(f + " ")
	}
	for _, p := range u.passwords {
		b.WriteString("#" + p + " ")
	}
	for i, s := range u.Permissions() {
		text := "resetchannels "
		if s.Channels != "" {
			text += s.Channels + " "
		}
		if s.AllChannels {
			text = "&* "
		}
		if s.Keys != "" {
			text = s.Keys + " " + text
		}
		text += s.Commands
		if i > 0 {
			text = " (" + quoteWords(text) + ")"
		}
		b.WriteString(text)
	}
	return b.String()
}

// quoteWords quotes those words of a selector that would not be read again as they
// are: quotes count there, and a word that ends in a parenthesis ends the selector.
// Redis does not, and loses such a selector.
func quoteWords(text string) string {
	if !strings.ContainsAny(text, "'\")") {
		return text
	}
	words := strings.Split(text, " ")
	for i, w := range words {
		if strings.ContainsAny(w, "'\"") || strings.HasSuffix(w, ")") {
			words[i] = string(wire.AppendQuoted(nil, w))
		}
	}
	return strings.Join(words, " ")
}

// Flags are the words for what a user is.
func (u *User) Flags() []string {
	flags := []string{"off"}
	if u.enabled {
		flags[0] = "on"
	}
	if u.nopass {
		flags = append(flags, "nopass")
	}
	if u.skipSanitize {
		return append(flags, "skip-sanitize-payload")
	}
	return append(flags, "sanitize-payload")
}

// Permissions are the rules of a selector.
type Permissions struct {
	Commands, Keys, Channels string
	AllChannels              bool
}

// Permissions are those of the user itself and, behind them, those of its selectors.
func (u *User) Permissions() []Permissions {
	out := make([]Permissions, len(u.selectors))
	for i, s := range u.selectors {
		out[i] = Permissions{Commands: s.commandRules(), Keys: s.keyRules(), Channels: s.channelRules(), AllChannels: s.allChannels}
	}
	return out
}

func (s *selector) commandRules() string {
	var b strings.Builder
	if s.future {
		b.WriteString("+@all")
	} else {
		b.WriteString("-@all")
	}
	for _, r := range s.rules {
		if r.allow {
			b.WriteString(" +" + r.name)
		} else {
			b.WriteString(" -" + r.name)
		}
	}
	return b.String()
}

func (s *selector) keyRules() string {
	if s.allKeys {
		return "~*"
	}
	words := make([]string, len(s.keys))
	for i, k := range s.keys {
		sign := "~"
		switch {
		case k.access == Read:
			sign = "%R~"
		case k.access == Write:
			sign = "%W~"
		case k.pattern == "*" && len(s.keys) > 1:
			// It was given so, beside other patterns. Redis writes ~* then, which
			// it refuses to read before another pattern.
			sign = "%RW~"
		}
		words[i] = sign + k.pattern
	}
	return strings.Join(words, " ")
}

func (s *selector) channelRules() string {
	if s.allChannels {
		return "&*"
	}
	words := make([]string, len(s.channels))
	for i, c := range s.channels {
		words[i] = "&" + c
	}
	return strings.Join(words, " ")
}

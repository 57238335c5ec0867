package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"redoubt/command"
	"redoubt/wire"
)

// How rules change a user. The texts of the errors are Redis's.

var (
	errSyntax  = errors.New("Syntax error")
	errUnknown = errors.New("Unknown command or category name in ACL")
	errAllKeys = errors.New("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any " +
		"effect. Try 'resetkeys' to start with an empty list of patterns")
	errAllChannels = errors.New("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not " +
		"have any effect. Try 'resetchannels' to start with an empty list of channels")
	errNoPassword = errors.New("The password you are trying to remove from the user does not exist")
	errHash       = errors.New("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errSubArg     = errors.New("Allowing first-arg of a subcommand is not supported")
)

// RuleError is a rule that cannot be applied.
type RuleError struct {
	Rule string
	Err  error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("Error in ACL SETUSER modifier '%s': %s", cString(e.Rule), e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

// mergeSelectors joins the words of selectors that came as several arguments.
func mergeSelectors(words []string) ([]string, error) {
	var out []string
	open := -1
	var joined string
	for i, w := range words {
		switch {
		case open >= 0:
			joined += " " + w
			if strings.HasSuffix(w, ")") {
				out = append(out, joined)
				open = -1
			}
		case strings.HasPrefix(w, "(") && !strings.HasSuffix(w, ")"):
			open, joined = i, w
		default:
			out = append(out, w)
		}
	}
	if open >= 0 {
		return nil, fmt.Errorf("Unmatched parenthesis in acl selector starting at '%s'.", cString(words[open])) //nolint:staticcheck // Redis's text
	}
	return out, nil
}

// apply applies one rule to a user that is not sealed.
func (r *Registry) apply(u *User, op string) error {
	if op == "" {
		return nil
	}
	switch lower(op) {
	case "on":
		u.enabled = true
		return nil
	case "off":
		u.enabled = false
		return nil
	case "skip-sanitize-payload":
		u.skipSanitize = true
		return nil
	case "sanitize-payload":
		u.skipSanitize = false
		return nil
	case "nopass":
		u.nopass, u.passwords = true, nil
		return nil
	case "resetpass":
		u.nopass, u.passwords = false, nil
		return nil
	case "clearselectors":
		u.selectors = u.selectors[:1]
		return nil
	case "reset":
		*u = *r.newUser(u.name)
		return nil
	}
	switch op[0] {
	case '>', '#', '<', '!':
		return u.applyPassword(op)
	case '(':
		if strings.HasSuffix(op, ")") {
			return r.addSelector(u, op[1:len(op)-1])
		}
	}
	return r.applySelector(u.selectors[0], op)
}

func (u *User) applyPassword(op string) error {
	hash := op[1:]
	if op[0] == '>' || op[0] == '<' {
		hash = hashPassword(hash)
	} else if !validHash(hash) {
		return errHash
	}
	at := slices.Index(u.passwords, hash)
	if op[0] == '<' || op[0] == '!' {
		if at < 0 {
			return errNoPassword
		}
		u.passwords = slices.Delete(u.passwords, at, at+1)
		return nil
	}
	if at < 0 {
		u.passwords = append(u.passwords, hash)
	}
	u.nopass = false
	return nil
}

func validHash(hash string) bool {
	for _, c := range []byte(hash) {
		if (c < 'a' || c > 'f') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(hash) == 64
}

// addSelector adds a selector of rules in one text, in which words may be quoted.
// Redis takes a text with an open quote for an empty one; so a selector without
// any permission comes of it.
func (r *Registry) addSelector(u *User, text string) error {
	s := r.newSelector()
	words, _ := wire.SplitWords([]byte(text))
	for _, w := range words {
		if err := r.applySelector(s, string(w)); err != nil {
			return err
		}
	}
	u.selectors = append(u.selectors, s)
	return nil
}

// applySelector applies a rule about commands, keys or channels.
func (r *Registry) applySelector(s *selector, op string) error {
	switch lower(op) {
	case "allkeys", "~*":
		s.allKeys, s.keys = true, nil
		return nil
	case "resetkeys":
		s.allKeys, s.keys = false, nil
		return nil
	case "allchannels", "&*":
		s.allChannels, s.channels = true, nil
		return nil
	case "resetchannels":
		s.allChannels, s.channels = false, nil
		return nil
	case "allcommands", "+@all":
		s.allowAll()
		return nil
	case "nocommands", "-@all":
		s.allCommands, s.future, s.rules, s.firstArgs = false, false, nil, nil
		clear(s.commands)
		return nil
	}
	switch {
	case op == "":
		return errSyntax
	case op[0] == '~' || op[0] == '%':
		return s.addKeys(op)
	case op[0] == '&' && s.allChannels:
		return errAllChannels
	case op[0] == '&' && !hasSpace(op):
		if !slices.Contains(s.channels, op[1:]) {
			s.channels = append(s.channels, op[1:])
		}
		return nil
	case op[0] == '+' || op[0] == '-':
		return r.applyCommand(s, op[0] == '+', op[1:])
	}
	return errSyntax
}

// addKeys adds a pattern of keys: ~pattern, or %R~, %W~, %RW~ and the pattern.
func (s *selector) addKeys(op string) error {
	if s.allKeys {
		return errAllKeys
	}
	access, at := Read|Write, 1
	if op[0] == '%' {
		access = 0
	letters:
		for ; at < len(op); at++ {
			switch c := op[at]; {
			case c|32 == 'r' && access&Read == 0:
				access |= Read
			case c|32 == 'w' && access&Write == 0:
				access |= Write
			case c == '~' && access != 0:
				at++
				break letters
			default:
				return errSyntax
			}
		}
		if access == 0 {
			return errSyntax
		}
	}
	if hasSpace(op) {
		return errSyntax
	}
	for i := range s.keys {
		if s.keys[i].pattern == op[at:] {
			s.keys[i].access |= access
			return nil
		}
	}
	s.keys = append(s.keys, keyPattern{op[at:], []byte(op[at:]), access})
	return nil
}

// applyCommand applies +name and -name, without the sign.
func (r *Registry) applyCommand(s *selector, allow bool, name string) error {
	if strings.HasPrefix(name, "@") {
		at := slices.Index(command.CategoryNames, lower(name[1:]))
		if at < 0 {
			return errUnknown
		}
		cat := command.Category(1) << at
		s.note(allow, lower(name))
		for _, c := range r.list {
			if c.AllCategories()&cat != 0 {
				s.permit(c, allow)
			}
		}
		return nil
	}
	full := lower(name)
	if c := r.commands[full]; c != nil {
		s.note(allow, full)
		s.permit(c, allow)
		return nil
	}
	if elsewhere[full] {
		s.note(allow, full)
		return nil
	}
	bar := strings.LastIndexByte(full, '|')
	if bar < 0 || !allow {
		return errUnknown
	}
	// A command with a first argument: the old way to allow a part of a command
	// that has no subcommands.
	c := r.commands[full[:bar]]
	switch {
	case c == nil && elsewhere[full[:bar]] && strings.Contains(full[:bar], "|"):
		return errSubArg
	case c == nil:
		return errUnknown
	case c.Parent != nil:
		return errSubArg
	case bar == len(full)-1 || hasSpace(full):
		return errSyntax
	case len(c.Subs) > 0:
		return errUnknown
	}
	if s.firstArgs == nil {
		s.firstArgs = make(map[int][]string)
	}
	if arg := full[bar+1:]; !slices.Contains(s.firstArgs[c.ID], arg) {
		s.firstArgs[c.ID] = append(s.firstArgs[c.ID], arg)
	}
	s.note(true, full)
	return nil
}

// note puts a rule behind the others. It replaces one about the same, and one of
// a command those of its subcommands.
func (s *selector) note(allow bool, name string) {
	s.rules = slices.DeleteFunc(s.rules, func(r commandRule) bool {
		return r.name == name || strings.HasPrefix(r.name, name) && r.name[len(name)] == '|'
	})
	s.rules = append(s.rules, commandRule{allow, name})
}

func (s *selector) allowAll() {
	s.allCommands, s.future, s.rules, s.firstArgs = true, true, nil, nil
	for i := range s.commands {
		s.commands[i] = ^uint64(0)
	}
}

// permit allows a command with its subcommands, or takes them.
func (s *selector) permit(c *command.Command, allow bool) {
	delete(s.firstArgs, c.ID)
	s.set(c.ID, allow)
	for _, sub := range c.Subs {
		s.set(sub.ID, allow)
	}
}

func (s *selector) set(id int, allow bool) {
	if allow {
		s.commands[id/64] |= 1 << (id % 64)
	} else {
		s.commands[id/64] &^= 1 << (id % 64)
		s.allCommands = false
	}
}

// ValidName says whether a user may be called so: rules are separated by spaces.
func ValidName(name string) bool { return !hasSpace(name) }

func hasSpace(s string) bool { return strings.ContainsAny(s, " \t\n\v\f\r\x00") }

// lower is s in lower case, letters beyond ASCII as they are.
func lower(s string) string {
	if strings.IndexFunc(s, func(c rune) bool { return c >= 'A' && c <= 'Z' }) < 0 {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if c-'A' < 26 {
			b[i] = c | 32
		}
	}
	return string(b)
}

// cString is as much of s as C prints of it.
func cString(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

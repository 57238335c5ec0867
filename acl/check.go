package acl

import (
	"redoubt/command"
	"redoubt/glob"
)

// Denial is why something is not allowed. If selectors deny a call for different
// reasons, the largest is reported.
type Denial uint8

const (
	// Allowed: it is not denied.
	Allowed Denial = iota
	// ByCommand, ByKey, ByAuth and ByChannel are what the call lacked permission for.
	ByCommand
	ByKey
	ByAuth
	ByChannel
)

// String is the reason as ACL LOG names it.
func (d Denial) String() string {
	return [...]string{"", "command", "key", "auth", "channel"}[d]
}

// All reports whether the user may do everything; it is called for every command.
func (u *User) All() bool { return u.all }

// Check returns Allowed if the user may make a call, else why not and because of
// which argument.
func (u *User) Check(cmd *command.Command, args [][]byte) (d Denial, at int) {
	if u.all {
		return Allowed, 0
	}
	return u.check(cmd, args)
}

// check asks the selectors one by one: the call must be allowed as a whole by one of
// them. If there is none, what is told is the last key or channel that stopped one
// that has the command, or else the command.
func (u *User) check(cmd *command.Command, args [][]byte) (worst Denial, at int) {
	worst = ByCommand
	for _, s := range u.selectors {
		d, i := s.check(cmd, args)
		if d == Allowed {
			return Allowed, 0
		}
		if d > worst || d == worst && i > at {
			worst, at = d, i
		}
	}
	return worst, at
}

func (s *selector) check(cmd *command.Command, args [][]byte) (Denial, int) {
	if !s.mayRun(cmd, args) {
		return ByCommand, 0
	}
	if !s.allKeys && len(cmd.Keys) > 0 {
		if at := s.deniedKey(cmd, args); at > 0 {
			return ByKey, at
		}
	}
	if !s.allChannels && cmd.Channels.Flags != 0 {
		from, to := cmd.Channels.Range(len(args))
		for i := from; i < to; i++ {
			if !s.mayUseChannel(args[i], cmd.Channels.Flags&command.ChannelPattern != 0) {
				return ByChannel, i
			}
		}
	}
	return Allowed, 0
}

// mayRun checks the command alone. Commands before authentication are allowed to all.
func (s *selector) mayRun(cmd *command.Command, args [][]byte) bool {
	if s.allCommands || cmd.Flags&command.NoAuth != 0 || s.has(cmd.ID) {
		return true
	}
	if len(args) > 1 {
		for _, arg := range s.firstArgs[cmd.ID] {
			if lower(string(args[1])) == arg {
				return true
			}
		}
	}
	return false
}

func (s *selector) has(id int) bool {
	return id/64 < len(s.commands) && s.commands[id/64]&(1<<(id%64)) != 0
}

// deniedKey returns the index of the first key that the selector does not have;
// zero when there is none. The keys of a call that is not well-formed are not known:
// it is not refused here, the command refuses it.
func (s *selector) deniedKey(cmd *command.Command, args [][]byte) int {
	if i, one := cmd.OneKeyAt(); one { // without a closure
		if i < len(args) && !s.mayUseKey(args[i], accessOf(cmd.Keys[0].FlagsOf(args))) {
			return i
		}
		return 0
	}
	denied := 0
	known := cmd.EachKey(args, func(i int, spec *command.KeySpec) {
		if denied == 0 && !s.mayUseKey(args[i], accessOf(spec.FlagsOf(args))) {
			denied = i
		}
	})
	if !known {
		return 0
	}
	return denied
}

// accessOf is what must be allowed for what a command does with a key. To ask
// whether it exists takes a permission of any kind.
func accessOf(f command.KeyFlags) (a Access) {
	if f&command.Access != 0 {
		a |= Read
	}
	if f&(command.Insert|command.Delete|command.Update) != 0 {
		a |= Write
	}
	return a
}

func (s *selector) mayUseKey(key []byte, a Access) bool {
	if s.allKeys {
		return true
	}
	for i := range s.keys {
		if k := &s.keys[i]; k.access&a == a && glob.Match(k.bytes, key) {
			return true
		}
	}
	return false
}

// mayUseChannel says whether a pattern of the selector is for the channel. A pattern
// that a client subscribes to must be one of the selector's, letter by letter.
func (s *selector) mayUseChannel(channel []byte, pattern bool) bool {
	if s.allChannels {
		return true
	}
	for _, p := range s.channels {
		if pattern && p == string(channel) || !pattern && glob.Match([]byte(p), channel) {
			return true
		}
	}
	return false
}

// MayUseChannel says whether one of the selectors has the channel, or the pattern
// of channels.
func (u *User) MayUseChannel(channel []byte, pattern bool) bool {
	if u.all {
		return true
	}
	for _, s := range u.selectors {
		if s.mayUseChannel(channel, pattern) {
			return true
		}
	}
	return false
}

// CheckChannels returns the index of the first channel that the user may not use,
// or -1.
func (u *User) CheckChannels(channels [][]byte, pattern bool) int {
	for i, c := range channels {
		if !u.MayUseChannel(c, pattern) {
			return i
		}
	}
	return -1
}

// LosesChannels says whether the change takes the permission for a channel: only
// then need subscribers be looked at.
func (c *Change) LosesChannels() bool {
	if c.Before == nil {
		return false
	}
	has := make(map[string]bool)
	for _, s := range c.After.selectors {
		if s.allChannels {
			return false
		}
		for _, p := range s.channels {
			has[p] = true
		}
	}
	for _, s := range c.Before.selectors {
		if s.allChannels {
			return true
		}
		for _, p := range s.channels {
			if !has[p] {
				return true
			}
		}
	}
	return false
}

// MayUseAllKeys says whether the user may make a call with access to keys that it
// does not name, as SORT with BY has.
func (u *User) MayUseAllKeys(cmd *command.Command, args [][]byte, a Access) bool {
	if u.all {
		return true
	}
	for _, s := range u.selectors {
		if d, _ := s.check(cmd, args); d == Allowed && s.hasAllKeys(a) {
			return true
		}
	}
	return false
}

func (s *selector) hasAllKeys(a Access) bool {
	if s.allKeys {
		return true
	}
	for _, k := range s.keys {
		if k.access&a == a && k.pattern == "*" {
			return true
		}
	}
	return false
}

// Message returns the error text for a denied call. In full, for ACL DRYRUN, it
// names the user and the argument.
func (u *User) Message(d Denial, cmd *command.Command, arg []byte, full bool) string {
	switch {
	case d == ByCommand:
		return "User " + u.name + " has no permissions to run the '" + cmd.FullName + "' command"
	case full:
		return "User " + u.name + " has no permissions to access the '" + string(arg) + "' " + d.String()
	}
	return "No permissions to access a " + d.String()
}

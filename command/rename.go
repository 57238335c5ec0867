package command

import (
	"bytes"
	"slices"
	"strings"
)

// rename-command: a table may find a command by another name, or not at all. The command itself
// is not changed: COMMAND, ACL and statistics show the name that it was declared with, as Redis
// does.

// The texts are those of Redis.
const (
	errRenameMissing = Error("No such command in rename-command")
	errRenameTaken   = Error("Target command name already exists")
)

// Rename makes Find return a command only by the name to, or by no name if to is empty. It must
// not be called while the table is in use.
func (t *Table) Rename(from, to string) error {
	from, to = strings.ToLower(from), strings.ToLower(to)
	c := t.byName[from]
	if c == nil {
		return errRenameMissing
	}
	if to != "" && to != from && t.byName[to] != nil {
		return errRenameTaken
	}
	delete(t.byName, from)
	if to == "" {
		t.list = slices.DeleteFunc(slices.Clone(t.list), func(x *Command) bool { return x == c })
		return nil
	}
	t.byName[to] = c
	t.longest = max(t.longest, len(to))
	return nil
}

// Original finds a command, or a subcommand as in "client|list", by the name that
// it was declared with, whatever it was renamed to.
func (t *Table) Original(name []byte) *Command {
	base, sub, isSub := bytes.Cut(name, []byte("|"))
	for _, c := range t.all {
		if c.Parent == nil && strings.EqualFold(c.Name, string(base)) {
			if isSub {
				return c.Sub(sub)
			}
			return c
		}
	}
	return nil
}

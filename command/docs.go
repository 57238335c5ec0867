package command

import (
	"bytes"
	"strings"

	"redoubt/glob"
	"redoubt/wire"
)

// The replies of COMMAND and its subcommands, made from a table. They have the form of Redis
// 7.2's in both protocols; the commands are in the table's order, while Redis has no order.

const (
	errInvalidCommand = Error("ERR Invalid command specified")
	errNoKeys         = Error("ERR The command has no key arguments")
	errKeysArity      = Error("ERR Invalid number of arguments specified for command")
	errKeysArgs       = Error("ERR Invalid arguments specified for command")
)

// ByFullName finds a command by its name, a subcommand as in "client|list".
func (t *Table) ByFullName(name []byte) *Command {
	base, sub, isSub := bytes.Cut(name, []byte("|"))
	c := t.Lookup(base)
	if c == nil || !isSub {
		return c
	}
	return c.Sub(sub)
}

// WriteInfo answers COMMAND INFO for the given names, or for all commands, as
// COMMAND does, when there are none.
func WriteInfo(t *Table, names [][]byte, w *wire.Writer) {
	if len(names) == 0 {
		w.Array(len(t.list))
		for _, c := range t.list {
			writeInfo(c, w)
		}
		return
	}
	w.Array(len(names))
	for _, name := range names {
		if c := t.ByFullName(name); c != nil {
			writeInfo(c, w)
		} else {
			w.Null()
		}
	}
}

func writeInfo(c *Command, w *wire.Writer) {
	w.Array(10)
	w.BulkString(c.FullName)
	w.Int(int64(c.Arity))
	var flags []string
	for _, f := range FlagNames {
		if c.Flags&f.Flag != 0 {
			flags = append(flags, f.Name)
		}
	}
	writeStatusSet(flags, w)
	first, last, step := c.Legacy()
	w.Int(int64(first))
	w.Int(int64(last))
	w.Int(int64(step))
	var cats []string
	for i, name := range CategoryNames {
		if c.AllCategories()&(1<<i) != 0 {
			cats = append(cats, "@"+name)
		}
	}
	writeStatusSet(cats, w)
	w.Set(len(c.Tips))
	for _, tip := range c.Tips {
		w.BulkString(tip)
	}
	w.Set(len(c.Keys))
	for i := range c.Keys {
		writeKeySpec(&c.Keys[i], w)
	}
	if len(c.Subs) == 0 {
		w.Set(0)
		return
	}
	w.Array(len(c.Subs))
	for _, s := range c.Subs {
		writeInfo(s, w)
	}
}

func writeStatusSet(words []string, w *wire.Writer) {
	w.Set(len(words))
	for _, s := range words {
		w.Status(s)
	}
}

func writeKeyFlags(flags KeyFlags, w *wire.Writer) {
	var names []string
	for _, f := range KeyFlagNames {
		if flags&f.Flag != 0 {
			names = append(names, f.Name)
		}
	}
	writeStatusSet(names, w)
}

func writeKeySpec(s *KeySpec, w *wire.Writer) {
	if s.Notes != "" {
		w.Map(4)
		w.BulkString("notes")
		w.BulkString(s.Notes)
	} else {
		w.Map(3)
	}
	w.BulkString("flags")
	writeKeyFlags(s.Flags, w)
	w.BulkString("begin_search")
	switch b := s.Begin; {
	case b.Unknown:
		writeSpec(w, "unknown")
	case b.Keyword != "":
		writeSpec(w, "keyword", field{"keyword", b.Keyword}, field{"startfrom", b.From})
	default:
		writeSpec(w, "index", field{"index", b.Index})
	}
	w.BulkString("find_keys")
	switch f := s.Find; {
	case f.Unknown:
		writeSpec(w, "unknown")
	case f.KeyNum:
		writeSpec(w, "keynum", field{"keynumidx", f.NumIdx}, field{"firstkey", f.First}, field{"keystep", f.Hops})
	default:
		writeSpec(w, "range", field{"lastkey", f.Last}, field{"keystep", f.Step}, field{"limit", f.Limit})
	}
}

type field struct {
	name  string
	value any // an int or a string
}

func writeSpec(w *wire.Writer, kind string, fields ...field) {
	w.Map(2)
	w.BulkString("type")
	w.BulkString(kind)
	w.BulkString("spec")
	writeFields(w, fields)
}

func writeFields(w *wire.Writer, fields []field) {
	w.Map(len(fields))
	for _, f := range fields {
		w.BulkString(f.name)
		switch v := f.value.(type) {
		case int:
			w.Int(int64(v))
		case string:
			w.BulkString(v)
		case []string:
			writeStatusSet(v, w)
		case []*Arg:
			writeArgs(v, w)
		case []*Command:
			w.Map(len(v))
			for _, c := range v {
				w.BulkString(c.FullName)
				writeDocs(c, w)
			}
		}
	}
}

// WriteDocs answers COMMAND DOCS for those of the names that exist, or for all
// commands when no name is given.
func WriteDocs(t *Table, names [][]byte, w *wire.Writer) {
	found := t.list
	if len(names) > 0 {
		found = nil
		for _, name := range names {
			if c := t.ByFullName(name); c != nil {
				found = append(found, c)
			}
		}
	}
	w.Map(len(found))
	for _, c := range found {
		w.BulkString(c.FullName)
		writeDocs(c, w)
	}
}

func writeDocs(c *Command, w *wire.Writer) {
	var f []field
	add := func(name, v string) {
		if v != "" {
			f = append(f, field{name, v})
		}
	}
	add("summary", c.Summary)
	add("since", c.Since)
	f = append(f, field{"group", string(c.Group)})
	add("complexity", c.Complexity)
	if flags := c.docFlags(); flags != nil {
		f = append(f, field{"doc_flags", flags})
	}
	add("deprecated_since", c.Deprecated)
	add("replaced_by", c.ReplacedBy)
	if args := c.Arguments(); len(args) > 0 {
		f = append(f, field{"arguments", args})
	}
	if len(c.Subs) > 0 {
		f = append(f, field{"subcommands", c.Subs})
	}
	writeFields(w, f)
}

func (c *Command) docFlags() (out []string) {
	if c.Deprecated != "" {
		out = append(out, "deprecated")
	}
	if c.Flags&SysCmd != 0 {
		out = append(out, "syscmd")
	}
	return out
}

func writeArgs(args []*Arg, w *wire.Writer) {
	w.Array(len(args))
	for _, a := range args {
		f := []field{{"name", a.Name}, {"type", string(a.Type)}}
		if !a.group() {
			f = append(f, field{"display_text", a.Display})
		}
		if a.KeySpec >= 0 {
			f = append(f, field{"key_spec_index", a.KeySpec})
		}
		if a.HasToken {
			f = append(f, field{"token", a.Token})
		}
		if a.Since != "" {
			f = append(f, field{"since", a.Since})
		}
		if a.Deprecated != "" {
			f = append(f, field{"deprecated_since", a.Deprecated})
		}
		if flags := a.FlagNames(); flags != nil {
			f = append(f, field{"flags", flags})
		}
		if a.group() {
			f = append(f, field{"arguments", a.Args})
		}
		writeFields(w, f)
	}
}

// FlagNames are the argument's flags as COMMAND DOCS names them.
func (a *Arg) FlagNames() (out []string) {
	if a.Optional {
		out = append(out, "optional")
	}
	if a.Multiple {
		out = append(out, "multiple")
	}
	if a.MultipleToken {
		out = append(out, "multiple_token")
	}
	return out
}

// WriteList answers COMMAND LIST; args are those behind LIST.
func WriteList(t *Table, args [][]byte, w *wire.Writer) error {
	keep := func(*Command) bool { return true }
	if len(args) > 0 {
		if len(args) != 3 || !strings.EqualFold(string(args[0]), "filterby") {
			return ErrSyntax
		}
		switch strings.ToLower(string(args[1])) {
		case "module":
			keep = func(*Command) bool { return false } // there are no modules
		case "aclcat":
			cat := CategoryByName(string(args[2]))
			keep = func(c *Command) bool { return c.AllCategories()&cat != 0 }
		case "pattern":
			keep = func(c *Command) bool { return glob.MatchFold(args[2], []byte(c.FullName)) }
		default:
			return ErrSyntax
		}
	}
	var names []string
	for _, top := range t.list { // not of all: some were taken away by Rename
		for _, c := range append([]*Command{top}, top.Subs...) {
			if keep(c) {
				names = append(names, c.FullName)
			}
		}
	}
	w.Array(len(names))
	for _, name := range names {
		w.BulkString(name)
	}
	return nil
}

// CategoryByName finds an ACL category by its name in any case; zero when there
// is none.
func CategoryByName(name string) Category {
	for i, n := range CategoryNames {
		if strings.EqualFold(n, name) {
			return 1 << i
		}
	}
	return 0
}

// WriteKeys answers COMMAND GETKEYS and, with flags, GETKEYSANDFLAGS. call is a
// whole call of a command.
func WriteKeys(t *Table, call [][]byte, flags bool, w *wire.Writer) error {
	c := t.Find(call)
	switch {
	case c == nil || len(c.Subs) > 0 && len(call) > 1:
		return errInvalidCommand
	case !c.hasKeys():
		return errNoKeys
	case !c.ArityOK(len(call)):
		return errKeysArity
	}
	type key struct {
		at    int
		flags KeyFlags
	}
	var keys []key
	ok := c.EachKey(call, func(i int, s *KeySpec) {
		keys = append(keys, key{i, s.FlagsOf(call)})
	})
	if !ok || len(keys) == 0 {
		if c.Flags&NoMandatoryKeys == 0 {
			return errKeysArgs
		}
		keys = nil
	}
	w.Array(len(keys))
	for _, k := range keys {
		if flags {
			w.Array(2)
		}
		w.Bulk(call[k.at])
		if flags {
			writeKeyFlags(k.flags, w)
		}
	}
	return nil
}

// hasKeys reports whether one of the specs finds real keys.
func (c *Command) hasKeys() bool {
	for i := range c.Keys {
		if c.Keys[i].Flags&NotKey == 0 {
			return true
		}
	}
	return false
}

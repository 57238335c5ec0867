// Package commandtest compares a table of commands with what a real Redis says
// about its commands. Package command tests its own commands with it, package
// server the whole table.
//
// Every difference must be in the list in differences.go with its reason; a
// difference that is not listed fails, and so does a listed one that is gone.
package commandtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"redoubt/command"
)

// Recorded is what a Redis says about one command. Empty fields are left out of
// the files.
type Recorded struct {
	Name       string        `json:"name"`
	Arity      int           `json:"arity"`
	Flags      []string      `json:"flags"`
	FirstKey   int           `json:"first_key"`
	LastKey    int           `json:"last_key"`
	Step       int           `json:"step"`
	Categories []string      `json:"acl_categories"`
	Tips       []string      `json:"tips"`
	KeySpecs   []KeySpec     `json:"key_specs"`
	Since      string        `json:"since"`
	Group      string        `json:"group"`
	DocFlags   []string      `json:"doc_flags"`
	Deprecated string        `json:"deprecated_since"`
	Arguments  []RecordedArg `json:"arguments"`
}

// KeySpec is a key specification as it is recorded.
type KeySpec struct {
	Flags []string `json:"flags"`
	Begin Search   `json:"begin_search"`
	Find  Search   `json:"find_keys"`
}

// Search is one half of a key specification.
type Search struct {
	Type string         `json:"type"`
	Spec map[string]any `json:"spec"`
}

// RecordedArg is an argument as it is recorded.
type RecordedArg struct {
	Name       string        `json:"name"`
	Type       string        `json:"type"`
	Display    string        `json:"display_text"`
	Token      *string       `json:"token"`
	KeySpec    *int          `json:"key_spec_index"`
	Since      string        `json:"since"`
	Deprecated string        `json:"deprecated_since"`
	Flags      []string      `json:"flags"`
	Arguments  []RecordedArg `json:"arguments"`
}

// Load reads the files of recorded commands in a directory.
func Load(dir string) (map[string]*Recorded, error) {
	files, err := filepath.Glob(filepath.Join(dir, "redis-*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no recorded commands in %s: %w", dir, err)
	}
	out := make(map[string]*Recorded)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("recorded commands: %w", err)
		}
		var content struct {
			Commands []*Recorded `json:"commands"`
		}
		if err := json.Unmarshal(b, &content); err != nil {
			return nil, fmt.Errorf("recorded commands in %s: %w", file, err)
		}
		for _, r := range content.Commands {
			out[r.Name] = r
		}
	}
	return out, nil
}

// Options say where things are, seen from the test that calls Check.
type Options struct {
	Recorded string // the directory of the recorded commands
	Scripts  string // the directory of the command scripts; "" does not look
	Whole    bool   // the table is the server's: commands that are missing count
}

// Check compares a table with the recorded commands.
func Check(t *testing.T, table *command.Table, o Options) {
	recorded, err := Load(o.Recorded)
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{t: t, stale: make(map[string]string)}
	have := make(map[string]bool)
	for _, cmd := range table.All() {
		have[cmd.FullName] = true
		for key, reason := range differences {
			if name, _, _ := strings.Cut(key, " "); name == cmd.FullName {
				c.stale[key] = reason
			}
		}
	}
	for _, cmd := range table.All() {
		c.command(cmd, recorded[cmd.FullName])
		if o.Scripts != "" {
			c.script(cmd, o.Scripts)
		}
	}
	if o.Whole {
		c.missing(recorded, have)
		for key, reason := range differences {
			if name, field, _ := strings.Cut(key, " "); field == "missing" && have[name] {
				c.stale[key] = reason
			}
		}
	}
	if len(c.noScript) > 0 {
		t.Errorf("%d commands have no script in %s: %s", len(c.noScript), o.Scripts, strings.Join(c.noScript, " "))
	}
	for key := range c.stale {
		t.Errorf("%s no longer differs; take it off the list in differences.go", key)
	}
}

type checker struct {
	t        *testing.T
	stale    map[string]string // of the listed differences, those not met yet
	noScript []string
}

// missing compares the commands that we do not have with the lists.
func (c *checker) missing(recorded map[string]*Recorded, have map[string]bool) {
	groups := make(map[string]bool)
	var names []string
	for name, r := range recorded {
		_, listed := differences[name+" missing"]
		switch {
		case have[name] || listed:
		case unfinished[r.Group] != "":
			groups[r.Group] = true
		default:
			names = append(names, name)
		}
	}
	sort.Strings(names)
	if len(names) > 0 {
		c.t.Errorf("%d commands are missing: %s", len(names), strings.Join(names, " "))
	}
	for g := range unfinished {
		if !groups[g] {
			c.t.Errorf("the group %s is finished; take it off the list in differences.go", g)
		}
	}
}

// differ notes a difference; want is what Redis says.
func (c *checker) differ(name, field, got, want string) {
	key := name + " " + field
	if _, ok := differences[key]; ok {
		delete(c.stale, key)
		return
	}
	c.t.Errorf("%s:\n  we    %s\n  Redis %s", key, got, want)
}

func (c *checker) command(cmd *command.Command, r *Recorded) {
	name := cmd.FullName
	if cmd.Summary == "" {
		c.t.Errorf("%s has no summary", name)
	}
	if _, err := command.ParseSyntax(cmd.Syntax); err != nil {
		c.t.Errorf("%s: %v", name, err)
		return
	}
	if r == nil {
		c.differ(name, "new", "the command is not recorded", "")
		return
	}
	first, last, step := cmd.Legacy()
	for _, f := range []struct{ field, got, want string }{
		{"arity", fmt.Sprint(cmd.Arity), fmt.Sprint(r.Arity)},
		{"flags", flags(cmd), words(r.Flags)},
		{"legacy_keys", fmt.Sprint(first, last, step), fmt.Sprint(r.FirstKey, r.LastKey, r.Step)},
		{"acl_categories", categories(cmd), words(r.Categories)},
		{"tips", words(cmd.Tips), words(r.Tips)},
		{"key_specs", keySpecs(cmd), r.keySpecs()},
		{"since", cmd.Since, r.Since},
		{"group", string(cmd.Group), r.Group},
		{"deprecated_since", cmd.Deprecated, r.Deprecated},
		{"arguments", Format(cmd.Arguments()), Format(r.Args())},
	} {
		if f.got != f.want {
			c.differ(name, f.field, f.got, f.want)
		}
	}
}

// script looks for the command's script, testdata/<group>/<name>.txt; that of a
// container may cover its subcommands.
func (c *checker) script(cmd *command.Command, dir string) {
	names := []string{strings.ReplaceAll(cmd.FullName, "|", "_")}
	if cmd.Parent != nil {
		names = append(names, cmd.Parent.Name)
	}
	if len(cmd.Subs) > 0 || cmd.Parent != nil && cmd.Name == "help" {
		return // its subcommands have scripts; and the texts of HELP are our own
	}
	for _, name := range names {
		if found, err := filepath.Glob(filepath.Join(dir, "*", name+".txt")); err == nil && len(found) > 0 {
			return
		}
	}
	key := cmd.FullName + " script"
	if _, ok := differences[key]; ok {
		delete(c.stale, key)
		return
	}
	c.noScript = append(c.noScript, names[0])
}

// words sorts and joins.
func words(list []string) string {
	list = append([]string(nil), list...)
	sort.Strings(list)
	return strings.Join(list, " ")
}

func flags(cmd *command.Command) string {
	var out []string
	for _, f := range command.FlagNames {
		if cmd.Flags&f.Flag != 0 {
			out = append(out, f.Name)
		}
	}
	return words(out)
}

func categories(cmd *command.Command) string {
	var out []string
	for i, name := range command.CategoryNames {
		if cmd.AllCategories()&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return words(out)
}

func keySpecs(cmd *command.Command) string {
	var out []string
	for _, s := range cmd.Keys {
		var f []string
		for _, name := range command.KeyFlagNames {
			if s.Flags&name.Flag != 0 {
				f = append(f, name.Name)
			}
		}
		var begin, find string
		switch b := s.Begin; {
		case b.Unknown:
			begin = "unknown"
		case b.Keyword != "":
			begin = fmt.Sprintf("keyword %s from %d", b.Keyword, b.From)
		default:
			begin = fmt.Sprintf("index %d", b.Index)
		}
		switch k := s.Find; {
		case k.Unknown:
			find = "unknown"
		case k.KeyNum:
			find = fmt.Sprintf("keynum %d %d %d", k.NumIdx, k.First, k.Hops)
		default:
			find = fmt.Sprintf("range %d %d %d", k.Last, k.Step, k.Limit)
		}
		out = append(out, fmt.Sprintf("{%s; %s; %s}", words(f), begin, find))
	}
	return strings.Join(out, " ")
}

func (r *Recorded) keySpecs() string {
	var out []string
	for _, s := range r.KeySpecs {
		begin, find := s.Begin.Type, s.Find.Type
		switch begin {
		case "keyword":
			begin = fmt.Sprintf("keyword %v from %v", s.Begin.Spec["keyword"], s.Begin.Spec["startfrom"])
		case "index":
			begin = fmt.Sprintf("index %v", s.Begin.Spec["index"])
		}
		switch find {
		case "keynum":
			find = fmt.Sprintf("keynum %v %v %v", s.Find.Spec["keynumidx"], s.Find.Spec["firstkey"], s.Find.Spec["keystep"])
		case "range":
			find = fmt.Sprintf("range %v %v %v", s.Find.Spec["lastkey"], s.Find.Spec["keystep"], s.Find.Spec["limit"])
		}
		out = append(out, fmt.Sprintf("{%s; %s; %s}", words(s.Flags), begin, find))
	}
	return strings.Join(out, " ")
}

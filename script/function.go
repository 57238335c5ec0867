package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"redoubt/command"
	"redoubt/glob"
	"redoubt/rdb"
)

// FUNCTION.

// FunctionCommands returns the subcommands of FUNCTION that are run as transactions.
func (e *Engine) FunctionCommands() []*command.Command {
	const write = command.Write | command.NoScript
	tips := []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	return []*command.Command{
		{
			// OnWorker, not Exclusive: the code is compiled and run before the keyspace latch
			// is taken.
			Name: "load", Group: command.Scripting, Since: "7.0.0", Arity: -3, Flags: write | command.DenyOOM | command.OnWorker,
			Tips:       tips,
			Syntax:     "[REPLACE] function-code",
			Summary:    "Stores a library and the functions that it registers.",
			Complexity: "O(n) in the length of the code",
			Run:        e.functionLoad,
		},
		{
			Name: "delete", Group: command.Scripting, Since: "7.0.0", Arity: 3, Flags: write | command.Exclusive,
			Tips:       tips,
			Syntax:     "library-name",
			Summary:    "Deletes a library with its functions.",
			Complexity: "O(n) in the number of functions",
			Run:        e.functionDelete,
		},
		{
			Name: "flush", Group: command.Scripting, Since: "7.0.0", Arity: -2, Flags: write | command.Exclusive | command.AlwaysPropagates,
			Tips:       tips,
			Syntax:     "[ASYNC|SYNC]",
			Summary:    "Deletes all libraries.",
			Complexity: "O(n) in the number of functions",
			Run:        e.functionFlush,
		},
		{
			Name: "restore", Group: command.Scripting, Since: "7.0.0", Arity: -3, Flags: write | command.DenyOOM | command.OnWorker,
			Tips:       tips,
			Syntax:     "serialized-value [policy=<FLUSH|APPEND|REPLACE>]",
			Summary:    "Stores the libraries of a payload that FUNCTION DUMP made.",
			Complexity: "O(n) in the length of the payload",
			Run:        e.functionRestore,
		},
		{
			Name: "dump", Group: command.Scripting, Since: "7.0.0", Arity: 2, Flags: command.NoScript,
			Summary:    "Shows all libraries in the form that FUNCTION RESTORE reads.",
			Complexity: "O(n) in the length of the libraries",
			Run:        e.functionDump,
		},
		{
			Name: "list", Group: command.Scripting, Since: "7.0.0", Arity: -2, Flags: command.NoScript,
			Tips:       []string{"nondeterministic_output_order"},
			Syntax:     "[LIBRARYNAME library-name-pattern] [WITHCODE]",
			Summary:    "Lists the libraries with their functions.",
			Complexity: "O(n) in the number of functions",
			Run:        e.functionList,
		},
	}
}

func (e *Engine) functionLoad(c *command.Ctx) error {
	replace, last := false, len(c.Args)-1
	for _, a := range c.Args[2:last] {
		if !isWord(a, "replace") {
			return command.Error("ERR Unknown option given: " + cut(string(a)))
		}
		replace = true
	}
	source := string(c.Args[last])
	name, _, err := libraryHead(source)
	if err != nil {
		return err
	}
	if e.view(c).libraries[name] != nil && !replace {
		return command.Error("ERR Library '" + name + "' already exists")
	}
	l, err := e.prepare(source)
	if err != nil {
		return clientError(err, "the library", e.Memory())
	}
	if c.Tx.WantsOneState() {
		return c.Tx.Err()
	}
	r := e.view(c)
	if r.libraries[name] != nil {
		if !replace {
			return command.Error("ERR Library '" + name + "' already exists")
		}
		r = r.clone()
		r.remove(name)
	}
	if err := r.clash(l); err != nil {
		return err
	}
	c.Tx.PutLibrary(name, source)
	c.Reply.BulkString(name)
	return nil
}

// clientError turns an error of loading a library into one for the client.
func clientError(err error, what string, limit int64) error {
	var own command.Error
	if errors.As(err, &own) {
		return err
	}
	return command.Error(fmt.Sprintf("ERR Error registering functions: %s needs more than the %d bytes that lua-memory-limit allows", what, limit))
}

func (e *Engine) functionDelete(c *command.Ctx) error {
	name := string(c.Args[2])
	if e.view(c).libraries[name] == nil {
		return errNoLibrary
	}
	c.Tx.DeleteLibrary(name)
	c.Reply.OK()
	return nil
}

func (e *Engine) functionFlush(c *command.Ctx) error {
	if len(c.Args) > 3 {
		return syntaxError(c.Args)
	}
	if len(c.Args) == 3 && !isWord(c.Args[2], "async") && !isWord(c.Args[2], "sync") {
		return errFuncSync
	}
	r := e.view(c)
	for _, name := range slices.Sorted(maps.Keys(r.libraries)) {
		c.Tx.DeleteLibrary(name)
	}
	c.Reply.OK()
	return nil
}

// syntaxError is the error of a subcommand with wrong arguments.
func syntaxError(args [][]byte) error {
	return command.Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.",
		args[1], strings.ToUpper(string(args[0]))))
}

func (e *Engine) functionDump(c *command.Ctx) error {
	r := e.view(c)
	var sources []string
	for _, name := range slices.Sorted(maps.Keys(r.libraries)) {
		sources = append(sources, r.libraries[name].source)
	}
	c.Reply.Bulk(rdb.AppendLibraries(nil, sources))
	return nil
}

// fit compiles libraries and returns a registry of them alone.
func (e *Engine) fit(sources []string) (*registry, error) {
	fresh := emptyRegistry()
	for _, s := range sources {
		l, err := e.prepare(s)
		if err != nil {
			return nil, clientError(err, "a library", e.Memory())
		}
		if fresh.libraries[l.name] != nil {
			return nil, command.Error("ERR Library '" + l.name + "' already exists")
		}
		if err := fresh.clash(l); err != nil {
			return nil, err
		}
		fresh.add(l)
	}
	return fresh, nil
}

// CheckLibraries returns an error unless these libraries can be loaded together into an
// empty registry.
func (e *Engine) CheckLibraries(sources []string) error {
	_, err := e.fit(sources)
	return err
}

func (e *Engine) functionRestore(c *command.Ctx) error {
	if len(c.Args) > 4 {
		return syntaxError(c.Args)
	}
	flush, replace := false, false
	if len(c.Args) == 4 {
		switch {
		case isWord(c.Args[3], "append"):
		case isWord(c.Args[3], "replace"):
			replace = true
		case isWord(c.Args[3], "flush"):
			flush = true
		default:
			return errPolicy
		}
	}
	sources, err := rdb.Libraries(c.Args[2])
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return errPayload
	case err != nil:
		return command.Error("ERR " + err.Error())
	}
	// The libraries of the payload must not clash among themselves.
	fresh, err := e.fit(sources)
	if err != nil {
		return err
	}
	if c.Tx.WantsOneState() {
		return c.Tx.Err()
	}
	names := slices.Sorted(maps.Keys(fresh.libraries))
	r := e.view(c).clone()
	for _, name := range slices.Sorted(maps.Keys(r.libraries)) {
		switch {
		case flush:
			c.Tx.DeleteLibrary(name)
			r.remove(name)
		case fresh.libraries[name] != nil && !replace:
			return command.Error("ERR Library " + name + " already exists")
		case fresh.libraries[name] != nil:
			r.remove(name)
		}
	}
	for _, name := range names {
		if err := r.clash(fresh.libraries[name]); err != nil {
			return err
		}
	}
	for _, name := range names {
		c.Tx.PutLibrary(name, fresh.libraries[name].source)
	}
	c.Reply.OK()
	return nil
}

func (e *Engine) functionList(c *command.Ctx) error {
	var pattern []byte
	code := false
	for i := 2; i < len(c.Args); i++ {
		switch {
		case !code && isWord(c.Args[i], "withcode"):
			code = true
		case pattern == nil && isWord(c.Args[i], "libraryname"):
			if i++; i == len(c.Args) {
				return errNameless
			}
			pattern = c.Args[i]
		default:
			return command.Error("ERR Unknown argument " + cut(string(c.Args[i])))
		}
	}
	r := e.view(c)
	var list []*library
	for _, name := range slices.Sorted(maps.Keys(r.libraries)) {
		if pattern == nil || glob.MatchFold(pattern, []byte(name)) {
			list = append(list, r.libraries[name])
		}
	}
	c.Reply.Array(len(list))
	for _, l := range list {
		l.write(c, code)
	}
	return nil
}

// write describes a library.
func (l *library) write(c *command.Ctx, code bool) {
	w, fields := c.Reply, 3
	if code {
		fields++
	}
	w.Map(fields)
	w.BulkString("library_name")
	w.BulkString(l.name)
	w.BulkString("engine")
	w.BulkString("LUA")
	w.BulkString("functions")
	w.Array(len(l.functions))
	for _, f := range l.functions {
		w.Map(3)
		w.BulkString("name")
		w.BulkString(f.name)
		w.BulkString("description")
		if f.description != nil {
			w.BulkString(*f.description)
		} else {
			w.Null()
		}
		w.BulkString("flags")
		f.writeFlags(c)
	}
	if code {
		w.BulkString("library_code")
		w.BulkString(l.source)
	}
}

func (f *function) writeFlags(c *command.Ctx) {
	n := 0
	for _, known := range flagNames {
		if f.flags&known.flag != 0 {
			n++
		}
	}
	c.Reply.Set(n)
	for _, known := range flagNames {
		if f.flags&known.flag != 0 {
			c.Reply.Status(known.name)
		}
	}
}

package script

import (
	"maps"
	"strings"

	"redoubt/command"
	"redoubt/keyspace"
)

// registry holds all libraries. A published registry is immutable: a change makes a new one.
type registry struct {
	version   uint64
	libraries map[string]*library
	functions map[string]*function // by their names in lower case
	bytes     int64
}

func emptyRegistry() *registry {
	return &registry{libraries: make(map[string]*library), functions: make(map[string]*function)}
}

// function finds a function by its name in any case.
func (r *registry) function(name []byte) *function {
	var buf [64]byte
	if len(name) > len(buf) {
		return r.functions[strings.ToLower(string(name))]
	}
	for i, c := range name {
		if c-'A' < 26 {
			c |= 32
		}
		buf[i] = c
	}
	return r.functions[string(buf[:len(name)])]
}

func (r *registry) clone() *registry {
	return &registry{
		version: r.version + 1, libraries: maps.Clone(r.libraries), functions: maps.Clone(r.functions), bytes: r.bytes,
	}
}

// remove removes a library from a registry that is not published yet.
func (r *registry) remove(name string) {
	l := r.libraries[name]
	if l == nil {
		return
	}
	delete(r.libraries, name)
	r.bytes -= l.size()
	for _, f := range l.functions {
		if key := strings.ToLower(f.name); r.functions[key] == f {
			delete(r.functions, key)
		}
	}
}

// add adds a library to a registry that is not published yet.
func (r *registry) add(l *library) {
	r.remove(l.name)
	r.libraries[l.name] = l
	r.bytes += l.size()
	for _, f := range l.functions {
		if key := strings.ToLower(f.name); r.functions[key] == nil {
			r.functions[key] = f
		}
	}
}

// clash returns an error if a function of the library is in the registry.
func (r *registry) clash(l *library) error {
	for _, f := range l.functions {
		if r.functions[strings.ToLower(f.name)] != nil {
			return command.Error("ERR Function " + f.name + " already exists")
		}
	}
	return nil
}

// size returns about how many bytes a library takes.
func (l *library) size() int64 {
	n := int64(len(l.source)+len(l.name)) + 512
	for _, f := range l.functions {
		n += int64(len(f.name)) + 128
		if f.description != nil {
			n += int64(len(*f.description))
		}
	}
	return n
}

// publish applies changes that were committed.
func (e *Engine) publish(changes []keyspace.LibraryChange) {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.registry.Store(e.apply(e.registry.Load(), changes))
	e.prepared.drop()
}

// apply returns the registry with changes.
func (e *Engine) apply(r *registry, changes []keyspace.LibraryChange) *registry {
	if len(changes) == 0 {
		return r
	}
	r = r.clone()
	for _, c := range changes {
		if c.Source == "" {
			r.remove(c.Name)
			continue
		}
		l, err := e.prepare(c.Source)
		if err != nil {
			// It was loaded once, so another version of this program wrote it.
			e.Logger.Error("a library of functions cannot be loaded, and its functions cannot be called", "library", c.Name, "err", err)
			continue
		}
		r.add(l)
	}
	return r
}

// view returns the registry as an execution sees it: with the changes of its own batch.
func (e *Engine) view(c *command.Ctx) *registry {
	r := e.registry.Load()
	if changes := c.Tx.LibraryChanges(); len(changes) > 0 {
		return e.apply(r, changes)
	}
	return r
}

func (e *Engine) fcall(c *command.Ctx, ro bool) error {
	f := e.view(c).function(c.Args[1])
	if f == nil {
		return errNoFunction
	}
	numkeys, err := numKeys(c.Args, errBadKeys)
	if err != nil {
		return err
	}
	return e.execute(c, &f.program, numkeys, ro)
}

package script

import (
	"crypto/sha1"
	"slices"
	"strings"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/lua"
)

// library is a compiled library of functions. Its code was run once to find out
// which functions it registers; each interpreter that calls one of them runs the code
// once more, to have the functions as values. So each interpreter has its own local
// variables of a library: they are for constants, not for data.
type library struct {
	name      string
	source    string
	proto     *lua.Proto
	functions []*function // by name
}

// function is a function that a library has registered.
type function struct {
	program
	description *string
}

// loading is the run of a library's code.
type loading struct {
	lib   *library
	found map[string]lua.Value
	seen  []*function
	start time.Time // unused when an interpreter runs the code again
}

const (
	// loadTime is how long a library may take to register its functions.
	loadTime = 500 * time.Millisecond
	// loadTick is after how many instructions the time is checked.
	loadTick = 20000
)

// prepare compiles a library and runs its code. Errors are for the client.
func (e *Engine) prepare(source string) (*library, error) {
	if l := e.prepared.get(source); l != nil {
		return l, nil
	}
	name, code, err := libraryHead(source)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(source[code:], "user_function")
	if err != nil {
		return nil, command.Error("ERR Error compiling function: " + err.Error())
	}
	l := &library{name: name, source: source, proto: proto}
	st := e.functions.get()
	defer e.functions.put(st)
	ld := &loading{lib: l, found: make(map[string]lua.Value), start: time.Now()}
	st.SetLimit(e.Memory())
	st.SetGrant(nil)
	st.SetBudget(loadTick, func() error {
		if time.Since(ld.start) > loadTime {
			return errLoadTime
		}
		return nil
	})
	err = st.load(ld)
	st.flushLog()
	st.run = run{logs: st.run.logs[:0]}
	st.Reset()
	if err != nil {
		return nil, err
	}
	if len(ld.seen) == 0 {
		return nil, command.Error("ERR No functions registered")
	}
	l.functions = ld.seen
	slices.SortFunc(l.functions, func(a, b *function) int { return strings.Compare(a.name, b.name) })
	st.purge()
	st.loaded[l] = ld.found
	e.prepared.put(l)
	return l, nil
}

const errLoadTime = command.Error("ERR Error registering functions: ERR " + msgLoadTimeout)

// load runs the code of a library in this interpreter.
func (st *state) load(ld *loading) error {
	st.loading = ld
	st.setIndex(st.loadGlobals)
	_, err := st.Call(st.Load(ld.lib.proto))
	st.setIndex(st.functionGlobals)
	st.loading = nil
	if err == nil {
		return nil
	}
	raised, ok := err.(*lua.Error)
	if !ok {
		return err
	}
	msg := "ERR " + describe(raised.Value)
	if raised.Value.Kind() == lua.KindTable {
		msg, _ = raised.Value.Table().GetStr("err").ToString()
	}
	return command.Error("ERR Error registering functions: " + errorText(msg))
}

// setIndex chooses the table in which globals are looked up: whole or lean.
func (st *state) setIndex(v lua.Value) {
	st.index.SetReadonly(false)
	set(st.index, "__index", v)
	st.index.SetReadonly(true)
}

// function returns a function as a value of this interpreter.
func (st *state) function(p *program) (lua.Value, error) {
	if fs := st.loaded[p.lib]; fs != nil {
		return fs[p.name], nil
	}
	st.purge()
	ld := &loading{lib: p.lib, found: make(map[string]lua.Value)}
	if err := st.load(ld); err != nil {
		return lua.Nil, err
	}
	st.loaded[p.lib] = ld.found
	return ld.found[p.name], nil
}

// purge forgets libraries that are not in the registry any more.
func (st *state) purge() {
	r := st.e.registry.Load()
	if r.version == st.version {
		return
	}
	for l := range st.loaded {
		if r.libraries[l.name] != l {
			delete(st.loaded, l)
		}
	}
	st.version = r.version
}

// prepared keeps compiled libraries while they are loaded: a command that changes libraries
// is run a second time under the keyspace latch, and its change is then published.
type prepared struct {
	mu   sync.Mutex
	libs map[digest]*library
}

const maxPrepared = 256

func (p *prepared) get(source string) *library {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.libs) == 0 {
		return nil
	}
	return p.libs[sha1.Sum([]byte(source))]
}

func (p *prepared) put(l *library) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.libs == nil || len(p.libs) >= maxPrepared {
		p.libs = make(map[digest]*library)
	}
	p.libs[sha1.Sum([]byte(l.source))] = l
}

func (p *prepared) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.libs = nil
}

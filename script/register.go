package script

import (
	"strings"

	"redoubt/lua"
)

// redis.register_function, which a library calls while it is loaded: its arguments are a name
// and a function, or a table of named arguments.

func (st *state) registerFunction(c *lua.Call) error {
	if st.loading == nil {
		return raise(c, "redis.register_function can only be called on FUNCTION LOAD command")
	}
	f := &function{program: program{lib: st.loading.lib}}
	var callback lua.Value
	var msg string
	switch c.Len() {
	case 1:
		callback, msg = f.named(c.Arg(0))
	case 2:
		callback, msg = f.positional(c.Arg(0), c.Arg(1))
	default:
		msg = "wrong number of arguments to redis.register_function"
	}
	if msg == "" {
		switch _, twice := st.loading.found[f.name]; {
		case !validName(f.name):
			msg = msgLibraryNames
		case twice:
			msg = "Function already exists in the library"
		}
	}
	if msg != "" {
		return raise(c, msg)
	}
	st.loading.found[f.name] = callback
	st.loading.seen = append(st.loading.seen, f)
	return nil
}

func (f *function) positional(name, callback lua.Value) (lua.Value, string) {
	text, ok := name.ToString()
	if !ok {
		return lua.Nil, "first argument to redis.register_function must be a string"
	}
	if callback.Kind() != lua.KindFunction {
		return lua.Nil, "second argument to redis.register_function must be a function"
	}
	f.name = text
	return callback, ""
}

func (f *function) named(v lua.Value) (callback lua.Value, msg string) {
	if v.Kind() != lua.KindTable {
		return lua.Nil, "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
	}
	named := false
	t := v.Table()
	for key, val, ok, err := t.Next(lua.Nil); ok && err == nil; key, val, ok, err = t.Next(key) {
		word, ok := key.ToString()
		if !ok {
			return lua.Nil, "named argument key given to redis.register_function is not a string"
		}
		text, isText := val.ToString()
		switch strings.ToLower(word) {
		case "function_name":
			if !isText {
				return lua.Nil, "function_name argument given to redis.register_function must be a string"
			}
			f.name, named = text, true
		case "description":
			if !isText {
				return lua.Nil, "description argument given to redis.register_function must be a string"
			}
			f.description = &text
		case "callback":
			if val.Kind() != lua.KindFunction {
				return lua.Nil, "callback argument given to redis.register_function must be a function"
			}
			callback = val
		case "flags":
			if val.Kind() != lua.KindTable {
				return lua.Nil, "flags argument to redis.register_function must be a table representing function flags"
			}
			if !f.readFlags(val.Table()) {
				return lua.Nil, "unknown flag given"
			}
		default:
			return lua.Nil, "unknown argument given to redis.register_function"
		}
	}
	switch {
	case !named:
		return lua.Nil, "redis.register_function must get a function name argument"
	case callback.IsNil():
		return lua.Nil, "redis.register_function must get a callback argument"
	}
	return callback, ""
}

func (f *function) readFlags(t *lua.Table) bool {
	for i := 1; ; i++ {
		v := t.GetInt(i)
		if v.IsNil() {
			return true
		}
		name, ok := v.ToString()
		if !ok {
			return false
		}
		flag, ok := flagByName(name, true)
		if !ok {
			return false
		}
		f.flags |= flag
	}
}

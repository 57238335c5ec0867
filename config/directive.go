package config

import (
	"slices"
	"strconv"
)

// Directive is one row of the table of directives. A row is a value: what a
// directive is set to lives in Config.
type Directive struct {
	Name    string
	Aliases []string
	// Quiet are names that work but that no pattern of CONFIG GET finds: those
	// that versions of Redis after 7.2 have given the directive.
	Quiet   []string
	Kind    Kind
	Default string // in the form that CONFIG GET shows
	Flags   Flags
	// Doc says what the directive means where that differs from Redis.
	Doc string

	low    int64
	high   uint64
	values []string // of an enumeration
	// parse replaces the reading of the kind. Its words are the value's; it
	// returns the value in the form that CONFIG GET shows.
	parse func(c *Config, words []string, loading bool) (string, error)
	// check may refuse a value that the kind allows.
	check func(v value, loading bool) error
	// cap clamps a number that Redis accepts to the range that Redis uses.
	cap func(n int64) int64
}

// Kind is the form of a directive's value.
type Kind uint8

const (
	Bool Kind = iota
	Int
	Memory          // a number of bytes, with units
	MemoryOrPercent // stored negative when it is a percentage
	Octal
	Enum
	EnumMulti // several words of an enumeration
	String
	Special // has a parse function of its own
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"yes or no", "number", "bytes", "bytes or percentage", "octal number", "one of", "some of", "text", "words"}[k]
}

// Flags of a directive.
type Flags uint16

const (
	// Immutable: only the configuration file and the command line set it. One
	// of our own may be set to what it is already.
	Immutable Flags = 1 << iota
	// Hidden: CONFIG GET shows it by its exact name only.
	Hidden
	// Sensitive: its value must not appear in logs, MONITOR or SLOWLOG.
	Sensitive
	// MultiArg: its value is a list of words.
	MultiArg
	// Protected: enable-protected-configs must allow CONFIG SET.
	Protected
	// DenyLoading: CONFIG SET is refused while data is being loaded.
	DenyLoading
	// Volatile: setting the same value again applies it again, as with files
	// whose content may have changed.
	Volatile
	// NullEmpty: the empty string means that it is not set.
	NullEmpty
	// Own: the directive, its default or its meaning is ours, not Redis's.
	Own
	// AlwaysWritten: CONFIG REWRITE writes it even at its default.
	AlwaysWritten
)

const (
	maxInt32  = 1<<31 - 1
	maxUint32 = 1<<32 - 1
	maxInt64  = 1<<63 - 1
	maxUint64 = 1<<64 - 1
	minInt32  = -1 << 31
	anyPort   = 65535
)

// The functions below build the rows.

func yesNo(name, def string) Directive {
	return Directive{Name: name, Kind: Bool, Default: def}
}

func integer(name string, def, low int64, high uint64) Directive {
	return Directive{Name: name, Kind: Int, Default: strconv.FormatInt(def, 10), low: low, high: high}
}

func memory(name string, def, low int64, high uint64) Directive {
	return Directive{Name: name, Kind: Memory, Default: strconv.FormatInt(def, 10), low: low, high: high}
}

func oneOf(name, def string, values ...string) Directive {
	return Directive{Name: name, Kind: Enum, Default: def, values: values}
}

func someOf(name, def string, values ...string) Directive {
	return Directive{Name: name, Kind: EnumMulti, Default: def, values: values, Flags: MultiArg}
}

func text(name, def string) Directive {
	return Directive{Name: name, Kind: String, Default: def}
}

// nullable is a string that is not set by default.
func nullable(name string) Directive {
	return Directive{Name: name, Kind: String, Flags: NullEmpty}
}

func special(name, def string, parse func(*Config, []string, bool) (string, error)) Directive {
	return Directive{Name: name, Kind: Special, Default: def, parse: parse}
}

func (d Directive) alias(names ...string) Directive {
	d.Aliases = names
	return d
}

func (d Directive) quiet(names ...string) Directive {
	d.Quiet = names
	return d
}

func (d Directive) with(f Flags) Directive {
	d.Flags |= f
	return d
}

func (d Directive) valid(check func(v value, loading bool) error) Directive {
	d.check = check
	return d
}

func (d Directive) capped(low, high int64) Directive {
	d.cap = func(n int64) int64 { return max(low, min(high, n)) }
	return d
}

func (d Directive) doc(s string) Directive {
	d.Doc = s
	return d.with(Own)
}

// Meaning says in a sentence what the directive does.
func (d *Directive) Meaning() string {
	if d.Doc != "" {
		return d.Doc
	}
	if m := meanings[d.Name]; m != "" {
		return m
	}
	return noEffect
}

// NoEffect reports whether the directive is only kept, for files and tools of Redis.
func (d *Directive) NoEffect() bool { return d.Meaning() == noEffect }

// Values are the words of an enumeration.
func (d *Directive) Values() []string { return slices.Clone(d.values) }

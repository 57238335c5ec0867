package commandtest

import (
	"fmt"
	"slices"
	"strings"

	"redoubt/command"
)

// Args turns the recorded arguments into the form that the notation is read
// into.
func (r *Recorded) Args() []*command.Arg { return args(r.Arguments) }

func args(list []RecordedArg) []*command.Arg {
	var out []*command.Arg
	for _, r := range list {
		a := &command.Arg{
			Name: r.Name, Type: command.ArgType(r.Type), Display: r.Display, KeySpec: -1,
			Since: r.Since, Deprecated: r.Deprecated,
			Optional:      slices.Contains(r.Flags, "optional"),
			Multiple:      slices.Contains(r.Flags, "multiple"),
			MultipleToken: slices.Contains(r.Flags, "multiple_token"),
			Args:          args(r.Arguments),
		}
		if r.Token != nil {
			a.Token, a.HasToken = *r.Token, true
		}
		if r.KeySpec != nil {
			a.KeySpec = *r.KeySpec
		}
		out = append(out, a)
	}
	return out
}

// Format writes arguments in the notation of command.ParseSyntax, each tree in
// one way only, so that two trees are the same if their texts are.
func Format(list []*command.Arg) string {
	f := &formatter{}
	return f.sequence(list, " ")
}

type formatter struct {
	keys int // as the parser counts them
}

func (f *formatter) sequence(list []*command.Arg, between string) string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = f.arg(a)
	}
	return strings.Join(out, between)
}

func (f *formatter) arg(a *command.Arg) string {
	s := f.inner(a)
	if a.HasToken && a.Type != command.ArgToken {
		s = a.Token + " " + s
	}
	switch {
	case a.Optional && a.MultipleToken:
		s = "[" + s + "]..."
	case a.Optional && a.Multiple:
		s = "[" + s + "...]"
	case a.Optional:
		s = "[" + s + "]"
	case a.Multiple:
		s += "..."
	}
	if a.Since != "" {
		s += "@" + a.Since
	}
	if a.Deprecated != "" {
		s += "!" + a.Deprecated
	}
	return s
}

func (f *formatter) inner(a *command.Arg) string {
	switch a.Type {
	case command.ArgToken:
		switch {
		case a.Token == "":
			return a.Name + `=""`
		case a.Name != strings.ToLower(a.Token):
			return a.Name + "=" + a.Token
		}
		return a.Token
	case command.ArgOneOf:
		return a.Name + "=<" + f.sequence(a.Args, "|") + ">"
	case command.ArgBlock:
		return a.Name + "=(" + f.sequence(a.Args, " ") + ")"
	}
	s := a.Name
	if want := command.ArgString; a.Name == "key" && a.Type != command.ArgKey || a.Name != "key" && a.Type != want {
		s += ":" + string(a.Type)
	}
	if a.Display != a.Name {
		s += "'" + a.Display + "'"
	}
	spec := -1
	if a.Type == command.ArgKey {
		spec = f.keys
		f.keys = a.KeySpec + 1
	}
	if a.KeySpec != spec {
		s += fmt.Sprintf("#%d", a.KeySpec)
	}
	return s
}

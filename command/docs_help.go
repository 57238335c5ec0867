package command

import "strings"

// helpSyntax writes arguments as Redis's HELP texts do: what is to be replaced
// in angle brackets, words to be typed as they are, (a|b) for a choice.
func helpSyntax(args []*Arg) string { return joinHelp(args, " ") }

func joinHelp(args []*Arg, between string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a.help()
	}
	return strings.Join(out, between)
}

func (a *Arg) help() string {
	s := ""
	switch a.Type {
	case ArgToken:
		s = a.Token
		if s == "" {
			s = `""`
		}
	case ArgOneOf:
		s = joinHelp(a.Args, "|")
		if !a.Optional || a.HasToken || a.Multiple {
			s = "(" + s + ")"
		}
	case ArgBlock:
		s = joinHelp(a.Args, " ")
	default:
		s = "<" + a.Display + ">"
	}
	value := s
	if a.HasToken && a.Type != ArgToken {
		s = a.Token + " " + s
	}
	switch {
	case a.Multiple && a.MultipleToken:
		s = s + " [" + s + " ...]"
	case a.Multiple && a.Optional && !a.HasToken:
		s += " ..."
	case a.Multiple:
		s += " [" + value + " ...]"
	}
	if a.Optional {
		s = "[" + s + "]"
	}
	return s
}

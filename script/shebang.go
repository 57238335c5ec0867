package script

import (
	"bytes"
	"strings"

	"redoubt/command"
	"redoubt/wire"
)

// flags are the flags that a script declares.
type flags uint8

const (
	noWrites flags = 1 << iota
	allowOOM
	allowStale
	noCluster
	allowCrossSlot
	// compat: the script has no shebang line, as before Redis 7.
	compat
)

// flagNames are in Redis's order.
var flagNames = []struct {
	flag flags
	name string
}{
	{noWrites, "no-writes"}, {allowOOM, "allow-oom"}, {allowStale, "allow-stale"}, {noCluster, "no-cluster"},
	{allowCrossSlot, "allow-cross-slot-keys"},
}

func flagByName(name string, fold bool) (flags, bool) {
	for _, f := range flagNames {
		if f.name == name || fold && strings.EqualFold(f.name, name) {
			return f.flag, true
		}
	}
	return 0, false
}

// shebang reads the first line of a script for EVAL. It returns its flags and the
// length of the line; the line break stays, so that lines count right.
func shebang(body []byte) (f flags, length int, err error) {
	if !bytes.HasPrefix(body, []byte("#!")) {
		return compat, 0, nil
	}
	length = lineEnd(body)
	if length < 0 {
		return 0, 0, command.Error("ERR Invalid script shebang")
	}
	words, ok := wire.SplitWords(body[:length])
	if !ok || len(words) == 0 {
		return 0, 0, command.Error("ERR Invalid engine in script shebang")
	}
	if string(words[0]) != "#!lua" {
		return 0, 0, command.Error("ERR Unexpected engine in script shebang: " + string(words[0]))
	}
	for _, w := range words[1:] {
		list, ok := strings.CutPrefix(string(w), "flags=")
		if !ok {
			return 0, 0, command.Error("ERR Unknown lua shebang option: " + string(w))
		}
		if list == "" {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			flag, ok := flagByName(name, false)
			if !ok {
				return 0, 0, command.Error("ERR Unexpected flag in script shebang: " + name)
			}
			f |= flag
		}
	}
	return f, length, nil
}

// lineEnd returns where the first line ends, -1 if it does not. As in C, the text ends at a
// zero byte.
func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if z := bytes.IndexByte(b, 0); z >= 0 && z < i {
		return -1
	}
	return i
}

// LibraryName returns the name in the first line of a library.
func LibraryName(source string) (string, error) {
	name, _, err := libraryHead(source)
	return name, err
}

// libraryHead reads the first line of a library: its name, and where its code begins.
func libraryHead(source string) (name string, code int, err error) {
	if !strings.HasPrefix(source, "#!") {
		return "", 0, command.Error("ERR Missing library metadata")
	}
	end := lineEnd([]byte(source))
	if end < 0 {
		return "", 0, command.Error("ERR Invalid library metadata")
	}
	words, ok := wire.SplitWords([]byte(source[:end]))
	if !ok || len(words) == 0 {
		return "", 0, command.Error("ERR Invalid library metadata")
	}
	engine, named := string(words[0][2:]), false
	for _, w := range words[1:] {
		if len(w) < 5 || !strings.EqualFold(string(w[:5]), "name=") {
			return "", 0, command.Error("ERR Invalid metadata value given: " + string(w))
		}
		if named {
			return "", 0, command.Error("ERR Invalid metadata value, name argument was given multiple times")
		}
		name, named = string(w[5:]), true
	}
	switch {
	case !named:
		return "", 0, command.Error("ERR Library name was not given")
	case !validName(name):
		return "", 0, command.Error("ERR " + msgLibraryNames)
	case !strings.EqualFold(engine, "lua"):
		return "", 0, command.Error("ERR Engine '" + engine + "' not found")
	}
	return name, end, nil
}

// validName reports whether a name is valid for a library or a function.
func validName(name string) bool {
	for i := range len(name) {
		if b := name[i]; b != '_' && (b < '0' || b > '9') && (b|32 < 'a' || b|32 > 'z') {
			return false
		}
	}
	return name != ""
}

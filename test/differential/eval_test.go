package differential

import (
	"regexp"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// byScript is a command that runs another one and passes its reply on. Some a
// script may not run, or to no effect.
func byScript(args []string) []byte {
	switch strings.ToLower(args[0]) {
	case "config", "debug", "select":
		return respclient.AppendCommand(nil, args...)
	}
	return respclient.AppendCommand(nil, append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, args...)...)
}

// throughLua says whether a script's reply is the same as far as it can be: Lua
// has one null, its numbers are doubles, and a script is told in other words
// what is wrong with the arguments' number.
func throughLua(want, got string) bool {
	if strings.HasPrefix(want, "-ERR wrong number of arguments") || strings.HasPrefix(want, "-ERR unknown") {
		return strings.HasPrefix(got, "-ERR ")
	}
	blur := func(s string) string { return longNumber.ReplaceAllString(s, "$1:many digits") }
	return blur(strings.ReplaceAll(want, "*-1\r\n", "$-1\r\n")) == blur(got)
}

var longNumber = regexp.MustCompile(`(^|\n):-?\d{16,}`)

// TestModelByScript compares Redoubt with the model when a script runs every
// command. In RESP2: a map of RESP3 loses its order in Lua.
func TestModelByScript(t *testing.T) {
	t.Parallel()
	list := []target{modelTarget{}}
	for i, o := range []testserver.Options{{Engine: "mem"}, {Engine: "mem", Pipes: true}, {Engine: "local"}, {Engine: "cold"}} {
		s := redoubtTarget(t, o, false, 1+i*7)
		s.eval = true
		list = append(list, s)
	}
	eachIn(t, 30, 2, false, list)
}

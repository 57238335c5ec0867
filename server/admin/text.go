package admin

import (
	"bytes"
	"fmt"
	"strings"

	"redoubt/command"
)

// IsWord reports whether an argument is the word, in upper or lower case.
func IsWord(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}

// CString returns b as C's %.*s prints it: up to a zero byte, and at most n bytes.
func CString(b []byte, n int) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b[:min(n, len(b))])
}

// UnknownSubcommand returns the error for a subcommand that does not exist. It names the
// command as the client did, since it may have been renamed.
func UnknownSubcommand(args [][]byte) error {
	sub := args[min(1, len(args)-1)]
	return command.Error(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", CString(sub, 128), strings.ToUpper(CString(args[0], 128))))
}

// SubcommandSyntax returns the error for a subcommand with wrong arguments.
func SubcommandSyntax(args [][]byte) error {
	return command.Error("ERR unknown subcommand or wrong number of arguments for '" + CString(args[1], 128) +
		"'. Try " + strings.ToUpper(string(args[0])) + " HELP.")
}

// BoolInt returns 1 for true, 0 for false.
func BoolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

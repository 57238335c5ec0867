package observe

import (
	"redoubt/config"
	"redoubt/server/admin"
)

var redactedText = []byte("(redacted)")

// Redact replaces passwords and user names in a command for the slow log and MONITOR. It
// returns the same slice if there are none. name is the command's declared name, which
// differs from args[0] if the command was renamed.
func Redact(cfg *config.Config, name string, args [][]byte) [][]byte {
	hidden := args
	hide := func(from, to int) {
		if from >= min(to, len(args)) {
			return
		}
		if &hidden[0] == &args[0] {
			hidden = append([][]byte(nil), args...)
		}
		for i := from; i < min(to, len(args)); i++ {
			hidden[i] = redactedText
		}
	}
	switch name {
	case "auth":
		hide(1, len(args))
	case "hello":
		for i := 2; i < len(args); i++ {
			if admin.IsWord(args[i], "auth") {
				hide(i+1, i+3)
				break
			}
		}
	case "config":
		if len(args) > 2 && admin.IsWord(args[1], "set") {
			for i := 2; i+1 < len(args); i += 2 {
				if d := cfg.Lookup(string(args[i])); d != nil && d.Flags&config.Sensitive != 0 {
					hide(i+1, i+2)
				}
			}
		}
	case "acl":
		if len(args) > 2 && (admin.IsWord(args[1], "setuser") || admin.IsWord(args[1], "deluser") || admin.IsWord(args[1], "getuser")) {
			hide(2, len(args))
		}
	case "migrate":
		for i := 6; i < len(args); i++ {
			if admin.IsWord(args[i], "auth") {
				hide(i+1, i+2)
			} else if admin.IsWord(args[i], "auth2") {
				hide(i+1, i+3)
			} else if admin.IsWord(args[i], "keys") {
				break
			}
		}
	}
	return hidden
}

package command

import (
	"strings"
)

// Help returns the lines that HELP of a container replies, each as a status: a
// heading, and for each subcommand its call and its summary. The container is
// called as the client called it, for it may have been renamed.
func Help(container *Command, called []byte) []string {
	name := strings.ToUpper(string(called))
	lines := []string{name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, s := range container.Subs {
		if s.Name == "help" {
			continue
		}
		lines = append(lines, strings.TrimSpace(strings.ToUpper(s.Name)+" "+helpSyntax(s.Arguments())))
		lines = append(lines, wrap(s.Summary, "    ", 79)...)
	}
	return append(lines, "HELP", "    Print this help.")
}

// writeHelp is the handler of a HELP subcommand.
func writeHelp(c *Ctx) error {
	lines := Help(c.Cmd.Parent, c.Args[0])
	c.Reply.Array(len(lines))
	for _, l := range lines {
		c.Reply.Status(l)
	}
	return nil
}

// wrap breaks a text into indented lines of at most width characters.
func wrap(text, indent string, width int) (lines []string) {
	line := indent
	for _, word := range strings.Fields(text) {
		switch {
		case line == indent:
			line += word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

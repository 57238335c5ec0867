package script

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"redoubt/internal/respclient"
)

// Commands that are sent in another way than plainly: inside MULTI and EXEC, or
// by a script. The reply is the same.

// unwrapped are commands that cannot be wrapped, or answer something else then.
var unwrapped = []string{
	"multi", "exec", "discard", "watch", "unwatch", "reset", "quit", "hello", "auth", "monitor", "client", "debug", "shutdown",
	"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "wait", "waitaof", "latency", "slowlog",
	"info", "config", "sync", "psync", "migrate", "select", "acl", "script", "function",
}

// wrapped returns what to send instead of a command, and how the reply is read.
func (r *run) wrapped(c *respclient.Client, words []string) ([]string, func() (respclient.Value, error)) {
	name := strings.ToLower(words[0])
	switch {
	case slices.Contains(r.Cases, "multi") && !slices.Contains(unwrapped, name) && !r.queueing[r.conn]:
		return []string{"MULTI"}, func() (respclient.Value, error) { return inMulti(c, words) }
	case slices.Contains(r.Cases, "eval") && r.scriptable(name) && !r.queueing[r.conn] && !blocks(words):
		script := []string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}
		return append(script, words...), c.Read
	}
	switch name {
	case "multi":
		r.queueing[r.conn] = true
	case "exec", "discard", "reset", "quit":
		delete(r.queueing, r.conn)
	}
	return words, c.Read
}

// blocks says that a script is refused this form of a command.
func blocks(words []string) bool {
	return strings.HasPrefix(strings.ToLower(words[0]), "xread") &&
		slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "block") })
}

// inMulti goes on behind MULTI.
func inMulti(c *respclient.Client, words []string) (none respclient.Value, err error) {
	if v, err := c.Read(); err != nil || v.Str != "OK" {
		return none, fmt.Errorf("MULTI: %v, %w", v, err)
	}
	queued, err := c.Do(words...)
	if err != nil {
		return none, err
	}
	v, err := c.Do("EXEC")
	switch {
	case err != nil:
		return none, err
	case queued.IsError():
		if !strings.HasPrefix(v.Str, "EXECABORT") {
			return none, fmt.Errorf("EXEC after an error: %v", v)
		}
		return queued, nil
	case len(v.Elems) != 1:
		return none, fmt.Errorf("EXEC of one command: %v", v)
	}
	return v.Elems[0], nil
}

// scriptable says whether a script may run a command, and what it answers does not
// depend on the connection.
func (r *run) scriptable(name string) bool {
	if known, ok := r.fit[name]; ok {
		return known
	}
	fit := !slices.Contains(unwrapped, name)
	if fit {
		c, err := respclient.Dial(r.Addr)
		if err != nil {
			return false
		}
		defer c.Close()
		v, err := c.Do("COMMAND", "INFO", name)
		fit = err == nil && len(v.Elems) == 1 && len(v.Elems[0].Elems) > 2 &&
			!slices.ContainsFunc(v.Elems[0].Elems[2].Elems, func(f respclient.Value) bool { return f.Str == "noscript" })
	}
	r.fit[name] = fit
	return fit
}

// sameFromScript says whether a script's reply is the expected one as far as it can
// be: Lua knows one null, its numbers are doubles, and what is wrong with the
// number of arguments is said in other words.
func sameFromScript(want, got []string) bool {
	text := strings.Join(want, "\n")
	if strings.HasPrefix(text, "(error) ERR wrong number of arguments for") || strings.HasPrefix(text, "(error) ERR unknown") {
		return len(got) > 0 && strings.HasPrefix(got[0], "(error) ERR ")
	}
	blur := func(s string) string { return longNumber.ReplaceAllString(s, "(integer) many digits") }
	return blur(strings.ReplaceAll(text, "(nil array)", "(nil)")) == blur(strings.Join(got, "\n"))
}

var longNumber = regexp.MustCompile(`\(integer\) -?\d{16,}`)

package script

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"log/slog"
	"strings"

	"redoubt/command"
	"redoubt/lua"
)

// The functions of the redis table besides call and pcall.

func sha1hex(c *lua.Call) error {
	if c.Len() != 1 {
		return raise(c, msgOneArgument)
	}
	s, _ := c.Arg(0).ToString()
	sum := sha1.Sum([]byte(s))
	c.Return(lua.String(hex.EncodeToString(sum[:])))
	return nil
}

// errorReply makes a table that becomes an error reply if the script returns it. The text
// may begin with a dash; a text without a code gets the code ERR.
func (st *state) errorReply(c *lua.Call) error {
	if c.Len() != 1 || c.Arg(0).Kind() != lua.KindString {
		c.Return(st.errorTable("ERR " + msgBadReply).Value())
		return nil
	}
	text := strings.TrimPrefix(cut(c.Arg(0).Str()), "-")
	if code, msg, ok := strings.Cut(text, " "); ok {
		text = code + " " + strings.Trim(msg, "\r\n")
	} else {
		text = "ERR " + strings.Trim(text, "\r\n")
	}
	c.Return(st.errorTable(text).Value())
	return nil
}

func (st *state) statusReply(c *lua.Call) error {
	if c.Len() != 1 || c.Arg(0).Kind() != lua.KindString {
		c.Return(st.errorTable("ERR " + msgBadReply).Value())
		return nil
	}
	t := st.NewTable(0, 1)
	if err := t.SetStr("ok", c.Arg(0)); err != nil {
		return err
	}
	c.Return(t.Value())
	return nil
}

// setRepl checks its argument and has no effect.
func setRepl(c *lua.Call) error {
	if c.Len() != 1 {
		return raise(c, "redis.set_repl() requires one argument.")
	}
	if n, _ := c.Arg(0).ToNumber(); int(n)&^3 != 0 {
		return raise(c, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return nil
}

func (st *state) setResp(c *lua.Call) error {
	if c.Len() != 1 {
		return raise(c, "redis.setresp() requires one argument.")
	}
	n, _ := c.Arg(0).ToNumber()
	if int(n) != 2 && int(n) != 3 {
		return raise(c, "RESP version must be 2 or 3.")
	}
	st.run.resp = int(n)
	return nil
}

func (st *state) aclCheck(c *lua.Call) error {
	if msg := st.gather(c); msg != "" {
		return raise(c, msg)
	}
	cmd := st.e.table.Find(st.args)
	if cmd == nil || len(cmd.Subs) > 0 && len(st.args) > 1 {
		return raise(c, "Invalid command passed to redis.acl_check_cmd()")
	}
	ok := true
	if a, has := st.run.c.Caller.(interface {
		Allows(*command.Command, [][]byte) bool
	}); has {
		ok = a.Allows(cmd, st.args)
	}
	c.Return(lua.Bool(ok))
	return nil
}

// logLine is a line for the log, written when the script is over, since the script may be
// rolled back and run again before that.
type logLine struct {
	level slog.Level
	text  string
}

// maxLog is how many bytes a script may write to the log.
const maxLog = 1 << 20

var logLevels = [...]slog.Level{slog.LevelDebug, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn}

func (st *state) log(c *lua.Call) error {
	if c.Len() < 2 {
		return raise(c, "redis.log() requires two arguments or more.")
	}
	level, ok := c.Arg(0).ToNumber()
	if !ok {
		return raise(c, "First argument must be a number (log level).")
	}
	n := int(level)
	if n < 0 || n >= len(logLevels) {
		return raise(c, "Invalid debug level.")
	}
	if !st.e.Logger.Enabled(context.Background(), logLevels[n]) {
		return nil
	}
	var b strings.Builder
	for i := 1; i < c.Len(); i++ {
		if s, ok := c.Arg(i).ToString(); ok {
			if i > 1 {
				b.WriteByte(' ')
			}
			b.WriteString(s)
		}
	}
	if st.run.logged += b.Len(); st.run.logged <= maxLog {
		st.run.logs = append(st.run.logs, logLine{logLevels[n], b.String()})
	}
	return nil
}

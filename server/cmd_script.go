package server

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/script"
	"redoubt/version"
)

// Scripts and functions: the server's part. Package script has the rest.

func (srv *Server) newScripts() {
	var memory atomic.Int64 // a copy, since every script reads it
	if srv.cfg != nil {
		read := func() error { memory.Store(srv.cfg.Int("lua-memory-limit")); return nil }
		srv.cfg.OnChange("lua-memory-limit", read)
		_ = read()
	}
	srv.scripts = script.New(script.Options{
		Version: version.Redis, VersionNum: redisVersionNum, Logger: srv.log, Limited: srv.clientLog,
		Unrestricted: &srv.debug.UnrestrictedScripts,
		Threshold:    func() time.Duration { return time.Duration(srv.cfg.Int("busy-reply-threshold")) * time.Millisecond },
		Memory:       memory.Load,
	})
}

// redisVersionNum is version.Redis as an integer with one byte per part.
var redisVersionNum = func() (n int) {
	for part := range strings.SplitSeq(version.Redis, ".") {
		b, _ := strconv.Atoi(part)
		n = n<<8 | b
	}
	return n
}()

// openSpace opens the keyspace of a store, and loads its functions.
func (srv *Server) openSpace(eng engine.Engine) (*keyspace.Space, error) {
	space, err := keyspace.Open(eng, srv.databases)
	if err == nil {
		err = srv.scripts.Open(space)
	}
	return space, err
}

// scriptFlags returns a command's flags, without the flags of a write for a script that
// declares that it only reads.
func scriptFlags(cmd *command.Command, args [][]byte) command.Flags {
	if cmd.Group == command.Scripting && cmd.ReadsOnly != nil && cmd.ReadsOnly(args) {
		return cmd.Flags &^ (command.Write | command.MayReplicate)
	}
	return cmd.Flags
}

// MustBeBrief implements script.Brief: a script on its carrier holds the session's mu.
func (c *caller) MustBeBrief() bool { return c.carried }

// Stop implements script.Stoppable.
func (c *caller) Stop() *script.Stop { return c.stop }

// halfClosedGrace is how long a client's script may go on, or its command wait for
// working memory, after the client has closed its side of the connection. Such a client
// may still read, as one at the end of a shell's pipe does, but most often it has gone.
const halfClosedGrace = time.Second

// ended notes that the client has closed its side of the connection. mu is held.
func (s *session) ended() {
	if s.halfClosed = true; s.deferred != nil {
		s.deferred.stop.At(time.Now().Add(halfClosedGrace))
	}
}

// Recording implements script.Recorder: it returns the session's record of the commands
// that its scripts ran.
func (c *caller) Recording() *script.Record {
	if c.s.scripted == nil {
		c.s.scripted = new(script.Record)
	}
	c.s.scripted.Verbose = c.s.srv.obs.Monitors.Any()
	return c.s.scripted
}

// recordScripts adds the commands that scripts ran to the statistics. It reports
// whether the calling command's error was counted with them.
func (s *session) recordScripts() (known bool) {
	r := s.scripted
	for i := range r.Commands {
		ran := &r.Commands[i]
		s.work.stats.RecordMany(ran.Cmd, ran.Calls, ran.Failed, ran.Rejected, ran.Took)
	}
	for _, text := range r.Errors {
		s.srv.obs.Errors.Add(text)
	}
	for _, l := range r.Lines {
		s.srv.showScripted(l)
	}
	known = r.Known
	r.Reset()
	return known
}

var (
	_ script.Recorder  = (*caller)(nil)
	_ script.Brief     = (*caller)(nil)
	_ script.Stoppable = (*caller)(nil)
)

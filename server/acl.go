package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/wire"
)

// Users, as the server uses them: package acl has the rules and answers; here is who
// asks, what a client is told, and what becomes of connections whose user changes.

// loadUsers makes the users of the configuration file, or of the ACL file.
func (srv *Server) loadUsers() error {
	name, lines := srv.cfg.Str("aclfile"), srv.cfg.Users()
	switch {
	case name != "" && len(lines) > 0:
		return errors.New("users are declared both in the configuration file and in an ACL file (aclfile " + name +
			"): which of them count would be a matter of luck. Keep them in one place")
	case name == "":
		if err := srv.acl.Declare(lines); err != nil {
			return err
		}
	default:
		srv.aclFile = srv.findACLFile(name)
		if _, err := srv.loadACLFile(); err != nil {
			return fmt.Errorf("the ACL file is not usable: %w", err)
		}
		if srv.cfg.Str("requirepass") != "" && srv.acl.Default().Load().NoPass() {
			srv.log.Warn("requirepass has no effect: the ACL file says that the default user has no password, or has no line for it")
		}
	}
	for _, words := range lines {
		if h := srv.acl.Find([]byte(words[0])); h != nil && !h.Load().Enabled() {
			srv.log.Info("a user of the configuration is disabled: its line has no \"on\"", "user", words[0])
		}
	}
	srv.cfg.UserLines = srv.userLines
	return nil
}

// findACLFile is where the ACL file is: as in Redis, a relative name is one in the
// data directory; but if it is not there, it may be where the program was started.
func (srv *Server) findACLFile(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	inDir := filepath.Join(srv.cfg.Str("dir"), name)
	if _, err := os.Stat(inDir); err != nil {
		if abs, err := filepath.Abs(name); err == nil {
			if _, err := os.Stat(abs); err == nil {
				return abs
			}
		}
	}
	return inDir
}

// loadACLFile replaces all users by those of the ACL file. It returns the handles of
// those that were there before.
func (srv *Server) loadACLFile() ([]*acl.Handle, error) {
	name := srv.cfg.Str("aclfile")
	content, err := os.ReadFile(srv.aclFile)
	if err != nil {
		return nil, fmt.Errorf("Error loading ACLs, opening file '%s': %s", name, systemText(err)) //nolint:staticcheck // Redis's text
	}
	return srv.acl.Load(name, content)
}

// systemText is an error of the system in the words of C.
func systemText(err error) string {
	var no syscall.Errno
	text := err.Error()
	if errors.As(err, &no) {
		text = no.Error()
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// userLines are the user lines that CONFIG REWRITE writes. A word that the
// configuration file would not take as it is, is quoted.
func (srv *Server) userLines() []string {
	users := srv.acl.Users()
	lines := make([]string, len(users))
	for i, u := range users {
		words := strings.Split(u.Name()+" "+u.String(), " ")
		for j, w := range words {
			if split, ok := wire.SplitWords([]byte(w)); !ok || len(split) != 1 || string(split[0]) != w {
				words[j] = string(wire.AppendQuoted(nil, w))
			}
		}
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// denial is a call that a user may not make.
type denial struct {
	why     acl.Denial
	user    *acl.User
	cmd     *command.Command
	object  string // what it was denied for, as ACL LOG shows it
	context acl.Context
}

// Error implements error: it is what the client is told.
func (d *denial) Error() string { return "NOPERM " + d.Message() }

// Unwrap makes that known to command.Text.
func (d *denial) Unwrap() error { return command.Error(d.Error()) }

// Message is the same without the code, for scripts.
func (d *denial) Message() string { return d.user.Message(d.why, d.cmd, nil, false) }

// Reason is why, in the words of EXEC.
func (d *denial) Reason() string {
	switch d.why {
	case acl.ByKey:
		return "no permission to touch the specified keys"
	case acl.ByChannel:
		return "no permission to access one of the channels used as arguments"
	}
	return "no permission to execute the command or subcommand"
}

// denied says why the user may not make a call, or nothing.
func denied(u *acl.User, cmd *command.Command, args [][]byte) *denial {
	why, at := u.Check(cmd, args)
	if why == acl.Allowed {
		return nil
	}
	d := &denial{why: why, user: u, cmd: cmd, object: cmd.FullName}
	if why != acl.ByCommand {
		d.object = string(args[at])
	}
	return d
}

// permit is refuse's question to the user's rules. For one who may do everything it
// is a load and a comparison.
func (s *session) permit(cmd *command.Command, args [][]byte) error {
	u := s.user.Load()
	if u.All() {
		return nil
	}
	if d := denied(u, cmd, args); d != nil {
		if s.multi != nil {
			d.context = acl.Multi
		}
		s.lastCmd = cmd
		s.note(d, args)
		return command.Error(d.Error())
	}
	if s.multi == nil {
		return sortDenied(u, cmd, args)
	}
	return nil
}

// note puts a denial into ACL LOG. It runs on the carrier, which holds mu.
func (s *session) note(d *denial, args [][]byte) {
	s.srv.aclLog.Add(acl.Entry{
		Reason: d.why, Context: d.context, Object: d.object, User: d.user.Name(), Updated: s.srv.clock().UnixMilli(),
		Client: s.line(args),
	})
}

// noteFailedLogin puts a login that failed into ACL LOG.
func (s *session) noteFailedLogin(name, object string, args [][]byte) {
	e := acl.Entry{
		Reason: acl.ByAuth, Object: object, User: name, Updated: s.srv.clock().UnixMilli(),
		Client: s.line(args),
	}
	if s.multi != nil {
		e.Context = acl.Multi
	}
	s.srv.aclLog.Add(e)
}

// line is the session's line of CLIENT LIST, without an end.
func (s *session) line(args [][]byte) string {
	return strings.TrimSuffix(string(s.appendInfo(nil, time.Now(), args)), "\n")
}

// noteDenials puts into ACL LOG what was denied to commands of the transaction or
// script that has just ended: they may be run several times, and only the last one
// counts.
func (s *session) noteDenials(args [][]byte) {
	for _, d := range s.denials {
		s.note(d, args)
	}
	s.denials = nil
}

// Permit implements command.Caller. The error has Message and Reason besides.
func (c *caller) Permit(cmd *command.Command, args [][]byte) error {
	s := c.s
	u := s.user.Load()
	if u.All() {
		return nil
	}
	d := denied(u, cmd, args)
	if d == nil {
		return sortDenied(u, cmd, args)
	}
	d.context = acl.Script
	if c.blocked {
		d.context = acl.TopLevel
	} else if s.multi != nil {
		for i := range s.multi.queue {
			if &s.multi.queue[i].Args[0] == &args[0] {
				d.context = acl.Multi
			}
		}
	}
	s.denials = append(s.denials, d)
	return d
}

// Allows says whether Permit would say nothing; nothing of it is logged.
func (c *caller) Allows(cmd *command.Command, args [][]byte) bool {
	return denied(c.s.user.Load(), cmd, args) == nil
}

const (
	errSortBy  = command.Error("ERR BY option of SORT denied due to insufficient ACL permissions.")
	errSortGet = command.Error("ERR GET option of SORT denied due to insufficient ACL permissions.")
)

// sortDenied refuses a SORT that reads keys which it does not name, unless the user
// may read all keys. As far as this is about syntax, SORT itself has the last word.
func sortDenied(u *acl.User, cmd *command.Command, args [][]byte) error {
	if cmd.Name != "sort" && cmd.Name != "sort_ro" || u.MayUseAllKeys(cmd, args, acl.Read) {
		return nil
	}
	for i := 2; i < len(args); i++ {
		switch left := len(args) - i - 1; {
		case isWord(args[i], "limit") && left >= 2:
			i += 2
		case isWord(args[i], "store") && left >= 1 && cmd.Name == "sort":
			i++
		case isWord(args[i], "by") && left >= 1:
			if i++; strings.Contains(string(args[i]), "*") {
				return errSortBy
			}
		case isWord(args[i], "get") && left >= 1:
			return errSortGet
		case !isWord(args[i], "asc") && !isWord(args[i], "desc") && !isWord(args[i], "alpha"):
			return nil
		}
	}
	return nil
}

// is says whether the session is of a user. It takes mu.
func (s *session) is(h *acl.Handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user == h
}

// disconnect closes the connections of users that are gone.
func (c *localCall) disconnect(gone []*acl.Handle) {
	if len(gone) == 0 {
		return
	}
	c.closeThose(func(s *session) bool { return s.user.Gone() })
}

// revoke closes the connections that listen to channels which their user may use no
// more.
func (c *localCall) revoke(change *acl.Change) {
	if !change.LosesChannels() {
		return
	}
	lost := func(s *session, k *subscriptionKind) bool {
		return slices.ContainsFunc(s.subscriptionNames(k), func(name string) bool {
			return !change.After.MayUseChannel([]byte(name), k == patternKind)
		})
	}
	c.closeThose(func(s *session) bool {
		return s.user == change.Handle && (lost(s, channelKind) || lost(s, patternKind) || lost(s, shardKind))
	})
}

// closeThose closes connections: the others at once, that of the caller behind the
// reply. It runs on a worker; those is called with the session's mu held.
func (c *localCall) closeThose(those func(*session) bool) {
	for _, s := range c.srv.clients.list() {
		s.mu.Lock()
		hit := those(s)
		s.mu.Unlock()
		switch {
		case !hit:
		case s == c.s:
			c.after = func() { s.closing = true }
		default:
			s.car.shut()
		}
	}
}

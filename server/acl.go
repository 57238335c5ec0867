package server

import (
	"strings"
	"time"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/server/access"
	"redoubt/server/admin"
	"redoubt/server/pubsub"
	"redoubt/wire"
)

// Permission checks for each command of a session. Package access has the users and
// the commands about them.

// permit returns the error of a command that the user's rules deny, for refuse. For a
// user that may do everything the check is a load and a comparison.
func (s *session) permit(cmd *command.Command, args [][]byte) error {
	if err := s.readOnly(cmd, args); err != nil {
		return err
	}
	u := s.user.Load()
	if u.All() {
		return nil
	}
	if d := access.Check(u, cmd, args); d != nil {
		if s.multi != nil {
			d.Context = acl.Multi
		}
		s.lastCmd = cmd
		s.note(d, args)
		return command.Error(d.Error())
	}
	if s.multi == nil {
		return access.CheckUnnamed(u, cmd, args)
	}
	return nil
}

// note puts a denial into ACL LOG. It runs on the carrier, which holds mu.
func (s *session) note(d *access.Denial, args [][]byte) { s.noteEntry(d.Entry(), args) }

// noteFailedLogin puts a login that failed into ACL LOG.
func (s *session) noteFailedLogin(name, object string, args [][]byte) {
	e := acl.Entry{Reason: acl.ByAuth, Object: object, User: name}
	if s.multi != nil {
		e.Context = acl.Multi
	}
	s.noteEntry(e, args)
}

func (s *session) noteEntry(e acl.Entry, args [][]byte) {
	e.Updated, e.Client = s.srv.clock().UnixMilli(), s.line(args)
	s.srv.access.Denied.Add(e)
}

// line is the session's line of CLIENT LIST, without an end.
func (s *session) line(args [][]byte) string {
	return strings.TrimSuffix(string(s.appendInfo(nil, time.Now(), args)), "\n")
}

// noteDenials puts the denials of the transaction or script that has just ended into
// ACL LOG. A transaction or script may be run several times: only the last run counts.
func (s *session) noteDenials(args [][]byte) {
	for _, d := range s.denials {
		s.note(d, args)
	}
	s.denials = nil
}

// Permit implements command.Caller. A returned *access.Denial has Message and Reason, too.
func (c *caller) Permit(cmd *command.Command, args [][]byte) error {
	s := c.s
	if err := s.readOnly(cmd, args); err != nil {
		return err
	}
	u := s.user.Load()
	if u.All() {
		return nil
	}
	d := access.Check(u, cmd, args)
	if d == nil {
		return access.CheckUnnamed(u, cmd, args)
	}
	d.Context = acl.Script
	if c.blocked {
		d.Context = acl.TopLevel
	} else if s.multi != nil {
		for i := range s.multi.queue {
			if &s.multi.queue[i].Args[0] == &args[0] {
				d.Context = acl.Multi
			}
		}
	}
	s.denials = append(s.denials, d)
	return d
}

// Allows reports whether Permit would return nil, and logs no denial.
func (c *caller) Allows(cmd *command.Command, args [][]byte) bool {
	return access.Check(c.s.user.Load(), cmd, args) == nil
}

// is reports whether the session belongs to the user. It takes mu.
func (s *session) is(h *acl.Handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user == h
}

// connection implements access.Connection for a session whose mu is held.
type connection struct{ s *session }

func (c connection) User() *acl.Handle { return c.s.user }

func (c connection) Listens(f func(channel string, pattern bool) bool) bool {
	for _, k := range pubsub.Kinds {
		for _, name := range c.s.subs.Names(k) {
			if f(name, k == pubsub.Patterns) {
				return true
			}
		}
	}
	return false
}

// closeThose implements the Close of access.Options. It runs on a worker.
func (srv *Server) closeThose(caller admin.Client, f func(access.Connection) bool) {
	for _, s := range srv.clients.list() {
		s.mu.Lock()
		hit := f(connection{s})
		s.mu.Unlock()
		switch {
		case !hit:
		case s.id == caller.ID():
			caller.CloseAfterReply()
		default:
			s.car.shut()
		}
	}
}

// loginFailed notes a failed login of the session, and delays its reply if there were
// many. mu is held.
func (c *localCall) loginFailed(user []byte) {
	s, host, now := c.s, access.Host(c.s.addr), time.Now()
	delay, full, say := c.srv.access.Logins.Fail(host, now)
	if say > 0 {
		c.srv.log.Warn("failed logins: wrong user or password; if they are not yours, keep the address away by bind or a firewall",
			"addr", s.addr, "user", admin.CString(user, 64), "failures", say)
	}
	switch {
	case full:
		s.closing = true
	case delay > 0 && c.within != nil: // the reply is the transaction's
		c.srv.access.Logins.Done(host)
		s.closing = true
	default:
		c.delay = delay
	}
}

// holdBack removes the reply that begins at offset at, and sends it after the delay. Until
// then the session waits. It runs on the carrier, which holds mu.
func (s *session) holdBack(w *wire.Writer, at int, delay time.Duration) {
	reply := append([]byte(nil), w.Buf[at:]...)
	w.Buf = w.Buf[:at]
	wanted := w == &s.out.Writer
	if wanted {
		s.out.Answers-- // the reply counts in the turn that sends it
	}
	s.suspend(forDelay)
	host := access.Host(s.addr)
	time.AfterFunc(delay, func() {
		s.srv.access.Logins.Done(host)
		s.postResume(func() {
			if wanted {
				s.out.Answers++
				s.out.Buf = append(s.out.Buf, reply...)
			}
		})
	})
}

package server

import (
	"math"
	"slices"
	"strings"
	"time"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/number"
	"redoubt/server/admin"
)

// CLIENT LIST and CLIENT KILL look at other sessions. They run on a worker, and
// hold the mu of one session at a time.

// clientTypes are the types that a filter may name: slave is the old name of replica. The link
// with a master is not listed, but CLIENT KILL TYPE master ends it.
var clientTypes = []string{"normal", "slave", "replica", "pubsub", "master"}

func clientType(arg []byte) (string, error) {
	name := strings.ToLower(string(arg))
	if !slices.Contains(clientTypes, name) {
		return "", command.Error("ERR Unknown client type '" + admin.CString(arg, len(arg)) + "'")
	}
	if name == "slave" {
		name = "replica"
	}
	return name, nil
}

func (s *session) clientType() string {
	switch {
	case s.feeding.Load():
		return "replica"
	case s.subscribed.Load():
		return "pubsub"
	}
	return "normal"
}

func clientList(c *localCall) error {
	sessions := c.srv.clients.list
	switch {
	case len(c.args) == 4 && c.is(2, "type"):
		t, err := clientType(c.args[3])
		if err != nil {
			return err
		}
		sessions = func() []*session {
			return slices.DeleteFunc(c.srv.clients.list(), func(s *session) bool { return s.clientType() != t })
		}
	case len(c.args) > 3 && c.is(2, "id"):
		var some []*session
		for _, a := range c.args[3:] {
			id, ok := number.ParseInt(a)
			if !ok {
				return errClientID
			}
			if s := c.srv.clients.find(id); s != nil {
				some = append(some, s)
			}
		}
		sessions = func() []*session { return some }
	case len(c.args) != 2:
		return command.ErrSyntax
	}
	c.srv.evictClients(nil) // clients about to be evicted are not listed
	var text []byte
	now := time.Now()
	for _, s := range sessions() {
		s.mu.Lock()
		if !s.closed && !s.evicting.Load() {
			var running [][]byte
			if s.deferred != nil {
				running = s.deferred.args
			}
			text = s.appendInfo(text, now, running)
		}
		s.mu.Unlock()
	}
	c.w.Verbatim("txt", string(text))
	return nil
}

// killFilter says which sessions to kill.
type killFilter struct {
	addr, laddr, typ *string
	user             *acl.Handle
	id               int64
	age              time.Duration
	skipMe           bool
}

func (c *localCall) killFilter() (f killFilter, err error) {
	f.skipMe = true
	if len(c.args) == 3 {
		addr := string(c.args[2])
		f.addr, f.skipMe = &addr, false
		return f, nil
	}
	for i := 2; i < len(c.args); i += 2 {
		if i+1 == len(c.args) {
			return f, command.ErrSyntax
		}
		value := c.args[i+1]
		text := string(value)
		switch {
		case c.is(i, "id"):
			n, ok := number.ParseInt(value)
			if !ok || n < 1 {
				return f, errKillID
			}
			f.id = n
		case c.is(i, "maxage"):
			n, ok := number.ParseInt(value)
			if !ok {
				return f, errKillAge
			}
			if n <= 0 {
				return f, errKillAgeSign
			}
			f.age = time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
		case c.is(i, "type"):
			t, err := clientType(value)
			if err != nil {
				return f, err
			}
			f.typ = &t
		case c.is(i, "addr"):
			f.addr = &text
		case c.is(i, "laddr"):
			f.laddr = &text
		case c.is(i, "user"):
			if f.user = c.srv.access.Users.Find(value); f.user == nil {
				return f, command.Error("ERR No such user '" + admin.CString(value, len(value)) + "'")
			}
		case c.is(i, "skipme") && strings.EqualFold(text, "yes"):
			f.skipMe = true
		case c.is(i, "skipme") && strings.EqualFold(text, "no"):
			f.skipMe = false
		default:
			return f, command.ErrSyntax
		}
	}
	return f, nil
}

// fits reports whether the session passes all filters but user. It reads only fields
// that never change or are atomic, so it needs no lock.
func (f *killFilter) fits(s *session, now time.Time) bool {
	return (f.addr == nil || *f.addr == s.addr) && (f.laddr == nil || *f.laddr == s.laddr) &&
		(f.typ == nil || *f.typ == s.clientType()) && (f.id == 0 || f.id == s.id) && now.Sub(s.created) >= f.age
}

// clientKill closes other clients before its reply, and the calling client behind it.
func clientKill(c *localCall) error {
	f, err := c.killFilter()
	if err != nil {
		return err
	}
	killed := int64(0)
	if f.typ != nil && *f.typ == "master" && c.srv.role.Drop() {
		killed++
	}
	now := time.Now()
	for _, s := range c.srv.clients.list() {
		switch {
		case !f.fits(s, now) || f.user != nil && !s.is(f.user) || s == c.s && f.skipMe:
			continue
		case s == c.s:
			c.after = func() { s.closing = true }
		default:
			s.car.shut()
		}
		killed++
	}
	switch {
	case len(c.args) > 3:
		c.w.Int(killed)
	case killed == 0:
		return errNoClient
	default:
		c.w.OK()
	}
	return nil
}

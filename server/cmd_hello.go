package server

import (
	"strings"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/number"
	"redoubt/server/admin"
	"redoubt/version"
)

// HELLO and AUTH: protocol version, user and password of a connection.

const (
	errWrongPass  = command.Error("WRONGPASS invalid username-password pair or user is disabled.")
	errNoPassword = command.Error("ERR AUTH <password> called without any password configured for the default user. " +
		"Are you sure your configuration is correct?")
	errProtoVersion = command.Error("ERR Protocol version is not an integer or out of range")
	errNoProto      = command.Error("NOPROTO unsupported protocol version")
	errHelloAuth    = command.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
		"HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol " +
		"version at the same time")
	errClientName = command.Error("ERR Client names cannot contain spaces, newlines or special characters.")
)

func helloCommands() []*local {
	flags := command.AllowBusy | command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth
	return []*local{
		{Command: &command.Command{
			Name: "hello", Group: command.Connection, Since: "6.0.0", Arity: -1, Flags: flags, Complexity: "O(1)",
			Syntax:  "[arguments=(protover:integer [AUTH auth=(username password)] [SETNAME clientname])]",
			Summary: "Opens the conversation: chooses the protocol version, authenticates, names the connection, tells about the server.",
		}, run: hello},
		{Command: &command.Command{
			Name: "auth", Group: command.Connection, Since: "1.0.0", Arity: -2, Flags: flags,
			Syntax: "[username]@6.0.0 password", Complexity: "O(N) where N is the length of the password",
			Summary: "Authenticates this connection.",
		}, run: auth},
	}
}

func hello(c *localCall) error {
	s := c.s
	proto := int64(s.out.Proto)
	if len(c.args) > 1 {
		n, ok := number.ParseInt(c.args[1])
		if !ok {
			return errProtoVersion
		}
		if n < 2 || n > 3 {
			return errNoProto
		}
		proto = n
	}
	var user, password, name []byte
	named, login := false, false
	for i := 2; i < len(c.args); i++ {
		more := len(c.args) - 1 - i
		switch opt := string(c.args[i]); {
		case strings.EqualFold(opt, "auth") && more >= 2:
			user, password, login = c.args[i+1], c.args[i+2], true
			i += 2
		case strings.EqualFold(opt, "setname") && more >= 1:
			name, named = c.args[i+1], true
			if !validAttribute(name) {
				return errClientName
			}
			i++
		default:
			return command.Error("ERR Syntax error in HELLO option '" + admin.CString(c.args[i], len(opt)) + "'")
		}
	}
	if login && !c.login(user, password) {
		return errWrongPass
	}
	if !s.authenticated {
		return errHelloAuth
	}
	if named {
		s.name = string(name)
	}
	s.setProto(int(proto))
	c.w.Proto = int(proto) // c.w is not s.out if the reply is discarded
	w := c.w
	w.Map(7)
	w.BulkString("server")
	w.BulkString("redis")
	w.BulkString("version")
	w.BulkString(version.Redis)
	w.BulkString("proto")
	w.Int(proto)
	w.BulkString("id")
	w.Int(s.id)
	w.BulkString("mode")
	w.BulkString(c.srv.cluster.Mode())
	w.BulkString("role")
	w.BulkString("master")
	w.BulkString("modules")
	w.Array(0)
	return nil
}

func auth(c *localCall) error {
	user, password := []byte(acl.DefaultName), c.args[1]
	switch len(c.args) {
	case 2:
		if c.srv.access.Users.Default().Load().NoPass() {
			return errNoPassword
		}
	case 3:
		user, password = c.args[1], c.args[2]
	default:
		return command.ErrSyntax
	}
	if !c.login(user, password) {
		return errWrongPass
	}
	c.w.OK()
	return nil
}

// login authenticates the connection and reports whether that succeeded. After a failure
// the connection keeps the user it had.
func (c *localCall) login(name, password []byte) bool {
	s, h := c.s, c.srv.access.Users.Authenticate(name, password)
	if h == nil {
		s.noteFailedLogin(string(name), string(c.args[0]), c.args)
		c.loginFailed(name)
		return false
	}
	s.user = h
	s.setAuthenticated(true)
	// Deleting a user closes its connections: a deletion that came too early to see
	// this one is noticed here.
	if h.Gone() {
		s.setDefaultAuth()
		s.setAuthenticated(false)
		return false
	}
	return true
}

// validAttribute reports whether a text may stand in CLIENT LIST without breaking its
// lines and fields.
func validAttribute(b []byte) bool {
	for _, c := range []byte(admin.CString(b, len(b))) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// Package access says who may use the server: the users of the configuration or of the ACL
// file, the delays of failed logins, what was denied, and the commands of ACL.
//
// Package acl has the rules and evaluates them; this package applies them to the server.
// Connections are seen through an interface: those whose user is deleted, or may no longer
// listen to one of their channels, are closed before the command is answered.
package access

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/config"
	"redoubt/server/admin"
	"redoubt/wire"
)

// Connection is a client of the server as this package sees it.
type Connection interface {
	// User returns the user that the client has authenticated as.
	User() *acl.Handle
	// Listens reports whether f returns true for one of the client's subscriptions.
	Listens(f func(channel string, pattern bool) bool) bool
}

// Options make a Control.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Table  *command.Table
	Now    func() time.Time // the time that commands see
	// Close closes the connections for which f returns true: the caller's once its reply
	// is sent, the others before Close returns.
	Close func(caller admin.Client, f func(Connection) bool)
}

// Control has the users, the log of denials and the failed logins. Init and Load are called
// before use.
type Control struct {
	Users  *acl.Registry
	Denied acl.Log // the entries of ACL LOG
	Logins Logins
	o      Options
	file   string // path of the ACL file; "": none
}

// Init creates the default user.
func (a *Control) Init(o Options) { a.o, a.Users = o, acl.New(o.Table) }

// Load creates the users of the configuration file, or of the ACL file.
func (a *Control) Load() error {
	name, lines := a.o.Config.Str("aclfile"), a.o.Config.Users()
	switch {
	case name != "" && len(lines) > 0:
		return errors.New("users are declared both in the configuration file and in an ACL file (aclfile " + name +
			"): which of them count would be a matter of luck. Keep them in one place")
	case name == "":
		if err := a.Users.Declare(lines); err != nil {
			return err
		}
	default:
		a.file = a.findFile(name)
		if _, err := a.loadFile(); err != nil {
			return fmt.Errorf("the ACL file is not usable: %w", err)
		}
		if a.o.Config.Str("requirepass") != "" && a.Users.Default().Load().NoPass() {
			a.o.Log.Warn("requirepass has no effect: the ACL file says that the default user has no password, or has no line for it")
		}
	}
	for _, words := range lines {
		if h := a.Users.Find([]byte(words[0])); h != nil && !h.Load().Enabled() {
			a.o.Log.Info("a user of the configuration is disabled: its line has no \"on\"", "user", words[0])
		}
	}
	a.o.Config.UserLines = a.userLines
	return nil
}

// findFile returns the path of the ACL file. As in Redis, a relative name is one in the
// data directory; if it is not there, the working directory is tried.
func (a *Control) findFile(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	inDir := filepath.Join(a.o.Config.Str("dir"), name)
	if _, err := os.Stat(inDir); err != nil {
		if abs, err := filepath.Abs(name); err == nil {
			if _, err := os.Stat(abs); err == nil {
				return abs
			}
		}
	}
	return inDir
}

// loadFile replaces all users by those of the ACL file. It returns the handles of the
// users before, but for the default user.
func (a *Control) loadFile() ([]*acl.Handle, error) {
	name := a.o.Config.Str("aclfile")
	content, err := os.ReadFile(a.file)
	if err != nil {
		return nil, fmt.Errorf("Error loading ACLs, opening file '%s': %s", name, systemText(err)) //nolint:staticcheck // Redis's text
	}
	return a.Users.Load(name, content)
}

// systemText returns the text of a system error as strerror has it.
func systemText(err error) string {
	var no syscall.Errno
	text := err.Error()
	if errors.As(err, &no) {
		text = no.Error()
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// userLines returns the user lines that CONFIG REWRITE writes, with words quoted where the
// configuration file needs that.
func (a *Control) userLines() []string {
	users := a.Users.Users()
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

// disconnect closes the connections of deleted users.
func (a *Control) disconnect(c *admin.Call, gone []*acl.Handle) {
	if len(gone) > 0 {
		a.o.Close(c.Client, func(x Connection) bool { return x.User().Gone() })
	}
}

// revoke closes the connections that listen to channels which their user may no longer use.
func (a *Control) revoke(c *admin.Call, change *acl.Change) {
	if !change.LosesChannels() {
		return
	}
	a.o.Close(c.Client, func(x Connection) bool {
		return x.User() == change.Handle && x.Listens(func(channel string, pattern bool) bool {
			return !change.After.MayUseChannel([]byte(channel), pattern)
		})
	})
}

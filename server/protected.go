package server

import (
	"fmt"

	"redoubt/command"
)

// Protected mode: a server that anybody could use serves this machine only. Nobody
// is to find his data in the open because he did not think of a password.

// outsider says why a connection from this address is not served, or nothing.
// The beginning of the text is Redis's, by which tools know it.
func (srv *Server) outsider(addr string, unix bool) string {
	if unix || !srv.cfg.Bool("protected-mode") || !srv.needsNoPassword() || loopback(addr) {
		return ""
	}
	return "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for " +
		"the default user. In this mode connections are only accepted from the loopback interface. To be served from " +
		"elsewhere, do one of these from the machine on which the server runs: set a password, with CONFIG SET " +
		"requirepass or ACL SETUSER default; or, if everybody who can reach this port may use it, turn the mode off " +
		"with CONFIG SET protected-mode no. CONFIG REWRITE makes that last."
}

// needsNoPassword says that whoever connects is served without a password: the
// criterion of protected mode.
func (srv *Server) needsNoPassword() bool { return srv.acl.Default().Load().NoPass() }

// enabled says why a command may not be run that a directive allows: to all
// clients (yes), to those on this machine (local), or to none (no).
func (c *localCall) enabled(name, directive string) error {
	switch c.srv.cfg.Enum(directive) {
	case "yes":
		return nil
	case "local":
		if c.fromHere() {
			return nil
		}
	}
	return command.Error(fmt.Sprintf("ERR %s command not allowed. If the %s option is set to \"local\", you can run it "+
		"from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
		name, directive))
}

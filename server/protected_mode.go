package server

// Protected mode: a server without a password serves this machine only, so that data is
// not exposed because a password was forgotten.

// protectedModeError returns the error for a connection from an address that is not served, or "".
// The text begins as Redis's does, since tools recognise it by that.
func (srv *Server) protectedModeError(addr string, unix bool) string {
	if unix || !srv.cfg.Bool("protected-mode") || !srv.needsNoPassword() || loopback(addr) {
		return ""
	}
	return "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for " +
		"the default user. In this mode connections are only accepted from the loopback interface. To be served from " +
		"elsewhere, do one of these from the machine on which the server runs: set a password, with CONFIG SET " +
		"requirepass or ACL SETUSER default; or, if everybody who can reach this port may use it, turn the mode off " +
		"with CONFIG SET protected-mode no. CONFIG REWRITE makes that last."
}

// needsNoPassword reports whether any client is served without a password: the condition
// of protected mode.
func (srv *Server) needsNoPassword() bool { return srv.access.Users.Default().Load().NoPass() }

package server

import (
	"time"

	"redoubt/server/access"
)

// FillLogins makes an address have as many failures with answers that are held back as it
// may.
func (srv *Server) FillLogins(addr string) {
	for full := false; !full; {
		_, full, _ = srv.access.Logins.Fail(access.Host(addr), time.Now())
	}
}

// RecordSecond records a second of the console's history.
func (srv *Server) RecordSecond(now time.Time) { srv.history.Record(now) }

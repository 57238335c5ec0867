package server

import (
	"net"
	"time"
)

// Guests: connections that have to authenticate and have not yet, and TLS handshakes.
// Anybody who reaches the port can open one, so each may cost little, and all of
// them must leave room for authenticated clients:
//
//   - Commands of a guest wait while it leaves guestOutput bytes of replies unread, and
//     it is closed when it takes none of them for a second. What it may send is bounded by
//     Redis's limits on one command (wire.Reader), and by guestInput in all.
//   - It is closed when it has not authenticated within auth-timeout.
//   - There are at most a quarter of maxclients. When one more comes, or when there is no
//     place for any client, the oldest guest is closed: a client that authenticates as
//     soon as it has connected always finds a place.

const (
	guestOutput = 4 << 10
	guestInput  = 48 << 10 // a user name and a password of the largest size, and the command
	// fewGuests is how many guests are allowed whatever maxclients is.
	fewGuests = 64
	// handshakeMemory is about the memory of a handshake, and of a TLS connection.
	handshakeMemory = 48 << 10
)

// setGuest notes whether the session has to authenticate. mu is held, or the session is
// not registered yet.
func (srv *Server) setGuest(s *session, is bool) {
	if s.guest.Swap(is) == is {
		return
	}
	srv.clients.mu.Lock()
	defer srv.clients.mu.Unlock()
	if is {
		s.guestAt = time.Now()
		srv.clients.guests[s.id] = s
	} else {
		delete(srv.clients.guests, s.id)
	}
}

// unauthenticated returns the number of guests, handshakes not counted.
func (c *clients) unauthenticated() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.guests)
}

// guestOverdue reports whether a guest is to be closed because it does not read, or does
// not authenticate in time.
func (s *session) guestOverdue(now time.Time) bool {
	if !s.guest.Load() || !s.mustAuthenticate() {
		return false
	}
	if n := s.out.Pending(); n >= guestOutput && now.Sub(s.lastUsed) >= tickEvery {
		s.srv.obs.Stats.OutputLimit.Add(1)
		s.srv.clientLog.Info("closing a client: it has not authenticated and does not read its replies", "client", s.id, "addr", s.addr, "pending", n)
		return true
	}
	limit := time.Duration(s.srv.set.authTimeout.Load()) * time.Second
	if limit == 0 || now.Sub(s.guestAt) < limit {
		return false
	}
	s.srv.clientLog.Info("closing a client: it has not authenticated within auth-timeout", "client", s.id, "addr", s.addr)
	return true
}

// makeRoom closes the oldest guest, or else the oldest handshake, if there are too many
// of both or no place for another client. It reports whether it closed one.
func (srv *Server) makeRoom(tls bool) bool {
	c, handshakes := &srv.clients, srv.tls.count.Load()
	var oldest *session
	c.mu.Lock()
	crowded := srv.atMaxClients() || int64(len(c.guests))+handshakes >= max(fewGuests, srv.set.maxClients.Load()/4)
	if crowded && !srv.access.Users.Default().Load().Open() {
		for _, s := range c.guests {
			if !s.evicting.Load() && (oldest == nil || s.id < oldest.id) {
				oldest = s
			}
		}
	}
	c.mu.Unlock()
	switch {
	case oldest != nil:
		oldest.evicting.Store(true)
		oldest.car.evict(nil)
	case handshakes > 0 && (crowded || tls && handshakes >= srv.mostHandshakes()):
		srv.tls.dropOldest()
	default:
		return false
	}
	srv.obs.Stats.GuestsClosed.Add(1)
	return true
}

// mostHandshakes returns how many handshakes the memory limit of clients allows.
func (srv *Server) mostHandshakes() int64 {
	if limit := srv.budget.Clients.Limit(); limit > 0 {
		return max(fewGuests, limit/8/handshakeMemory)
	}
	return srv.set.maxClients.Load()
}

// atMaxClients reports whether maxclients is reached. Handshakes count too.
func (srv *Server) atMaxClients() bool {
	return srv.clients.count.Load()+srv.tls.count.Load() >= srv.set.maxClients.Load()
}

// dropOldest ends the handshake that began first.
func (t *tlsFront) dropOldest() {
	var oldest net.Conn
	var since time.Time
	t.handshakes.Range(func(conn, at any) bool {
		if at := at.(time.Time); oldest == nil || at.Before(since) {
			oldest, since = conn.(net.Conn), at
		}
		return true
	})
	if oldest != nil {
		t.handshakes.Delete(oldest) // so that the next call drops another one
		oldest.Close()
	}
}

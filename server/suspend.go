package server

// Suspension: a session that waits for something takes no commands. Every suspension begins
// with suspend, with its reason, on the session's carrier, and ends with resume, which runs
// the commands that the client has sent meanwhile. Other goroutines end a suspension by
// a post (postResume). A session waits for one thing at a time.

// suspension is why a session takes no commands.
type suspension byte

const (
	running    suspension = iota
	proceeding            // was forReplies; proceed is posted
	forReplies            // the client has too many replies to read first
	// For the reasons below the session waits for the server, not for its client.
	forRows     // a worker fetches rows of the commands that come next
	forWorker   // a worker runs its command, or several
	forKey      // its command waits for an element: see session.blocked
	forPause    // CLIENT PAUSE holds its next command
	forPeers    // other front ends learn what its next command makes it hear
	forDelay    // the reply to a failed login is delayed
	forPortions // its command is run in portions, one in each turn
)

// suspend stops the session from taking commands. It runs on the carrier, which holds mu.
func (s *session) suspend(why suspension) {
	s.suspended = why
	s.car.interest()
}

// waiting reports whether the session waits for something else than its client.
func (s *session) waiting() bool { return s.suspended > forReplies }

// waitsForEvent reports whether the session waits for a pause to end or for a key: that may
// take long, and no worker runs for it meanwhile.
func (s *session) waitsForEvent() bool { return s.suspended == forPause || s.blocked != nil }

// resume lets a suspended session go on with what it has already received. It runs on the
// carrier, which holds mu.
func (s *session) resume() {
	if s.waiting() {
		s.cameFrom = s.suspended
	}
	s.suspended = running
	n := s.process(s.buf)
	s.keep(s.buf[n:])
	s.car.interest()
}

// postResume has the carrier run f, if there is one, and resume the session. It may be called
// from any goroutine.
func (s *session) postResume(f func()) {
	if f == nil {
		s.car.post(s.resume)
		return
	}
	s.car.post(func() {
		f()
		s.resume()
	})
}

// handOver suspends the session and has a worker run work once the turn's batch is
// committed. Then the carrier runs the function that work returns, and resumes the session.
// If work returns nil the session stays suspended: work has arranged for its resumption.
func (s *session) handOver(why suspension, work func() (done func())) {
	s.suspend(why)
	s.srv.life.workers.Add(1)
	s.work.workers = append(s.work.workers, func() {
		defer s.srv.life.workers.Done()
		if done := work(); done != nil {
			s.postResume(done)
		}
	})
}

// drained resumes commands that wait for the client to take its replies, once it has.
// No input is read until then: it would pile up.
func (s *session) drained() {
	if s.suspended == forReplies && !s.stall() {
		s.suspended = proceeding
		s.car.post(s.proceed)
	}
}

// proceed resumes the session after forReplies, unless it waits for something else.
func (s *session) proceed() {
	if !s.waiting() {
		s.resume()
	}
}

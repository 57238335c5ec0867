package server

import "testing"

// Whatever a session waits for, it takes no command meanwhile, and runs what has come
// when it goes on: once, however often it is told.
func TestSuspendedSessionsTakeNothing(t *testing.T) {
	for why := forRows; why <= forPortions; why++ {
		srv, work := quietServer(t)
		car := new(heldCarrier)
		s := &session{}
		srv.initSession(s, car, work, "127.0.0.1:1", "127.0.0.1:2", false)
		s.suspend(why)
		in := request("ECHO", "x")
		if n := s.process(in); n != 0 || !s.waiting() {
			t.Fatalf("%d: took %d bytes", why, n)
		}
		s.keep(in)
		s.postResume(func() { s.out.Status("first") })
		if car.turn(); string(s.out.Buf) != "+first\r\n$1\r\nx\r\n" || s.suspended != running {
			t.Errorf("%d: %q, then %d", why, s.out.Buf, s.suspended)
		}
		s.proceed()
		if string(s.out.Buf) != "+first\r\n$1\r\nx\r\n" {
			t.Errorf("%d: %q", why, s.out.Buf)
		}
	}
}

// A session whose client does not read goes on by itself when the client has, unless it
// waits for something else by then.
func TestUnreadRepliesSuspend(t *testing.T) {
	srv, work := quietServer(t)
	car := new(heldCarrier)
	s := &session{}
	srv.initSession(s, car, work, "127.0.0.1:1", "127.0.0.1:2", false)
	s.out.Buf = make([]byte, mostUnread)
	if n := s.process(request("ECHO", "x")); n != 0 || s.suspended != forReplies || s.waiting() {
		t.Fatalf("took %d bytes, suspended for %d", n, s.suspended)
	}
	s.keep(request("ECHO", "x"))
	s.drained()
	if len(car.posted) != 0 {
		t.Fatal("goes on although nothing was read")
	}
	s.out.Buf = s.out.Buf[:0]
	s.drained()
	s.drained()
	if len(car.posted) != 1 {
		t.Fatalf("told %d times", len(car.posted))
	}
	s.suspend(forPause)
	car.turn()
	if len(s.out.Buf) != 0 || s.suspended != forPause {
		t.Fatalf("%q", s.out.Buf)
	}
	s.resume()
	if string(s.out.Buf) != "$1\r\nx\r\n" {
		t.Errorf("%q", s.out.Buf)
	}
}

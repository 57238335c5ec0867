package server_test

import (
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Who guesses is answered late and in order, and who knows the password gets in
// meanwhile, also from the same address.
func TestGuessesDoNotLockOut(t *testing.T) {
	t.Parallel()
	for _, pipes := range []bool{false, true} {
		s := testserver.Start(t, testserver.Options{Pipes: pipes, Args: []string{"--requirepass", "right"}})
		const guesses = 20
		bad := dialScripted(t, s)
		var all []byte
		for i := range guesses {
			if all = respclient.AppendCommand(all, "AUTH", "wrong"); i%2 == 0 {
				all = respclient.AppendCommand(all, "HELLO", "3", "AUTH", "default", "wrong")
			}
		}
		if err := bad.Write(respclient.AppendCommand(all, "PING")); err != nil {
			t.Fatal(err)
		}
		for range guesses * 3 / 2 {
			bad.expect("(error) WRONGPASS")
			good := dialScripted(t, s)
			good.want("OK", "AUTH", "right")
			good.want("PONG", "PING")
			good.Close()
		}
		bad.expect("(error) NOAUTH")
		bad.want("OK", "AUTH", "right")
		bad.want("PONG", "PING")
	}
}

// A guess is answered and its connection closed when too many answers are held back
// already; the right password still gets in.
func TestParallelGuessesAreClosed(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--requirepass", "right"}})
	s.Server.FillLogins("127.0.0.1:1")
	bad, good := dialScripted(t, s), dialScripted(t, s)
	bad.want("(error) WRONGPASS", "AUTH", "wrong")
	if v, err := bad.Read(); err == nil {
		t.Error("not closed but", v)
	}
	good.want("OK", "AUTH", "right")
}

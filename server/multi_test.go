package server

import (
	"strings"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/internal/race"
	"redoubt/wire"
)

func words(line string) (args [][]byte) {
	for w := range strings.FieldsSeq(line) {
		args = append(args, []byte(w))
	}
	return args
}

func line(args [][]byte) string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = string(a)
	}
	return strings.Join(s, " ")
}

// A transaction needs no memory of its own when the one before it has left some;
// a silent client keeps none.
func TestMultiUsesItsMemoryAgain(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	s, w := &session{}, &wire.Writer{Buf: make([]byte, 0, 1<<10)}
	cmd := &command.Command{Name: "set"}
	args := words("set key value")
	n := testing.AllocsPerRun(100, func() {
		w.Buf = w.Buf[:0]
		s.beginMulti()
		for range 4 {
			s.enqueue(cmd, args, w)
		}
		s.endMulti()
	})
	if n != 0 {
		t.Errorf("%v allocations for a transaction", n)
	}
	s.decay(time.Now())
	if s.lastMulti != nil {
		t.Error("a silent client keeps the memory of its transactions")
	}
}

// The arguments of a queued command stay although the memory grows.
func TestMultiGrows(t *testing.T) {
	t.Parallel()
	s, w := &session{}, &wire.Writer{}
	s.beginMulti()
	for range 1000 {
		s.enqueue(&command.Command{Name: "set"}, words("set key value"), w)
	}
	for _, q := range s.multi.queue {
		if got := line(q.Args); got != "set key value" {
			t.Fatal(got)
		}
	}
	s.endMulti()
	if s.lastMulti != nil {
		t.Error("the memory of a large transaction is kept")
	}
}

// A worker that runs the transaction of a client which has left changes nothing of
// its connection: nobody would take that back.
func TestACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	ran := false
	l := &local{Command: &command.Command{Name: "subscribe"}, run: func(*localCall) error { ran = true; return nil }}
	l.Declared = l.Command
	s := &session{srv: &Server{locals: map[*command.Command]*local{l.Command: l}}}
	c := &caller{s: s}
	if _, err := c.Local(l.Command, words("subscribe x"), 0, &wire.Writer{}, nil); err != nil || !ran {
		t.Fatal(err, ran)
	}
	s.closed, ran = true, false
	if _, err := c.Local(l.Command, words("subscribe x"), 0, &wire.Writer{}, nil); err == nil || ran {
		t.Error("a client that has left subscribes")
	}
}

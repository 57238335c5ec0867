package server

import (
	"fmt"
	"strconv"
	"time"

	"redoubt/server/admin"
	"redoubt/server/output"
)

// The lines of CLIENT LIST and CLIENT INFO.
//
// Fields of Redis without an exact counterpart here get the nearest figure. obl is the
// size of the output while that is small, as with Redis's static buffer; past that oll is
// the number of its pieces and omem their size, shared messages included. The connections of
// a loop share one read buffer; a recently active client is shown with a small one.

// activeOf is how long an idle client keeps its buffers.
const activeOf = 2 * time.Second

// appendInfo appends the session's line. Its mu is held. args are the arguments of the
// command that the session runs now, if any.
func (s *session) appendInfo(dst []byte, now time.Time, args [][]byte) []byte {
	in := len(s.buf)
	frame, argMem := s.in.Whole() // Redis has parsed that much
	in -= min(in, frame)
	for _, a := range args {
		argMem += len(a)
	}
	if len(args) > 0 {
		in += wireLen(args) // Redis still has the command in its buffer
	}
	room := cap(s.buf)
	if room == 0 && now.Sub(s.lastUsed) <= activeOf {
		room = output.SmallBuffer
	}
	queued, multiMem := s.multi.size()
	obl, oll, omem := s.out.Pending(), 0, 0
	if obl > output.SmallBuffer {
		obl, oll, omem = 0, s.out.Pieces(), s.out.Memory()+s.out.Borrowed()
	}
	queue := int(s.pushQueue.Memory())
	if queue > 0 {
		oll, omem = oll+1, omem+queue
	}
	total := s.held() + s.out.Borrowed() + queue
	cmd := "NULL"
	if s.lastCmd != nil {
		cmd = s.lastCmd.FullName
	}
	field := func(name, value string) { dst = append(append(append(append(dst, name...), '='), value...), ' ') }
	num := func(name string, n int) {
		dst = append(strconv.AppendInt(append(append(dst, name...), '='), int64(n), 10), ' ')
	}
	dst = fmt.Appendf(dst, "id=%d ", s.id)
	field("addr", s.addr)
	field("laddr", s.laddr)
	num("fd", s.fd)
	field("name", admin.CString([]byte(s.name), len(s.name)))
	num("age", int(now.Sub(s.created)/time.Second))
	num("idle", max(0, int(now.Sub(s.lastUsed)/time.Second)))
	field("flags", s.flagLetters())
	num("db", s.db)
	channels, patterns, shards := s.subs.Counts()
	tracked := s.tracker.Present()
	num("sub", channels)
	num("psub", patterns)
	num("ssub", shards)
	num("multi", queued)
	num("qbuf", in)
	num("qbuf-free", max(0, room-in))
	num("argv-mem", argMem)
	num("multi-mem", multiMem)
	num("rbs", min(cap(s.out.Buf), output.SmallBuffer))
	num("rbp", min(s.outPeak, output.SmallBuffer))
	num("obl", obl)
	num("oll", oll)
	num("omem", omem)
	num("tot-mem", total)
	field("events", s.events())
	field("cmd", cmd)
	field("user", s.user.Load().Name())
	num("redir", int(tracked.Redirect()))
	num("resp", s.out.Proto)
	field("lib-name", admin.CString([]byte(s.libName), len(s.libName)))
	field("lib-ver", admin.CString([]byte(s.libVersion), len(s.libVersion)))
	dst[len(dst)-1] = '\n'
	return dst
}

func (s *session) flagLetters() string {
	var b []byte
	tracked := s.tracker.Present()
	for _, f := range []struct {
		on     bool
		letter byte
	}{
		{s.feeding.Load(), 'S'}, {s.monitor, 'O'}, {s.subs != nil, 'P'}, {s.multi != nil, 'x'}, {s.waitsForEvent(), 'b'},
		{tracked.On, 't'}, {tracked.Broken, 'R'}, {tracked.Broadcasts(), 'B'}, {s.watch.Dirty(), 'd'}, {s.closing, 'c'}, {s.unix, 'U'}, {s.noEvict.Load(), 'e'}, {s.noTouch, 'T'},
	} {
		if f.on {
			b = append(b, f.letter)
		}
	}
	if len(b) == 0 {
		return "N"
	}
	return string(b)
}

// events returns the field of that name: r while input is read, w while replies are unsent.
func (s *session) events() string {
	text := ""
	if !s.closing {
		text = "r"
	}
	if s.out.Sendable() {
		text += "w"
	}
	return text
}

// wireLen is the length of a command as a client sends it.
func wireLen(args [][]byte) int {
	n := headLen(len(args))
	for _, a := range args {
		n += headLen(len(a)) + len(a) + 2
	}
	return n
}

// headLen is the length of a kind byte, a number and a line end.
func headLen(n int) int { return len(strconv.Itoa(n)) + 3 }

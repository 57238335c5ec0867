package server

import (
	"fmt"
	"strconv"
	"time"
)

// The lines of CLIENT LIST and CLIENT INFO.
//
// Fields that Redis has and that do not fit here are filled in the spirit of
// what people look for in them. There is one output buffer, so obl is its
// content while that is small, as with Redis's static buffer, and past that oll
// and omem tell of it. Reading goes through a buffer that the connections of a
// loop share; a client that was active of late is shown with a small one.

// activeOf is how long the buffers of a client that fell silent are kept.
const activeOf = 2 * time.Second

// appendInfo appends the session's line. Its mu is held. args are those of the
// command that it runs now, if it runs one.
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
		room = smallBuffer
	}
	queued, multiMem := s.multi.size()
	obl, oll, omem := s.pending(), 0, 0
	if obl > smallBuffer {
		obl, oll, omem = 0, 1, cap(s.out.Buf)
	}
	if n := s.pushes.charged.Load(); n > 0 {
		oll, omem = oll+1, omem+int(n)
	}
	total := s.held() + int(s.pushes.charged.Load())
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
	field("name", cString([]byte(s.name), len(s.name)))
	num("age", int(now.Sub(s.created)/time.Second))
	num("idle", max(0, int(now.Sub(s.lastUsed)/time.Second)))
	field("flags", s.flagLetters())
	num("db", s.db)
	channels, patterns, shards := s.subs.counts()
	tracked := s.tracked()
	num("sub", channels)
	num("psub", patterns)
	num("ssub", shards)
	num("multi", queued)
	num("qbuf", in)
	num("qbuf-free", max(0, room-in))
	num("argv-mem", argMem)
	num("multi-mem", multiMem)
	num("rbs", min(cap(s.out.Buf), smallBuffer))
	num("rbp", min(s.outPeak, smallBuffer))
	num("obl", obl)
	num("oll", oll)
	num("omem", omem)
	num("tot-mem", total)
	field("events", s.events())
	field("cmd", cmd)
	field("user", s.user.Load().Name())
	num("redir", int(tracked.redirects()))
	num("resp", s.out.Proto)
	field("lib-name", cString([]byte(s.libName), len(s.libName)))
	field("lib-ver", cString([]byte(s.libVersion), len(s.libVersion)))
	dst[len(dst)-1] = '\n'
	return dst
}

func (s *session) flagLetters() string {
	var b []byte
	tracked := s.tracked()
	for _, f := range []struct {
		on     bool
		letter byte
	}{
		{s.monitor, 'O'}, {s.subs != nil, 'P'}, {s.multi != nil, 'x'}, {s.paused || s.blocked != nil, 'b'},
		{tracked.on, 't'}, {tracked.broken, 'R'}, {tracked.bcast, 'B'}, {s.watch.Dirty(), 'd'}, {s.closing, 'c'}, {s.unix, 'U'}, {s.noEvict.Load(), 'e'}, {s.noTouch, 'T'},
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

// events are r while the client is listened to, and w while it leaves replies
// unread.
func (s *session) events() string {
	text := ""
	if !s.closing {
		text = "r"
	}
	if s.sent < s.released {
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

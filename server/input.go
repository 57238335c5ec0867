package server

import (
	"slices"
	"unsafe"
)

// Input: the bytes of incomplete commands, and the arguments of commands that are kept
// for later.
//
// A command is read into the loop's buffer. What is left of it behind the whole
// commands is moved to a buffer of the session, which grows as bytes come and ends
// with exactly the size of a large command. When such a command must be kept, for
// EXEC or for a worker, its arguments stay where they are and the command owns the buffer
// from then on (retain). So a large command is in memory once.

const (
	// reserveAhead is how much memory is reserved for a large argument on its announced
	// length alone; more is reserved as its bytes come.
	reserveAhead = 128 << 10
	// largeArgs is the size from which on kept arguments keep the buffer they came in.
	largeArgs = 32 << 10
)

// keep stores the bytes that were not parsed; rest may be part of s.buf.
func (s *session) keep(rest []byte) {
	if s.retained { // a kept command owns the buffer
		s.buf, s.retained = nil, false
	}
	if len(rest) == 0 {
		if s.buf != nil {
			s.srv.outputs.Put(s.buf)
			s.buf = nil
		}
		return
	}
	if s.buf == nil {
		s.buf = s.srv.outputs.Get(len(rest))
	}
	// A copy within s.buf moves bytes to its front.
	s.buf = append(s.buf[:0], rest...)
}

// reserve makes room for a large argument that is on its way: for all of it, unless less
// than a sixteenth has come. So little is copied and left to the collector, and a client
// that only announces a large argument takes little memory.
func (s *session) reserve() {
	if s.buf == nil || cap(s.buf)-len(s.buf) >= readSize {
		return
	}
	n := s.in.Need()
	for less := n; ; n = less {
		if less = max(n/16, reserveAhead); less >= n || less < len(s.buf)+readSize {
			break
		}
	}
	s.grow(n)
}

// grow makes room for n bytes in all.
func (s *session) grow(n int) {
	if n > cap(s.buf) {
		old := s.buf
		s.buf = append(make([]byte, 0, n), old...)
		s.srv.outputs.Put(old)
	}
}

// retain returns arguments of the command being dispatched that stay valid after it,
// and how many bytes they take. They are copied, since the buffer they point into is
// reused, unless they fill most of the session's own buffer: then they keep that buffer.
func (s *session) retain(args [][]byte) (kept [][]byte, size int) {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	heads := len(args) * int(unsafe.Sizeof(args[0]))
	if n >= largeArgs && n >= cap(s.buf)/2 && s.inBuf(args) {
		s.retained = true
		return slices.Clone(args), cap(s.buf) + heads
	}
	return copyArgs(args), n + heads
}

// inBuf reports whether the arguments lie in the session's own buffer. Those of an inline
// command do not.
func (s *session) inBuf(args [][]byte) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(s.buf)))
	for _, a := range args {
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(a))); at < from || at >= from+uintptr(cap(s.buf)) {
			return false
		}
	}
	return true
}

func copyArgs(args [][]byte) [][]byte {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	buf, out := make([]byte, 0, n), make([][]byte, len(args))
	for i, a := range args {
		at := len(buf)
		buf = append(buf, a...)
		out[i] = buf[at:len(buf):len(buf)]
	}
	return out
}

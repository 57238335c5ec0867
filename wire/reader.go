// Package wire implements RESP: it parses commands from a byte stream and builds
// replies. It uses no sockets.
//
// A Reader returns the same commands however the bytes are split into reads, with
// Redis's limits and protocol errors. Arguments point into the caller's buffer and are
// valid until that changes. A Writer builds replies in RESP2 or RESP3, as the client has
// chosen, and allocates nothing but its buffer.
package wire

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"

	"redoubt/number"
)

// ProtocolError is malformed input. Its text is the reply of Redis before it closes
// the connection.
type ProtocolError string

func (e ProtocolError) Error() string { return "ERR Protocol error: " + string(e) }

// TooLarge is the error of a command that exceeds Reader.MaxFrame. Its text is the reply
// before the connection is closed.
type TooLarge struct{ Size, Limit int64 }

func (e TooLarge) Error() string {
	return fmt.Sprintf("OOM a request of %d bytes or more is larger than the memory that all clients may take, %d bytes: "+
		"send smaller ones, or raise maxmemory-clients or maxmemory", e.Size, e.Limit)
}

// The limits of Redis. Its newest versions allow more arguments; an argument costs
// some forty bytes here, so a client that sends two billion empty ones would exhaust
// the memory.
const (
	MaxArgs          = 1024 * 1024
	maxInline        = 64 * 1024
	maxArgsNoAuth    = 10
	maxBulkNoAuth    = 16 * 1024
	maxArgsPrealloc  = 1024
	maxBigArgPending = 32 * 1024
)

// Reader parses the commands of one connection. The caller owns the buffer and calls
// Next with all unread bytes; Next returns a whole command and how many bytes it took,
// or nothing until more bytes have come. Arguments point into the caller's buffer.
//
// To parse a large command that arrives in many pieces in linear time, the
// Reader keeps its position in an unfinished frame: the caller must pass the same
// bytes again, with more behind them.
type Reader struct {
	MaxBulk       int64 // proto-max-bulk-len
	Authenticated bool  // if false, the smaller limits of Redis before AUTH apply
	MaxFrame      int64 // the largest command, in bytes as sent; 0: no limit

	args [][]byte
	// The unfinished frame, as offsets relative to its first byte.
	bounds []int // start and end of each whole argument
	want   int   // arguments in the frame; 0 when none is begun
	at     int   // bytes parsed
	bulk   int   // length of the argument in progress, or -1
}

// Next parses one command from in. It returns its arguments, valid until the
// next call and while in is unchanged, and the bytes taken. Zero taken means
// that the command is incomplete. Empty commands (a blank line, *0) are
// skipped: taken > 0 and no arguments.
func (r *Reader) Next(in []byte) (args [][]byte, taken int, err error) {
	if len(in) == 0 {
		return nil, 0, nil
	}
	if r.want == 0 {
		if in[0] != '*' {
			return r.inline(in)
		}
		n, next, err := r.header(in, 0, "invalid multibulk length", "too big mbulk count string")
		if err != nil || next == 0 {
			return nil, 0, err
		}
		if n > MaxArgs {
			return nil, 0, ProtocolError("invalid multibulk length")
		}
		if n > maxArgsNoAuth && !r.Authenticated {
			return nil, 0, ProtocolError("unauthenticated multibulk length")
		}
		if n <= 0 {
			return nil, next, nil
		}
		r.want, r.at, r.bulk, r.bounds = int(n), next, -1, r.bounds[:0]
	}
	for len(r.bounds) < 2*r.want {
		if r.bulk < 0 {
			if r.at >= len(in) {
				return nil, 0, nil
			}
			if in[r.at] != '$' {
				// The check of Redis needs the whole line first.
				whole, err := r.line(in, r.at, "too big bulk count string")
				if err != nil || whole == 0 {
					return nil, 0, err
				}
				return nil, 0, ProtocolError("expected '$', got '" + string(in[r.at:r.at+1]) + "'")
			}
			n, next, err := r.header(in, r.at, "invalid bulk length", "too big bulk count string")
			if err != nil || next == 0 {
				return nil, 0, err
			}
			if n < 0 || n > r.MaxBulk {
				return nil, 0, ProtocolError("invalid bulk length")
			}
			if n > maxBulkNoAuth && !r.Authenticated {
				return nil, 0, ProtocolError("unauthenticated bulk length")
			}
			r.at, r.bulk = next, int(n)
			if r.MaxFrame > 0 && int64(r.need()) > r.MaxFrame {
				return nil, 0, TooLarge{int64(r.need()), r.MaxFrame}
			}
		}
		if len(in)-r.at-2 < r.bulk { // this way round: bulk+2 may overflow
			return nil, 0, nil
		}
		r.bounds = append(r.bounds, r.at, r.at+r.bulk)
		r.at += r.bulk + 2
		r.bulk = -1
	}
	r.args = r.args[:0]
	for i := 0; i < len(r.bounds); i += 2 {
		r.args = append(r.args, in[r.bounds[i]:r.bounds[i+1]:r.bounds[i+1]])
	}
	r.want = 0
	r.shed()
	return r.args, r.at, nil
}

// Reset drops an unfinished frame: the caller will pass earlier bytes.
func (r *Reader) Reset() { r.want = 0 }

// Need returns how many bytes the frame in progress takes at least, if a large argument
// is incomplete, else 0. The caller sizes its buffer by that.
func (r *Reader) Need() int {
	if r.want == 0 || r.bulk < maxBigArgPending {
		return 0
	}
	return r.need()
}

// need returns how many bytes the frame takes up to the end of the argument in progress.
func (r *Reader) need() int { return r.at + min(r.bulk, math.MaxInt-r.at-2) + 2 }

// Whole returns how many bytes an unfinished frame has before an incomplete large
// argument, and how many of these belong to whole arguments. Redis does not count the
// former as waiting.
func (r *Reader) Whole() (frame, args int) {
	if r.Need() == 0 {
		return 0, 0
	}
	for i := 0; i < len(r.bounds); i += 2 {
		args += r.bounds[i+1] - r.bounds[i]
	}
	return r.at, args
}

// Memory returns how many bytes the Reader itself holds.
func (r *Reader) Memory() int {
	return cap(r.args)*int(unsafe.Sizeof([]byte(nil))) + cap(r.bounds)*int(unsafe.Sizeof(0))
}

// Forget drops the last command's arguments, which would keep the caller's buffer from
// the garbage collector, and the memory of an unusually long command.
func (r *Reader) Forget() {
	clear(r.args[:cap(r.args)])
	if cap(r.args) > maxArgsPrealloc {
		r.args = nil
	}
	if cap(r.bounds) > 2*maxArgsPrealloc && r.want == 0 {
		r.bounds = nil
	}
}

// shed frees the memory of an unusually long command.
func (r *Reader) shed() {
	if cap(r.bounds) > 2*maxArgsPrealloc && len(r.bounds) <= maxArgsPrealloc {
		r.bounds = nil
	}
	if cap(r.args) > maxArgsPrealloc && len(r.args) <= maxArgsPrealloc/2 {
		r.args = append([][]byte(nil), r.args...)
	}
}

// header parses a line of one kind byte and a decimal number at in[at]. next
// is the offset behind the line, or 0 if the line is incomplete.
func (r *Reader) header(in []byte, at int, bad, long string) (n int64, next int, err error) {
	// The common case: one digit.
	if rest := in[at:]; len(rest) >= 4 && rest[2] == '\r' && rest[1]-'0' < 10 {
		return int64(rest[1] - '0'), at + 4, nil
	}
	next, err = r.line(in, at, long)
	if err != nil || next == 0 {
		return 0, 0, err
	}
	n, ok := number.ParseInt(in[at+1 : max(at+1, next-2)])
	if !ok {
		return 0, 0, ProtocolError(bad)
	}
	return n, next, nil
}

// line returns the offset behind the line that begins at in[at], 0 if it is
// incomplete.
func (r *Reader) line(in []byte, at int, long string) (next int, err error) {
	end := bytes.IndexByte(in[at:min(len(in), at+maxInline+1)], '\r')
	switch {
	case end < 0 && len(in)-at > maxInline:
		return 0, ProtocolError(long)
	case end < 0 || len(in) < at+end+2: // Redis waits for the \n as well, whatever it is
		return 0, nil
	}
	return at + end + 2, nil
}

// inline parses an inline command, a line of words.
func (r *Reader) inline(in []byte) ([][]byte, int, error) {
	end := bytes.IndexByte(in[:min(len(in), maxInline+1)], '\n')
	if end < 0 {
		if len(in) > maxInline {
			return nil, 0, ProtocolError("too big inline request")
		}
		return nil, 0, nil
	}
	line := in[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	words, ok := SplitWords(line)
	if !ok {
		return nil, 0, ProtocolError("unbalanced quotes in request")
	}
	return words, end + 1, nil
}

// Peek returns the name and the first argument of the command at the start of
// in, as far as they are whole; else nil. It validates nothing: the result is a hint.
func Peek(in []byte) (name, first []byte) {
	at := bytes.IndexByte(in[:min(len(in), 8)], '\n') + 1
	if at == 0 || in[0] != '*' {
		return nil, nil
	}
	if name, at = peekBulk(in, at); name == nil {
		return nil, nil
	}
	first, _ = peekBulk(in, at)
	return name, first
}

func peekBulk(in []byte, at int) (b []byte, next int) {
	if at >= len(in) || in[at] != '$' {
		return nil, 0
	}
	n := 0
	for at++; at < len(in) && in[at]-'0' < 10 && n < maxInline; at++ {
		n = n*10 + int(in[at]-'0')
	}
	if at += 2; n > len(in)-at-2 {
		return nil, 0
	}
	return in[at : at+n : at+n], at + n + 2
}

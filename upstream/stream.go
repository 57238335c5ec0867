package upstream

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"redoubt/wire"
)

// Unit is a part of the stream that must be applied as a whole: a command, or those between
// MULTI and EXEC.
type Unit struct {
	Commands [][][]byte
	// Atomic: the commands stood between MULTI and EXEC.
	Atomic bool
	// End is the offset of the unit's last byte.
	End int64
}

// Stream cuts a stream of commands into units. It is for one goroutine.
type Stream struct {
	in     io.Reader
	r      wire.Reader
	buf    []byte // bytes read; those from at on are not parsed yet
	at     int
	offset int64 // of the byte before buf[at]

	units []Unit
	args  [][]byte
	lists [][][]byte
	multi bool
	queue [][][]byte // the commands since MULTI, in memory of their own
	held  int        // how many bytes they have
	err   error      // where the stream is damaged
}

const (
	// maxUnit is the largest command or transaction in bytes.
	maxUnit = 1 << 30
	// maxUnits and maxArgs bound what Next returns at once.
	maxUnits = 512
	maxArgs  = 8192
)

// errTooLarge: see maxUnit.
var errTooLarge = fmt.Errorf("%w: a command or transaction of more than a gigabyte", ErrProtocol)

// Stream returns the commands of the link behind an offset. The link must have answered Sync,
// and a Payload must have ended.
func (l *Link) Stream(offset int64) *Stream {
	l.stage(Connected)
	return NewStream(l.in, offset)
}

// NewStream reads a stream that begins behind an offset.
func NewStream(in io.Reader, offset int64) *Stream {
	return &Stream{in: in, offset: offset, r: wire.Reader{MaxBulk: maxUnit, Authenticated: true}, buf: make([]byte, 0, readBytes)}
}

// Next waits for units, and returns those that have come. They are valid until the next call.
// At a place where the stream is damaged Next returns the units before it, and then an error.
func (s *Stream) Next() ([]Unit, error) {
	if cap(s.args) > maxArgs {
		s.args = nil // a large command is not kept in memory
	}
	clear(s.args)
	clear(s.units)
	s.units, s.args, s.lists = s.units[:0], s.args[:0], s.lists[:0]
	for {
		if s.err == nil {
			s.err = s.parse()
		}
		if len(s.units) > 0 {
			return s.units, nil
		}
		if s.err == nil {
			s.err = s.more()
		}
		if s.err != nil {
			return nil, s.err
		}
	}
}

// parse adds the units that are in the buffer.
func (s *Stream) parse() error {
	for len(s.units) < maxUnits && len(s.args) < maxArgs {
		args, n, err := s.r.Next(s.buf[s.at:])
		if err != nil {
			return fmt.Errorf("%w: at offset %d: %w", ErrProtocol, s.offset+1, err)
		}
		if n == 0 {
			return nil
		}
		if first := s.buf[s.at]; first != '*' && len(args) > 0 {
			return fmt.Errorf("%w: at offset %d a command begins with %q", ErrProtocol, s.offset+1, first)
		}
		s.at += n
		s.offset += int64(n)
		if len(args) > 0 {
			if err := s.command(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// command adds a command to the units, or to the transaction under way.
func (s *Stream) command(args [][]byte) error {
	switch name := args[0]; {
	case is(name, "multi") && s.multi, is(name, "exec") && !s.multi, is(name, "discard"):
		return fmt.Errorf("%w: %q at offset %d", ErrProtocol, name, s.offset)
	case is(name, "multi"):
		s.multi = true
	case is(name, "exec"):
		s.units = append(s.units, Unit{Commands: s.queue, Atomic: true, End: s.offset})
		s.multi, s.queue, s.held = false, nil, 0
	case s.multi:
		own := make([][]byte, len(args))
		for i, a := range args {
			own[i] = append([]byte{}, a...)
			s.held += len(a)
		}
		if s.held += 64 * len(args); s.held > maxUnit {
			return errTooLarge
		}
		s.queue = append(s.queue, own)
	default:
		from := len(s.args)
		s.args = append(s.args, args...)
		s.lists = append(s.lists, s.args[from:len(s.args):len(s.args)])
		s.units = append(s.units, Unit{Commands: s.lists[len(s.lists)-1 : len(s.lists) : len(s.lists)], End: s.offset})
	}
	return nil
}

func is(b []byte, word string) bool { return len(b) == len(word) && strings.EqualFold(string(b), word) }

// more reads more of the stream. The buffer grows with the bytes that come, not with the
// lengths that are announced.
func (s *Stream) more() error {
	if s.at > 0 {
		if cap(s.buf) > maxKept && len(s.buf)-s.at < readBytes {
			s.buf = append(make([]byte, 0, 2*readBytes), s.buf[s.at:]...)
		} else {
			s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		}
		s.at = 0
	}
	if cap(s.buf)-len(s.buf) < readBytes/2 {
		if len(s.buf) > maxUnit {
			return errTooLarge
		}
		s.buf = append(make([]byte, 0, 2*len(s.buf)+readBytes), s.buf...)
	}
	n, err := s.in.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if n > 0 {
		return nil // the next Read returns the error again
	}
	if errors.Is(err, io.EOF) {
		if s.multi || len(s.buf) > 0 {
			return errors.New("the stream of the master ends within a command or a transaction")
		}
		return errClosed
	}
	return err
}

// maxKept is the largest buffer that is kept when it is not needed.
const maxKept = 1 << 20

package rdb

import (
	"errors"
	"fmt"
	"io"
)

// windowBytes is how much of a stream a reader holds, and the most that take takes at once.
const windowBytes = 64 << 10

// source is the stream of a reader. Its window is the reader's b: bytes before at were
// taken, and bytes before summed are in the checksum.
type source struct {
	in     io.Reader
	base   int64 // offset of b[0] in the stream
	crc    uint64
	summed int
	packed []byte // scratch: a compressed string
}

// newSource makes a reader of a stream.
func newSource(in io.Reader, most int64) reader {
	return reader{b: make([]byte, 0, windowBytes), most: most, src: &source{in: in}}
}

// offset returns how many bytes of the stream were taken.
func (r *reader) offset() int64 { return r.src.base + int64(r.at) }

// sum updates the checksum to all bytes taken, and returns it.
func (r *reader) sum() uint64 {
	s := r.src
	s.crc = Checksum(s.crc, r.b[s.summed:r.at])
	s.summed = r.at
	return s.crc
}

// noProgress is how many times in a row a stream may return neither bytes nor an error.
const noProgress = 100

// fill makes the window hold n bytes that were not taken. It stops reading once there are so
// many, so it does not wait for bytes that are not needed.
func (r *reader) fill(n int, what string) error {
	r.sum()
	s := r.src
	s.base += int64(r.at)
	b := r.b[:copy(r.b[:cap(r.b)], r.b[r.at:])]
	r.at, s.summed = 0, 0
	var err error
	for idle := 0; len(b) < n && err == nil; {
		var m int
		m, err = s.in.Read(b[len(b):cap(b)])
		if b = b[:len(b)+m]; m > 0 {
			idle = 0
		} else if idle++; idle == noProgress && err == nil {
			err = io.ErrNoProgress
		}
	}
	r.b = b
	switch {
	case len(b) >= n: // the next Read returns the error again
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return short(what)
	}
	return fmt.Errorf("read the file: %w", err)
}

// some returns from one to n buffered bytes that were not taken, without taking them. It
// reads from the stream if none are buffered.
func (r *reader) some(n uint64, what string) ([]byte, error) {
	if r.left() == 0 {
		if err := r.fill(1, what); err != nil {
			return nil, err
		}
	}
	return r.b[r.at : r.at+int(min(n, uint64(r.left())))], nil
}

// copy takes n bytes into the scratch, which grows with the bytes read: a length that a
// stream announces and does not have costs no memory.
func (r *reader) copy(n uint64, scratch *[]byte, what string) ([]byte, error) {
	b := (*scratch)[:0]
	for n > 0 {
		some, err := r.some(n, what)
		if err != nil {
			return nil, err
		}
		b = append(b, some...)
		*scratch = b
		r.at += len(some)
		n -= uint64(len(some))
	}
	return b, nil
}

// discard takes n bytes.
func (r *reader) discard(n uint64, what string) error {
	for n > 0 {
		some, err := r.some(n, what)
		if err != nil {
			return err
		}
		r.at += len(some)
		n -= uint64(len(some))
	}
	return nil
}

// streamString is String for a stream: a string that fits into the window is one piece.
func (v *Value) streamString(visit func(size int64, piece []byte) error) error {
	r := v.in
	n, encoded, err := r.head()
	if err != nil {
		return err
	}
	switch {
	case encoded && n == stringLZF:
		err = r.streamLZF(visit)
	case encoded:
		if n > stringInt32 {
			return fmt.Errorf("%w: a string in encoding %d", ErrFormat, n)
		}
		var i int64
		if i, err = r.integer(1 << n); err == nil {
			b := fmt.Append(nil, i)
			err = visit(int64(len(b)), b)
		}
	case n > uint64(r.most):
		return fmt.Errorf("%w: a string of %d bytes", ErrFormat, n)
	case n > 0 && n <= windowBytes:
		var b []byte
		if b, err = r.take(n, "a string"); err == nil {
			err = visit(int64(n), b)
		}
	default:
		for size := int64(n); n > 0 && err == nil; {
			var b []byte
			if b, err = r.some(n, "a string"); err != nil {
				return err
			}
			r.at += len(b)
			n -= uint64(len(b))
			err = visit(size, b)
		}
	}
	if err != nil {
		return err
	}
	return v.end()
}

// streamLZF passes a compressed string on in pieces.
func (r *reader) streamLZF(visit func(size int64, piece []byte) error) error {
	n, size, err := r.lzfHead()
	if err != nil {
		return err
	}
	u := newUnpacker(size, func(piece []byte) error { return visit(size, piece) })
	for n > 0 {
		if uint64(r.left()) < min(n, lzfLiteral+1) {
			if err := r.fill(int(min(n, lzfLiteral+1)), "a compressed string"); err != nil {
				return err
			}
		}
		b, _ := r.some(n, "a compressed string")
		rest, err := u.feed(b, uint64(len(b)) == n)
		if err != nil {
			return err
		}
		taken := len(b) - len(rest)
		r.at += taken
		n -= uint64(taken)
	}
	return u.end()
}

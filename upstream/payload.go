package upstream

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"redoubt/number"
)

// Payload is the RDB file of a full synchronization. The master announces its length:
//
//	$12345\r\n file
//
// or, if the master makes the file while it sends it, a mark that stands behind it:
//
//	$EOF:mark:40\r\n file mark
//
// With a mark only the file itself tells where it ends: its reader calls End with what it has
// read too much.
type Payload struct {
	Size int64 // -1: not known
	link *Link
	in   io.Reader
	left int64  // bytes, if Size is known
	mark string // else
}

const markBytes = 40

// Payload begins to read the data that a master sends after Answer.Full.
func (l *Link) Payload() (*Payload, error) {
	line, err := l.line()
	if err != nil {
		return nil, err
	}
	if line[0] == '-' {
		return nil, ErrMaster(line[1:])
	}
	text, ok := strings.CutPrefix(line, "$")
	if mark, eof := strings.CutPrefix(text, "EOF:"); ok && eof && len(mark) == markBytes {
		return &Payload{Size: -1, link: l, in: l.in, mark: mark}, nil
	}
	n, isNumber := number.ParseInt([]byte(text))
	if !ok || !isNumber || n <= 0 {
		return nil, fmt.Errorf("%w: %.64q is not the head of an RDB file", ErrProtocol, line)
	}
	return &Payload{Size: n, link: l, in: l.in, left: n}, nil
}

// Read reads the file; of a payload with a mark, it also reads what is behind it.
func (p *Payload) Read(b []byte) (int, error) {
	if p.Size >= 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		b = b[:min(int64(len(b)), p.left)]
	}
	n, err := p.in.Read(b)
	if p.left -= int64(n); errors.Is(err, io.EOF) && n == 0 {
		err = errClosed
	}
	return n, err
}

// End ends the payload: the file has ended, and rest is what Read has returned behind it,
// followed by the rest of the Payload. The link then goes on with the stream.
func (p *Payload) End(rest io.Reader) error {
	if p.Size >= 0 {
		n, err := io.CopyN(io.Discard, rest, 1)
		if n > 0 || p.left > 0 {
			return fmt.Errorf("%w: the RDB file is shorter than the master has announced, %d bytes", ErrProtocol, p.Size)
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
	mark := make([]byte, markBytes)
	if _, err := io.ReadFull(rest, mark); err != nil {
		return fmt.Errorf("read the mark behind the RDB file: %w", err)
	}
	if string(mark) != p.mark {
		return fmt.Errorf("%w: the RDB file is not followed by the mark that was announced", ErrProtocol)
	}
	p.link.in = rest
	return nil
}

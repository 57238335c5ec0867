package bus

import (
	"encoding/binary"
	"fmt"
	"io"

	"redoubt/keyspace"
)

// Frames. All integers are big-endian, but numbers inside of effects are varints.
//
//	offset size
//	0      4     length of what follows, at least 1
//	4      1     kind
//	5      ...   body
//
//	kind  body
//	01    beat: empty; the sender is alive
//	02    interest: number:8 bits:4; follower to hub
//	03    acknowledgement: number:8; hub to follower
//	04    effects: see effects.go; hub to follower
//	10    hello: see handshake.go; follower to hub
//	11    answer: hub to follower
//	12    proof: follower to hub
//	20    sent: what a member of a mesh sends another one: see mesh.go
//	21    question: to a mesh, of anybody who knows the secret
//	22    reply: to a question
const (
	frameBeat     = 0x01
	frameInterest = 0x02
	frameAck      = 0x03
	frameEffects  = 0x04
	frameHello    = 0x10
	frameAnswer   = 0x11
	frameProof    = 0x12
	frameSent     = 0x20
	frameQuestion = 0x21
	frameReply    = 0x22
)

const (
	frameHead = 5
	// maxFrame bounds a frame; no message is so large.
	maxFrame = 1 << 30
	// maxStrange bounds a frame of a handshake, and all frames that a hub receives.
	maxStrange = 512
)

// beginFrame appends the head of a frame; endFrame puts its length there.
func beginFrame(dst []byte, kind byte) []byte { return append(dst, 0, 0, 0, 0, kind) }

func endFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

func appendFrame(dst []byte, kind byte, body ...[]byte) []byte {
	at := len(dst)
	dst = beginFrame(dst, kind)
	for _, b := range body {
		dst = append(dst, b...)
	}
	return endFrame(dst, at)
}

// framesIn counts the frames in a buffer of whole ones.
func framesIn(b []byte) (n int64) {
	for ; len(b) >= frameHead; n++ {
		b = b[min(len(b), 4+int(binary.BigEndian.Uint32(b))):]
	}
	return n
}

func appendInterest(dst []byte, n uint64, i Interest) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(beginFrame(dst, frameInterest), n)
	return endFrame(binary.BigEndian.AppendUint32(dst, i.bits()), at)
}

func readInterest(body []byte) (n uint64, i Interest, err error) {
	if len(body) != 12 {
		return 0, i, fmt.Errorf("interest of %d bytes: %w", len(body), errMalformed)
	}
	bits := binary.BigEndian.Uint32(body[8:])
	if i = interestOf(bits); i.bits() != bits {
		return 0, i, fmt.Errorf("interest %x: %w", bits, errMalformed)
	}
	return binary.BigEndian.Uint64(body), i, nil
}

func appendAck(dst []byte, n uint64) []byte {
	at := len(dst)
	return endFrame(binary.BigEndian.AppendUint64(beginFrame(dst, frameAck), n), at)
}

func readAck(body []byte) (uint64, error) {
	if len(body) != 8 {
		return 0, fmt.Errorf("acknowledgement of %d bytes: %w", len(body), errMalformed)
	}
	return binary.BigEndian.Uint64(body), nil
}

// frameReader reads frames. It holds at most about twice as much memory as bytes have come:
// the length in the head of a frame is not trusted.
type frameReader struct {
	r     io.Reader
	max   uint32
	buf   []byte
	bytes int64 // read so far
}

const (
	readStep = 64 << 10
	// keepRead is the largest buffer that is reused.
	keepRead = 1 << 20
)

// next reads a frame. Its body is valid until the next call.
func (r *frameReader) next() (kind byte, body []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > r.max {
		return 0, nil, fmt.Errorf("frame of %d bytes: %w", n, errMalformed)
	}
	left := int(n) - 1
	if cap(r.buf) > keepRead {
		r.buf = nil
	}
	r.buf = r.buf[:0]
	for left > 0 {
		at := len(r.buf)
		step := min(left, max(readStep, at))
		if cap(r.buf)-at < step {
			grown := make([]byte, at, at+step)
			copy(grown, r.buf)
			r.buf = grown
		}
		r.buf = r.buf[:at+step]
		if _, err := io.ReadFull(r.r, r.buf[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		left -= step
	}
	r.bytes += int64(n) + 4
	return head[4], r.buf, nil
}

// unexpected returns the error for a frame that is not allowed at this point.
func unexpected(kind byte) error { return fmt.Errorf("frame of kind %#x: %w", kind, errMalformed) }

// maxClass is the largest valid set of classes of events.
const maxClass = uint64(^keyspace.Class(0))

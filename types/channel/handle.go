package channel

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
)

// A handle is returned by a fetch and passed to an acknowledgement. It holds the position
// of the last message that was fetched, and a message authentication code under the
// channel's secret, for this channel and subscriber.
//
//	position:8 code:10, in the URL-safe alphabet of base64: 24 characters
//
// The code is the beginning of an HMAC-SHA256 under the secret, of the position, the
// name of the channel and that of the subscriber, separated by a zero byte, which no
// name contains.

const (
	codeSize = 10
	// HandleSize is the length of a handle.
	HandleSize = (8 + codeSize) * 4 / 3
)

// newSecret makes the secret of a channel. The seed, which is known inside the process
// only, is hashed: one secret does not reveal another.
func newSecret(seed, id uint64, micros int64) (secret [secretSize]byte) {
	b := append(make([]byte, 0, 64), "redoubt channel secret"...)
	b = binary.BigEndian.AppendUint64(b, seed)
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.BigEndian.AppendUint64(b, uint64(micros))
	sum := sha256.Sum256(b)
	copy(secret[:], sum[:])
	return secret
}

// AppendHandle appends the handle of a position for a subscriber.
func (c *Channel) AppendHandle(b, subscriber []byte, position int64) []byte {
	var raw [8 + sha256.Size]byte
	binary.BigEndian.PutUint64(raw[:], uint64(position))
	c.code(raw[8:8], raw[:8], subscriber)
	return base64.RawURLEncoding.AppendEncode(b, raw[:8+codeSize])
}

// ParseHandle returns the position of a handle that was made for this channel and the
// subscriber.
func (c *Channel) ParseHandle(handle, subscriber []byte) (position int64, err error) {
	var raw [8 + codeSize]byte
	if len(handle) != HandleSize {
		return 0, ErrHandle
	}
	if n, err := base64.RawURLEncoding.Decode(raw[:], handle); err != nil || n != len(raw) {
		return 0, ErrHandle
	}
	var sum [sha256.Size]byte
	if subtle.ConstantTimeCompare(c.code(sum[:0], raw[:8], subscriber)[:codeSize], raw[8:]) != 1 {
		return 0, ErrHandle
	}
	position = int64(binary.BigEndian.Uint64(raw[:]))
	if position > c.last {
		return 0, ErrHandleBeyond
	}
	return position, nil
}

// code appends the code of a position.
func (c *Channel) code(b, position, subscriber []byte) []byte {
	h := hmac.New(sha256.New, c.secret[:])
	c.val = append(append(append(append(c.val[:0], position...), c.key...), 0), subscriber...)
	h.Write(c.val)
	return h.Sum(b)
}

package tikv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"redoubt/engine"
)

// TiKV accepts keys of some KiB (its max-key-size), and its client none above 64 KiB. A
// row's key has no such limit: it holds the name of a key or a member of a set, as a
// client made it. So a row whose key is longer than maxPlain is a long row, and is
// stored in another form:
//
//	key    prefix, the first maxPlain bytes of the row's key, SHA-256 of the row's key
//	value  the value, the rest of the row's key, the length of that rest:4, the version:8
//
// A stored key with more than maxPlain bytes behind the prefix thus belongs to a long
// row. Long rows that share their first maxPlain bytes are a long group. The long group
// lies in its place among all other rows, with no other row inside of it, but its own
// rows are in the order of their hashes. Hence an iterator reads a long group whole and
// sorts it: no page ends inside of one, and bounds inside of one are applied after it was
// read. The memory for that is nearly always one row, since members lie behind their
// hashes and keys behind their slots.

const (
	maxPlain = 2048
	hashSize = sha256.Size
	restSize = 4 // bytes of the length of the rest
)

func isLong(row []byte) bool { return len(row) > maxPlain }

// appendLong appends the key under which a long row is stored, without the prefix.
func appendLong(b, row []byte) []byte {
	hash := sha256.Sum256(row)
	return append(append(b, row[:maxPlain]...), hash[:]...)
}

// behindHashes sorts behind all hashes.
var behindHashes = bytes.Repeat([]byte{0xff}, hashSize+1)

// group returns the range of stored keys of a long group. key is a stored key, prefix
// included, of which the first maxPlain bytes behind the prefix count.
func (s *space) group(key []byte) (from, to []byte) {
	n := len(s.prefix) + maxPlain
	return append(key[:n:n], 0), append(key[:n:n], behindHashes...)
}

// bound converts a bound of rows to a bound of stored keys. A bound inside of a long group
// becomes the group's end if upper, else its beginning.
func (s *space) bound(row []byte, upper bool) []byte {
	if !isLong(row) {
		return s.key(row)
	}
	from, to := s.group(s.key(row[:maxPlain]))
	if upper {
		return to
	}
	return from
}

// appendRow appends the stored value of a row.
func appendRow(b, row, value []byte, ts uint64) []byte {
	if !isLong(row) {
		return appendValue(b, value, ts)
	}
	rest := row[maxPlain:]
	b = binary.BigEndian.AppendUint32(append(append(b, value...), rest...), uint32(len(rest)))
	return appendValue(b, nil, ts)
}

// splitLong splits the stored value of a long row.
func splitLong(key, stored []byte) (value, rest []byte, version uint64, err error) {
	body, version, err := split(key[:64], stored)
	if err != nil {
		return nil, nil, 0, err
	}
	n := len(body) - restSize
	if n < 0 || uint64(binary.BigEndian.Uint32(body[n:])) > uint64(n) {
		return nil, nil, 0, fmt.Errorf("the long row % x does not decode: %w", key[:64], engine.ErrCorrupt)
	}
	at := n - int(binary.BigEndian.Uint32(body[n:]))
	return body[:at:at], body[at:n], version, nil
}

// within limits the scanner to rows with lo <= key < hi, no upper limit if hi is nil, and
// returns the range of their stored keys.
func (s *scanner) within(lo, hi []byte) (from, to []byte) {
	if isLong(lo) {
		s.lo = bytes.Clone(lo)
	}
	if isLong(hi) {
		s.hi = bytes.Clone(hi)
	}
	return s.e.space.bounds(lo, hi)
}

// long adds a long row to a page if the row is within the scanner's bounds.
func (s *scanner) long(p *page, key, stored []byte) error {
	value, rest, version, err := splitLong(key, stored)
	if err != nil {
		return err
	}
	key = append(append(make([]byte, 0, maxPlain+len(rest)), key[:maxPlain]...), rest...)
	if bytes.Compare(key, s.lo) >= 0 && (s.hi == nil || bytes.Compare(key, s.hi) < 0) {
		p.rows = append(p.rows, row{key, value, version})
	}
	p.size += len(key) + len(stored)
	return nil
}

// completeGroup reads the rest of the long group that a page ends in, if it does, and sorts the
// long groups of the page. last is the last stored key of the page.
func (s *scanner) completeGroup(ctx context.Context, p *page, last []byte, reverse bool, limit int) error {
	if isLong(s.e.space.row(last)) {
		from, to := s.e.space.group(last)
		for {
			lo, hi := p.lo, p.hi
			if reverse && bytes.Compare(lo, from) < 0 {
				lo = from
			} else if !reverse && bytes.Compare(to, hi) < 0 {
				hi = to
			}
			if bytes.Compare(lo, hi) >= 0 {
				break
			}
			limit = nextLimit(limit, p)
			more, _, err := s.fetch(ctx, lo, hi, reverse, limit)
			if err != nil {
				return err
			}
			p.rows, p.size = append(p.rows, more.rows...), p.size+more.size
			if reverse {
				p.hi = more.hi
			} else {
				p.lo = more.lo
			}
		}
	}
	for rows := p.rows; len(rows) > 0; {
		n := 1
		for isLong(rows[0].key) && n < len(rows) && isLong(rows[n].key) && bytes.Equal(rows[0].key[:maxPlain], rows[n].key[:maxPlain]) {
			n++
		}
		slices.SortFunc(rows[:n], func(a, b row) int {
			if reverse {
				a, b = b, a
			}
			return bytes.Compare(a.key, b.key)
		})
		rows = rows[n:]
	}
	return nil
}

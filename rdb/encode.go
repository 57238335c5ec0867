package rdb

import (
	"encoding/binary"
	"math"

	"redoubt/number"
)

// Encoder appends one payload to Buf:
//
//	e := rdb.Encoder{Buf: dst}
//	e.BeginSet()
//	e.Element(member) // as many as there are
//	payload := e.End()
//
// The number of elements is written at the end, into room that was left for it: what
// is counted is what was given.
type Encoder struct {
	Buf []byte
	// Compress: strings that become shorter by it are compressed.
	Compress bool

	start   int
	version uint16
	counts  []count
	base    int64 // of the times of fields
	timed   bool
	seen    *[1 << lzfHashBits]int32
	stream  streamState
}

// count is a number that is not known yet.
type count struct {
	at int // where it goes
	n  uint32
}

// countSize is the length of a number that is written later.
const countSize = 5

// The versions of the format in which an encoding first was.
const (
	versionPlain  = 6 // Redis 2.6
	versionZSet2  = 8 // 4.0
	version64     = 8
	versionStream = 10 // 7.0
	versionActive = 11 // 7.2
	versionTimed  = 12 // 7.4
)

// Reset makes the encoder ready for another payload. Scratch memory is kept, unless
// it is much.
func (e *Encoder) Reset(buf []byte) {
	e.Buf, e.counts = buf, e.counts[:0]
	if s := &e.stream; cap(s.pack)+cap(s.text)+cap(s.names) > maxScratch {
		*s = streamState{}
	} else {
		clear(s.names[:cap(s.names)])
	}
}

// maxScratch is how much scratch memory an encoder keeps.
const maxScratch = 64 << 10

func (e *Encoder) begin(code byte, version uint16) {
	e.start, e.version, e.counts, e.timed = len(e.Buf), version, e.counts[:0], false
	e.Buf = append(e.Buf, code)
}

// open leaves room for a number, and shut writes it.
func (e *Encoder) open() {
	e.counts = append(e.counts, count{at: len(e.Buf)})
	e.Buf = append(e.Buf, len32, 0, 0, 0, 0)
}

func (e *Encoder) one() { e.counts[len(e.counts)-1].n++ }

func (e *Encoder) shut() (n uint32) {
	c := e.counts[len(e.counts)-1]
	e.counts = e.counts[:len(e.counts)-1]
	binary.BigEndian.PutUint32(e.Buf[c.at+1:], c.n)
	return c.n
}

// End ends the payload and returns Buf.
func (e *Encoder) End() []byte {
	for len(e.counts) > 0 {
		e.shut()
	}
	e.Buf = binary.LittleEndian.AppendUint16(e.Buf, e.version)
	crc := Checksum(0, e.Buf[e.start:])
	e.Buf = binary.LittleEndian.AppendUint64(e.Buf, crc)
	return e.Buf
}

// String begins a string that is given as a whole.
func (e *Encoder) String(s []byte) {
	e.begin(typeString, versionPlain)
	e.str(s)
}

// BeginString begins a string of so many bytes, which are given by Piece.
func (e *Encoder) BeginString(size int64) {
	e.begin(typeString, versionPlain)
	e.length(uint64(size))
}

// Piece gives the next bytes of a string.
func (e *Encoder) Piece(b []byte) { e.Buf = append(e.Buf, b...) }

// Zeros gives zeros as the next bytes of a string.
func (e *Encoder) Zeros(n int64) {
	var zeros [512]byte
	for ; n > 0; n -= min(n, int64(len(zeros))) {
		e.Buf = append(e.Buf, zeros[:min(n, int64(len(zeros)))]...)
	}
}

// BeginList and BeginSet begin a value of Elements.
func (e *Encoder) BeginList() { e.collection(typeList, versionPlain) }
func (e *Encoder) BeginSet()  { e.collection(typeSet, versionPlain) }

// BeginZSet begins a sorted set of Members. Redis reads it fastest in descending
// order.
func (e *Encoder) BeginZSet() { e.collection(typeZSet2, versionZSet2) }

// BeginHash begins a hash of Fields without times of death.
func (e *Encoder) BeginHash() { e.collection(typeHash, versionPlain) }

// BeginTimedHash begins a hash of Fields. First is a time of death not after that of
// any field.
func (e *Encoder) BeginTimedHash(first int64) {
	e.begin(typeHashTimed, versionTimed)
	e.base, e.timed = first, true
	e.Buf = binary.LittleEndian.AppendUint64(e.Buf, uint64(first))
	e.open()
}

func (e *Encoder) collection(code byte, version uint16) {
	e.begin(code, version)
	e.open()
}

// Count is how many elements, members or fields were given so far.
func (e *Encoder) Count() int { return int(e.counts[0].n) }

// Element gives an element of a list, or a member of a set.
func (e *Encoder) Element(b []byte) {
	e.one()
	e.str(b)
}

// Member gives a member of a sorted set.
func (e *Encoder) Member(member []byte, score float64) {
	e.one()
	e.str(member)
	e.Buf = binary.LittleEndian.AppendUint64(e.Buf, math.Float64bits(score))
}

// Field gives a field of a hash. Expire is its time of death, or 0; it is left out
// of a hash that was not begun as a timed one.
func (e *Encoder) Field(field, value []byte, expire int64) {
	e.one()
	if e.timed {
		if expire != 0 {
			expire = max(1, expire-e.base+1)
		}
		e.length(uint64(expire))
	}
	e.str(field)
	e.str(value)
}

// length appends a length or another unsigned number.
func (e *Encoder) length(n uint64) {
	switch {
	case n < 1<<6:
		e.Buf = append(e.Buf, byte(n))
	case n < 1<<14:
		e.Buf = append(e.Buf, len14<<6|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		e.Buf = binary.BigEndian.AppendUint32(append(e.Buf, len32), uint32(n))
	default:
		e.version = max(e.version, version64)
		e.Buf = binary.BigEndian.AppendUint64(append(e.Buf, len64), n)
	}
}

const (
	// longestInt is the length up to which a string may be an integer of 32 bits.
	longestInt = 11
	// compressFrom and compressTo are the lengths between which it is tried.
	compressFrom = 21
	compressTo   = 1 << 30
)

// str appends a string, as an integer or compressed if it can be.
func (e *Encoder) str(s []byte) {
	if len(s) <= longestInt {
		if n, ok := number.ParseInt(s); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
			e.integer(n)
			return
		}
	}
	if e.Compress && len(s) >= compressFrom && len(s) <= compressTo && e.pack(s) {
		return
	}
	e.length(uint64(len(s)))
	e.Buf = append(e.Buf, s...)
}

func (e *Encoder) integer(n int64) {
	switch {
	case n == int64(int8(n)):
		e.Buf = append(e.Buf, lenEncoded<<6|stringInt8, byte(n))
	case n == int64(int16(n)):
		e.Buf = append(e.Buf, lenEncoded<<6|stringInt16, byte(n), byte(n>>8))
	default:
		e.Buf = binary.LittleEndian.AppendUint32(append(e.Buf, lenEncoded<<6|stringInt32), uint32(n))
	}
}

// pack appends a compressed string, if that is worth it. The compressed length is
// in front and not known: there is room for a long one.
func (e *Encoder) pack(s []byte) bool {
	if e.seen == nil {
		e.seen = new([1 << lzfHashBits]int32)
	}
	start := len(e.Buf)
	e.Buf = append(e.Buf, lenEncoded<<6|stringLZF)
	room := 2
	if len(s) >= 1<<14 {
		room = 5
	}
	at := len(e.Buf)
	e.Buf = append(e.Buf, make([]byte, room)...)
	e.length(uint64(len(s)))
	from := len(e.Buf)
	var ok bool
	if e.Buf, ok = pack(e.Buf, s, e.seen); !ok {
		e.Buf = e.Buf[:start]
		return false
	}
	n := len(e.Buf) - from
	if room == 2 {
		e.Buf[at], e.Buf[at+1] = len14<<6|byte(n>>8), byte(n)
	} else {
		e.Buf[at] = len32
		binary.BigEndian.PutUint32(e.Buf[at+1:], uint32(n))
	}
	return true
}

package rdb

import (
	"encoding/binary"
	"fmt"
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
// The number of elements is counted and written at the end, into room that was left for it.
// An Encoder of a Writer passes on what is complete: see Spill.
type Encoder struct {
	Buf []byte
	// Compress compresses strings that become shorter by it.
	Compress bool

	out *Writer // nil: everything stays in Buf
	key []byte  // written after the type, for out
	err error   // the number of elements differs from that of Sized

	start   int
	version uint16
	counts  []count
	base    int64 // the time to which the expiry of fields is relative
	timed   bool
	seen    *[1 << lzfHashBits]int32
	stream  streamState
}

// count is the number of elements of a collection, or of a part of it, in progress.
type count struct {
	at    int // where the number goes
	n     uint64
	known bool // the number is written already, and is said
	said  uint64
}

// The versions of the format that introduced an encoding.
const (
	versionPlain  = 6 // Redis 2.6
	versionZSet2  = 8 // 4.0
	version64     = 8
	versionStream = 10 // 7.0
	versionActive = 11 // 7.2
	versionTimed  = 12 // 7.4
)

// Reset prepares the encoder for another payload. Scratch memory is kept up to maxScratch.
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
	if e.out != nil {
		e.str(e.key)
	}
}

// open leaves room for a number, and shut writes it.
func (e *Encoder) open() {
	e.counts = append(e.counts, count{at: len(e.Buf)})
	e.Buf = append(e.Buf, len32, 0, 0, 0, 0)
}

func (e *Encoder) one() { e.counts[len(e.counts)-1].n++ }

func (e *Encoder) shut() {
	c := e.counts[len(e.counts)-1]
	e.counts = e.counts[:len(e.counts)-1]
	switch {
	case !c.known:
		binary.BigEndian.PutUint32(e.Buf[c.at+1:], uint32(c.n))
	case c.n != c.said && e.err == nil:
		e.err = fmt.Errorf("%d elements were announced, and %d came", c.said, c.n)
	}
}

// Streams reports whether the Encoder is one of a Writer, so that Sized and Spill are useful.
func (e *Encoder) Streams() bool { return e.out != nil }

// Sized announces how many elements the collection begun last will have, if the Encoder is
// one of a Writer. It is called before the first element. Spill can then pass elements on
// before the last one has come.
func (e *Encoder) Sized(n int64) {
	if e.out == nil {
		return
	}
	c := &e.counts[len(e.counts)-1]
	e.Buf = e.Buf[:c.at]
	e.length(uint64(n))
	c.known, c.said = true, uint64(n)
}

// Spill is called between elements: an Encoder of a Writer passes on what is complete, once
// it has spillBytes. It returns false when that fails; Writer.Err has the error.
func (e *Encoder) Spill() bool {
	if e.out == nil || len(e.Buf) < spillBytes {
		return true
	}
	end := len(e.Buf)
	for _, c := range e.counts {
		if !c.known {
			end = c.at
			break
		}
	}
	if end == 0 {
		return true
	}
	e.out.write(e.Buf[:end])
	e.Buf = e.Buf[:copy(e.Buf, e.Buf[end:])]
	e.start -= end
	for i := range e.counts {
		e.counts[i].at -= end
	}
	return e.out.err == nil
}

// spillBytes is how much is buffered before it is passed on.
const spillBytes = 64 << 10

// End ends the payload and returns Buf.
func (e *Encoder) End() []byte {
	e.down(0)
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

// BeginHash begins a hash of Fields that do not expire.
func (e *Encoder) BeginHash() { e.collection(typeHash, versionPlain) }

// BeginTimedHash begins a hash of Fields that may expire. No field expires before first.
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

// Field gives a field of a hash. Expire is when the field expires, or 0; it is ignored
// unless the hash was begun by BeginTimedHash.
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
	// compressFrom and compressTo are the lengths between which compression is tried.
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

// pack appends a compressed string, if that saves enough. The compressed length stands in
// front and is not known yet: room is left for it.
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

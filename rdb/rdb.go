// Package rdb reads and writes values in the format of Redis's DUMP and RESTORE:
// one value as in an RDB file, then the version of the format and a checksum.
//
//	type:1 value version:2 crc64:8     (the last two little-endian)
//
// Reading: Open checks version and checksum, and the method of the value's kind visits its
// elements. Only what a visit needs is held, so a large payload is not copied.
// Everything is checked while it is read, as deeply as Redis does with
// sanitize-dump-payload: lengths against the input, counts, order, duplicates. An
// error may therefore come after some visits, and the caller must be able to undo their
// effects. Hostile input costs memory at most in proportion to its length.
//
// Every encoding that Redis 2.8 to 7.4 writes is read. Values of modules are read by callers
// that know the module.
//
// An RDB file is many values with their keys. A File reads one from a stream, and a Writer
// writes one to a stream: neither needs a file, nor room for a value. See file.go.
//
// Writing: an Encoder appends a value to a buffer. It writes each kind in the plainest
// encoding that holds it, since every Redis reads that and converts it by its own limits,
// and states the lowest version that has the encoding.
package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math/bits"
)

// Errors of Open and of the visits. All others come from the visitor.
var (
	// ErrPayload: the payload has no valid end, was damaged, or is newer than
	// this package.
	ErrPayload = errors.New("payload version or checksum are wrong")
	// ErrFormat: the content is not a valid value.
	ErrFormat = errors.New("bad data format")
	// ErrEmpty: the value is a collection without elements, which no key can hold.
	// ErrEmpty wraps ErrFormat.
	ErrEmpty = fmt.Errorf("%w: no elements", ErrFormat)
)

// Version is the newest version of the format that is read: that of Redis 7.4.
const Version = 12

// Kind is a type of values.
type Kind byte

// The kinds.
const (
	String Kind = 1 + iota
	List
	Set
	ZSet
	Hash
	Stream
	Module
)

// The types as they are in a payload: a kind in an encoding.
const (
	typeString              = 0
	typeList                = 1
	typeSet                 = 2
	typeZSet                = 3 // scores as text
	typeHash                = 4
	typeZSet2               = 5 // scores as 8 bytes
	typeHashZipmap          = 9
	typeListZiplist         = 10
	typeSetIntset           = 11
	typeZSetZiplist         = 12
	typeHashZiplist         = 13
	typeListQuicklist       = 14 // of ziplists
	typeStream              = 15
	typeHashListpack        = 16
	typeZSetListpack        = 17
	typeListQuicklist2      = 18 // of listpacks and plain elements
	typeStream2             = 19 // with counters
	typeSetListpack         = 20
	typeStream3             = 21 // with the consumers' active times
	typeHashTimedEarly      = 22 // with times of fields, as in release candidates of 7.4
	typeHashListpackEXEarly = 23
	typeHashTimed           = 24 // the earliest time in front
	typeHashListpackEX      = 25
)

var kinds = [...]Kind{
	typeString: String, typeList: List, typeSet: Set, typeZSet: ZSet, typeHash: Hash, typeZSet2: ZSet,
	typeHashZipmap: Hash, typeListZiplist: List, typeSetIntset: Set, typeZSetZiplist: ZSet, typeHashZiplist: Hash,
	typeListQuicklist: List, typeStream: Stream, typeHashListpack: Hash, typeZSetListpack: ZSet,
	typeListQuicklist2: List, typeStream2: Stream, typeSetListpack: Set, typeStream3: Stream,
	typeModule: Module, typeHashTimedEarly: Hash, typeHashListpackEXEarly: Hash, typeHashTimed: Hash, typeHashListpackEX: Hash,
}

// maxFieldTime is the latest time at which a hash's field can expire.
const maxFieldTime = 1<<48 - 1

// footer is the length of version and checksum, which follow the value.
const footer = 2 + 8

// The checksum is CRC-64 with the Jones polynomial, reflected, without inversion.
var jones = crc64.MakeTable(bits.Reverse64(0xad93d23594c935a9))

// Checksum returns the checksum of bytes that follow others with the checksum crc, which
// is 0 at the beginning.
func Checksum(crc uint64, b []byte) uint64 { return ^crc64.Update(^crc, jones, b) }

// Options say how a payload is read.
type Options struct {
	// MaxString is how long an uncompressed string or element may be; 0 stands for 512 MiB,
	// Redis's own limit.
	MaxString int64
	// SkipChecksum ignores the checksum, for tests.
	SkipChecksum bool
}

// Value is a value in a payload. It is read once, by the method of its kind.
type Value struct {
	Kind    Kind
	Version int // of the format, as the payload says

	code byte
	in   *reader
	own  reader // in, if the value is one of a payload
	blob []byte // scratch: a packed collection, uncompressed

	module uint64 // name and version of a module's value, if known
	read   bool   // in a file: the value was read to its end
}

// Open checks version and checksum of a payload and returns its value. The payload must not
// change as long as the Value is used.
func Open(payload []byte, o Options) (*Value, error) {
	if len(payload) < footer {
		return nil, ErrPayload
	}
	end := len(payload) - footer
	version := int(binary.LittleEndian.Uint16(payload[end:]))
	if version > Version {
		return nil, ErrPayload
	}
	if !o.SkipChecksum && Checksum(0, payload[:end+2]) != binary.LittleEndian.Uint64(payload[end+2:]) {
		return nil, ErrPayload
	}
	if end == 0 {
		return nil, fmt.Errorf("%w: nothing in it", ErrFormat)
	}
	code := payload[0]
	if int(code) >= len(kinds) || kinds[code] == 0 {
		return nil, fmt.Errorf("%w: type %d", ErrFormat, code)
	}
	if o.MaxString == 0 {
		o.MaxString = 512 << 20
	}
	v := &Value{Kind: kinds[code], Version: version, code: code, own: reader{b: payload[:end], at: 1, most: o.MaxString}}
	v.in = &v.own
	return v, nil
}

// Streamed reports whether the value is read from a stream. This package then finds
// duplicates in packed collections alone: the visitor must look for others.
func (v *Value) Streamed() bool { return v.in.src != nil }

// end ends the reading of a value. It returns an error if bytes follow a payload's value.
func (v *Value) end() error {
	v.read = true
	if v.Streamed() {
		return nil
	}
	if n := len(v.in.b) - v.in.at; n != 0 {
		return fmt.Errorf("%w: %d bytes follow the value", ErrFormat, n)
	}
	return nil
}

func (v *Value) wrongKind() error {
	return fmt.Errorf("a value of kind %d was read as one of another kind", v.Kind)
}

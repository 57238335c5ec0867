package rdb

import (
	"encoding/binary"
	"errors"
)

// Libraries of functions in the format of FUNCTION DUMP and RESTORE: the sources of any
// number of libraries, then version and checksum as in every payload.
//
//	(opcode:1 source)* version:2 crc64:8

const (
	opFunction      = 245
	opFunctionEarly = 246 // as in release candidates of 7.0
)

// Errors of Libraries.
var (
	ErrEarlyFunction = errors.New("Pre-GA function format not supported")
	ErrNoFunction    = errors.New("given type is not a function")
	ErrFunction      = errors.New("Failed loading library payload")
)

// AppendLibraries appends a payload of the sources of libraries.
func AppendLibraries(b []byte, sources []string) []byte {
	e := Encoder{Buf: b, Compress: true}
	e.start, e.version = len(b), versionStream
	for _, s := range sources {
		e.Buf = append(e.Buf, opFunction)
		e.str([]byte(s))
	}
	return e.End()
}

// Libraries reads a payload of FUNCTION DUMP. It returns ErrPayload for a wrong checksum or a
// newer version.
func Libraries(payload []byte) (sources []string, err error) {
	if len(payload) < footer {
		return nil, ErrPayload
	}
	end := len(payload) - footer
	if int(binary.LittleEndian.Uint16(payload[end:])) > Version ||
		Checksum(0, payload[:end+2]) != binary.LittleEndian.Uint64(payload[end+2:]) {
		return nil, ErrPayload
	}
	in := reader{b: payload[:end], most: 512 << 20}
	var scratch []byte
	for in.left() > 0 {
		op, _ := in.take(1, "an opcode")
		switch op[0] {
		case opFunction:
		case opFunctionEarly:
			return nil, ErrEarlyFunction
		default:
			return nil, ErrNoFunction
		}
		s, err := in.str(&scratch)
		if err != nil {
			return nil, ErrFunction
		}
		sources = append(sources, string(s))
	}
	return sources, nil
}
